//! Makes connections, each to the server that is the right one at that moment.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisResult, Value};

use super::target::RedisTarget;
use super::url::Layout;
use super::{meaning, sentinel};

pub(super) use super::url::Address;

/// How long an attempt may take: one that fell into a fault must not outlast it for long.
pub(super) const CONNECTING: Duration = Duration::from_secs(1);

/// Where a server of `layout` is now: the one there is, the one that sentinels name, or whichever node answers.
///
/// # Errors
/// When nobody knows, or none does.
pub(super) async fn find(layout: &Layout, target: &RedisTarget) -> Result<Address, String> {
    match layout {
        Layout::Single(address) => Ok(address.clone()),
        Layout::Sentinel { sentinels, master } => sentinel::primary(target, sentinels, master).await,
        Layout::Cluster(seeds) => {
            let mut reasons = Vec::new();
            for seed in seeds {
                match to(target, seed).await {
                    Ok(_) => return Ok(seed.clone()),
                    Err(reason) => reasons.push(format!("{seed}: {reason}")),
                }
            }
            Err(reasons.join("; "))
        }
    }
}

/// A connection to the server at `address`.
///
/// # Errors
/// What the attempt ended with.
pub(super) async fn to(target: &RedisTarget, address: &Address) -> Result<MultiplexedConnection, String> {
    let client = target.node(address).map_err(|error| error.to_string())?;
    open(&client).await
}

/// A connection.
///
/// # Errors
/// What the attempt ended with.
pub(super) async fn open(client: &Client) -> Result<MultiplexedConnection, String> {
    // No response timeout of its own: each call brings its budget.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTING))
        .set_response_timeout(None);
    let attempt = client.get_multiplexed_async_connection_with_config(&config);
    match tokio::time::timeout(CONNECTING, attempt).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(meaning::explained(&error)),
        Err(_) => Err(format!("no connection within {CONNECTING:?}")),
    }
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// As one that has the keys.
    Plain,
    /// As one that the keys are on their way to: `ASKING` goes before the call.
    Asking,
}

/// Runs `command` over `connection`.
///
/// # Errors
/// What the server said instead of an answer, or how the connection ended.
pub(super) async fn call(
    connection: &mut MultiplexedConnection,
    entry: Entry,
    command: Cmd,
) -> RedisResult<Value> {
    let answer = match entry {
        Entry::Plain => connection.send_packed_command(&command).await?,
        Entry::Asking => {
            let mut both = redis::pipe();
            both.cmd("ASKING").add_command(command);
            // What the server says to the second. Of a pipeline's errors the library keeps no more than the text.
            let answers = connection.send_packed_commands(&both, 1, 1).await?;
            answers.into_iter().next().unwrap_or(Value::Nil)
        }
    };
    match answer {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}

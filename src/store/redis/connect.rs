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

/// Where a server is.
#[derive(Clone, Debug)]
pub(super) enum Whereabouts {
    /// There.
    Known(Address),
    /// Where these sentinels say.
    AskSentinels { sentinels: Vec<Address>, master: String },
}

impl Whereabouts {
    /// The address now.
    ///
    /// # Errors
    /// When nobody knows.
    pub(super) async fn find(&self, target: &RedisTarget) -> Result<Address, String> {
        match self {
            Self::Known(address) => Ok(address.clone()),
            Self::AskSentinels { sentinels, master } => sentinel::primary(target, sentinels, master).await,
        }
    }
}

/// A server of `target`, whichever answers: of a cluster, some node.
///
/// # Errors
/// When none does.
pub(super) async fn any_node(target: &RedisTarget) -> Result<Address, String> {
    match target.layout() {
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

/// Runs `command` over `connection`.
///
/// # Errors
/// What the server said instead of an answer, or how the connection ended.
pub(super) async fn call(connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
    match connection.send_packed_command(command).await? {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}

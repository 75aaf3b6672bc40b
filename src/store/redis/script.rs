//! The one script: `lua/` put together, in the order in which each part needs those before it.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};

use super::connect::{self, Entry};
use super::meaning::Meaning;

/// The script's source.
pub const SOURCE: &str = concat!(
    include_str!("../../../lua/arith.lua"),
    include_str!("../../../lua/clock.lua"),
    include_str!("../../../lua/bucket.lua"),
    include_str!("../../../lua/sliding_window.lua"),
    include_str!("../../../lua/fixed_window.lua"),
    include_str!("../../../lua/sliding_log.lua"),
    include_str!("../../../lua/group.lua"),
    include_str!("../../../lua/frame.lua"),
);

/// A script as servers know it.
pub(super) struct Script {
    source: &'static str,
    hash: String,
}

impl Script {
    /// The script of `source`.
    pub(super) fn new(source: &'static str) -> Self {
        Self {
            source,
            hash: redis::Script::new(source).get_hash().to_owned(),
        }
    }

    /// Runs it over `connection` by the call that `command` makes of a command's name and what stands for the script. A server
    /// that does not know it has run nothing: it then goes along, and stays. Tells whether it did.
    ///
    /// # Errors
    /// What the server said instead, or how the connection ended.
    pub(super) async fn run(
        &self,
        connection: &mut MultiplexedConnection,
        entry: Entry,
        command: impl Fn(&str, &str) -> Cmd,
    ) -> RedisResult<(Value, bool)> {
        match connect::call(connection, entry, command("EVALSHA", &self.hash)).await {
            Err(error) if Meaning::of(&error) == Meaning::NoScript => {
                let with_source = command("EVAL", self.source);
                let value = connect::call(connection, entry, with_source).await?;
                Ok((value, true))
            }
            answer => answer.map(|value| (value, false)),
        }
    }
}

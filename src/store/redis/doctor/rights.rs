//! Which rights a user is missing, found by using each.

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};

use super::super::connect::{self, Entry};

/// Every right that is needed, by what uses it without leaving anything behind. `K` stands for a key of ours.
const USES: [(&str, &[&str]); 16] = [
    ("ping", &["PING"]),
    ("eval", &["EVAL", "return 1", "1", "K"]),
    (
        "evalsha",
        &["EVALSHA", "0000000000000000000000000000000000000000", "1", "K"],
    ),
    ("time", &["TIME"]),
    ("get", &["GET", "K"]),
    ("del", &["DEL", "K"]),
    ("pexpire", &["PEXPIRE", "K", "1"]),
    ("set", &["SET", "K", "1", "PX", "1"]),
    ("llen", &["LLEN", "KL"]),
    ("lindex", &["LINDEX", "KL", "0"]),
    ("lset", &["LSET", "KL", "0", "1"]),
    ("ltrim", &["LTRIM", "KL", "0", "-1"]),
    ("rpush", &["RPUSH", "KL", "1"]),
    ("zcard", &["ZCARD", "KZ"]),
    ("zadd", &["ZADD", "KZ", "XX", "1", "1"]),
    ("zremrangebyscore", &["ZREMRANGEBYSCORE", "KZ", "1", "0"]),
];

/// What a user may not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Commands.
    pub(super) commands: Vec<&'static str>,
    /// Keys with our prefix.
    pub(super) keys: bool,
    /// Channels with our prefix.
    pub(super) channels: bool,
    /// Commands that nobody may use here: disabled, or under another name.
    pub(super) unknown: Vec<&'static str>,
}

impl Missing {
    /// The command that grants it to `user`, who is to use keys that start with `prefix`; none when nothing is missing.
    pub(super) fn grant(&self, user: &str, prefix: &str) -> Option<String> {
        if self.commands.is_empty() && !self.keys && !self.channels {
            return None;
        }
        let keys = if self.keys {
            format!(" ~{prefix}:*")
        } else {
            String::new()
        };
        let channels = if self.channels {
            format!(" resetchannels &{prefix}:*")
        } else {
            String::new()
        };
        let commands: String = self
            .commands
            .iter()
            .map(|command| format!(" +{command}"))
            .collect();
        Some(format!("ACL SETUSER {user}{keys}{channels}{commands}"))
    }
}

/// Tries every right over `connection`, on keys that start with `key` and on `channel`.
///
/// # Errors
/// When the connection ends.
pub(super) async fn missing(
    connection: &mut MultiplexedConnection,
    key: &str,
    channel: &str,
    is_node: bool,
) -> RedisResult<Missing> {
    let mut missing = Missing::default();
    for (right, arguments) in USES {
        // What could not be removed again is not left: who may not remove is taken not to be allowed to add.
        if right == "rpush" && missing.commands.contains(&"del") {
            missing.commands.push(right);
            continue;
        }
        let (command, rest) = arguments.split_first().unwrap_or((&"PING", &[]));
        let mut command = redis::cmd(command);
        for argument in rest {
            match argument.strip_prefix('K') {
                Some(kind) => command.arg(format!("{key}{kind}")),
                None => command.arg(argument),
            };
        }
        missing.note(
            right,
            connect::call(connection, Entry::Plain, command).await.err(),
        )?;
        if right == "rpush" {
            let mut command = redis::cmd("DEL");
            command.arg(format!("{key}L"));
            missing.note(
                "del",
                connect::call(connection, Entry::Plain, command).await.err(),
            )?;
        }
    }
    let mut command = redis::cmd("PUBLISH");
    // Nobody is told anything by that. Who may not publish is taken not to be allowed to subscribe.
    command.arg(channel).arg("");
    missing.note(
        "publish",
        connect::call(connection, Entry::Plain, command).await.err(),
    )?;
    if missing.commands.contains(&"publish") {
        missing.commands.push("subscribe");
    }
    if is_node {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        missing.note(
            "cluster|slots",
            connect::call(connection, Entry::Plain, command).await.err(),
        )?;
    }
    Ok(missing)
}

/// Whether a server says that it has no such command.
pub(super) fn is_unknown(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_)) && error.to_string().contains("unknown command")
}

impl Missing {
    fn note(&mut self, right: &'static str, error: Option<RedisError>) -> RedisResult<()> {
        let Some(error) = error else { return Ok(()) };
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoPerm) => {
                // "No permissions to access a key", "…to access one of the keys used as arguments", and of channels likewise.
                let words = error.to_string();
                if words.contains("channel") {
                    self.channels = true;
                } else if words.contains("access") {
                    self.keys = true;
                } else if !self.commands.contains(&right) {
                    self.commands.push(right);
                }
                Ok(())
            }
            _ if is_unknown(&error) => {
                self.unknown.push(right);
                Ok(())
            }
            // Whatever else it says, it would have run it.
            ErrorKind::Server(_) | ErrorKind::Extension => Ok(()),
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_granted_by_one_command() {
        let missing = Missing {
            commands: vec!["time", "pexpire"],
            keys: true,
            channels: true,
            unknown: Vec::new(),
        };
        assert_eq!(
            missing.grant("limiter", "rl").as_deref(),
            Some("ACL SETUSER limiter ~rl:* resetchannels &rl:* +time +pexpire")
        );
        assert_eq!(Missing::default().grant("limiter", "rl"), None);
    }
}

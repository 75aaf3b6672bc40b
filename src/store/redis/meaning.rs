//! What an error of Redis means to a call, to the connection and to the breaker.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// What follows from an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing ran: the server does not know the script. It has to go with the call.
    NoScript,
    /// Nothing ran: these keys are served there, for good or, while they are on their way, for this once.
    Elsewhere { host: String, port: u16, for_once: bool },
    /// Nothing ran, and it is not the server's fault: keys of one slot lie on two servers for a moment.
    Split,
    /// Nothing was sent: as many calls are under way as may be.
    Full,
    /// Nothing was charged: the server is there and will not.
    Refused,
    /// Nothing was charged: it will not for a while, and asking on is of no use.
    Down,
    /// This server takes no writes any more, or none from us: another connection may lead to one that does.
    Abandon,
    /// The connection is of no use. Whether the call ran is unknown.
    Lost,
    /// No answer came in time. Whether the call ran is unknown.
    Late,
}

impl Meaning {
    pub(super) fn of(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(kind) => Self::of_answer(kind, error),
            ErrorKind::Extension => match error.code() {
                // After a password was changed or a user removed, the connection stays as it is.
                Some("NOAUTH" | "WRONGPASS") => Self::Abandon,
                // A script of somebody else's blocks the server: each call would wait as long.
                Some("BUSY") => Self::Down,
                _ => Self::Refused,
            },
            _ => Self::Lost,
        }
    }

    fn of_answer(kind: ServerErrorKind, error: &RedisError) -> Self {
        match kind {
            ServerErrorKind::NoScript => Self::NoScript,
            ServerErrorKind::Moved | ServerErrorKind::Ask => match error.redirect_node() {
                Some((place, _)) => elsewhere(place, kind == ServerErrorKind::Ask),
                None => Self::Refused,
            },
            ServerErrorKind::TryAgain => Self::Split,
            ServerErrorKind::BusyLoading | ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown => {
                Self::Down
            }
            ServerErrorKind::ReadOnly => Self::Abandon,
            _ => Self::Refused,
        }
    }
}

fn elsewhere(place: &str, for_once: bool) -> Meaning {
    let parts = place.rsplit_once(':');
    let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match parts {
        Some((host, port)) => Meaning::Elsewhere {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            for_once,
        },
        None => Meaning::Refused,
    }
}

/// What to tell an operator: the server's words, and what to do where they do not say it.
pub(super) fn explained(error: &RedisError) -> String {
    let hint = match (error.kind(), error.code()) {
        (_, Some("OOM")) => "Redis is out of memory: raise maxmemory, or give counters a Redis of their own",
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) => {
            "`comporta doctor --store URL` names the rights that are missing and what grants them"
        }
        (ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot), _) => {
            "this server belongs to a cluster: --store redis-cluster://HOST:PORT"
        }
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => "this server is a replica now",
        _ => return shown(&error.to_string()),
    };
    format!("{} ({hint})", shown(&error.to_string()))
}

/// The most of a server's words that is shown.
const MOST_SHOWN: usize = 200;

/// A server's words on one line, cut where they are long.
pub(super) fn shown(words: &str) -> String {
    let mut shown: String = words
        .trim()
        .chars()
        .take(MOST_SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if words.trim().chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::*;

    fn error(line: &str) -> RedisError {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => error.into(),
            other => panic!("no error: {other:?}"),
        }
    }

    #[track_caller]
    fn check(line: &str, meaning: &Meaning) {
        assert_eq!(Meaning::of(&error(line)), *meaning, "{line}");
    }

    #[test]
    fn each_error_means_what_redis_means_by_it() {
        check(
            "NOSCRIPT No matching script. Please use EVAL.",
            &Meaning::NoScript,
        );
        check("LOADING Redis is loading the dataset in memory", &Meaning::Down);
        check(
            "READONLY You can't write against a read only replica.",
            &Meaning::Abandon,
        );
        check("CLUSTERDOWN The cluster is down", &Meaning::Down);
        check("MASTERDOWN Link with MASTER is down", &Meaning::Down);
        check("BUSY Redis is busy running a script.", &Meaning::Down);
        check(
            "TRYAGAIN Multiple keys request during rehashing of slot",
            &Meaning::Split,
        );
        check(
            "OOM command not allowed when used memory > 'maxmemory'.",
            &Meaning::Refused,
        );
        check(
            "NOPERM this user has no permissions to run the 'evalsha' command",
            &Meaning::Refused,
        );
        check("NOAUTH Authentication required.", &Meaning::Abandon);
        check(
            "MISCONF Redis is configured to save RDB snapshots",
            &Meaning::Refused,
        );
        check("NOREPLICAS Not enough good replicas to write.", &Meaning::Refused);
        check("ERR unknown command", &Meaning::Refused);
    }

    #[test]
    fn redirections_say_where() {
        let elsewhere = |host: &str, port, for_once| Meaning::Elsewhere {
            host: host.to_owned(),
            port,
            for_once,
        };
        check("MOVED 3999 127.0.0.1:6381", &elsewhere("127.0.0.1", 6381, false));
        check("ASK 3999 cache-b:6381", &elsewhere("cache-b", 6381, true));
        check("MOVED 3999 ::1:6381", &elsewhere("::1", 6381, false));
        check("MOVED 3999 :6381", &elsewhere("", 6381, false));
        check("MOVED 3999 ?:6381", &elsewhere("?", 6381, false));
        check("MOVED 3999 nowhere", &Meaning::Refused);
    }

    #[test]
    fn what_a_server_says_stands_on_one_line_of_bounded_length() {
        assert_eq!(shown("ERR no\r\n"), "ERR no");
        assert_eq!(shown("one\ntwo"), "one\\ntwo");
        assert_eq!(shown(&"x".repeat(MOST_SHOWN)).chars().count(), MOST_SHOWN);
        assert_eq!(shown(&"x".repeat(5_000_000)).chars().count(), MOST_SHOWN + 1);
    }

    #[test]
    fn what_redis_says_too_briefly_is_explained() {
        assert!(explained(&error("OOM command not allowed")).contains("out of memory"));
        assert!(explained(&error("NOPERM no permissions")).contains("comporta doctor"));
        assert!(explained(&error("MOVED 1 h:1")).contains("redis-cluster://"));
    }
}

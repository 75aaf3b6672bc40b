//! Where Redis is and how to get in; never printed whole.

use std::fmt;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, credentials percent-encoded. What it prints has no password.
#[derive(Clone)]
pub struct RedisUrl {
    info: ConnectionInfo,
}

/// Why a text is not a Redis URL. Says nothing of what was in it: that may have been a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisUrlError {
    /// Another scheme.
    #[error("expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]")]
    Scheme,
    /// The right scheme, but no URL.
    #[error(
        "not a URL: expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], with `@`, `:`, `/`, `#` and `%` in a \
         password written as %40, %3A, %2F, %23 and %25"
    )]
    Form,
}

impl RedisUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it is not one of Redis's.
    pub fn parse(text: &str) -> Result<Self, RedisUrlError> {
        if !text.starts_with("redis://") {
            return Err(RedisUrlError::Scheme);
        }
        let info = text.into_connection_info().map_err(|_| RedisUrlError::Form)?;
        // Nagle's delay would be added to every decision.
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        Ok(Self { info })
    }

    /// Host and port.
    pub fn endpoint(&self) -> String {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => format!("{host}:{port}"),
            other => other.to_string(),
        }
    }

    pub(super) fn connection_info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.info.redis_settings();
        f.write_str("redis://")?;
        match (settings.username(), settings.password()) {
            (None, None) => {}
            (user, None) => write!(f, "{}@", user.unwrap_or_default())?,
            (user, Some(_)) => write!(f, "{}:***@", user.unwrap_or_default())?,
        }
        write!(f, "{}/{}", self.endpoint(), settings.db())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, printed: Result<&str, RedisUrlError>) {
        let url = RedisUrl::parse(text);
        assert_eq!(
            url.as_ref().map(ToString::to_string),
            printed.as_ref().map(ToString::to_string)
        );
        if let Ok(url) = url {
            assert_eq!(format!("{url:?}"), url.to_string());
        }
    }

    #[test]
    fn passwords_are_never_printed() {
        check("redis://localhost", Ok("redis://localhost:6379/0"));
        check("redis://10.0.0.1:7000/3", Ok("redis://10.0.0.1:7000/3"));
        check("redis://:p%23a%40%25@h", Ok("redis://:***@h:6379/0"));
        check("redis://limiter:secret@h:1", Ok("redis://limiter:***@h:1/0"));
    }

    #[test]
    fn what_is_no_redis_url_says_what_one_looks_like() {
        check("localhost:6379", Err(RedisUrlError::Scheme));
        check("http://h", Err(RedisUrlError::Scheme));
        check("redis://h:notaport", Err(RedisUrlError::Form));
        check("redis://:p#a@h", Err(RedisUrlError::Form));
    }
}

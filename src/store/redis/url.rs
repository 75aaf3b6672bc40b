//! Where Redis is and how to get in; never printed whole.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

/// Where a server listens when nobody says.
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// The forms that are understood, for messages.
const FORMS: &str = "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], redis+unix://[USER:PASSWORD@]/PATH[?db=DATABASE], \
                     redis-cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT… or \
                     redis-sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT…/MASTER[/DATABASE], with `rediss` in place of \
                     `redis` for TLS";

/// One family of URLs for every way in which Redis is deployed. What it prints has no password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub(super) layout: Layout,
    pub(super) tls: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
}

/// How the servers stand to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One server.
    Single(Address),
    /// A cluster, of which these are some nodes.
    Cluster(Vec<Address>),
    /// One server at a time, that these sentinels name.
    Sentinel { sentinels: Vec<Address>, master: String },
}

/// Where one server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Address {
    /// The server at `host` and `port`, as the one here tells of it: by nothing or a question mark it means its own host.
    pub(super) fn told(&self, host: &str, port: u16) -> Self {
        let host = match (host, self) {
            ("" | "?", Self::Tcp(own, _)) => own,
            (host, _) => host,
        };
        Self::Tcp(host.to_owned(), port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Why a text is not a Redis URL. Says nothing of what was in it: that may have been a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisUrlError {
    /// Another scheme.
    #[error("expected {FORMS}")]
    Scheme,
    /// No host, or one that cannot be read.
    #[error(
        "not a host with a port. Expected {FORMS}; `@`, `:`, `/`, `#`, `?` and `%` in a password are written %40, %3A, \
         %2F, %23, %3F and %25"
    )]
    Host,
    /// A user or password that is no text, or not encoded.
    #[error(
        "a user or password that is not percent-encoded UTF-8: `@`, `:`, `/`, `#`, `?` and `%` are written %40, %3A, %2F, %23, %3F and %25"
    )]
    Credentials,
    /// A database that is no number.
    #[error("the database is a whole number, as in redis://HOST/2")]
    Database,
    /// Sentinels without the name of what they watch.
    #[error("sentinels watch masters by name: redis-sentinel://HOST:PORT,HOST:PORT/MASTER[/DATABASE]")]
    Master,
    /// A database of a cluster.
    #[error(
        "a cluster has one database only, so nothing follows its hosts: redis-cluster://HOST:PORT,HOST:PORT"
    )]
    ClusterDatabase,
    /// A socket without a path.
    #[error("a socket has a path: redis+unix:///run/redis/redis.sock")]
    Path,
}

impl RedisUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it is none of the forms.
    pub fn parse(text: &str) -> Result<Self, RedisUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(RedisUrlError::Scheme)?;
        let (kind, tls) = match scheme {
            "redis" => (Kind::Single, false),
            "rediss" => (Kind::Single, true),
            "redis+unix" => (Kind::Unix, false),
            "redis-cluster" => (Kind::Cluster, false),
            "rediss-cluster" => (Kind::Cluster, true),
            "redis-sentinel" => (Kind::Sentinel, false),
            "rediss-sentinel" => (Kind::Sentinel, true),
            _ => return Err(RedisUrlError::Scheme),
        };
        let (user, password, rest) = credentials(rest)?;
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (layout, database) = match kind {
            Kind::Single => (Layout::Single(address(hosts, REDIS_PORT)?), database_of(path)?),
            Kind::Unix => {
                let (path, query) = path.split_once('?').unwrap_or((path, ""));
                if !hosts.is_empty() || path.is_empty() {
                    return Err(RedisUrlError::Path);
                }
                let database = match query {
                    "" => 0,
                    query => database_of(query.strip_prefix("db=").ok_or(RedisUrlError::Database)?)?,
                };
                let path = decoded(path).ok_or(RedisUrlError::Path)?;
                (Layout::Single(Address::Unix(format!("/{path}").into())), database)
            }
            Kind::Cluster if !matches!(path, "" | "0") => return Err(RedisUrlError::ClusterDatabase),
            Kind::Cluster => (Layout::Cluster(addresses(hosts, REDIS_PORT)?), 0),
            Kind::Sentinel => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                let master = decoded(master)
                    .filter(|master| !master.is_empty())
                    .ok_or(RedisUrlError::Master)?;
                let sentinels = addresses(hosts, SENTINEL_PORT)?;
                (Layout::Sentinel { sentinels, master }, database_of(database)?)
            }
        };
        Ok(Self {
            layout,
            tls,
            user,
            password,
            database,
        })
    }

    /// Where it is, without how to get in.
    pub fn endpoint(&self) -> String {
        match &self.layout {
            Layout::Single(address) => address.to_string(),
            Layout::Cluster(nodes) => listed(nodes),
            Layout::Sentinel { sentinels, master } => format!("{master} by {}", listed(sentinels)),
        }
    }

    /// Whether sentinels say where the server is.
    pub const fn has_sentinels(&self) -> bool {
        matches!(self.layout, Layout::Sentinel { .. })
    }

    /// Whether it is reached over TLS.
    pub const fn is_tls(&self) -> bool {
        self.tls
    }

    /// Whether the URL itself holds a password.
    pub const fn has_password(&self) -> bool {
        self.password.is_some()
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Single,
    Unix,
    Cluster,
    Sentinel,
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.tls { "s" } else { "" };
        let kind = match &self.layout {
            Layout::Single(Address::Tcp(..)) => "",
            Layout::Single(Address::Unix(_)) => "+unix",
            Layout::Cluster(_) => "-cluster",
            Layout::Sentinel { .. } => "-sentinel",
        };
        write!(f, "redis{tls}{kind}://")?;
        match (&self.user, &self.password) {
            (None, None) => {}
            // May be a password that lacks its colon.
            (Some(_), None) => f.write_str("***@")?,
            (user, Some(_)) => write!(f, "{}:***@", user.as_deref().unwrap_or_default())?,
        }
        match &self.layout {
            Layout::Single(address @ Address::Tcp(..)) => write!(f, "{address}/{}", self.database),
            Layout::Single(address) => write!(f, "{address}?db={}", self.database),
            Layout::Cluster(nodes) => f.write_str(&listed(nodes)),
            Layout::Sentinel { sentinels, master } => {
                write!(f, "{}/{master}/{}", listed(sentinels), self.database)
            }
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

type Credentials<'a> = (Option<String>, Option<String>, &'a str);

/// What stands before the last `@`, and what follows it.
fn credentials(text: &str) -> Result<Credentials<'_>, RedisUrlError> {
    let Some((credentials, rest)) = text.rsplit_once('@') else {
        return Ok((None, None, text));
    };
    if credentials.contains(['/', '?', '#', '@']) {
        return Err(RedisUrlError::Host);
    }
    let (user, password) = match credentials.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (credentials, None),
    };
    let text = |part: &str| decoded(part).ok_or(RedisUrlError::Credentials);
    let user = text(user)?;
    let password = password.map(text).transpose()?;
    Ok((Some(user).filter(|user| !user.is_empty()), password, rest))
}

fn decoded(text: &str) -> Option<String> {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let sound = (0..bytes.len())
        .filter(|&place| bytes[place] == b'%')
        .all(|place| is_hex(bytes.get(place + 1)) && is_hex(bytes.get(place + 2)));
    let text = percent_decode_str(text).decode_utf8().ok()?;
    sound.then(|| text.into_owned())
}

fn database_of(text: &str) -> Result<i64, RedisUrlError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse::<u16>()
        .map(i64::from)
        .map_err(|_| RedisUrlError::Database)
}

fn addresses(text: &str, port: u16) -> Result<Vec<Address>, RedisUrlError> {
    text.split(',').map(|host| address(host, port)).collect()
}

/// `HOST`, `HOST:PORT`, `[::1]` or `[::1]:PORT`.
fn address(text: &str, default: u16) -> Result<Address, RedisUrlError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(RedisUrlError::Host)?;
            match port {
                "" => (host, None),
                port => (host, Some(port.strip_prefix(':').ok_or(RedisUrlError::Host)?)),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => default,
        Some(port) => port
            .parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or(RedisUrlError::Host)?,
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte) || !byte.is_ascii();
    if host.is_empty() || !host.bytes().all(is_host) {
        return Err(RedisUrlError::Host);
    }
    Ok(Address::Tcp(host.to_owned(), port))
}

fn listed(addresses: &[Address]) -> String {
    let each: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    each.join(",")
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
        check("redis://secret@h:1", Ok("redis://***@h:1/0"));
        check(
            "rediss-cluster://u:s@a:1,b",
            Ok("rediss-cluster://u:***@a:1,b:6379"),
        );
        check(
            "redis+unix://u:s@/run/r.sock",
            Ok("redis+unix://u:***@/run/r.sock?db=0"),
        );
    }

    #[test]
    fn every_deployment_has_a_form() {
        check(
            "redis+unix:///run/r.sock?db=2",
            Ok("redis+unix:///run/r.sock?db=2"),
        );
        check(
            "redis-sentinel://a,b:1/main",
            Ok("redis-sentinel://a:26379,b:1/main/0"),
        );
        check(
            "rediss-sentinel://a/main/4",
            Ok("rediss-sentinel://a:26379/main/4"),
        );
        check("rediss://[::1]:7/1", Ok("rediss://[::1]:7/1"));
        check(
            "redis-cluster://[fe80::1],h:9",
            Ok("redis-cluster://[fe80::1]:6379,h:9"),
        );
    }

    #[test]
    fn what_is_no_redis_url_says_what_one_looks_like() {
        check("localhost:6379", Err(RedisUrlError::Scheme));
        check("http://h", Err(RedisUrlError::Scheme));
        check("rediss+unix:///x", Err(RedisUrlError::Scheme));
        check("redis://h:notaport", Err(RedisUrlError::Host));
        check("redis://h:0", Err(RedisUrlError::Host));
        check("redis://", Err(RedisUrlError::Host));
        check("redis://[::1:7", Err(RedisUrlError::Host));
        check("redis://:p#a@h", Err(RedisUrlError::Host));
        check("redis://:p/a@h", Err(RedisUrlError::Host));
        check("redis://:100%@h", Err(RedisUrlError::Credentials));
        check("redis://:%ff@h", Err(RedisUrlError::Credentials));
        check("redis://h/one", Err(RedisUrlError::Database));
        check("redis://h?db=1", Err(RedisUrlError::Host));
        check("redis-cluster://a:1/2", Err(RedisUrlError::ClusterDatabase));
        check("redis-cluster://a:1,", Err(RedisUrlError::Host));
        check("redis-sentinel://a:1", Err(RedisUrlError::Master));
        check("redis+unix://host/path", Err(RedisUrlError::Path));
        check("redis+unix:///", Err(RedisUrlError::Path));
        check("redis+unix:///p?database=1", Err(RedisUrlError::Database));
    }

    #[test]
    fn credentials_are_decoded() {
        let url = RedisUrl::parse("redis://li%3Amiter:p%23a%40%25@h").expect("a URL");
        assert_eq!(url.user.as_deref(), Some("li:miter"));
        assert_eq!(url.password.as_deref(), Some("p#a@%"));
    }
}

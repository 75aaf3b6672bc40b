//! How to get into a Redis: its URL, and what must not or cannot stand in it.

use std::fmt;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisResult,
    TlsCertificates,
};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::url::{Address, Layout, RedisUrl};

/// A user and a password, either of which may be missing. Prints without the password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The ACL user; the server's default one when absent.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "***");
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("password", &password)
            .finish()
    }
}

/// What TLS goes by, as PEM. Prints as nothing but its presence.
#[derive(Clone, Default)]
pub struct Certificates {
    /// The authorities that servers are trusted by; the system's when absent.
    pub authority: Option<Vec<u8>>,
    /// The certificate by which this process shows who it is, and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("authority", &self.authority.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}

/// Everything it takes to reach a deployment of Redis. Prints without secrets.
#[derive(Clone, Debug)]
pub struct RedisTarget {
    url: RedisUrl,
    user: Credentials,
    certificates: TlsCertificates,
    sentinel: Credentials,
}

/// Why something does not fit its URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisTargetError {
    /// Certificates for a connection without TLS.
    #[error("certificates are for TLS: write `rediss` in place of `redis` in --store")]
    NotTls,
    /// Credentials of sentinels that are not there.
    #[error("there are no sentinels in --store: redis-sentinel://HOST:PORT,HOST:PORT/MASTER")]
    NoSentinels,
    /// A password beside the URL's.
    #[error("--store holds a password, too: give it once")]
    TwoPasswords,
    /// A certificate or key that cannot be used.
    #[error("{0}")]
    Certificates(String),
}

impl RedisTarget {
    /// The deployment at `url`. `password` stands in for one in the URL; `sentinel` are the sentinels' own credentials.
    ///
    /// # Errors
    /// When one of them does not fit the URL, or a certificate cannot be used.
    pub fn new(
        url: RedisUrl,
        password: Option<String>,
        certificates: Certificates,
        sentinel: Credentials,
    ) -> Result<Self, RedisTargetError> {
        if !url.is_tls() && (certificates.authority.is_some() || certificates.client.is_some()) {
            return Err(RedisTargetError::NotTls);
        }
        if !url.has_sentinels() && sentinel != Credentials::default() {
            return Err(RedisTargetError::NoSentinels);
        }
        if url.has_password() && password.is_some() {
            return Err(RedisTargetError::TwoPasswords);
        }
        let user = Credentials {
            user: url.user.clone(),
            password: url.password.clone().or(password),
        };
        let certificates = TlsCertificates {
            client_tls: certificates
                .client
                .map(|(client_cert, client_key)| ClientTlsConfig {
                    client_cert,
                    client_key,
                }),
            root_cert: certificates.authority,
        };
        let target = Self {
            url,
            user,
            certificates,
            sentinel,
        };
        for (pem, what) in [
            (target.certificates.root_cert.as_ref(), "authority"),
            (
                target
                    .certificates
                    .client_tls
                    .as_ref()
                    .map(|client| &client.client_cert),
                "client's",
            ),
        ] {
            if pem.is_some_and(|pem| CertificateDer::pem_slice_iter(pem).next().is_none()) {
                let what = format!("there is no certificate in the file with the {what}");
                return Err(RedisTargetError::Certificates(what));
            }
        }
        // Read now, so that a file that is none is told of at the start.
        target
            .node(&Address::Tcp(String::from("localhost"), 1))
            .map_err(|error| RedisTargetError::Certificates(error.to_string()))?;
        Ok(target)
    }

    /// Its URL.
    pub const fn url(&self) -> &RedisUrl {
        &self.url
    }

    /// Who servers are told that it is.
    pub(super) const fn credentials(&self) -> &Credentials {
        &self.user
    }

    /// Who sentinels are told that it is.
    pub(super) const fn sentinel_credentials(&self) -> &Credentials {
        &self.sentinel
    }

    /// `text`, which may repeat what was sent, without passwords.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let passwords = [&self.user.password, &self.sentinel.password];
        let passwords = passwords
            .into_iter()
            .flatten()
            .filter(|password| !password.is_empty());
        passwords.fold(text.to_owned(), |text, password| {
            text.replace(password.as_str(), "***")
        })
    }

    pub(super) const fn certificates(&self) -> &TlsCertificates {
        &self.certificates
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.user.user.as_deref()
    }

    /// Whether it is a cluster, where the counters of one group may lie on several servers.
    pub const fn is_cluster(&self) -> bool {
        matches!(self.url.layout, Layout::Cluster(_))
    }

    pub(super) const fn layout(&self) -> &Layout {
        &self.url.layout
    }

    /// What connects to the server at `address`.
    pub(super) fn node(&self, address: &Address) -> RedisResult<Client> {
        self.client(address, &self.user, self.url.database)
    }

    /// What connects to the sentinel at `address`.
    pub(super) fn sentinel(&self, address: &Address) -> RedisResult<Client> {
        self.client(address, &self.sentinel, 0)
    }

    fn client(&self, address: &Address, who: &Credentials, database: i64) -> RedisResult<Client> {
        // Operators see who it is in `CLIENT LIST`.
        let mut settings = RedisConnectionInfo::default()
            .set_db(database)
            .set_lib_name("comporta", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &who.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &who.password {
            settings = settings.set_password(password);
        }
        let is_tls = self.url.is_tls();
        let address = match address.clone() {
            Address::Tcp(host, port) if is_tls => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            Address::Tcp(host, port) => ConnectionAddr::Tcp(host, port),
            Address::Unix(path) => ConnectionAddr::Unix(path),
        };
        let info = address
            .into_connection_info()?
            .set_redis_settings(settings)
            // Nagle's delay would be added to every decision.
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        if is_tls {
            Client::build_with_tls(info, self.certificates.clone())
        } else {
            Client::open(info)
        }
    }
}

impl From<RedisUrl> for RedisTarget {
    /// What the URL alone says.
    fn from(url: RedisUrl) -> Self {
        Self {
            user: Credentials {
                user: url.user.clone(),
                password: url.password.clone(),
            },
            url,
            certificates: TlsCertificates {
                client_tls: None,
                root_cert: None,
            },
            sentinel: Credentials::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(
        url: &str,
        password: Option<&str>,
        certificates: Certificates,
        sentinel: Credentials,
    ) -> Result<RedisTarget, RedisTargetError> {
        let url = RedisUrl::parse(url).expect("a URL");
        RedisTarget::new(url, password.map(str::to_owned), certificates, sentinel)
    }

    #[test]
    fn what_does_not_fit_the_url_is_a_mistake() {
        let authority = || Certificates {
            authority: Some(Vec::new()),
            client: None,
        };
        let guard = Credentials {
            user: Some("guard".to_owned()),
            password: None,
        };
        let nobody = Credentials::default;
        let error = |made: Result<RedisTarget, _>| made.expect_err("a mistake");
        assert_eq!(
            error(target("redis://h", None, authority(), nobody())),
            RedisTargetError::NotTls
        );
        assert_eq!(
            error(target("redis://h", None, Certificates::default(), guard.clone())),
            RedisTargetError::NoSentinels
        );
        assert_eq!(
            error(target(
                "redis://:a@h",
                Some("b"),
                Certificates::default(),
                nobody()
            )),
            RedisTargetError::TwoPasswords
        );
        let broken = Certificates {
            authority: None,
            client: Some((b"no certificate".to_vec(), b"no key".to_vec())),
        };
        assert!(matches!(
            error(target("rediss://h", None, broken, nobody())),
            RedisTargetError::Certificates(_)
        ));
        assert!(target("redis-sentinel://h/m", Some("p"), Certificates::default(), guard).is_ok());
    }

    #[test]
    fn no_secret_is_printed() {
        let sentinel = Credentials {
            user: None,
            password: Some("hunter3".to_owned()),
        };
        let target = target(
            "redis-sentinel://u@h/m",
            Some("hunter2"),
            Certificates::default(),
            sentinel,
        )
        .expect("a target");
        let printed = format!("{target:?}");
        assert!(!printed.contains("hunter"), "{printed}");
    }
}

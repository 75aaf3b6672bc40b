//! A private authority and what it has signed.

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use tempfile::TempDir;

/// An authority that only this test knows, in files of PEM.
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes new ones: a server's for `localhost` and 127.0.0.1, the same but expired, and a caller's.
    pub fn issue() -> Self {
        let folder = tempfile::tempdir().expect("a folder for certificates");
        let keep = |name: &str, pem: String| {
            std::fs::write(folder.path().join(name), pem).expect("a certificate is written");
        };
        let key = KeyPair::generate().expect("a key");
        let mut params = params("an authority", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        keep("ca.pem", params.self_signed(&key).expect("an authority").pem());
        let authority = Issuer::new(params, key);
        let sign = |name: &str, params: CertificateParams| {
            let key = KeyPair::generate().expect("a key");
            let certificate = params.signed_by(&key, &authority).expect("a certificate");
            keep(&format!("{name}.pem"), certificate.pem());
            keep(&format!("{name}.key"), key.serialize_pem());
        };
        sign("server", server());
        let mut expired = server();
        expired.not_after = date_time_ymd(2020, 1, 1);
        sign("expired", expired);
        let mut client = self::params("a caller", &[]);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        sign("client", client);
        Self { folder }
    }

    /// The authority's own certificate.
    pub fn authority(&self) -> String {
        self.path("ca.pem")
    }

    /// The certificate and the key of `server`, `expired` (a server's) or `client`.
    pub fn of(&self, name: &str) -> [String; 2] {
        ["pem", "key"].map(|kind| self.path(&format!("{name}.{kind}")))
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        assert!(path.exists(), "nobody signed {name}");
        path.to_str().expect("a path in UTF-8").to_owned()
    }
}

fn server() -> CertificateParams {
    let mut params = params("a server", &["localhost", "127.0.0.1"]);
    // Nodes of a cluster call each other with it.
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

/// Valid for all of this century.
fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(hosts).expect("names of hosts");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    params
}

/// Otherwise a test might take a server for one that proves who it is, and it is not.
#[test]
fn servers_and_callers_are_believed_only_with_what_was_signed() {
    use redis::{Client, ClientTlsConfig, TlsCertificates};

    use super::redis::Setup;

    // An error says that another test was here first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (ours, theirs) = (Certificates::issue(), Certificates::issue());
    let read = |path: &str| std::fs::read(path).expect("a file of PEM");
    let connect = |url: &str, authority: &Certificates, caller: Option<&Certificates>| {
        let certificates = TlsCertificates {
            root_cert: Some(read(&authority.authority())),
            client_tls: caller.map(|caller| {
                let [client_cert, client_key] = caller.of("client").map(|path| read(&path));
                ClientTlsConfig {
                    client_cert,
                    client_key,
                }
            }),
        };
        let client = Client::build_with_tls(url, certificates).expect("a client");
        let mut connection = client.get_connection_with_timeout(super::process::PATIENCE)?;
        redis::cmd("PING").query::<String>(&mut connection)
    };

    let strict = Setup::default().tls(&ours).start();
    let url = strict.url();
    assert_eq!(connect(&url, &ours, Some(&ours)), Ok("PONG".to_owned()));
    assert!(connect(&url, &ours, None).is_err());
    assert!(connect(&url, &ours, Some(&theirs)).is_err());
    assert!(connect(&url, &theirs, Some(&ours)).is_err());

    let open = Setup::default().tls(&ours).with(&["--tls-auth-clients", "no"]);
    assert_eq!(
        connect(&open.clone().start().url(), &ours, None),
        Ok("PONG".to_owned())
    );
    let [certificate, key] = ours.of("expired");
    let expired = open
        .with(&["--tls-cert-file", &certificate, "--tls-key-file", &key])
        .start();
    let error = connect(&expired.url(), &ours, None).expect_err("it has expired");
    assert!(error.to_string().contains("xpired"), "{error}");
}

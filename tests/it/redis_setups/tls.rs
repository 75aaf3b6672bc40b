//! Behind TLS.

use std::io::Write;

use tempfile::NamedTempFile;

use super::{ODD_PASSWORD, serve_with, uses};
use crate::harness::certificates::Certificates;
use crate::harness::comporta::Comporta;
use crate::harness::redis::{Redis, Setup};

/// For those who have no certificate of their own, too.
fn open(certificates: &Certificates) -> Setup {
    Setup::default()
        .tls(certificates)
        .with(&["--tls-auth-clients", "no"])
}

#[test]
fn a_server_with_a_private_authority_and_an_odd_password() {
    let certificates = Certificates::issue();
    let redis = open(&certificates).password(ODD_PASSWORD).start();
    let authority = certificates.authority();
    uses(&serve_with(&redis.url(), &["--store-ca", &authority]));

    let mut password = NamedTempFile::new().expect("a file");
    writeln!(password, "{ODD_PASSWORD}").expect("a password is written");
    let url = format!("rediss://{}", redis.address());
    let path = password.path().to_str().expect("a path in UTF-8");
    let flags = ["--store-ca", &authority, "--store-password-file", path];
    let comporta = serve_with(&url, &flags);
    comporta.wait_for_store("edge", "client=nobody");
    assert!(!comporta.printed().contains("p#a@"), "{}", comporta.printed());
}

#[test]
fn a_server_that_asks_for_certificates() {
    let certificates = Certificates::issue();
    let redis = Setup::default().tls(&certificates).start();
    let [certificate, key] = certificates.of("client");
    let flags = [
        ["--store-ca", &certificates.authority()],
        ["--store-cert", &certificate],
        ["--store-key", &key],
    ];
    uses(&serve_with(&redis.url(), flags.as_flattened()));
}

/// Waits until it says why it does not trust `redis`.
fn refuses(redis: &Redis, authority: &Certificates, why: &str) {
    let mut comporta: Comporta = serve_with(&redis.url(), &["--store-ca", &authority.authority()]);
    comporta.wait_for_line(why);
}

#[test]
fn a_server_that_is_not_who_it_says_is_told_of() {
    let (ours, theirs) = (Certificates::issue(), Certificates::issue());
    refuses(&open(&ours).start(), &theirs, "invalid peer certificate");
    let [certificate, key] = ours.of("expired");
    let expired = open(&ours).with(&["--tls-cert-file", &certificate, "--tls-key-file", &key]);
    refuses(&expired.start(), &ours, "xpired");
}

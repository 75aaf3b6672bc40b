//! Named by sentinels.

use super::{serve_with, uses};
use crate::harness::certificates::Certificates;
use crate::harness::redis::Setup;
use crate::harness::sentinels::Sentinels;

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("it is written");
    file
}

#[test]
fn sentinels_and_servers_with_passwords_of_their_own() {
    let sentinels = Sentinels::of(Setup::default().password("one"), Some("another"));
    let [one, another] = ["one", "another"].map(file);
    let [one, another] = [&one, &another].map(|file| file.path().to_str().expect("a path in UTF-8"));
    let flags = ["--store-password-file", one, "--sentinel-password-file", another];
    uses(&serve_with(&sentinels.url(), &flags));
    sentinels.add_user("watcher", "another");
    let flags = [&flags[..], &["--sentinel-user", "watcher"]].concat();
    let comporta = serve_with(&sentinels.url(), &flags);
    comporta.wait_for_store("edge", "client=nobody");
    assert!(!sentinels.server(0).keys().is_empty());
}

#[test]
fn sentinels_behind_tls() {
    let certificates = Certificates::issue();
    let sentinels = Sentinels::of(Setup::default().tls(&certificates), None);
    let [certificate, key] = certificates.of("client");
    let flags = [
        ["--store-ca", &certificates.authority()],
        ["--store-cert", &certificate],
        ["--store-key", &key],
    ];
    uses(&serve_with(&sentinels.url(), flags.as_flattened()));
}

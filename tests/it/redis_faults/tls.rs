//! Certificates that come to their end.

use std::time::Duration;

use super::load::Load;
use super::{DOMAIN, Fault, policy};
use crate::harness::certificates::Certificates;
use crate::harness::comporta::Comporta;
use crate::harness::redis::Setup;

#[test]
fn a_certificate_that_expires_and_is_renewed() {
    let certificates = Certificates::issue();
    let setup = Setup::default().tls(&certificates);
    let redis = setup.with(&["--tls-auth-clients", "no"]).start();
    let flags = [
        ["--store", &redis.url()],
        ["--store-ca", &certificates.authority()],
        ["--instances", "1"],
    ];
    let comporta = Comporta::serve_text(&policy(), flags.as_flattened());
    comporta.wait_for_store(DOMAIN, "steady=nobody");
    let load = Load::start(&comporta);
    load.wait_for(20);
    let shows = |name: &str| {
        let [certificate, key] = certificates.of(name);
        let command = [
            "CONFIG",
            "SET",
            "tls-cert-file",
            &certificate,
            "tls-key-file",
            &key,
        ];
        let () = redis.ask(&command);
    };
    shows("expired");
    // Whoever is connected stays so.
    let _: u64 = redis.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
    load.go_on_for(Duration::from_secs(2));
    shows("server");
    let record = load.until_recovered();
    Fault::new("an expired certificate").check(&comporta, &record);
}

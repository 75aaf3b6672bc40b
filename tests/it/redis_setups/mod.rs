//! Redis as it is found: behind passwords and TLS, with few rights, old and new, as a cluster and with sentinels.

mod cluster;
mod groups;
mod sentinels;
mod tls;

use crate::harness::comporta::{Comporta, request};
use crate::harness::process::poll;
use crate::harness::read;
use crate::harness::redis::{Program, Redis, Setup};

const ODD_PASSWORD: &str = "p#a@%:/?&=+ \\é";

/// So that the script does all that it ever does.
const POLICY: &str = "
domain: edge
descriptors:
  - key: client
    rate_limits:
      - { name: bucket, rate: 5/hour, algorithm: token_bucket }
      - { name: sliding, rate: 5/hour, algorithm: sliding_window }
      - { name: fixed, rate: 5/hour, algorithm: fixed_window }
      - { name: log, rate: 5/hour, algorithm: sliding_log }
  - key: log
    rate_limit: { rate: 2/second, algorithm: sliding_log }
";

fn serve(url: &str) -> Comporta {
    serve_with(url, &[])
}

/// With more flags.
fn serve_with(url: &str, flags: &[&str]) -> Comporta {
    let strict = [
        "--store",
        url,
        "--store-budget",
        "60s",
        "--on-store-failure",
        "error",
    ];
    Comporta::serve_text(POLICY, &[&strict, flags].concat())
}

/// Spends a budget, gives some of it back and spends that.
fn uses(comporta: &Comporta) {
    for descriptor in ["client=ana", "log=ana"] {
        comporta.wait_for_store("edge", descriptor);
    }
    let client = comporta.client();
    let passed = || (0..10).filter(|_| client.admits("edge", "client=ana")).count();
    assert_eq!(passed(), 5);
    let mut back = request("edge", &["client=ana"]);
    back.descriptors[0].hits_addend = Some(2);
    back.descriptors[0].is_negative_hits = true;
    client.send(back).expect("an answer");
    assert_eq!(passed(), 2);
    // Until marks are old enough to be thrown away.
    for admitted in [true, false, true] {
        poll("the log", || {
            (client.admits("edge", "log=ana") == admitted).then_some(())
        });
    }
}

#[test]
fn passwords_of_any_characters_get_in() {
    let redis = Setup::default().password(ODD_PASSWORD).start();
    let () = redis.ask(&[
        "ACL",
        "SETUSER",
        "limiter",
        "on",
        &format!(">{ODD_PASSWORD}"),
        "~*",
        "+@all",
    ]);
    for url in [redis.url(), redis.url_of("limiter", ODD_PASSWORD)] {
        let comporta = serve(&url);
        comporta.wait_for_store("edge", "client=nobody");
        // Neither as it is nor as it stands in a URL.
        let printed = comporta.printed();
        assert!(
            !printed.contains("p#a@") && !printed.contains("p%23"),
            "{printed}"
        );
    }
}

#[test]
fn a_socket_in_place_of_a_port() {
    let redis = Redis::start();
    uses(&serve(&format!("{}?db=2", redis.socket_url())));
    assert!(redis.keys().is_empty());
    assert!(redis.info("db2").starts_with("keys="));
}

#[test]
fn a_user_with_the_rights_that_the_readme_names_does_everything() {
    let readme = read("README.md");
    let (_, rule) = readme.split_once("`ACL SETUSER ").expect("the rights");
    let (rule, _) = rule.split_once('`').expect("their end");
    for program in [Program::Packaged, Program::Oldest, Program::Valkey] {
        let redis = Setup::of(program).start();
        let command: Vec<&str> = ["ACL", "SETUSER"]
            .into_iter()
            .chain(rule.split_whitespace())
            .collect();
        let () = redis.ask(&command);
        let password = command
            .iter()
            .find_map(|word| word.strip_prefix('>'))
            .expect("a password");
        uses(&serve(&redis.url_of(command[2], password)));
    }
}

/// Callers are told why Redis cannot decide after `fault`, by what is a part of it.
#[track_caller]
fn says(why: &str, fault: impl FnOnce(&Redis)) {
    let redis = Redis::start();
    let () = redis.ask(&[USER, &[">old-password"]].concat());
    let comporta = serve(&redis.url_of("limiter", "old-password"));
    comporta.wait_for_store("edge", "client=nobody");
    fault(&redis);
    let client = comporta.client();
    poll(why, || {
        // Neither a verdict nor a crash.
        let status = client
            .send(request("edge", &["client=ana"]))
            .expect_err("Redis cannot decide");
        assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
        status.message().contains(why).then_some(())
    });
    let printed = comporta.printed();
    assert!(!printed.contains("-password"), "{printed}");
}

const USER: &[&str] = &["ACL", "SETUSER", "limiter", "on", "~*", "+@all"];

#[test]
fn a_redis_that_is_full_is_said_to_be_out_of_memory() {
    says("memory", |redis| {
        let () = redis.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        let () = redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    });
}

#[test]
fn a_redis_that_takes_no_writes_is_said_to_be_a_replica() {
    says("read only replica", |redis| {
        let () = redis.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    });
}

#[test]
fn a_right_that_is_missing_is_named() {
    says("evalsha", |redis| {
        let () = redis.ask(&[USER, &["-evalsha"]].concat());
    });
}

#[test]
fn a_password_that_became_wrong_is_said_to_be() {
    says("authentication failed", |redis| {
        let () = redis.ask(&[USER, &["resetpass", ">new-password"]].concat());
        let _: u64 = redis.ask(&["CLIENT", "KILL", "USER", "limiter"]);
    });
}

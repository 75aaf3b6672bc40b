//! `comporta doctor` against real servers: what would bite, and what to do about it.

use std::process::Output;

use crate::harness::cluster::Cluster;
use crate::harness::comporta::{Comporta, command};
use crate::harness::process::poll;
use crate::harness::redis::{Program, Redis, Setup};
use crate::harness::sentinels::Sentinels;

const POLICY: &str = "
domain: edge
descriptors:
  - { key: client, rate_limit: { rate: 30/hour } }
";

fn doctor(url: &str, flags: &[&str]) -> Output {
    // What is slow on a busy machine is not what these tests are about.
    command(["doctor", "--store", url, "--store-budget", "10s"])
        .args(flags)
        .output()
        .expect("it starts")
}

#[track_caller]
fn page(url: &str, code: i32) -> String {
    let output = doctor(url, &[]);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{page}{said}");
    page
}

#[test]
fn every_server_that_is_supported_is_fine() {
    for (program, name) in [
        (Program::Packaged, "Redis 7"),
        (Program::Oldest, "Redis 6.2"),
        (Program::Valkey, "Valkey "),
    ] {
        let redis = Setup::of(program).start();
        let page = page(&redis.url(), 0);
        assert!(page.contains(name), "{page}");
        assert!(page.contains("fine"), "{page}");
        poll("nothing left behind", || {
            redis.ask::<Vec<String>>(&["KEYS", "*"]).is_empty().then_some(())
        });
    }
}

#[test]
fn missing_rights_are_granted_by_the_line_that_is_printed() {
    let redis = Redis::start();
    let () = redis.ask(&[
        "ACL",
        "SETUSER",
        "limiter",
        "on",
        ">hunter2",
        "+ping",
        "+get",
        "~others:*",
    ]);
    let url = redis.url_of("limiter", "hunter2");
    let found = page(&url, 1);
    assert!(!found.contains("hunter2"), "{found}");
    let grant = found
        .split_once("ACL SETUSER ")
        .and_then(|(_, rest)| rest.lines().next())
        .expect("a grant");
    for right in [
        "~comporta:*",
        "+evalsha",
        "+time",
        "+pexpire",
        "+zadd",
        "+publish",
        "+subscribe",
    ] {
        assert!(grant.contains(right), "{grant}");
    }
    assert!(
        !grant.contains("+get "),
        "what is there is not granted again: {grant}"
    );
    let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(grant.split(' ')).collect();
    let () = redis.ask(&words);
    // Channels come into view only once their command is permitted.
    let again = page(&url, 1);
    assert!(again.contains("resetchannels &comporta:*"), "{again}");
    let () = redis.ask(&["ACL", "SETUSER", "limiter", "resetchannels", "&comporta:*"]);
    let page = page(&url, 0);
    assert!(page.contains("INFO may not be asked for"), "{page}");
    let comporta = Comporta::serve_text(POLICY, &["--store", &url]);
    comporta.wait_for_store("edge", "client=nobody");
}

#[test]
fn a_redis_that_drops_counters_bites() {
    let redis = Setup::default()
        .with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"])
        .start();
    let page = page(&redis.url(), 1);
    assert!(page.contains("bites"), "{page}");
    assert!(page.contains("noeviction"), "{page}");
}

#[test]
fn a_node_of_a_cluster_is_told_from_a_cluster() {
    let cluster = Cluster::start();
    let alone = page(&cluster.node(0).url(), 1);
    assert!(alone.contains("redis-cluster://"), "{alone}");
    let all = page(&cluster.url(), 0);
    assert_eq!(all.matches(", primary").count(), 3, "{all}");
}

#[test]
fn sentinels_are_asked_each() {
    let sentinels = Sentinels::start();
    let fine = page(&sentinels.url(), 0);
    assert_eq!(fine.matches("(sentinel)").count(), 3, "{fine}");
    assert!(fine.contains(", primary"), "{fine}");
    let wrong = sentinels.url().replace("/counters", "/other");
    let wrong = page(&wrong, 1);
    assert!(wrong.contains("watches no master named other"), "{wrong}");
}

#[test]
fn where_nobody_is_that_bites() {
    let port = crate::harness::free_port();
    let page = page(&format!("redis://:hunter2@127.0.0.1:{port}"), 1);
    assert!(page.contains("refused"), "{page}");
    assert!(!page.contains("hunter2"), "{page}");
}

#[test]
fn in_memory_there_is_nothing_to_examine() {
    let output = doctor("memory", &[]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn programs_read_the_same_as_json() {
    let redis = Redis::start();
    let output = doctor(&redis.url(), &["--json"]);
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(page["biting"], 0);
    assert_eq!(page["servers"][0]["role"], "primary");
    assert!(page["servers"][0]["round_trip_micros"].is_u64(), "{page}");
}

#[test]
fn the_server_says_the_same_when_it_starts() {
    let redis = Setup::default()
        .with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"])
        .start();
    let mut comporta = Comporta::serve_text(POLICY, &["--store", &redis.url()]);
    comporta.wait_for_line("examined the shared store");
    comporta.wait_for_line("noeviction or volatile-ttl");
}

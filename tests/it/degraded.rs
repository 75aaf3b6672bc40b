//! A real server whose Redis is gone: each choice of `on_store_failure`, by rule, by domain and by the process.

use std::fs;

use comporta::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use comporta::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use prost_types::value::Kind;

use crate::harness::comporta::{Client, Comporta, request};
use crate::harness::envoy::Envoy;
use crate::harness::process::poll;
use crate::harness::redis::Redis;
use crate::harness::repository;

/// Where nobody listens.
const NOWHERE: &str = "redis://127.0.0.1:1";

const POLICY: &str = "
domain: edge
descriptors:
  - { key: local, on_store_failure: local, rate_limit: { rate: 4/day } }
  - { key: allow, on_store_failure: allow, rate_limit: { rate: 1/day } }
  - { key: known, on_store_failure: allow, rate_limit: { rate: 1/day } }
  - { key: deny, on_store_failure: deny, rate_limit: { rate: 100/day } }
  - { key: error, on_store_failure: error, rate_limit: { rate: 100/day } }
  - { key: silent, rate_limit: { rate: 100/day } }
---
domain: strict
defaults: { on_store_failure: error }
descriptors:
  - { key: silent, rate_limit: { rate: 100/day } }
  - { key: allow, on_store_failure: allow, rate_limit: { rate: 1/day } }
---
domain: old
compat: reference
descriptors:
  - { key: silent, rate_limit: { unit: day, requests_per_unit: 100 } }
";

/// The verdict on one hit on each key, and its cause; or the word that there is none.
fn decided(client: &Client, domain: &str, keys: &[&str]) -> String {
    let descriptors: Vec<_> = keys.iter().map(|key| format!("{key}=a")).collect();
    let descriptors: Vec<_> = descriptors.iter().map(String::as_str).collect();
    match client.send(request(domain, &descriptors)) {
        Ok(answer) => {
            let verdict = match answer.overall_code() {
                Code::Ok => "ok",
                Code::OverLimit => "over",
                Code::Unknown => "unknown",
            };
            format!("{verdict} {}", text(&answer, "cause"))
        }
        Err(status) => {
            assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
            String::from("unavailable")
        }
    }
}

fn member(answer: &RateLimitResponse, name: &str) -> Kind {
    let members = &answer.dynamic_metadata.as_ref().expect("metadata").fields;
    members[name].kind.clone().expect("a value")
}

fn text(answer: &RateLimitResponse, name: &str) -> String {
    match member(answer, name) {
        Kind::StringValue(text) => text,
        other => panic!("{other:?}"),
    }
}

fn header(answer: &RateLimitResponse, name: &str) -> Option<String> {
    let mut headers = answer.response_headers_to_add.iter();
    headers
        .find(|header| header.key == name)
        .map(|header| String::from_utf8_lossy(&header.value).into_owned())
}

/// What a metric without labels says.
fn number(comporta: &Comporta, metric: &str) -> u64 {
    let metrics = comporta.metrics();
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    value.expect(metric).parse().expect("a number")
}

#[test]
fn each_rule_goes_its_own_way_while_redis_is_gone_and_counts_in_it_again_after() {
    let mut redis = Redis::start();
    let mut comporta = Comporta::serve_text(
        POLICY,
        &["--store", &redis.url(), "--instances", "2", "--workers", "1"],
    );
    comporta.wait_for_store("edge", "local=nobody");
    let client = comporta.client();
    assert_eq!(decided(&client, "edge", &["deny", "known"]), "ok under_limit");
    assert_eq!(decided(&client, "edge", &["known"]), "over over_limit");
    let changes = number(&comporta, "comporta_degradations_total");

    redis.kill();
    for (domain, keys, expected) in [
        ("edge", &["allow"][..], "ok store_failed_open"),
        ("edge", &["allow"], "ok store_failed_open"),
        // Of this one it is not forgotten.
        ("edge", &["known"], "over over_limit"),
        ("edge", &["known", "error"], "over over_limit"),
        ("edge", &["deny"], "over store_failed_closed"),
        ("edge", &["error"], "unavailable"),
        ("edge", &["silent"], "ok under_limit"),
        // Half of it, for there are two.
        ("edge", &["local"], "ok under_limit"),
        ("edge", &["local", "deny"], "over store_failed_closed"),
        ("edge", &["local", "error"], "unavailable"),
        ("edge", &["local", "allow"], "ok store_failed_open"),
        ("edge", &["local"], "over over_limit"),
        ("edge", &["local", "allow"], "over over_limit"),
        ("strict", &["silent"], "unavailable"),
        ("strict", &["allow", "silent"], "unavailable"),
        ("strict", &["allow"], "ok store_failed_open"),
        ("old", &["silent"], "ok under_limit"),
    ] {
        assert_eq!(
            decided(&client, domain, keys),
            expected,
            "{domain} {keys:?}\n{}",
            comporta.printed()
        );
    }
    let allowed = client.ask("edge", &["allow=a"]);
    assert_eq!(member(&allowed, "degraded"), Kind::BoolValue(true));
    assert!(allowed.statuses[0].current_limit.is_none());
    let reason = header(&allowed, "x-comporta-degraded").expect("the header");
    assert!(["unreachable", "timeout"].contains(&&*reason), "{reason}");
    assert_eq!(header(&allowed, "ratelimit"), None);
    let denied = client.ask("edge", &["deny=a"]);
    assert_eq!(header(&denied, "retry-after"), None);
    assert!(String::from_utf8_lossy(&denied.raw_body).contains("cannot be checked"));
    let old = client.ask("old", &["silent=a"]);
    assert_eq!(member(&old, "degraded"), Kind::BoolValue(true));
    assert_eq!(header(&old, "x-comporta-degraded"), None);

    assert!(comporta.is_degraded());
    assert_eq!(number(&comporta, "comporta_instances"), 2);
    let open = r#"comporta_calls_total{domain="strict",cause="store_failed_open"} 1"#;
    assert!(comporta.metrics().contains(open), "{}", comporta.metrics());

    redis.restart();
    comporta.wait_for_store("edge", "local=nobody");
    assert!(redis.keys().is_empty(), "what was used meanwhile is not sent");
    let answer = client.ask("edge", &["local=a"]);
    assert_eq!(answer.statuses[0].limit_remaining, 3);
    assert_eq!(header(&answer, "x-comporta-degraded"), None);
    assert_eq!(member(&answer, "degraded"), Kind::BoolValue(false));
    assert_eq!(redis.keys().len(), 1);
    comporta.wait_for_line("deciding with the shared store again");
    // None of its own where calls failed before the store was first there, less than a minute before.
    let more = number(&comporta, "comporta_degradations_total") - changes;
    assert!(more <= 1 && changes + more >= 1, "{changes} and {more}");
}

#[test]
fn rules_that_do_not_say_do_as_the_process_is_told() {
    for (choice, expected) in [
        ("local", "ok under_limit"),
        ("allow", "ok store_failed_open"),
        ("deny", "over store_failed_closed"),
        ("error", "unavailable"),
    ] {
        let flags = ["--store", NOWHERE, "--on-store-failure", choice];
        let comporta = Comporta::serve_text(POLICY, &flags);
        let client = comporta.client();
        for domain in ["edge", "old"] {
            assert_eq!(
                decided(&client, domain, &["silent"]),
                expected,
                "{choice} {domain}"
            );
        }
        assert_eq!(decided(&client, "strict", &["silent"]), "unavailable", "{choice}");
        assert_eq!(
            decided(&client, "edge", &["deny"]),
            "over store_failed_closed",
            "{choice}"
        );
        assert!(comporta.is_degraded());
        // Some rule here decides by itself, whatever the others do.
        assert!(
            comporta.printed().contains("--instances"),
            "{}",
            comporta.printed()
        );
    }
}

#[test]
fn a_reload_changes_the_choice_from_the_next_call_on() {
    let policy = |choice: &str| {
        format!(
            "domain: edge\ndescriptors: [{{ key: a, on_store_failure: {choice}, rate_limit: {{ rate: 9/day }} }}]\n"
        )
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.yaml");
    fs::write(&file, policy("local")).expect("written");
    let comporta = Comporta::serve(&file, &["--store", NOWHERE]);
    let client = comporta.client();
    for (choice, expected) in [
        ("local", "ok under_limit"),
        ("deny", "over store_failed_closed"),
        ("error", "unavailable"),
        ("allow", "ok store_failed_open"),
        ("local", "ok under_limit"),
    ] {
        fs::write(&file, policy(choice)).expect("written");
        comporta.hang_up();
        poll(choice, || {
            (decided(&client, "edge", &["a"]) == expected).then_some(())
        });
    }
    assert_eq!(
        number(&comporta, "comporta_degradations_total"),
        1,
        "one outage, whatever held"
    );
}

#[test]
fn one_instance_lets_through_what_its_ceiling_says_and_no_more() {
    let flags = [
        "--store",
        NOWHERE,
        "--fallback-ceiling",
        "5/day",
        "--workers",
        "2",
    ];
    let comporta = Comporta::serve_text(POLICY, &flags);
    let clients = [comporta.client(), comporta.client()];
    let mut passed = 0;
    for call in 0..20 {
        let (client, key) = (&clients[call % 2], ["allow", "silent"][call / 2 % 2]);
        match &*decided(client, "edge", &[key]) {
            "ok store_failed_open" | "ok under_limit" => passed += 1,
            other => assert_eq!(other, "over ceiling"),
        }
    }
    assert_eq!(passed, 5);
    let answer = clients[0].ask("edge", &["silent=a"]);
    let wait = header(&answer, "retry-after").expect("a wait");
    assert!(wait.parse::<u64>().expect("seconds") > 1, "{wait}");
    assert!(answer.statuses[0].current_limit.is_none());
    assert_eq!(answer.statuses[0].code(), Code::OverLimit);
}

#[test]
fn callers_behind_an_envoy_are_told() {
    for (choice, status, degraded) in [
        ("allow", 200, Some("unreachable")),
        ("deny", 429, Some("unreachable")),
        // By the failure mode of the gateway, which is closed in tests.
        ("error", 500, None),
    ] {
        let flags = ["--store", NOWHERE, "--on-store-failure", choice];
        let comporta = Comporta::serve(repository("deploy/policy.yaml"), &flags);
        let envoy = Envoy::start("envoy-headers.yaml", &comporta);
        let answer = envoy.get("/v1/items", &[("x-client", "ana"), ("x-plan", "free")]);
        assert_eq!(
            (answer.status, answer.find("x-comporta-degraded")),
            (status, degraded),
            "{choice} {answer:#?}"
        );
        assert_eq!(answer.find("retry-after"), None);
        assert_eq!(answer.find("ratelimit"), None);
        assert_eq!(answer.body.contains("cannot be checked"), choice == "deny");
    }
}

#[test]
fn what_is_no_ceiling_ends_the_start() {
    for (ceiling, said) in [
        ("5000", "--fallback-ceiling: must be <count>/<period>"),
        ("0/second", "--on-store-failure deny"),
        ("1/11w", ""),
    ] {
        let flags = ["serve", "nowhere.yaml", "--fallback-ceiling", ceiling];
        let output = crate::harness::comporta::command(flags)
            .output()
            .expect("it starts");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(printed.contains(said), "{printed}");
        assert_eq!(
            output.status.code(),
            Some(if said.is_empty() { 1 } else { 2 }),
            "{printed}"
        );
    }
}

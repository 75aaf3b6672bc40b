//! Flags that hold for every rule, on the real server.

use comporta::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use comporta::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

use crate::harness::comporta::{Comporta, command, request};

const POLICY: &str = "
domain: edge
descriptors:
  - key: one
    rate_limit: { rate: 1/hour }
  - key: many
    rate_limit: { rate: 100/hour }
";

/// The overall code, then each descriptor's, with what is left.
fn shown(answer: &RateLimitResponse) -> (Code, Vec<(Code, u32)>) {
    let statuses = answer.statuses.iter();
    (
        answer.overall_code(),
        statuses
            .map(|status| (status.code(), status.limit_remaining))
            .collect(),
    )
}

fn both() -> RateLimitRequest {
    request("edge", &["one=a", "many=a"])
}

#[test]
fn under_shadow_nothing_is_refused_and_statuses_say_what_would_be() {
    let comporta = Comporta::serve_text(POLICY, &["--shadow"]);
    let client = comporta.client();
    let first = client.send(both()).expect("an answer");
    assert_eq!(shown(&first), (Code::Ok, vec![(Code::Ok, 0), (Code::Ok, 99)]));
    let second = client.send(both()).expect("an answer");
    assert_eq!(
        shown(&second),
        (Code::Ok, vec![(Code::OverLimit, 0), (Code::Ok, 98)]),
        "what fits is charged, beside what does not"
    );
    assert!(second.raw_body.is_empty());
    assert!(
        second.response_headers_to_add.is_empty(),
        "limits that are only watched are not shown"
    );
    let metrics = comporta.metrics();
    assert!(
        metrics.contains(r#"comporta_calls_total{domain="edge",cause="shadow"} 1"#),
        "{metrics}"
    );
}

#[test]
fn under_quota_a_request_is_refused_when_all_that_it_meets_is_spent() {
    let comporta = Comporta::serve_text(POLICY, &["--quota"]);
    let client = comporta.client();
    client.send(both()).expect("an answer");
    let second = client.send(both()).expect("an answer");
    assert_eq!(
        shown(&second),
        (Code::Ok, vec![(Code::OverLimit, 0), (Code::Ok, 98)])
    );
    let alone = client.ask("edge", &["one=a"]);
    assert_eq!(shown(&alone), (Code::OverLimit, vec![(Code::OverLimit, 0)]));
}

#[test]
fn the_three_headers_have_the_names_they_are_given() {
    let flags = [
        "--compat=reference",
        "--headers=draft03",
        "--header-limit=A-Limit",
        "--header-reset=A-Reset",
    ];
    let comporta = Comporta::serve_text(POLICY, &flags);
    let answer = comporta.client().ask("edge", &["many=a"]);
    let headers: Vec<_> = answer
        .response_headers_to_add
        .iter()
        .map(|header| String::from_utf8_lossy(&header.key).into_owned())
        .collect();
    assert_eq!(headers, ["A-Limit", "RateLimit-Remaining", "A-Reset"]);
}

#[test]
fn under_compat_hits_are_given_back_and_never_beyond_empty() {
    let comporta = Comporta::serve_text(POLICY, &["--compat=reference"]);
    let client = comporta.client();
    let ask = |hits, gives_back| {
        let mut request = request("edge", &["many=a"]);
        request.descriptors[0].hits_addend = Some(hits);
        request.descriptors[0].is_negative_hits = gives_back;
        let answer = client.send(request).expect("an answer");
        (answer.overall_code(), answer.statuses[0].limit_remaining)
    };
    assert_eq!(ask(98, false), (Code::Ok, 2));
    assert_eq!(ask(3, true).0, Code::Ok);
    assert_eq!(ask(0, false), (Code::Ok, 5));
    assert_eq!(ask(1000, true).0, Code::Ok);
    assert_eq!(ask(0, false), (Code::Ok, 100));
}

#[test]
fn flags_are_read_from_the_environment_and_a_mistake_ends_the_start() {
    for (name, value) in [("COMPORTA_SHADOW", "maybe"), ("COMPORTA_HEADER_LIMIT", "no name")] {
        let output = command(["serve", "nowhere.yaml"])
            .env(name, value)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(value), "{said}");
    }
}

#[test]
fn a_domain_that_no_policy_is_about_passes_or_is_an_error() {
    let elsewhere = || request("edgy", &["one=a"]);
    let lenient = Comporta::serve_text(POLICY, &[]);
    let passed = lenient.client().send(elsewhere()).expect("an answer");
    assert_eq!(passed.overall_code(), Code::Ok);
    let strict = Comporta::serve_text(POLICY, &["--unknown-domain", "error"]);
    let refused = strict.client().send(elsewhere()).expect_err("an error");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert_eq!(
        refused.message(),
        "no policy is about the domain `edgy`; there are: edge"
    );
    assert!(strict.client().send(both()).is_ok());
    for comporta in [lenient, strict] {
        let counted = r#"comporta_calls_total{domain="unknown",cause="unknown_domain"} 1"#;
        assert!(comporta.metrics().contains(counted), "{}", comporta.metrics());
    }
}

#[test]
fn a_store_that_is_full_says_so_once_and_counts_it() {
    let mut comporta = Comporta::serve_text(POLICY, &["--max-counters", "1"]);
    let client = comporta.client();
    // A counter in each of the shards and more.
    for caller in 0..300 {
        client.ask("edge", &[&format!("many={caller}")]);
    }
    comporta.wait_for_line("raise --max-counters");
    assert_eq!(comporta.printed().matches("raise --max-counters").count(), 1);
    let metrics = comporta.metrics();
    let shared = metrics
        .lines()
        .find_map(|line| line.strip_prefix("comporta_overflowed_counters_total "))
        .expect("the metric");
    assert!(shared.parse::<u32>().expect("a number") > 200, "{shared}");
}

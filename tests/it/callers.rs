//! What callers choose stays between them and their gateway: no label, no line of the log, no header is made of it, but
//! for the labels that a policy asks for.

use comporta::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use comporta::proto::envoy::service::ratelimit::v3::RateLimitResponse;

use crate::harness::comporta::{Comporta, admitted, request};

/// In every value that is sent.
const CHOSEN: &str = "ch0sen";

const POLICY: &str = "
domain: edge
plans:
  api: { default: { rate: 2/day } }
descriptors:
  - key: client
    rate_limit: { rate: 1/day }
    descriptors:
      - key: api_key
        counted: false
        rate_limit: { rate: 1/day }
      - key: plan
        rate_limit: { plan: api }
  - key: path
    value: /v1/*
    shadow_mode: true
    rate_limit: { rate: 1/day, algorithm: sliding_log }
  - key: open
    rate_limit: { unlimited: true }
";

const DESCRIPTORS: [&str; 7] = [
    "client=ch0sen",
    "client=ch0sen,api_key=ch0sen",
    "client=ch0sen,plan=ch0sen",
    "path=/v1/ch0sen",
    "path=ch0sen",
    "open=ch0sen",
    "nobody=ch0sen",
];

fn headers(answer: &RateLimitResponse) -> String {
    answer
        .response_headers_to_add
        .iter()
        .map(|header| {
            String::from_utf8_lossy(&[&header.key[..], b": ", &header.value, b"\n"].concat()).into_owned()
        })
        .collect()
}

#[test]
fn no_value_becomes_a_label_a_line_of_the_log_or_a_header() {
    let mut comporta = Comporta::serve_text(POLICY, &["--headers", "both"]);
    let client = comporta.client();
    let mut refused = 0;
    for descriptor in DESCRIPTORS {
        let mut plain = request("edge", &[descriptor]);
        let mut with_own_limit = plain.clone();
        with_own_limit.descriptors[0].limit = Some(RateLimitOverride {
            unit: 99,
            ..RateLimitOverride::default()
        });
        let once = client.send(plain.clone()).expect("an answer");
        // More than any of the limits holds.
        plain.descriptors[0].hits_addend = Some(3);
        let too_many = client.send(plain).expect("an answer");
        let own = client.send(with_own_limit).expect("an answer");
        for answer in [once, too_many, own] {
            refused += u32::from(!admitted(&answer));
            let headers = headers(&answer);
            assert!(!headers.contains(CHOSEN), "{descriptor}: {headers}");
        }
    }
    assert!(refused >= 3, "{refused} refusals");
    let metrics = comporta.metrics();
    assert!(metrics.contains("rule=\"path=/v1/*\""), "{metrics}");
    assert!(!metrics.contains(CHOSEN), "{metrics}");
    comporta.wait_for_line("refused for size");
    let printed = comporta.printed();
    assert!(!printed.contains(CHOSEN), "{printed}");
}

#[test]
fn only_a_policy_that_asks_for_it_makes_labels_of_values() {
    let policy = POLICY.replace(
        "    shadow_mode: true\n",
        "    shadow_mode: true\n    detailed_metric: true\n",
    );
    let comporta = Comporta::serve_text(&policy, &[]);
    let client = comporta.client();
    for descriptor in DESCRIPTORS {
        client.ask("edge", &[descriptor]);
    }
    let metrics = comporta.metrics();
    let told: Vec<_> = metrics.lines().filter(|line| line.contains(CHOSEN)).collect();
    let by_value = r#"comporta_decisions_by_value_total{domain="edge",rule="path=/v1/ch0sen",verdict="#;
    let expected =
        [("ok", 1), ("over_limit", 0)].map(|(verdict, count)| format!("{by_value}\"{verdict}\"}} {count}"));
    assert_eq!(told, expected);
}

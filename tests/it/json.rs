//! `/json` and `/healthcheck` on the operators' port: what scripts and probes of the reference rely on.

use serde_json::{Value, json};

use crate::harness::comporta::{Comporta, request};
use crate::harness::http::{self, Response};
use crate::harness::process::poll;

const POLICY: &str = "
domain: d
compat: reference
descriptors:
  - key: k
    rate_limit: { unit: day, requests_per_unit: 3 }
";

/// One hit on `k=v`.
const ASK: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;

fn post(comporta: &Comporta, body: impl AsRef<[u8]>) -> Response {
    http::send("POST", comporta.admin(), "/json", body)
}

fn json(response: &Response) -> Value {
    assert_eq!(response.header("content-type"), "application/json");
    serde_json::from_str(&response.body).unwrap_or_else(|error| panic!("{error}: {response:?}"))
}

fn is_bad_request(response: &Response) {
    assert_eq!(
        (response.status, response.body.as_str()),
        (400, "Bad Request\n"),
        "{response:?}"
    );
    assert_eq!(response.header("content-type"), "text/plain; charset=utf-8");
}

/// With the time until reset, which the test cannot know, taken out.
fn without_reset(mut answer: Value) -> Value {
    let reset = answer["statuses"][0]
        .as_object_mut()
        .and_then(|status| status.remove("durationUntilReset"))
        .expect("a time until reset");
    let seconds = reset.as_str().and_then(|text| text.strip_suffix('s'));
    assert!(
        seconds.is_some_and(|seconds| seconds.parse::<u32>().is_ok()),
        "{reset}"
    );
    answer
        .as_object_mut()
        .expect("an object")
        .remove("dynamicMetadata");
    answer
}

#[test]
fn it_answers_as_the_gateways_side_does_and_counts_the_same() {
    let comporta = Comporta::serve_text(POLICY, &[]);
    let limit = json!({ "requestsPerUnit": 3, "unit": "DAY" });
    let first = post(&comporta, ASK);
    assert_eq!(first.status, 200);
    assert_eq!(
        without_reset(json(&first)),
        json!({
            "overallCode": "OK",
            "statuses": [{ "code": "OK", "currentLimit": limit, "limitRemaining": 2 }],
        })
    );
    assert_eq!(
        comporta.client().ask("d", &["k=v"]).statuses[0].limit_remaining,
        1
    );
    // Any method does, and one whose answer has no body counts, too.
    let head = http::send("HEAD", comporta.admin(), "/json", ASK);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for method in ["GET", "PUT", "DELETE", "POST"] {
        let refused = http::send(method, comporta.admin(), "/json", ASK);
        assert_eq!(refused.status, 429, "{method}");
        assert_eq!(
            without_reset(json(&refused)),
            json!({
                "overallCode": "OVER_LIMIT",
                "statuses": [{ "code": "OVER_LIMIT", "currentLimit": limit }],
            })
        );
    }
    let unmatched = post(&comporta, ASK.replace("\"k\"", "\"other\""));
    assert_eq!(json(&unmatched)["statuses"], json!([{ "code": "OK" }]));
    let metrics = comporta.metrics();
    assert!(
        metrics.contains(r#"comporta_calls_total{domain="d",cause="over_limit"} 4"#),
        "{metrics}"
    );
}

#[test]
fn both_spellings_are_read_and_hits_as_number_or_text() {
    let comporta = Comporta::serve_text(&POLICY.replace("unit: 3", "unit: 100"), &[]);
    let left = |member: &str| {
        let answer = post(&comporta, ASK.replace("}]}]", &format!("}}],{member}}}]")));
        json(&answer)["statuses"][0]["limitRemaining"].clone()
    };
    assert_eq!(left(r#""hits_addend":10"#), 90);
    assert_eq!(left(r#""hitsAddend":"20""#), 70);
    assert_eq!(left(r#""hitsAddend":0"#), 70, "a look");
    assert_eq!(left(r#""limit":{"requestsPerUnit":40,"unit":"DAY"}"#), 9);
}

#[test]
fn what_is_no_question_is_a_bad_request_without_a_reason() {
    let comporta = Comporta::serve_text(POLICY, &[]);
    for method in ["POST", "GET", "DELETE"] {
        is_bad_request(&http::send(method, comporta.admin(), "/json", ""));
    }
    for body in [
        "}",
        "null",
        "[]",
        "{}",
        r#"{"domain":"d"}"#,
        r#"{"domain":"","descriptors":[{}]}"#,
        r#"{"domain":"d","descriptors":[{"entries":[],"isNegativeHits":true}]}"#,
        r#"{"domain":"d","descriptors":[{"hitsAddend":-1}]}"#,
        r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"\ud800"}]}]}"#,
    ] {
        is_bad_request(&post(&comporta, body));
    }
    is_bad_request(&post(&comporta, vec![b' '; (8 << 20) + 1]));
    for path in ["/json/", "/jsons", "/"] {
        assert_eq!(
            http::send("POST", comporta.admin(), path, ASK).status,
            404,
            "{path}"
        );
    }
}

#[test]
fn a_store_that_cannot_decide_is_said_at_once() {
    let flags = ["--store", "redis://127.0.0.1:1", "--on-store-failure", "error"];
    let comporta = Comporta::serve_text(POLICY, &flags);
    let answer = post(&comporta, ASK);
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(post(&comporta, ASK.replace("\"k\"", "\"other\"")).status, 200);
    assert!(
        comporta.client().send(request("d", &["k=v"])).is_err(),
        "the gateways' side says so, too"
    );
}

#[test]
fn healthcheck_is_ok_until_no_calls_are_wanted() {
    let mut comporta = Comporta::serve_text(POLICY, &["--drain", "20s"]);
    let check = || http::get::<&str>(comporta.admin(), "/healthcheck", &[]);
    let fine = check();
    assert_eq!((fine.status, fine.body.as_str()), (200, "OK"));
    comporta.terminate();
    poll("the end of health", || (check().status == 500).then_some(()));
    assert_eq!(
        post(&comporta, ASK).status,
        200,
        "calls that still come are answered"
    );
    comporta.kill();
}

//! What is answered while the shared store cannot decide.

use super::*;
use crate::domain::check::OnStoreFailure;
use crate::domain::descriptor::Override;
use crate::domain::limit::{Algorithm, LimitSpec, Period, Unit};
use crate::store::StoreObserver;
use crate::store::fallback::{Fallback, Standby};
use crate::store::instances::Instances;
use crate::store::memory::Memory;

const POLICY: &str = "
domain: edge
descriptors:
  - { key: local, on_store_failure: local, rate_limit: { rate: 2/hour } }
  - { key: allow, on_store_failure: allow, advice: Buy more., rate_limit: { rate: 1/hour } }
  - { key: deny, on_store_failure: deny, advice: Buy more., rate_limit: { rate: 60/minute } }
  - { key: error, on_store_failure: error, rate_limit: { rate: 1/hour } }
  - { key: silent, rate_limit: { rate: 1/hour } }
  - { key: watched, shadow_mode: true, on_store_failure: deny, rate_limit: { rate: 1/hour } }
---
domain: old
compat: reference
descriptors:
  - { key: silent, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: deny, on_store_failure: deny, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: allow, on_store_failure: allow, rate_limit: { unit: hour, requests_per_unit: 1 } }
---
domain: denied
defaults: { on_store_failure: deny }
descriptors:
  - { key: silent, rate_limit: { rate: 1/hour } }
  - { key: allow, on_store_failure: allow, rate_limit: { rate: 1/hour } }
---
domain: denied-old
compat: reference
defaults: { on_store_failure: deny }
descriptors: []
";

#[derive(Clone, Copy)]
struct Gone;

impl Store for Gone {
    async fn decide(&self, _: &Group<'_>, _: Timestamp, _: Instant) -> Result<Decisions, StoreError> {
        Err(StoreError::Unreachable {
            endpoint: String::from("nowhere"),
            reason: String::from("gone"),
        })
    }
}

struct Deaf;

impl StoreObserver for Deaf {}

/// A limiter of [`POLICY`] whose store is gone.
struct Without {
    limiter: Limiter<Fallback<Gone>, ManualClock>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Without {
    fn new() -> Self {
        Self::with(OnStoreFailure::Local, None)
    }

    fn with(usual: OnStoreFailure, ceiling: Option<Limit>) -> Self {
        let local = Memory::new(1000, Arc::new(Deaf));
        let standby = Standby::new(local, Instances::default(), ceiling, Arc::new(Deaf));
        let notes = Notes::default();
        let written = Arc::clone(&notes.0);
        let limiter = Limiter::new(
            0,
            Arc::new(Policies::new(policies(POLICY), Arc::new(notes))),
            Fallback::new(Gone, Arc::new(standby)),
            ManualClock::at(Timestamp::from_micros(1_790_000_000_000_000)),
            Keys::new("test"),
            LimiterOptions {
                headers: Some(HeaderStyle::Both),
                on_store_failure: usual,
                ..LimiterOptions::default()
            },
        );
        Self {
            limiter,
            notes: written,
        }
    }

    async fn ask(&self, domain: &'static str, keys: &[&str]) -> Result<Answer, StoreError> {
        let descriptors: Vec<_> = keys.iter().map(|key| format!("{key}=a")).collect();
        let descriptors: Vec<_> = descriptors.iter().map(|text| (&**text, ONE)).collect();
        self.limiter
            .decide(&request(domain, &descriptors), Instant::now())
            .await
    }

    async fn answer(&self, domain: &'static str, keys: &[&str]) -> Answer {
        self.ask(domain, keys).await.expect("an answer")
    }
}

fn names(answer: &Answer) -> Vec<String> {
    let headers = answer.headers.iter();
    headers.map(|header| header.name.to_string()).collect()
}

fn body(answer: &Answer) -> serde_json::Value {
    serde_json::from_str(answer.body.as_deref().expect("a body")).expect("JSON")
}

/// Says of a descriptor that nobody knows its figures.
fn unknown(verdict: Verdict) -> Status {
    Status {
        verdict,
        ..Status::UNTOUCHED
    }
}

#[tokio::test]
async fn what_is_decided_here_shows_its_share_and_that_it_is_degraded() {
    let answer = Without::new().answer("edge", &["local"]).await;
    assert_eq!((answer.cause, answer.degraded), (Cause::UnderLimit, true));
    assert_eq!(answer.statuses[0].remaining, 1);
    assert_eq!(header(&answer, "x-comporta-degraded"), Some("unreachable"));
    assert!(header(&answer, "ratelimit").is_some());
}

#[tokio::test]
async fn what_is_let_through_has_a_cause_of_its_own_and_no_figures() {
    let without = Without::new();
    for _ in 0..3 {
        let answer = without.answer("edge", &["allow"]).await;
        assert_eq!(
            (answer.verdict, answer.cause),
            (Verdict::UnderLimit, Cause::StoreFailedOpen)
        );
        assert_eq!(answer.statuses[0], unknown(Verdict::UnderLimit));
        assert_eq!(names(&answer), ["x-comporta-degraded"]);
        assert_eq!(answer.rule.as_deref(), Some("allow"));
    }
    assert_eq!(
        without.notes.lock()[..2],
        ["Some(2) store_failed_open", "allow UnderLimit"]
    );
    let both = without.answer("edge", &["allow", "local"]).await;
    assert_eq!(both.cause, Cause::StoreFailedOpen);
    assert_eq!(
        both.rule.as_deref(),
        Some("local"),
        "of this one something is known"
    );
    let shown = header(&both, "ratelimit").expect("the other limit");
    assert!(
        shown.starts_with(r#""local";r=1"#) && !shown.contains("allow"),
        "{shown}"
    );
}

#[tokio::test]
async fn what_is_denied_is_told_that_nobody_knows() {
    let without = Without::new();
    let answer = without.answer("edge", &["deny"]).await;
    assert_eq!(
        (answer.verdict, answer.cause),
        (Verdict::OverLimit, Cause::StoreFailedClosed)
    );
    assert_eq!(answer.statuses[0], unknown(Verdict::OverLimit));
    assert_eq!(names(&answer), ["x-comporta-degraded", "content-type"]);
    assert_eq!(
        body(&answer),
        serde_json::json!({
            "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "title": "Temporarily reduced capacity",
            "status": 429,
            "detail": "The limit deny (60 per minute) cannot be checked at the moment. Try again shortly.",
        })
    );
    assert_eq!(
        *without.notes.lock(),
        ["Some(2) store_failed_closed", "deny OverLimit"]
    );
}

#[tokio::test]
async fn beside_what_is_spent_the_wait_is_the_one_that_is_known() {
    let without = Without::new();
    for _ in 0..2 {
        without.answer("edge", &["local"]).await;
    }
    let answer = without.answer("edge", &["local", "deny"]).await;
    assert_eq!(answer.cause, Cause::OverLimit);
    assert_eq!(answer.rule.as_deref(), Some("local"));
    let body = body(&answer);
    assert_eq!(body["violated-policies"], serde_json::json!(["local"]));
    assert_eq!(body["limit"], 2);
    let wait = header(&answer, "retry-after").expect("a wait");
    assert_eq!(body["retry_after"].to_string(), wait);
    assert!(wait.parse::<u64>().expect("seconds") >= 1_800, "{wait}");
}

#[tokio::test]
async fn a_denied_request_charges_nobody() {
    let without = Without::new();
    let answer = without.answer("edge", &["local", "deny"]).await;
    assert_eq!(answer.statuses[0].remaining, 2);
    assert_eq!(answer.statuses[0].verdict, Verdict::UnderLimit);
}

#[tokio::test]
async fn one_check_that_asks_for_an_error_makes_the_whole_request_one() {
    let without = Without::new();
    for keys in [&["error"][..], &["local", "allow", "deny", "error"]] {
        without.ask("edge", keys).await.expect_err("an error");
    }
    assert_eq!(*without.notes.lock(), ["Some(2) store_failed"; 2]);
}

#[tokio::test]
async fn a_rule_that_is_only_watched_refuses_nobody() {
    let without = Without::new();
    let answer = without.answer("edge", &["watched"]).await;
    assert_eq!(
        (answer.verdict, answer.cause),
        (Verdict::UnderLimit, Cause::Shadow)
    );
    assert_eq!(answer.statuses[0], unknown(Verdict::UnderLimit));
    assert_eq!(without.notes.lock().last().expect("a note"), "watched in shadow");
}

#[tokio::test]
async fn a_rule_that_is_silent_goes_by_its_domain_and_then_by_the_process() {
    for usual in OnStoreFailure::ALL {
        let without = Without::with(usual, None);
        let passes = match usual {
            OnStoreFailure::Local | OnStoreFailure::Allow => Some(Verdict::UnderLimit),
            OnStoreFailure::Deny => Some(Verdict::OverLimit),
            OnStoreFailure::Error => None,
        };
        for domain in ["edge", "old"] {
            let answer = without.ask(domain, &["silent"]).await.ok();
            assert_eq!(answer.map(|answer| answer.verdict), passes, "{usual:?} {domain}");
        }
        let answer = without.answer("denied", &["silent"]).await;
        assert_eq!(answer.cause, Cause::StoreFailedClosed, "{usual:?}");
        let answer = without.answer("denied", &["allow"]).await;
        assert_eq!(answer.cause, Cause::StoreFailedOpen, "{usual:?}");
    }
}

#[tokio::test]
async fn a_limit_of_the_requests_own_keeps_the_choice_of_the_rule_or_the_domain() {
    let without = Without::new();
    for (domain, key, cause) in [
        ("edge", "deny", Cause::StoreFailedClosed),
        ("edge", "allow", Cause::StoreFailedOpen),
        ("edge", "elsewhere", Cause::UnderLimit),
        ("denied", "elsewhere", Cause::StoreFailedClosed),
        ("old", "deny", Cause::StoreFailedClosed),
        ("denied-old", "elsewhere", Cause::StoreFailedClosed),
    ] {
        let text = format!("{key}=a");
        let mut request = request(domain, &[(&text, ONE)]);
        request.descriptors[0].limit = Some(Override {
            count: 5,
            period: Period::one(Unit::Hour),
        });
        let answer = without.limiter.decide(&request, Instant::now()).await;
        assert_eq!(answer.expect("an answer").cause, cause, "{domain} {key}");
    }
}

#[tokio::test]
async fn under_compat_no_header_is_ours() {
    let without = Without::new();
    let three = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
    for (key, cause, headers) in [
        ("silent", Cause::UnderLimit, &three[..]),
        ("allow", Cause::StoreFailedOpen, &[]),
        ("deny", Cause::StoreFailedClosed, &[]),
    ] {
        let answer = without.answer("old", &[key]).await;
        assert_eq!((answer.cause, answer.degraded), (cause, true));
        assert_eq!(names(&answer), headers, "{key}");
        assert!(answer.body.is_none());
    }
}

#[tokio::test]
async fn above_the_ceiling_a_caller_is_told_when_there_is_room_again() {
    let ceiling = Limit::new(LimitSpec {
        name: Arc::from("ceiling"),
        named: true,
        count: 1,
        period: Period {
            unit: Unit::Second,
            multiplier: 5,
        },
        algorithm: Algorithm::TokenBucket,
        burst: None,
        delay: Micros::ZERO,
        calendar: false,
    });
    let without = Without::with(OnStoreFailure::Local, Some(ceiling.expect("a sound limit")));
    assert_eq!(
        without.answer("edge", &["allow"]).await.cause,
        Cause::StoreFailedOpen
    );
    let answer = without.answer("edge", &["local", "watched"]).await;
    assert_eq!(
        (answer.verdict, answer.cause),
        (Verdict::OverLimit, Cause::Ceiling)
    );
    assert_eq!(
        answer.statuses[0],
        Status {
            retry_after: Some(Micros::from_secs(5)),
            ..unknown(Verdict::OverLimit)
        }
    );
    assert_eq!(
        names(&answer),
        ["x-comporta-degraded", "retry-after", "content-type"]
    );
    let wait = header(&answer, "retry-after").expect("a wait");
    let seconds = if wait == "5" { "5 seconds" } else { "6 seconds" };
    assert_eq!(
        body(&answer),
        serde_json::json!({
            "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "title": "Temporarily reduced capacity",
            "status": 429,
            "detail": format!("Less than usual is let through at the moment. Try again in {seconds}."),
            "retry_after": wait.parse::<u64>().expect("seconds"),
        })
    );
}

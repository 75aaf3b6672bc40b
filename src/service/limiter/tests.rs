mod degraded;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::*;
use crate::clock::ManualClock;
use crate::domain::check::{Check, Group};
use crate::domain::descriptor::{Descriptor, Entry};
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;
use crate::domain::verdict::Reason;
use crate::policy::{Policy, PolicySet};
use crate::service::observer::Observer;

const POLICY: &str = "
domain: edge
plans:
  api:
    free: { rate: 60/minute, burst: 10 }
    pro: { rate: 600/minute, burst: 90 }
    default: free
descriptors:
  - key: client
    descriptors:
      - key: plan
        rate_limit: { plan: api }
  - key: address
    rate_limit: { name: by-address, rate: 20/minute }
  - key: watched
    shadow_mode: true
    rate_limit: { rate: 1/hour }
  - key: free
    rate_limit: { unlimited: true }
  - key: route
    value_to_metric: true
    rate_limit: { rate: 5/minute }
";

/// One check as a store saw it.
type Seen = (String, Hits);

/// Decides each check by the name of its limit, and remembers what it was asked.
#[derive(Clone)]
struct Fake {
    decide: Arc<dyn Fn(&Check<'_>) -> Decision + Send + Sync>,
    fails: bool,
    groups: Arc<Mutex<Vec<Vec<Seen>>>>,
}

impl Store for Fake {
    async fn decide(&self, group: &Group<'_>, _: Timestamp, _: Instant) -> Result<Decisions, StoreError> {
        self.groups.lock().push(
            group
                .checks
                .iter()
                .map(|check| (check.limit.name().to_string(), check.hits))
                .collect(),
        );
        if self.fails {
            return Err(StoreError::Timeout {
                budget: Duration::from_millis(10),
            });
        }
        let checks: smallvec::SmallVec<_> = group.checks.iter().map(|check| (self.decide)(check)).collect();
        let refused = group
            .checks
            .iter()
            .zip(&checks)
            .any(|(check, decision): (_, &Decision)| {
                check.binding == Binding::Always && decision.verdict == Verdict::OverLimit
            });
        Ok(Decisions {
            checks,
            refused,
            ..Decisions::default()
        })
    }
}

/// Writes down what it is told.
#[derive(Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Observer for Notes {
    fn opens(&self, _: u64, policies: &[&Policy]) -> Vec<Arc<dyn Tally>> {
        let rules = policies
            .iter()
            .map(|policy| policy.rules().iter().chain([policy.overrides()]))
            .map(|rules| rules.map(|rule| rule.path.to_string()).collect());
        vec![Arc::new(NotesOfCore {
            notes: Arc::clone(&self.0),
            rules: rules.collect(),
        })]
    }

    fn overrides_ignored(&self, _: u32) {}
}

struct NotesOfCore {
    notes: Arc<Mutex<Vec<String>>>,
    rules: Vec<Vec<String>>,
}

impl Tally for NotesOfCore {
    fn called(&self, domain: Option<usize>, cause: Cause) {
        self.notes.lock().push(format!("{domain:?} {}", cause.name()));
    }

    fn decided(&self, domain: usize, rule: usize, verdict: Verdict) {
        self.notes
            .lock()
            .push(format!("{} {verdict:?}", self.rules[domain][rule]));
    }

    fn decided_by_value(&self, _: usize, path: &str, verdict: Verdict) {
        self.notes.lock().push(format!("{path} {verdict:?} by value"));
    }

    fn shadow_refused(&self, domain: usize, rule: usize) {
        self.notes
            .lock()
            .push(format!("{} in shadow", self.rules[domain][rule]));
    }

    fn refused_for_size(&self, domain: usize, rule: usize) {
        self.notes
            .lock()
            .push(format!("{} in shadow", self.rules[domain][rule]));
    }
}

fn fits(remaining: u64) -> Decision {
    Decision {
        verdict: Verdict::UnderLimit,
        reason: Reason::Fits,
        remaining,
        retry_after: None,
        next_after: Some(Micros::SECOND),
        reset_after: Micros::new(1_500_000),
        delay: Micros::ZERO,
    }
}

fn spent(retry_after: Option<Micros>) -> Decision {
    let reason = if retry_after.is_some() {
        Reason::Spent
    } else {
        Reason::TooManyHits
    };
    Decision {
        verdict: Verdict::OverLimit,
        reason,
        remaining: 0,
        retry_after,
        ..fits(0)
    }
}

/// A limiter of [`POLICY`] over a fake store.
struct Bench {
    limiter: Limiter<Fake, ManualClock>,
    store: Fake,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new(decide: impl Fn(&str) -> Decision + Send + Sync + 'static) -> Self {
        Self::of(POLICY, decide)
    }

    fn of(policy: &str, decide: impl Fn(&str) -> Decision + Send + Sync + 'static) -> Self {
        let decide = Arc::new(move |check: &Check<'_>| decide(check.limit.name()));
        let store = Fake {
            decide,
            fails: false,
            groups: Arc::default(),
        };
        let notes = Notes::default();
        let written = Arc::clone(&notes.0);
        let policies = Arc::new(Policies::new(policies(policy), Arc::new(notes)));
        let clock = ManualClock::at(Timestamp::from_micros(1_000_000));
        let keys = Keys::new("test");
        let limiter = Limiter::new(0, policies, store.clone(), clock, keys, LimiterOptions::default());
        Self {
            limiter,
            store,
            notes: written,
        }
    }

    async fn ask(&self, descriptors: &[(&str, Hits)]) -> Answer {
        let deadline = Instant::now() + Duration::from_secs(1);
        self.limiter
            .decide(&request("edge", descriptors), deadline)
            .await
            .expect("an answer")
    }

    fn groups(&self) -> Vec<Vec<Seen>> {
        std::mem::take(&mut self.store.groups.lock())
    }

    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock())
    }
}

fn policies(text: &str) -> PolicySet {
    PolicySet::parse(&[("policy.yaml", text)]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn request<'a>(domain: &'a str, descriptors: &[(&'a str, Hits)]) -> Request<'a> {
    let entry = |text: &'a str| {
        let (key, value) = text.split_once('=').expect("a key and a value");
        Entry::new(key, value)
    };
    let descriptor = |&(text, hits): &(&'a str, Hits)| Descriptor {
        entries: text
            .split(',')
            .filter(|part| !part.is_empty())
            .map(entry)
            .collect(),
        hits,
        limit: None,
    };
    Request {
        domain: domain.as_bytes(),
        descriptors: descriptors.iter().map(descriptor).collect(),
    }
}

const ONE: Hits = Hits::Take(1);

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer
        .headers
        .iter()
        .find(|header| header.name == name)
        .map(|header| header.value.as_str())
}

#[tokio::test]
async fn what_nothing_limits_passes_without_asking_the_store() {
    let bench = Bench::new(|_| fits(1));
    for (descriptors, cause) in [
        (&[("other=a", ONE)][..], Cause::NoRule),
        (&[("client=a", ONE)], Cause::NoRule),
        (&[("", ONE)], Cause::NoEntries),
        (&[("free=a", ONE), ("other=a", ONE), ("", ONE)], Cause::Unlimited),
    ] {
        let answer = bench.ask(descriptors).await;
        assert_eq!((answer.verdict, answer.cause), (Verdict::UnderLimit, cause));
        let expected = descriptors.iter().map(|(text, _)| {
            if text.starts_with("free") {
                Status::UNLIMITED
            } else {
                Status::UNTOUCHED
            }
        });
        assert_eq!(answer.statuses.to_vec(), expected.collect::<Vec<_>>());
        assert!(answer.headers.is_empty() && answer.body.is_none());
    }
    assert!(bench.groups().is_empty());
    assert_eq!(bench.notes().last().map(String::as_str), Some("free UnderLimit"));
}

#[tokio::test]
async fn a_domain_that_no_policy_is_about_passes_and_is_counted_apart() {
    let bench = Bench::new(|_| fits(1));
    let request = request("other", &[("client=a,plan=free", ONE)]);
    let answer = bench
        .limiter
        .decide(&request, Instant::now())
        .await
        .expect("an answer");
    assert_eq!(
        (answer.verdict, answer.cause),
        (Verdict::UnderLimit, Cause::UnknownDomain)
    );
    assert_eq!(bench.notes(), ["None unknown_domain"]);
}

#[tokio::test]
async fn an_admitted_caller_sees_what_is_left() {
    let bench = Bench::new(|_| fits(9));
    let answer = bench.ask(&[("client=a,plan=free", ONE)]).await;
    assert_eq!(
        (answer.verdict, answer.cause),
        (Verdict::UnderLimit, Cause::UnderLimit)
    );
    let status = &answer.statuses[0];
    assert_eq!(
        (status.verdict, status.remaining, status.reset_secs()),
        (Verdict::UnderLimit, 9, Some(2))
    );
    assert_eq!(
        status.limit.as_ref().map(|limit| (&*limit.name, limit.count)),
        Some(("client/plan", 60))
    );
    assert_eq!(header(&answer, "ratelimit"), Some(r#""client/plan";r=9;t=1"#));
    assert_eq!(header(&answer, "retry-after"), None);
    assert_eq!(answer.body, None);
    assert_eq!(bench.notes(), ["Some(0) under_limit", "client/plan UnderLimit"]);
}

#[tokio::test]
async fn a_refused_caller_hears_which_limit_and_when_to_come_back() {
    let bench = Bench::new(|name| {
        if name == "by-address" {
            spent(Some(Micros::from_secs(10)))
        } else {
            fits(5)
        }
    });
    let answer = bench
        .ask(&[("client=a,plan=free", ONE), ("address=::1", ONE)])
        .await;
    assert_eq!(
        (answer.verdict, answer.cause),
        (Verdict::OverLimit, Cause::OverLimit)
    );
    assert_eq!(
        (answer.rule.as_deref(), answer.deciding),
        (Some("address"), Some(1))
    );
    // What fits in a refused request shows its room, uncharged.
    assert_eq!(
        (answer.statuses[0].verdict, answer.statuses[0].remaining),
        (Verdict::UnderLimit, 5)
    );
    let refused = &answer.statuses[1];
    assert_eq!(
        (refused.verdict, refused.remaining, refused.reset_secs()),
        (Verdict::OverLimit, 0, Some(10))
    );
    let retry_after: u64 = header(&answer, "retry-after")
        .expect("a wait")
        .parse()
        .expect("seconds");
    assert!((10..=12).contains(&retry_after));
    assert_eq!(header(&answer, "content-type"), Some("application/problem+json"));
    assert!(
        answer
            .body
            .expect("a body")
            .contains(r#""violated-policies":["by-address"]"#)
    );
}

#[tokio::test]
async fn what_was_not_looked_at_shows_no_budget_and_counts_for_nothing() {
    const POLICY: &str = "
domain: edge
descriptors:
  - { key: address, rate_limit: { rate: 20/minute } }
  - { key: route, value_to_metric: true, metadata: { tier: 1 }, rate_limit: { rate: 5/minute } }
  - key: both
    metadata: { tier: 2 }
    rate_limits:
      - { rate: 5/minute }
      - { rate: 9/day }
";
    let bench = Bench::of(POLICY, |name| match name {
        "address" | "both:minute" => spent(Some(Micros::from_secs(10))),
        _ => Decision::NOT_ASKED,
    });
    let answer = bench
        .ask(&[("route=a", ONE), ("address=::1", ONE), ("both=a", ONE)])
        .await;
    assert_eq!(answer.statuses[0], Status::UNTOUCHED);
    let shown = |status: &Status| status.limit.as_ref().map(|limit| limit.name.clone());
    assert_eq!(shown(&answer.statuses[1]).as_deref(), Some("address"));
    assert_eq!(shown(&answer.statuses[2]).as_deref(), Some("both:minute"));
    assert_eq!(answer.deciding, Some(1));
    assert!(answer.metadata.is_empty());
    assert_eq!(
        header(&answer, "ratelimit-policy"),
        Some(r#""address";q=20;w=60, "both:minute";q=5;w=60"#)
    );
    let body = answer.body.expect("a body");
    assert!(
        body.contains(r#""violated-policies":["address","both:minute"]"#),
        "{body}"
    );
    assert_eq!(
        bench.notes(),
        ["Some(0) over_limit", "address OverLimit", "both OverLimit"]
    );
}

#[tokio::test]
async fn a_call_that_never_can_pass_is_not_told_to_wait() {
    let bench = Bench::new(|_| spent(None));
    let answer = bench.ask(&[("client=a,plan=free", Hits::Take(1000))]).await;
    assert_eq!(answer.verdict, Verdict::OverLimit);
    assert_eq!(header(&answer, "retry-after"), None);
    assert!(answer.body.expect("a body").contains("Waiting does not help."));
}

#[tokio::test]
async fn a_watched_rule_shows_ok_refuses_nobody_and_is_in_no_header() {
    let bench = Bench::new(|name| {
        if name == "watched" {
            spent(Some(Micros::HOUR))
        } else {
            fits(3)
        }
    });
    let answer = bench.ask(&[("watched=a", ONE)]).await;
    assert_eq!(
        (answer.verdict, answer.cause),
        (Verdict::UnderLimit, Cause::Shadow)
    );
    assert_eq!(answer.statuses[0].verdict, Verdict::UnderLimit);
    assert!(answer.headers.is_empty() && answer.body.is_none());
    assert_eq!(
        bench.notes(),
        ["Some(0) shadow", "watched UnderLimit", "watched in shadow"]
    );
    let answer = bench.ask(&[("watched=a", ONE), ("address=a", ONE)]).await;
    assert_eq!(header(&answer, "ratelimit"), Some(r#""by-address";r=3;t=1"#));
}

#[tokio::test]
async fn a_counter_that_is_named_twice_is_charged_once_with_the_larger_hits() {
    let bench = Bench::new(|_| fits(3));
    let answer = bench
        .ask(&[
            ("address=a", ONE),
            ("address=b", ONE),
            ("address=a", Hits::Take(3)),
            ("address=a", Hits::LOOK),
        ])
        .await;
    assert_eq!(answer.statuses.len(), 4);
    let name = || String::from("by-address");
    assert_eq!(bench.groups(), [[(name(), Hits::Take(3)), (name(), ONE)]]);
    // One line about one name.
    assert_eq!(header(&answer, "ratelimit"), Some(r#""by-address";r=3;t=1"#));
}

#[tokio::test]
async fn what_is_given_back_comes_first_as_a_check_of_its_own() {
    let bench = Bench::new(|_| fits(3));
    let give_back = Hits::GiveBack(2);
    bench
        .ask(&[
            ("client=a,plan=free", ONE),
            ("address=a", ONE),
            ("address=a", give_back),
        ])
        .await;
    let name = String::from;
    assert_eq!(
        bench.groups(),
        [[
            (name("by-address"), give_back),
            (name("client/plan"), ONE),
            (name("by-address"), ONE)
        ]]
    );
}

#[tokio::test]
async fn a_client_under_two_plans_is_held_to_the_smaller() {
    let bench = Bench::new(|_| fits(3));
    for descriptors in [
        ["client=a,plan=pro", "client=a,plan=free"],
        ["client=a,plan=free", "client=a,plan=pro"],
    ] {
        let answer = bench.ask(&descriptors.map(|descriptor| (descriptor, ONE))).await;
        assert_eq!(bench.groups()[0].len(), 1);
        assert_eq!(
            header(&answer, "ratelimit-policy"),
            Some(r#""client/plan";q=60;w=60"#)
        );
    }
}

/// Two rules that share a name and so a counter for each client.
const SHARED: &str = "
domain: edge
plans:
  api:
    slow: { rate: 60/minute, burst: 10 }
    fast: { rate: 600/minute, burst: 10 }
    default: slow
descriptors:
  - key: client
    shadow_mode: true
    rate_limit: { name: shared, rate: 5/minute, burst: 5 }
    descriptors:
      - key: plan
        rate_limit: { name: shared, plan: api }
";

#[tokio::test]
async fn a_watched_rule_takes_nothing_from_one_that_is_enforced_on_the_same_counter() {
    for descriptors in [
        ["client=a", "client=a,plan=slow"],
        ["client=a,plan=slow", "client=a"],
    ] {
        let bench = Bench::of(SHARED, |_| spent(None));
        let answer = bench.ask(&descriptors.map(|descriptor| (descriptor, ONE))).await;
        assert_eq!(bench.groups()[0].len(), 1);
        assert_eq!(answer.verdict, Verdict::OverLimit, "{descriptors:?}");
        assert_eq!(
            header(&answer, "ratelimit-policy"),
            Some(r#""shared";q=60;w=60"#),
            "{descriptors:?}"
        );
    }
}

#[tokio::test]
async fn of_two_plans_with_one_burst_the_slower_holds() {
    for descriptors in [
        ["client=a,plan=fast", "client=a,plan=slow"],
        ["client=a,plan=slow", "client=a,plan=fast"],
    ] {
        let bench = Bench::of(SHARED, |_| fits(3));
        let answer = bench.ask(&descriptors.map(|descriptor| (descriptor, ONE))).await;
        assert_eq!(header(&answer, "ratelimit-policy"), Some(r#""shared";q=60;w=60"#));
    }
}

#[tokio::test]
async fn many_descriptors_are_told_apart_as_few_are() {
    let bench = Bench::new(|_| fits(3));
    let names: Vec<_> = (0..100)
        .map(|number| format!("address={}", number % 50))
        .collect();
    let descriptors: Vec<_> = names.iter().map(|name| (name.as_str(), ONE)).collect();
    let answer = bench.ask(&descriptors).await;
    assert_eq!(answer.statuses.len(), 100);
    assert_eq!(bench.groups()[0].len(), 50);
}

#[tokio::test]
async fn a_store_that_fails_makes_an_error_and_no_answer() {
    let mut bench = Bench::new(|_| fits(3));
    bench.limiter.store.fails = true;
    let request = request("edge", &[("address=a", ONE)]);
    let error = bench
        .limiter
        .decide(&request, Instant::now())
        .await
        .expect_err("no answer");
    assert_eq!(error.kind(), "timeout");
    assert_eq!(bench.notes(), ["Some(0) store_failed"]);
}

#[tokio::test]
async fn the_next_call_is_decided_by_the_next_policies() {
    let bench = Bench::new(|_| fits(3));
    let edited = POLICY.replace("20/minute", "30/minute");
    assert_eq!(bench.limiter.policies.publish(policies(&edited)), 2);
    let answer = bench.ask(&[("address=a", ONE)]).await;
    assert_eq!(
        header(&answer, "ratelimit-policy"),
        Some(r#""by-address";q=30;w=60"#)
    );
}

#[tokio::test]
async fn a_rule_that_asks_for_it_is_counted_by_its_callers_values_too() {
    let bench = Bench::new(|_| spent(Some(Micros::SECOND)));
    bench
        .ask(&[("other=a", ONE), ("", ONE), ("route=a/b", ONE)])
        .await;
    assert_eq!(
        bench.notes(),
        [
            "Some(0) over_limit",
            "route OverLimit",
            "route=a/b OverLimit by value"
        ]
    );
}

//! Limits that requests bring along: what each number does, and that they disturb nobody.

use std::sync::Arc;
use std::time::Instant;

use comporta::clock::ManualClock;
use comporta::domain::descriptor::{Descriptor, Entry, Override, Request};
use comporta::domain::limit::{Period, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};
use comporta::domain::verdict::Verdict;
use comporta::policy::{Policy, PolicySet};
use comporta::service::answer::Answer;
use comporta::service::headers::HeaderStyle;
use comporta::service::limiter::Limiter;
use comporta::service::live::Policies;
use comporta::service::observer::{Observer, Tally};
use comporta::service::options::LimiterOptions;
use comporta::store::key::Keys;
use comporta::store::memory::Memory;

use crate::harness::store::Silent;

const POLICY: &str = "
domain: edge
descriptors:
  - key: client
    rate_limit: { rate: 20/minute }
  - key: free
    rate_limit: { unlimited: true }
  - key: watched
    shadow_mode: true
    rate_limit: { rate: 1/minute }
";

/// Hears nothing.
pub struct Nobody;

impl Observer for Nobody {
    fn opens(&self, _: u64, _: &[&Policy]) -> Vec<Arc<dyn Tally>> {
        Vec::new()
    }

    fn overrides_ignored(&self, _: u32) {}
}

struct Bench {
    limiter: Limiter<Memory, ManualClock>,
    clock: ManualClock,
}

impl Bench {
    fn new() -> Self {
        Self::with(POLICY)
    }

    fn with(policy: &str) -> Self {
        let policies =
            PolicySet::parse(&[("policy.yaml".to_owned(), policy.as_bytes().to_vec())]).expect("sound");
        let clock = ManualClock::at(Timestamp::from_micros(1_790_000_010_000_000));
        let limiter = Limiter::new(
            0,
            Arc::new(Policies::new(policies, Arc::new(Nobody))),
            Memory::new(1000, Arc::new(Silent)),
            clock.clone(),
            Keys::new("test"),
            LimiterOptions {
                headers: Some(HeaderStyle::Off),
                ..LimiterOptions::default()
            },
        );
        Self { limiter, clock }
    }

    async fn ask(&self, key: &str, limit: Option<(u32, Unit)>) -> Answer {
        let entry = Entry::new(key, "a");
        let limit = limit.map(|(count, unit)| Override {
            count,
            period: Period::one(unit),
        });
        let request = Request {
            domain: b"edge",
            descriptors: vec![Descriptor {
                entries: [entry].into_iter().collect(),
                hits: Hits::Take(1),
                limit,
            }],
        };
        self.limiter
            .decide(&request, Instant::now())
            .await
            .expect("an answer")
    }

    /// Verdict, remaining and the limit's number and name, as an answer shows them.
    async fn shown(&self, key: &str, limit: Option<(u32, Unit)>) -> (Verdict, u32, Option<(u32, String)>) {
        let answer = self.ask(key, limit).await;
        let status = &answer.statuses[0];
        (
            status.verdict,
            status.remaining,
            status
                .limit
                .as_ref()
                .map(|limit| (limit.count, limit.name.to_string())),
        )
    }
}

const OK: Verdict = Verdict::UnderLimit;
const OVER: Verdict = Verdict::OverLimit;

fn named(count: u32) -> Option<(u32, String)> {
    Some((count, "override".to_owned()))
}

#[tokio::test]
async fn it_replaces_the_rules_limit_and_leaves_its_counter_alone() {
    let bench = Bench::new();
    assert_eq!(
        bench.shown("client", Some((5, Unit::Minute))).await,
        (OK, 4, named(5))
    );
    assert_eq!(
        bench.shown("client", None).await,
        (OK, 19, Some((20, "client".to_owned())))
    );
    for left in [3, 2, 1, 0] {
        assert_eq!(
            bench.shown("client", Some((5, Unit::Minute))).await,
            (OK, left, named(5))
        );
    }
    assert_eq!(
        bench.shown("client", Some((5, Unit::Minute))).await,
        (OVER, 0, named(5))
    );
    assert_eq!(bench.shown("client", None).await.1, 18);
}

#[tokio::test]
async fn another_number_goes_on_with_what_was_used_and_another_period_starts_afresh() {
    let bench = Bench::new();
    for _ in 0..3 {
        bench.ask("client", Some((10, Unit::Day))).await;
    }
    assert_eq!(
        bench.shown("client", Some((3, Unit::Day))).await,
        (OVER, 0, named(3))
    );
    assert_eq!(
        bench.shown("client", Some((5, Unit::Day))).await,
        (OK, 1, named(5))
    );
    assert_eq!(
        bench.shown("client", Some((5, Unit::Hour))).await,
        (OK, 4, named(5))
    );
}

#[tokio::test]
async fn it_holds_where_no_rule_does() {
    let bench = Bench::new();
    assert_eq!(bench.shown("other", None).await, (OK, 0, None));
    assert_eq!(
        bench.shown("other", Some((1, Unit::Hour))).await,
        (OK, 0, named(1))
    );
    let refused = bench.ask("other", Some((1, Unit::Hour))).await;
    assert_eq!(
        (refused.verdict, refused.rule.as_deref()),
        (OVER, Some("override"))
    );
    assert_eq!(
        bench.shown("free", Some((1, Unit::Hour))).await.1,
        0,
        "and where one says unlimited"
    );
}

#[tokio::test]
async fn it_keeps_what_the_rule_says_of_shadow() {
    let bench = Bench::new();
    for _ in 0..3 {
        assert_eq!(bench.shown("watched", Some((1, Unit::Hour))).await.0, OK);
    }
}

#[tokio::test]
async fn under_compat_it_takes_nothing_over_from_the_rule() {
    let policy = POLICY.replace("domain: edge", "domain: edge\ncompat: reference")
        + "  - { key: shared, value: 'a*', share_threshold: true, rate_limit: { rate: 9/hour } }\n";
    let bench = Bench::with(&policy);
    let unnamed = |count| Some((count, String::new()));
    assert_eq!(
        bench.shown("watched", Some((1, Unit::Hour))).await,
        (OK, 0, unnamed(1))
    );
    assert_eq!(
        bench.shown("watched", Some((1, Unit::Hour))).await,
        (OVER, 0, unnamed(1))
    );
    assert_eq!(bench.ask("watched", Some((1, Unit::Hour))).await.verdict, OVER);
    // Counted by the value, where the rule counts all that its pattern matches as one.
    assert_eq!(
        bench.shown("shared", Some((5, Unit::Hour))).await,
        (OK, 4, unnamed(5))
    );
    assert_eq!(bench.shown("shared", None).await, (OK, 8, unnamed(9)));
}

#[tokio::test]
async fn zero_refuses_and_what_a_gateway_writes_for_minus_one_is_a_large_number() {
    let bench = Bench::new();
    let refused = bench.ask("client", Some((0, Unit::Minute))).await;
    assert_eq!((refused.verdict, refused.statuses[0].remaining), (OVER, 0));
    assert!(
        refused.headers.iter().all(|header| header.name != "retry-after"),
        "waiting would not help"
    );
    assert_eq!(
        bench.shown("client", Some((u32::MAX, Unit::Minute))).await,
        (OK, u32::MAX - 1, named(u32::MAX))
    );
}

#[tokio::test]
async fn it_counts_in_a_sliding_window() {
    let bench = Bench::new();
    bench.clock.advance(Micros::from_secs(29));
    for _ in 0..100 {
        assert_eq!(bench.ask("client", Some((100, Unit::Minute))).await.verdict, OK);
    }
    // A second over the minute's edge, where 59 of 60 parts are still in sight: a fixed window would start afresh.
    bench.clock.advance(Micros::from_secs(2));
    assert_eq!(bench.ask("client", Some((100, Unit::Minute))).await.verdict, OK);
    assert_eq!(bench.ask("client", Some((100, Unit::Minute))).await.verdict, OVER);
}

//! What every store must do, run on each of them: time is passed in, so the same histories run on all.

use std::sync::Arc;

use comporta::domain::check::{Binding, Charge, Check, Group};
use comporta::domain::limit::{Algorithm, Limit, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};
use comporta::domain::verdict::{Decision, Decisions, Reason, Verdict};
use comporta::store::Store;
use comporta::store::memory::Memory;
use comporta::store::redis::TimeSource;

use crate::harness;
use crate::harness::redis::{Program, Setup};
use crate::harness::store::{AT_ONCE, Silent, bucket, check, far, group, limit};

/// Half past a minute, in seconds since the epoch.
const START: u64 = 1_790_000_010;

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_micros(START * 1_000_000 + (seconds * 1e6) as u64)
}

async fn decide<S: Store>(store: &S, checks: &[Check<'_>], now: Timestamp) -> Decisions {
    store
        .decide(&group(checks), now, far())
        .await
        .expect("a decision")
}

async fn one<S: Store>(store: &S, key: &str, limit: &Limit, hits: Hits, now: Timestamp) -> Decision {
    decide(store, &[check(key.as_bytes(), limit, hits)], now)
        .await
        .checks[0]
}

/// How many of `calls` single hits pass.
async fn admitted<S: Store>(store: &S, key: &str, limit: &Limit, calls: u32, now: Timestamp) -> u32 {
    let mut passed = 0;
    for _ in 0..calls {
        passed += u32::from(one(store, key, limit, Hits::take(1), now).await.verdict == Verdict::UnderLimit);
    }
    passed
}

async fn a_fresh_counter_holds_the_whole_limit<S: Store>(store: &S) {
    for algorithm in AT_ONCE {
        let limit = limit(algorithm, 5, Unit::Minute);
        let key = algorithm.name();
        let first = one(store, key, &limit, Hits::take(1), at(0.0)).await;
        assert_eq!(
            (first.verdict, first.remaining),
            (Verdict::UnderLimit, 4),
            "{key}"
        );
        assert_eq!(admitted(store, key, &limit, 10, at(0.0)).await, 4, "{key}");
        let refused = one(store, key, &limit, Hits::take(1), at(0.0)).await;
        assert_eq!(
            (refused.verdict, refused.reason, refused.remaining),
            (Verdict::OverLimit, Reason::Spent, 0)
        );
        assert!(
            refused.retry_after.is_some() && refused.next_after == refused.retry_after,
            "{key}: {refused:?}"
        );
    }
}

async fn counters_are_apart<S: Store>(store: &S) {
    let limit = limit(Algorithm::SlidingWindow, 1, Unit::Minute);
    assert_eq!(admitted(store, "apart-a", &limit, 3, at(0.0)).await, 1);
    assert_eq!(admitted(store, "apart-b", &limit, 3, at(0.0)).await, 1);
}

async fn a_bucket_refills_at_its_rate<S: Store>(store: &S) {
    let limit = bucket(60, Unit::Minute, 10);
    assert_eq!(admitted(store, "refill", &limit, 20, at(0.0)).await, 10);
    let refused = one(store, "refill", &limit, Hits::take(1), at(0.4)).await;
    assert_eq!(refused.retry_after, Some(Micros::new(600_000)));
    assert_eq!(admitted(store, "refill", &limit, 5, at(0.999_999)).await, 0);
    assert_eq!(admitted(store, "refill", &limit, 5, at(1.0)).await, 1);
    assert_eq!(
        admitted(store, "refill", &limit, 50, at(3600.0)).await,
        10,
        "and holds no more than its burst"
    );
}

async fn both_sides_of_an_edge<S: Store>(store: &S) {
    // 29.6 s and 30.2 s after half past: 0.4 s before a minute's end, and 0.2 s into the next.
    for (algorithm, second) in [
        (Algorithm::FixedWindow, 100),
        (Algorithm::SlidingWindow, 0),
        (Algorithm::SlidingLog, 0),
    ] {
        let limit = limit(algorithm, 100, Unit::Minute);
        let key = format!("edge-{}", algorithm.name());
        assert_eq!(admitted(store, &key, &limit, 150, at(29.6)).await, 100, "{key}");
        assert_eq!(
            admitted(store, &key, &limit, 150, at(30.2)).await,
            second,
            "{key}"
        );
    }
}

async fn a_group_passes_whole_or_charges_nothing<S: Store>(store: &S) {
    let site = limit(Algorithm::SlidingWindow, 10, Unit::Minute);
    let user = limit(Algorithm::SlidingWindow, 3, Unit::Minute);
    let checks = [
        check(b"site", &site, Hits::take(1)),
        check(b"user-a", &user, Hits::take(1)),
    ];
    let mut passed = 0;
    for _ in 0..10 {
        passed += u32::from(!decide(store, &checks, at(0.0)).await.refused);
    }
    assert_eq!(passed, 3);
    assert_eq!(
        one(store, "site", &site, Hits::LOOK, at(0.0)).await.remaining,
        7,
        "refused calls drain nobody else"
    );
}

async fn what_a_refused_group_could_have_had<S: Store>(store: &S) {
    let wide = bucket(10, Unit::Second, 10);
    let spent = bucket(1, Unit::Second, 1);
    assert_eq!(admitted(store, "spent", &spent, 1, at(0.0)).await, 1);
    let checks = [
        check(b"wide", &wide, Hits::take(4)),
        check(b"spent", &spent, Hits::take(1)),
    ];
    let decisions = decide(store, &checks, at(0.0)).await;
    assert!(decisions.refused);
    assert_eq!(
        (decisions.checks[0].verdict, decisions.checks[0].remaining),
        (Verdict::UnderLimit, 10)
    );
    assert_eq!(decisions.checks[1].verdict, Verdict::OverLimit);
}

async fn a_check_that_does_not_bind_blocks_nobody<S: Store>(store: &S) {
    let watched = limit(Algorithm::FixedWindow, 1, Unit::Minute);
    let held = limit(Algorithm::FixedWindow, 3, Unit::Minute);
    let checks = [
        Check {
            binding: Binding::Never,
            ..check(b"watched", &watched, Hits::take(1))
        },
        check(b"held", &held, Hits::take(1)),
    ];
    let mut verdicts = Vec::new();
    for _ in 0..4 {
        let decisions = decide(store, &checks, at(0.0)).await;
        verdicts.push((decisions.checks[0].verdict, decisions.refused));
    }
    use Verdict::{OverLimit, UnderLimit};
    assert_eq!(
        verdicts,
        [
            (UnderLimit, false),
            (OverLimit, false),
            (OverLimit, false),
            (OverLimit, true)
        ]
    );
}

async fn quotas_bind_only_all_together<S: Store>(store: &S) {
    let small = limit(Algorithm::FixedWindow, 1, Unit::Minute);
    let large = limit(Algorithm::FixedWindow, 2, Unit::Minute);
    let quota = |key, limit| Check {
        binding: Binding::WithAllQuotas,
        ..check(key, limit, Hits::take(1))
    };
    let checks = [quota(&b"small"[..], &small), quota(b"large", &large)];
    let refused = [
        decide(store, &checks, at(0.0)).await.refused,
        decide(store, &checks, at(0.0)).await.refused,
        decide(store, &checks, at(0.0)).await.refused,
    ];
    assert_eq!(refused, [false, false, true]);
}

async fn charges_follow_their_mode<S: Store>(store: &S) {
    let spent = limit(Algorithm::FixedWindow, 0, Unit::Minute);
    let ten = limit(Algorithm::FixedWindow, 10, Unit::Minute);
    let modes = [Charge::AllOrNothing, Charge::Each, Charge::Always];
    let keys = [&b"mode-all"[..], b"mode-each", b"mode-always"];
    let mut checks: Vec<_> = keys
        .iter()
        .zip(modes)
        .map(|(key, charge)| Check {
            charge,
            ..check(key, &ten, Hits::take(4))
        })
        .collect();
    checks.push(check(b"mode-spent", &spent, Hits::take(1)));
    let mut left = Vec::new();
    for _ in 0..3 {
        left.push(
            decide(store, &checks, at(0.0))
                .await
                .checks
                .iter()
                .take(3)
                .map(|d| d.remaining)
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(left, [[10, 6, 6], [10, 2, 2], [10, 0, 0]]);
    let debt = one(store, "mode-always", &ten, Hits::give_back(2), at(0.0)).await;
    assert_eq!(debt.remaining, 0, "twelve were charged");
    assert_eq!(
        one(store, "mode-always", &ten, Hits::give_back(2), at(0.0))
            .await
            .remaining,
        2
    );
}

async fn looks_take_nothing<S: Store>(store: &S) {
    for algorithm in AT_ONCE {
        let limit = limit(algorithm, 2, Unit::Minute);
        let key = format!("look-{}", algorithm.name());
        for _ in 0..5 {
            let look = one(store, &key, &limit, Hits::LOOK, at(0.0)).await;
            assert_eq!((look.verdict, look.remaining), (Verdict::UnderLimit, 2), "{key}");
        }
        assert_eq!(admitted(store, &key, &limit, 3, at(0.0)).await, 2, "{key}");
        assert_eq!(
            one(store, &key, &limit, Hits::LOOK, at(0.0)).await.verdict,
            Verdict::OverLimit,
            "{key}"
        );
    }
}

async fn give_backs_never_go_beyond_empty<S: Store>(store: &S) {
    for algorithm in AT_ONCE {
        let limit = limit(algorithm, 10, Unit::Minute);
        let key = format!("back-{}", algorithm.name());
        assert_eq!(
            one(store, &key, &limit, Hits::take(6), at(0.0)).await.remaining,
            4,
            "{key}"
        );
        let back = one(store, &key, &limit, Hits::give_back(4), at(0.0)).await;
        assert_eq!((back.verdict, back.remaining), (Verdict::UnderLimit, 8), "{key}");
        assert_eq!(
            one(store, &key, &limit, Hits::give_back(100), at(0.0))
                .await
                .remaining,
            10,
            "{key}"
        );
        assert_eq!(admitted(store, &key, &limit, 20, at(0.0)).await, 10, "{key}");
    }
}

async fn what_can_never_fit_is_refused_without_a_time<S: Store>(store: &S) {
    let limit = bucket(1, Unit::Minute, 5);
    let never = one(store, "never", &limit, Hits::take(6), at(0.0)).await;
    assert_eq!(
        (never.reason, never.remaining, never.retry_after),
        (Reason::TooManyHits, 0, None)
    );
    assert_eq!(
        one(store, "never", &limit, Hits::take(u64::MAX), at(0.0))
            .await
            .reason,
        Reason::TooManyHits
    );
    assert_eq!(
        one(store, "never", &limit, Hits::take(5), at(0.0))
            .await
            .remaining,
        0,
        "and drained nothing"
    );
}

async fn a_limit_of_zero_refuses_everything<S: Store>(store: &S) {
    for algorithm in Algorithm::ALL {
        let limit = limit(algorithm, 0, Unit::Second);
        let blocked = one(store, "zero", &limit, Hits::take(1), at(0.0)).await;
        assert_eq!((blocked.reason, blocked.retry_after), (Reason::Blocked, None));
        assert_eq!(
            one(store, "zero", &limit, Hits::LOOK, at(0.0)).await.verdict,
            Verdict::OverLimit
        );
        assert_eq!(
            one(store, "zero", &limit, Hits::give_back(3), at(0.0))
                .await
                .verdict,
            Verdict::UnderLimit
        );
    }
}

async fn an_edited_limit_applies_to_what_was_used<S: Store>(store: &S) {
    for algorithm in [
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
        Algorithm::SlidingLog,
    ] {
        let key = format!("edit-{}", algorithm.name());
        let hundred = limit(algorithm, 100, Unit::Minute);
        let ten = limit(algorithm, 10, Unit::Minute);
        let twenty = limit(algorithm, 20, Unit::Minute);
        assert_eq!(
            one(store, &key, &hundred, Hits::take(1), at(0.0)).await.remaining,
            99,
            "{key}"
        );
        assert_eq!(
            one(store, &key, &ten, Hits::take(1), at(0.0)).await.remaining,
            8,
            "{key}"
        );
        assert_eq!(admitted(store, &key, &ten, 50, at(0.0)).await, 8, "{key}");
        assert_eq!(
            admitted(store, &key, &twenty, 50, at(0.0)).await,
            10,
            "{key}: raised in a running window"
        );
    }
}

async fn the_largest_numbers_count<S: Store>(store: &S) {
    for algorithm in AT_ONCE {
        let limit = limit(algorithm, u32::MAX, Unit::Second);
        let key = format!("large-{}", algorithm.name());
        let decision = one(store, &key, &limit, Hits::take(u64::from(u32::MAX)), at(0.0)).await;
        assert_eq!(
            (decision.verdict, decision.remaining),
            (Verdict::UnderLimit, 0),
            "{key}"
        );
        assert_eq!(
            one(store, &key, &limit, Hits::take(1), at(0.0)).await.verdict,
            Verdict::OverLimit,
            "{key}"
        );
    }
}

async fn a_clock_that_was_set_back_freezes_no_counter<S: Store>(store: &S) {
    for algorithm in AT_ONCE {
        let limit = limit(algorithm, 5, Unit::Minute);
        let key = format!("set-back-{}", algorithm.name());
        // Spent while the clock was a day ahead.
        assert_eq!(admitted(store, &key, &limit, 10, at(86_400.0)).await, 5, "{key}");
        let refused = one(store, &key, &limit, Hits::take(1), at(0.0)).await;
        assert_eq!(refused.verdict, Verdict::OverLimit, "{key}");
        let wait = refused.retry_after.expect("a time to come back");
        let back = one(store, &key, &limit, Hits::take(1), at(0.0).plus(wait)).await;
        assert_eq!(back.verdict, Verdict::UnderLimit, "{key}: after {wait:?}");
    }
}

async fn a_slot_in_the_future_is_reserved<S: Store>(store: &S) {
    let limit = limit(Algorithm::LeakyBucket, 10, Unit::Second);
    let mut delays = Vec::new();
    let checks = [check(b"leaky", &limit, Hits::take(1))];
    for _ in 0..4 {
        let group = Group {
            checks: &checks,
            longest_wait: Micros::new(250_000),
            compat: false,
        };
        let decision = store
            .decide(&group, at(0.0), far())
            .await
            .expect("a decision")
            .checks[0];
        delays.push((
            decision.verdict,
            decision.delay.get(),
            decision.retry_after.map(Micros::get),
        ));
    }
    use Verdict::{OverLimit, UnderLimit};
    assert_eq!(
        delays,
        [
            (UnderLimit, 0, None),
            (UnderLimit, 100_000, None),
            (UnderLimit, 200_000, None),
            (OverLimit, 0, Some(50_000)),
        ]
    );
}

async fn a_large_group_is_decided_at_once<S: Store>(store: &S) {
    let limit = limit(Algorithm::SlidingWindow, 2, Unit::Minute);
    let keys: Vec<String> = (0..300).map(|i| format!("many-{i}")).collect();
    let checks: Vec<_> = keys
        .iter()
        .map(|key| check(key.as_bytes(), &limit, Hits::take(1)))
        .collect();
    for refused in [false, false, true] {
        let decisions = decide(store, &checks, at(0.0)).await;
        assert_eq!((decisions.refused, decisions.checks.len()), (refused, 300));
    }
}

macro_rules! battery {
    ($($behaviour:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(&super::Memory::new(100_000, super::Arc::new(super::Silent))).await;
            })*
        }

        battery!(@ redis, Packaged, $($behaviour),*);
        battery!(@ oldest_redis, Oldest, $($behaviour),*);
        battery!(@ valkey, Valkey, $($behaviour),*);
    };
    (@ $module:ident, $program:ident, $($behaviour:ident),*) => {
        mod $module {
            $(#[tokio::test]
            async fn $behaviour() {
                let server = super::Setup::of(super::Program::$program).start();
                super::$behaviour(&super::harness::store::connect(&server, super::TimeSource::Caller).await).await;
            })*
        }
    };
}

battery!(
    a_fresh_counter_holds_the_whole_limit,
    counters_are_apart,
    a_bucket_refills_at_its_rate,
    both_sides_of_an_edge,
    a_group_passes_whole_or_charges_nothing,
    what_a_refused_group_could_have_had,
    a_check_that_does_not_bind_blocks_nobody,
    quotas_bind_only_all_together,
    charges_follow_their_mode,
    looks_take_nothing,
    give_backs_never_go_beyond_empty,
    what_can_never_fit_is_refused_without_a_time,
    a_limit_of_zero_refuses_everything,
    an_edited_limit_applies_to_what_was_used,
    the_largest_numbers_count,
    a_clock_that_was_set_back_freezes_no_counter,
    a_slot_in_the_future_is_reserved,
    a_large_group_is_decided_at_once,
);

//! What one instance lets through by itself, all rules together.

use std::sync::atomic::AtomicU64;
use std::thread;

use super::*;

fn bench(count: u32) -> Bench {
    let ceiling = limit(Algorithm::TokenBucket, count, Unit::Second);
    Bench::with(Instances::default(), Some(ceiling))
}

fn with<'a>(key: &'a [u8], limit: &'a Limit, choice: OnStoreFailure) -> Check<'a> {
    Check {
        on_store_failure: choice,
        ..check(key, limit)
    }
}

#[test]
fn requests_above_it_are_refused_with_its_own_wait_and_charge_nothing() {
    let (bench, ten) = (bench(2), ten());
    let group = [
        check(b"local", &ten),
        with(b"allowed", &ten, OnStoreFailure::Allow),
    ]
    .map(|check| Check {
        hits: Hits::take(2),
        ..check
    });
    for _ in 0..2 {
        let decided = bench.decide(&group);
        assert!(!decided.refused, "counted by requests, not by hits");
        let reasons: Vec<_> = decided.checks.iter().map(|decision| decision.reason).collect();
        assert_eq!(reasons, [Reason::Fits, Reason::StoreFailed]);
    }
    let decided = bench.decide(&group);
    assert!(decided.refused);
    for decision in &decided.checks {
        assert_eq!(
            (decision.verdict, decision.reason, decision.retry_after),
            (Verdict::OverLimit, Reason::Ceiling, Some(Micros::new(500_000)))
        );
    }
    assert!(!Reason::Ceiling.has_figures());
    assert_eq!(bench.used(b"local"), 4);
    let later = NOW.plus(Micros::new(500_000));
    assert!(!bench.decide_at(&group, later).expect("decisions").refused);
}

#[test]
fn what_is_spent_says_so_and_takes_no_room_below_it() {
    let (bench, ten) = (bench(1), ten());
    let spent = Check {
        hits: Hits::take(11),
        ..check(b"a", &ten)
    };
    for _ in 0..3 {
        let decided = bench.decide(&[spent, with(b"b", &ten, OnStoreFailure::Deny)]);
        assert_eq!(decided.checks[0].reason, Reason::TooManyHits);
        assert_eq!(decided.checks[1].reason, Reason::StoreFailed);
    }
    assert!(!bench.decide(&[check(b"c", &ten)]).refused);
    let decided = bench.decide(&[spent, check(b"c", &ten)]);
    assert_eq!(decided.checks[0].reason, Reason::TooManyHits);
    assert_eq!(decided.checks[1].reason, Reason::Ceiling);
}

#[test]
fn what_could_refuse_nobody_is_not_held_to_it() {
    let (bench, ten) = (bench(1), ten());
    let watched = Check {
        binding: Binding::Never,
        ..check(b"watched", &ten)
    };
    let given_back = Check {
        hits: Hits::give_back(1),
        ..check(b"back", &ten)
    };
    let quota = Check {
        binding: Binding::WithAllQuotas,
        ..check(b"quota", &ten)
    };
    for _ in 0..5 {
        assert!(!bench.decide(&[watched]).refused);
        assert!(!bench.decide(&[given_back]).refused);
    }
    assert!(!bench.decide(&[given_back, watched, quota]).refused);
    let decided = bench.decide(&[given_back, watched, quota]);
    assert!(decided.refused);
    let reasons: Vec<_> = decided.checks.iter().map(|decision| decision.reason).collect();
    assert_eq!(reasons, [Reason::Fits, Reason::Fits, Reason::Ceiling]);
}

#[test]
fn a_look_sees_it_and_takes_nothing() {
    let (bench, ten) = (bench(1), ten());
    let look = Check {
        hits: Hits::LOOK,
        ..check(b"a", &ten)
    };
    for _ in 0..3 {
        assert!(!bench.decide(&[look]).refused);
    }
    assert!(!bench.decide(&[look, check(b"b", &ten)]).refused);
    assert!(bench.decide(&[look]).refused);
}

#[test]
fn threads_together_pass_no_more_than_it_lets() {
    const MOST: u32 = 100;
    let bench = bench(MOST);
    let ten = ten();
    let passed = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (bench, ten, passed) = (&bench, &ten, &passed);
            scope.spawn(move || {
                for call in 0..200 {
                    let key = format!("{thread}-{call}");
                    let choice = [OnStoreFailure::Local, OnStoreFailure::Allow][call % 2];
                    let decided = bench.decide(&[with(key.as_bytes(), ten, choice)]);
                    passed.fetch_add(u64::from(!decided.refused), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), u64::from(MOST));
}

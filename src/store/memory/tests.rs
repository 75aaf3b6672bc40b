use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::fixtures::{key, limit};
use super::*;
use crate::domain::check::{Binding, Charge, OnStoreFailure};
use crate::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;

#[derive(Default)]
struct Counted {
    overflowed: AtomicU32,
}

impl StoreObserver for Counted {
    fn overflowed(&self) {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
    }
}

fn takes(store: &Memory, keys: &[Vec<u8>], limit: &Limit, now: Timestamp) -> bool {
    let checks: Vec<Check<'_>> = keys
        .iter()
        .map(|key| Check {
            key,
            limit,
            hits: Hits::take(1),
            binding: Binding::Always,
            charge: Charge::AllOrNothing,
            on_store_failure: OnStoreFailure::Local,
        })
        .collect();
    !store
        .decide_now(
            &Group {
                checks: &checks,
                longest_wait: Micros::ZERO,
                compat: false,
            },
            now,
        )
        .refused
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros((1_790_000_000 + seconds) * 1_000_000)
}

#[test]
fn threads_together_admit_exactly_the_budget() {
    for algorithm in [
        Algorithm::TokenBucket,
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow,
        Algorithm::SlidingLog,
    ] {
        let limit = limit(algorithm, 500);
        for round in 0..40 {
            let store = Memory::new(1000, Arc::new(Counted::default()));
            let (admitted, start) = (AtomicU64::new(0), Barrier::new(4));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        for _ in 0..200 {
                            admitted.fetch_add(
                                u64::from(takes(&store, &[key(round)], &limit, at(0))),
                                Ordering::Relaxed,
                            );
                        }
                    });
                }
            });
            assert_eq!(admitted.into_inner(), 500, "{algorithm:?}, round {round}");
        }
    }
}

#[test]
fn groups_that_cross_neither_wait_for_each_other_nor_split() {
    let limit = limit(Algorithm::SlidingWindow, 300);
    let store = Memory::new(1000, Arc::new(Counted::default()));
    let keys: Vec<Vec<u8>> = (0..6).map(key).collect();
    let backwards: Vec<Vec<u8>> = keys.iter().rev().cloned().collect();
    let (admitted, start) = (AtomicU64::new(0), Barrier::new(4));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let keys = if thread % 2 == 0 { &keys } else { &backwards };
            let (store, limit, admitted, start) = (&store, &limit, &admitted, &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..200 {
                    admitted.fetch_add(u64::from(takes(store, keys, limit, at(0))), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 300);
    for key in keys {
        assert!(
            !takes(&store, &[key], &limit, at(0)),
            "every counter of the group was charged alike"
        );
    }
}

#[test]
fn a_full_store_shares_one_counter_among_the_new_ones_and_forgets_no_live_one() {
    let observer = Arc::new(Counted::default());
    let store = Memory::new(8 * SHARDS, Arc::clone(&observer) as Arc<dyn StoreObserver>);
    let limit = limit(Algorithm::SlidingWindow, 3);
    let mut firsts = 0;
    for client in 0..2000 {
        firsts += u32::from(takes(&store, &[key(client)], &limit, at(0)));
    }
    let own = u32::try_from(store.len()).expect("few") - 1;
    assert!(own <= 8 * SHARDS as u32, "{own}");
    assert!(observer.overflowed.load(Ordering::Relaxed) > 1400);
    assert_eq!(
        firsts,
        own + 3,
        "each counter that is held, and three among all the rest"
    );
    // Two new counters of one limit in one group are two counters still.
    let fresh = Memory::new(1, Arc::clone(&observer) as Arc<dyn StoreObserver>);
    for client in 0..500 {
        takes(&fresh, &[key(client)], &limit, at(0));
    }
    let pair = [key(1000), key(1001)];
    let passed = (0..10).filter(|_| takes(&fresh, &pair, &limit, at(61))).count();
    assert!(passed <= 3, "{passed}");
    // A limit of zero needs no counter, so no room either.
    let before = observer.overflowed.load(Ordering::Relaxed);
    for client in 0..100 {
        assert!(!takes(&store, &[key(3000 + client)], &limit.closed(), at(0)));
    }
    assert_eq!(observer.overflowed.load(Ordering::Relaxed), before);
    // What has expired makes room.
    let before = observer.overflowed.load(Ordering::Relaxed);
    for client in 0..100 {
        assert!(takes(&store, &[key(5000 + client)], &limit, at(3600)));
    }
    assert_eq!(observer.overflowed.load(Ordering::Relaxed), before);
}

#[test]
fn what_has_expired_is_swept_as_new_counters_come() {
    let store = Memory::new(1 << 20, Arc::new(Counted::default()));
    let limit = limit(Algorithm::FixedWindow, 3);
    for minute in 0..40 {
        for client in 0..4_000 {
            takes(
                &store,
                &[key(minute * 4_000 + client)],
                &limit,
                at(minute as u64 * 60),
            );
        }
    }
    assert!(store.len() < 24_000, "{} of 160000 are still held", store.len());
}

#[test]
fn a_share_of_the_slowest_limits_is_held() {
    for (count, unit, multiplier, instances) in [
        (7, Unit::Year, 1, 300),
        (7, Unit::Year, 10, 1024),
        (1, Unit::Year, 10, 1024),
        (1001, Unit::Month, 1, 1000),
    ] {
        let whole = Limit::new(LimitSpec {
            name: Arc::from("limit"),
            named: true,
            count,
            period: Period { unit, multiplier },
            algorithm: Algorithm::TokenBucket,
            burst: None,
            delay: Micros::ZERO,
            calendar: true,
        })
        .expect("a sound limit");
        let share = whole.share_of(instances);
        let store = Memory::new(1000, Arc::new(Counted::default()));
        let passed = (0..10).filter(|_| takes(&store, &[key(0)], &share, at(0)));
        assert_eq!(passed.count(), 1, "{whole:?} of {instances}");
        // A hit of this instance's comes back no sooner than its share of the rate says.
        let hit = u128::from(whole.rate().micros) * u128::from(instances) / u128::from(whole.rate().hits);
        let soon = at(u64::try_from(hit / 1_000_000).expect("some thousand years") * 9 / 10);
        assert!(
            hit > 1 << 53 || !takes(&store, &[key(0)], &share, soon),
            "{whole:?} of {instances}"
        );
    }
}

#[test]
fn a_store_that_was_full_while_the_clock_was_ahead_has_room_again() {
    for algorithm in [
        Algorithm::TokenBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingLog,
    ] {
        let observer = Arc::new(Counted::default());
        let store = Memory::new(64, Arc::clone(&observer) as Arc<dyn StoreObserver>);
        let limit = limit(algorithm, 1000);
        let year = 365 * 86_400;
        for client in 0..1000 {
            takes(&store, &[key(client)], &limit, at(year));
        }
        // What was set back; then an hour in which everything expires.
        takes(&store, &[key(1000)], &limit, at(0));
        let mut overflowed = Vec::new();
        for hour in 1..4 {
            let before = observer.overflowed.load(Ordering::Relaxed);
            takes(&store, &[key(1000)], &limit, at(3600 * hour));
            for client in 0..1000 {
                takes(&store, &[key(2000 + client)], &limit, at(3600 * hour));
            }
            overflowed.push(observer.overflowed.load(Ordering::Relaxed) - before);
        }
        // 64 shards, each with room for one: most of the thousand share, but not all.
        assert!(overflowed[2] <= 1001 - 40, "{algorithm:?}: {overflowed:?}");
    }
}

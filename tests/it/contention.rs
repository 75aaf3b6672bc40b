//! Many connections at one hot counter: what they are given together is the promise, to the hit.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use comporta::domain::check::{Check, Group};
use comporta::domain::limit::{Algorithm, Limit, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};
use comporta::store::Store;
use comporta::store::redis::TimeSource;

use crate::harness;
use crate::harness::store::{AT_ONCE, check, far, limit};

const CONNECTIONS: u64 = 16;
const CALLS: u64 = 100;

/// A minute's edge is 30 s away.
const START: u64 = 1_790_000_010_000_000;

/// What `CONNECTIONS` threads are given together, each `CALLS` times `hits` of the counters that `keys_of` names it,
/// `apart` microseconds from one of its calls to the next.
fn given(limit: &Limit, hits: u64, apart: u64, keys_of: impl Fn(u64) -> Vec<Vec<u8>> + Sync) -> u64 {
    let server = harness::redis::Redis::start();
    let (given, start) = (AtomicU64::new(0), Barrier::new(CONNECTIONS as usize));
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (server, given, start, keys_of) = (&server, &given, &start, &keys_of);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    let store = harness::store::connect(server, TimeSource::Caller).await;
                    let keys = keys_of(connection);
                    let checks: Vec<Check<'_>> = keys
                        .iter()
                        .map(|key| check(key, limit, Hits::take(hits)))
                        .collect();
                    let group = Group {
                        checks: &checks,
                        longest_wait: Micros::new(u64::MAX),
                        compat: false,
                    };
                    start.wait();
                    for call in 0..CALLS {
                        let now = Timestamp::from_micros(START + call * apart);
                        let decisions = store.decide(&group, now, far()).await.expect("a decision");
                        if !decisions.refused {
                            given.fetch_add(hits, Ordering::Relaxed);
                        }
                    }
                });
            });
        }
    });
    given.into_inner()
}

fn hot(_: u64) -> Vec<Vec<u8>> {
    vec![b"hot".to_vec()]
}

#[test]
fn connections_together_are_given_exactly_the_limit() {
    for algorithm in AT_ONCE {
        let limit = limit(algorithm, 700, Unit::Minute);
        assert_eq!(given(&limit, 1, 0, hot), 700, "{algorithm:?}");
        assert_eq!(given(&limit, 3, 0, hot), 699, "{algorithm:?}, three at once");
    }
}

#[test]
fn connections_together_are_given_exactly_the_queue() {
    // 700 drain within the second that its calls may wait; the first is released at once.
    let limit = limit(Algorithm::LeakyBucket, 700, Unit::Second);
    assert_eq!(given(&limit, 1, 0, hot), 701);
}

#[test]
fn a_clock_that_some_are_behind_gives_nothing_away() {
    // 100 calls of each, 5 ms apart: time goes half a second on, whoever is ahead. 600 a minute are 10 a second.
    let bucket = limit(Algorithm::TokenBucket, 600, Unit::Minute);
    let drained = (CALLS - 1) * 5_000 * 600 / 60_000_000;
    assert_eq!(given(&bucket, 1, 5_000, hot), 600 + drained);
    for algorithm in [
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
        Algorithm::FixedWindow,
    ] {
        let limit = limit(algorithm, 600, Unit::Minute);
        assert_eq!(given(&limit, 1, 5_000, hot), 600, "{algorithm:?}");
    }
}

#[test]
fn groups_that_cross_are_charged_whole() {
    let limit = limit(Algorithm::SlidingWindow, 300, Unit::Minute);
    let keys = |connection: u64| {
        let mut keys: Vec<_> = (0..5).map(|key| format!("crossed-{key}").into_bytes()).collect();
        if connection.is_multiple_of(2) {
            keys.reverse();
        }
        keys
    };
    assert_eq!(given(&limit, 1, 0, keys), 300);
}

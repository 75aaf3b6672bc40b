//! Stores without the rest of the service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use comporta::domain::check::{Binding, Charge, Check, Group, OnStoreFailure};
use comporta::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};
use comporta::store::key::Keys;
use comporta::store::redis::{MOST_KEYS, Redis, RedisTarget, RedisUrl, TimeSource};
use comporta::store::{Store, StoreObserver};

use super::process::PATIENCE;

/// Hears everything and says nothing.
pub struct Silent;

impl StoreObserver for Silent {}

/// The algorithms that answer at once, with no wait to hold a reply for.
pub const AT_ONCE: [Algorithm; 4] = [
    Algorithm::TokenBucket,
    Algorithm::SlidingWindow,
    Algorithm::FixedWindow,
    Algorithm::SlidingLog,
];

/// What a test says of a limit; the rest does not matter to it.
pub fn limit(algorithm: Algorithm, count: u32, unit: Unit) -> Limit {
    with(algorithm, count, unit, None)
}

/// A token bucket with a burst of its own.
pub fn bucket(count: u32, unit: Unit, burst: u32) -> Limit {
    with(Algorithm::TokenBucket, count, unit, Some(burst))
}

fn with(algorithm: Algorithm, count: u32, unit: Unit, burst: Option<u32>) -> Limit {
    Limit::new(LimitSpec {
        name: Arc::from("limit"),
        named: true,
        count,
        period: Period::one(unit),
        algorithm,
        burst,
        delay: if algorithm == Algorithm::LeakyBucket {
            Micros::SECOND
        } else {
            Micros::ZERO
        },
        calendar: true,
    })
    .expect("a sound limit")
}

/// A check that binds and is charged if its group passes.
pub fn check<'a>(key: &'a [u8], limit: &'a Limit, hits: Hits) -> Check<'a> {
    Check {
        key,
        limit,
        hits,
        binding: Binding::Always,
        charge: Charge::AllOrNothing,
        on_store_failure: OnStoreFailure::Local,
    }
}

/// A group that does not wait.
pub fn group<'a>(checks: &'a [Check<'a>]) -> Group<'a> {
    Group {
        checks,
        longest_wait: Micros::ZERO,
        compat: false,
    }
}

/// A deadline that no test reaches.
pub fn far() -> Instant {
    Instant::now() + PATIENCE
}

/// A store on `server`, connected.
pub async fn connect(server: &super::redis::Redis, time: TimeSource) -> Redis {
    connect_observed(server, time, Arc::new(Silent)).await
}

/// The same, with somebody who hears what happens in it.
pub async fn connect_observed(
    server: &super::redis::Redis,
    time: TimeSource,
    observer: Arc<dyn StoreObserver>,
) -> Redis {
    let url = RedisUrl::parse(&server.url()).expect("the URL of a server of our own");
    let target = Arc::new(RedisTarget::from(url));
    let store = Redis::connect(&target, PATIENCE, MOST_KEYS, time, &Keys::new("test"), observer);
    let limit = limit(Algorithm::TokenBucket, 1, Unit::Second);
    let look = [check(b"connected", &limit, Hits::LOOK)];
    let deadline = far();
    while let Err(error) = store.decide(&group(&look), Timestamp::default(), deadline).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    store
}

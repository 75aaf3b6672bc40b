//! What the tests of remembered refusals ask with.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::{Refusals, Refused};
use crate::domain::check::{Binding, Charge, Check, Group, OnStoreFailure};
use crate::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::{Decision, Decisions};
use crate::store::memory::Memory;
use crate::store::{Store, StoreError, StoreObserver};

/// Counts what is answered from memory.
#[derive(Default)]
pub(super) struct Counted(AtomicU64);

impl StoreObserver for Counted {
    fn refused_from_memory(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The wall clock when the memory's own begins.
pub(super) const START: u64 = 1_790_000_000_000_000;

pub(super) fn wall(moment: Micros) -> Timestamp {
    Timestamp::from_micros(START).plus(moment)
}

pub(super) fn millis(millis: u64) -> Micros {
    Micros::new(1_000 * millis)
}

pub(super) fn memory() -> Memory {
    Memory::new(1_000, Arc::new(Counted::default()))
}

/// `count` a minute; a bucket of as many.
pub(super) fn limit(algorithm: Algorithm, count: u32) -> Limit {
    edited(algorithm, count, |_| {})
}

pub(super) fn edited(algorithm: Algorithm, count: u32, edit: impl FnOnce(&mut LimitSpec)) -> Limit {
    let mut spec = LimitSpec {
        name: Arc::from("limit"),
        named: true,
        count,
        period: Period::one(Unit::Minute),
        algorithm,
        burst: None,
        delay: Micros::ZERO,
        calendar: true,
    };
    if algorithm == Algorithm::LeakyBucket {
        spec.delay = Micros::from_secs(10);
    }
    edit(&mut spec);
    Limit::new(spec).expect("a sound limit")
}

pub(super) fn check<'a>(key: &'a [u8], limit: &'a Limit, hits: Hits) -> Check<'a> {
    Check {
        key,
        limit,
        hits,
        binding: Binding::Always,
        charge: Charge::AllOrNothing,
        on_store_failure: OnStoreFailure::default(),
    }
}

pub(super) fn group<'a>(checks: &'a [Check<'a>]) -> Group<'a> {
    Group {
        checks,
        longest_wait: Micros::ZERO,
        compat: false,
    }
}

/// What a future that has nothing to wait for comes to.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("an embedded store never waits"),
    }
}

/// An instance: what it knows, over a store that it may share, on a clock that is moved by hand.
pub(super) struct Instance<S> {
    pub(super) refused: Refused<S>,
    observer: Arc<Counted>,
}

impl<S: Store> Instance<S> {
    pub(super) fn over(shared: S) -> Self {
        let observer = Arc::new(Counted::default());
        let heard = Arc::clone(&observer) as Arc<dyn StoreObserver>;
        Self {
            refused: Refused::new(shared, Arc::new(Refusals::new()), heard),
            observer,
        }
    }

    pub(super) fn try_decide(&self, group: &Group<'_>, now: Micros) -> Result<Decisions, StoreError> {
        at_once(self.refused.decide_by(|| now, group, wall(now), Instant::now()))
    }

    pub(super) fn decide(&self, group: &Group<'_>, now: Micros) -> Decisions {
        self.try_decide(group, now).expect("a decision")
    }

    pub(super) fn one(&self, check: Check<'_>, now: Micros) -> Decision {
        self.decide(&group(&[check]), now).checks[0]
    }

    /// How many groups were answered from memory so far.
    pub(super) fn answered(&self) -> u64 {
        self.observer.0.load(Ordering::Relaxed)
    }
}

/// The algorithms that hold no call.
pub(super) const AT_ONCE: [Algorithm; 4] = [
    Algorithm::TokenBucket,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
    Algorithm::FixedWindow,
];

pub(super) const ONE: Hits = Hits::Take(1);

/// A wait that is derived from when the whole budget is back may be a microsecond longer. When the next hit comes is not
/// known once it has come.
pub(super) fn agrees(told: Decision, expected: Decision) -> Result<(), &'static str> {
    let same = Decision {
        retry_after: expected.retry_after,
        next_after: expected.next_after,
        ..told
    } == expected;
    if !same {
        return Err("another decision");
    }
    let (retry, least) = (
        told.retry_after.map(Micros::get),
        expected.retry_after.map(Micros::get),
    );
    if retry < least || retry > least.map(|least| least + 1) {
        return Err("another wait");
    }
    match (told.next_after, expected.next_after) {
        (None, None) => Ok(()),
        (Some(next), Some(least)) if next >= least && Some(next) <= told.retry_after.max(Some(least)) => {
            Ok(())
        }
        _ => Err("another next hit"),
    }
}

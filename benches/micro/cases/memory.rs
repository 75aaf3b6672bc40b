//! Deciding one check in the embedded store.

use std::hint::black_box;
use std::sync::Arc;

use comporta::domain::limit::{Algorithm, Unit};
use comporta::domain::time::Micros;
use comporta::store::memory::Memory;

use super::Call;
use crate::support::{START, Silent, group, key, limit_of, shuffle, take as check};

/// Far more than are called for.
const PER_YEAR: u32 = 4_000_000_000;

/// Between two calls of a thread.
const STEP: Micros = Micros::new(7);

/// One thread takes a hit of each of so many counters in turns.
pub fn take(counters: usize) -> Call {
    take_together(counters, 1).remove(0)
}

/// Each of so many threads takes hits of the same counters, in an order of its own.
pub fn take_together(counters: usize, threads: usize) -> Vec<Call> {
    let store = Memory::new(1_000_000, Arc::new(Silent));
    let mut keys: Vec<_> = (0..counters).map(key).collect();
    (0..threads)
        .map(|_| {
            shuffle(&mut keys);
            take_in_turns(store.clone(), keys.clone())
        })
        .collect()
}

fn take_in_turns(store: Memory, keys: Vec<Vec<u8>>) -> Call {
    let limit = limit_of(Algorithm::TokenBucket, PER_YEAR, Unit::Year);
    let counters = keys.len();
    let (mut next, mut now) = (0, START);
    let mut take = move || {
        let checks = [check(&keys[next], &limit)];
        let decisions = store.decide_now(black_box(&group(&checks)), black_box(now));
        assert!(!decisions.refused);
        black_box(&decisions);
        next = (next + 1) % keys.len();
        now = now.plus(STEP);
    };
    // Calls find their counters.
    (0..counters).for_each(|_| take());
    Box::new(take)
}

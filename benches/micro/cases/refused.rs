//! Refusing what is known to be refused.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use comporta::domain::limit::{Algorithm, Unit};
use comporta::domain::time::Micros;
use comporta::store::Store;
use comporta::store::memory::Memory;
use comporta::store::refused::{Refusals, Refused};
use futures_util::FutureExt;

use super::Call;
use crate::support::{START, Silent, group, key, limit_of, take as check};

/// A store that is asked then lets pass what was refused at first.
const LATER: Micros = Micros::new(1_000 * Micros::DAY.get());

/// Asks about a counter that is spent.
pub fn ask() -> Call {
    let shared = Memory::new(1_000_000, Arc::new(Silent));
    let store = Refused::new(shared, Arc::new(Refusals::new()), Arc::new(Silent));
    let (limit, key) = (limit_of(Algorithm::TokenBucket, 1, Unit::Year), key(0));
    let deadline = Instant::now();
    let ask_at = move |now| {
        let checks = [check(&key, &limit)];
        let group = group(&checks);
        let decided = store.decide(black_box(&group), now, deadline);
        let decisions = decided.now_or_never().expect("nothing to wait for");
        black_box(decisions).expect("a decision").refused
    };
    assert!(!ask_at(START), "the one of the year");
    Box::new(move || assert!(ask_at(START.plus(LATER))))
}

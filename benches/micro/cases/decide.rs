//! Deciding one check over a counter that is at hand.

use std::hint::black_box;

use comporta::decide::group::{self, Counters, Stored};
use comporta::decide::sliding_log::Log;
use comporta::decide::state::{Seen, State};
use comporta::domain::check::{Check, Group};
use comporta::domain::limit::{Algorithm, Limit, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};

use super::Call;
use crate::support::{START, key, limit_of, take as check};

/// What comes in a second: so much a bucket drains, and it is half of what a window or a log admits.
const CALLS_A_SECOND: u32 = 50;
const STEP: Micros = Micros::new(20_000);

/// What is in every counter from the beginning. It never drains, so no counter is ever near its end.
const TAKEN_BEFORE: usize = 25;
/// Not a whole step, so that a bucket holds a part of a hit, too.
const FIRST_STEP: Micros = Micros::new(13_007);

fn limit(algorithm: Algorithm) -> Limit {
    let count = if algorithm.is_bucket() {
        CALLS_A_SECOND
    } else {
        2 * CALLS_A_SECOND
    };
    limit_of(algorithm, count, Unit::Second)
}

/// A counter as a store in memory has it.
#[derive(Default)]
struct Counter {
    state: Option<State>,
    log: Log,
}

impl Counters for Counter {
    fn read(&mut self, _: usize, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        let state = if check.limit.algorithm() == Algorithm::SlidingLog {
            Some(State::Log(self.log.view(check.limit, asked, now)))
        } else {
            self.state
        };
        state.map_or(Stored::Nothing, Stored::State)
    }

    fn write(&mut self, _: usize, check: &Check<'_>, seen: &Seen, change: Hits) {
        self.state = Some(seen.state);
        if check.limit.algorithm() == Algorithm::SlidingLog {
            self.log.take(check.limit, change.asked(), seen.now);
        }
    }
}

/// Takes a hit; one that waits for its slot where calls can.
pub fn take(algorithm: Algorithm) -> Call {
    let (limit, key) = (limit(algorithm), key(0));
    let mut counter = Counter::default();
    let mut take_at = move |now| {
        let checks = [check(&key, &limit)];
        let group = Group {
            checks: &checks,
            longest_wait: Micros::SECOND,
            compat: false,
        };
        let decisions = group::decide(black_box(&group), black_box(now), &mut counter);
        assert!(!decisions.refused);
        black_box(&decisions);
    };
    (0..TAKEN_BEFORE).for_each(|_| take_at(START));
    let mut now = START.plus(FIRST_STEP);
    Box::new(move || {
        take_at(now);
        now = now.plus(STEP);
    })
}

//! That the shared store fails, as one event with a beginning and an end, whichever core meets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::store::{StoreError, StoreObserver};

/// How long the shared store must not have failed before it is said to decide again: one that fails now and then is
/// degraded all the while, rather than changing with every call.
const CALM: Duration = Duration::from_secs(1);

/// A failure so soon after the last outage is that one still.
const SAME: Duration = Duration::from_mins(1);

/// A change into degraded mode, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Degradation<'e> {
    /// The shared store fails: until it decides again, each rule's `on_store_failure` holds.
    Began {
        /// What it failed with first.
        error: &'e StoreError,
        /// Less than a minute after it decided again, so that this is no change of its own.
        again: bool,
    },
    /// The shared store decides again.
    Ended {
        /// The kind of error that it began with.
        reason: &'static str,
        /// How long it was, from the first failure to the last.
        lasted: Duration,
        /// Calls that were decided without the shared store.
        decided: u64,
        /// Calls that were an error.
        undecided: u64,
    },
}

/// Whether the shared store fails. What happens on every call is atomic; only a change takes the lock.
pub(super) struct Outage {
    /// When the clock below stood at zero.
    zero: Instant,
    degraded: AtomicBool,
    /// When the shared store last failed, in microseconds.
    failed: AtomicU64,
    decided: AtomicU64,
    undecided: AtomicU64,
    history: Mutex<History>,
    observer: Arc<dyn StoreObserver>,
}

#[derive(Default)]
struct History {
    /// When the present outage began, or the last one did, and with what.
    began: Option<(Instant, &'static str)>,
    /// When the last one ended.
    ended: Option<Instant>,
}

impl Outage {
    /// None yet. `observer` is told of changes, one after the other.
    pub(super) fn none(now: Instant, observer: Arc<dyn StoreObserver>) -> Self {
        Self {
            zero: now,
            degraded: AtomicBool::new(false),
            failed: AtomicU64::new(0),
            decided: AtomicU64::new(0),
            undecided: AtomicU64::new(0),
            history: Mutex::default(),
            observer,
        }
    }

    /// Notes that the shared store failed a call, and whether that was `decided` without it.
    pub(super) fn failed(&self, error: &StoreError, decided: bool, now: Instant) {
        self.failed.fetch_max(self.micros(now), Ordering::Relaxed);
        if !self.degraded.load(Ordering::Relaxed) {
            self.begin(error, now);
        }
        let calls = if decided { &self.decided } else { &self.undecided };
        calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the shared store decided a call.
    pub(super) fn answered(&self, now: impl FnOnce() -> Instant) {
        if self.degraded.load(Ordering::Relaxed) {
            self.end(now());
        }
    }

    #[cold]
    fn begin(&self, error: &StoreError, now: Instant) {
        let mut history = self.history.lock();
        if self.degraded.swap(true, Ordering::Relaxed) {
            return;
        }
        let again = history
            .ended
            .is_some_and(|ended| now.saturating_duration_since(ended) < SAME);
        history.began = Some((now, error.kind()));
        self.observer.degraded(&Degradation::Began { error, again });
    }

    #[cold]
    fn end(&self, now: Instant) {
        if self.calm_for(now) < CALM {
            return;
        }
        let mut history = self.history.lock();
        let Some((began, reason)) = history.began else {
            return;
        };
        if !self.degraded.swap(false, Ordering::Relaxed) {
            return;
        }
        history.ended = Some(now);
        let failed = self.zero + Duration::from_micros(self.failed.load(Ordering::Relaxed));
        self.observer.degraded(&Degradation::Ended {
            reason,
            lasted: failed.saturating_duration_since(began),
            decided: self.decided.swap(0, Ordering::Relaxed),
            undecided: self.undecided.swap(0, Ordering::Relaxed),
        });
    }

    fn micros(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.zero);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn calm_for(&self, now: Instant) -> Duration {
        let failed = self.failed.load(Ordering::Relaxed);
        Duration::from_micros(self.micros(now).saturating_sub(failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes down what it is told.
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl StoreObserver for Notes {
        fn degraded(&self, change: &Degradation<'_>) {
            self.0.lock().push(match change {
                Degradation::Began { error, again } => format!("{} {again}", error.kind()),
                Degradation::Ended {
                    reason,
                    lasted,
                    decided,
                    undecided,
                } => format!("no {reason} {lasted:?} {decided} {undecided}"),
            });
        }
    }

    /// An outage whose clock is moved by hand, in milliseconds.
    struct Bench {
        outage: Outage,
        notes: Arc<Notes>,
    }

    impl Bench {
        fn new() -> Self {
            let notes = Arc::new(Notes::default());
            Self {
                outage: Outage::none(Instant::now(), Arc::clone(&notes) as Arc<_>),
                notes,
            }
        }

        fn at(&self, millis: u64) -> Instant {
            self.outage.zero + Duration::from_millis(millis)
        }

        fn fails(&self, decided: bool, millis: u64) {
            let timeout = StoreError::Timeout {
                budget: Duration::ZERO,
            };
            self.outage.failed(&timeout, decided, self.at(millis));
        }

        fn answers(&self, millis: u64) {
            self.outage.answered(|| self.at(millis));
        }

        fn notes(&self) -> Vec<String> {
            std::mem::take(&mut self.notes.0.lock())
        }
    }

    #[test]
    fn a_store_that_fails_now_and_then_is_one_outage_and_not_many() {
        let bench = Bench::new();
        bench.answers(0);
        assert!(bench.notes().is_empty());
        for second in 0..50 {
            bench.fails(true, 1_000 * second);
            bench.answers(1_000 * second + 999);
        }
        assert_eq!(bench.notes(), ["timeout false"]);
        bench.fails(false, 49_500);
        bench.answers(50_499);
        assert!(bench.notes().is_empty());
        bench.answers(50_500);
        bench.answers(50_501);
        assert_eq!(bench.notes(), ["no timeout 49.5s 50 1"]);
    }

    #[test]
    fn what_fails_again_within_a_minute_is_the_same_change() {
        let bench = Bench::new();
        let mut now = 0;
        for (pause, again) in [(0, false), (59_999, true), (60_000, false), (3_600_000, false)] {
            now += pause;
            bench.fails(true, now);
            assert_eq!(bench.notes(), [format!("timeout {again}")], "{pause}");
            now += 1_000;
            bench.answers(now);
            assert_eq!(bench.notes(), ["no timeout 0ns 1 0"]);
        }
    }

    #[test]
    fn a_failure_that_comes_late_does_not_make_an_earlier_one_older() {
        let bench = Bench::new();
        bench.fails(true, 500);
        bench.fails(true, 100);
        bench.answers(1_499);
        assert_eq!(bench.notes(), ["timeout false"]);
        bench.answers(1_500);
        assert_eq!(bench.notes(), ["no timeout 0ns 2 0"]);
    }
}

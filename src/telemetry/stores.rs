//! What happens inside stores, counted per core.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::cells::Cells;
use crate::clock::{Clock, SystemClock};
use crate::domain::time::Micros;
use crate::service::throttle::Throttle;
use crate::store::fallback::Degradation;
use crate::store::{StoreError, StoreObserver};

/// Upper bounds of the histogram, in microseconds: from a store on this machine to one that is as good as gone.
const BOUNDS: [u64; 12] = [
    100, 200, 300, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 50_000, 100_000,
];

/// The kinds of [`StoreError`], as labels.
const KINDS: [&str; 4] = ["timeout", "impatient", "unreachable", "refused"];

/// One cell per bucket, the last without a bound; then what follows.
const FIRST_ERROR: usize = BOUNDS.len() + 1;
const MICROS: usize = FIRST_ERROR + KINDS.len();
const UNREADABLE: usize = MICROS + 1;
const OVERFLOWED: usize = UNREADABLE + 1;
const FROM_MEMORY: usize = OVERFLOWED + 1;
const CELLS: usize = FROM_MEMORY + 1;

/// The stores of all cores.
#[derive(Debug)]
pub(super) struct Stores {
    cores: Vec<Arc<CoreStore>>,
    shared: Arc<Shared>,
}

/// What the cores have in common: what happens to all of them at once is said once.
#[derive(Debug)]
struct Shared {
    /// Why decisions are made without the shared store: the place among [`KINDS`], counted from 1; zero where they are
    /// made with it.
    degraded: AtomicUsize,
    /// How often that began.
    degradations: AtomicU64,
    connections: Throttle,
    failed_connections: Throttle,
    scripts: Throttle,
    full: Throttle,
}

impl Stores {
    pub(super) fn new(cores: usize) -> Self {
        let shared = Arc::new(Shared {
            degraded: AtomicUsize::new(0),
            degradations: AtomicU64::new(0),
            connections: Throttle::every(Micros::SECOND),
            failed_connections: Throttle::every(Micros::MINUTE),
            scripts: Throttle::every(Micros::SECOND),
            full: Throttle::every(Micros::MINUTE),
        });
        let core = |_| Arc::new(CoreStore::new(Arc::clone(&shared)));
        Self {
            cores: (0..cores.max(1)).map(core).collect(),
            shared,
        }
    }

    /// What listens to the store of `core`.
    pub(super) fn core(&self, core: usize) -> Arc<dyn StoreObserver> {
        Arc::clone(&self.cores[core % self.cores.len()]) as Arc<dyn StoreObserver>
    }

    /// For each kind of error, whether decisions are made without the shared store because of it.
    pub(super) fn degraded(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let reason = self.shared.degraded.load(Ordering::Relaxed);
        (1..).zip(KINDS).map(move |(place, kind)| (kind, place == reason))
    }

    /// How often decisions began to be made without the shared store.
    pub(super) fn degradations(&self) -> u64 {
        self.shared.degradations.load(Ordering::Relaxed)
    }

    /// Upper bounds in seconds and how many calls each bucket holds.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let seconds = BOUNDS
            .iter()
            .map(|&micros| Duration::from_micros(micros).as_secs_f64());
        seconds
            .chain([f64::INFINITY])
            .enumerate()
            .map(|(place, bound)| (bound, self.sum(place)))
            .collect()
    }

    /// How long all calls took together.
    pub(super) fn took(&self) -> Duration {
        Duration::from_micros(self.sum(MICROS))
    }

    /// Failed calls by kind.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS
            .iter()
            .enumerate()
            .map(|(place, kind)| (*kind, self.sum(FIRST_ERROR + place)))
    }

    /// Counters that could not be read.
    pub(super) fn unreadable(&self) -> u64 {
        self.sum(UNREADABLE)
    }

    /// Counters that found a store full.
    pub(super) fn overflowed(&self) -> u64 {
        self.sum(OVERFLOWED)
    }

    /// Groups that were refused by what was known already.
    pub(super) fn refused_from_memory(&self) -> u64 {
        self.sum(FROM_MEMORY)
    }

    fn sum(&self, cell: usize) -> u64 {
        self.cores.iter().map(|core| core.cells.get(cell)).sum()
    }
}

/// Listens to the store of one core.
#[derive(Debug)]
struct CoreStore {
    cells: Cells,
    shared: Arc<Shared>,
}

impl CoreStore {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            cells: Cells::new(CELLS),
            shared,
        }
    }
}

impl StoreObserver for CoreStore {
    fn asked(&self, took: Duration, outcome: Result<(), &StoreError>) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.cells.add(BOUNDS.partition_point(|&bound| bound < micros), 1);
        self.cells.add(MICROS, micros);
        if let Err(error) = outcome
            && let Some(kind) = KINDS.iter().position(|kind| *kind == error.kind())
        {
            self.cells.add(FIRST_ERROR + kind, 1);
        }
    }

    fn connected(&self, endpoint: &str) {
        self.shared.failed_connections.reset();
        if self.shared.connections.permits(SystemClock.now()) {
            tracing::info!(store = endpoint, "the shared store decides");
        }
    }

    fn connection_failed(&self, endpoint: &str, reason: &str, pause: Duration) {
        if self.shared.failed_connections.permits(SystemClock.now()) {
            tracing::warn!(
                store = endpoint,
                reason,
                next_attempt = ?pause,
                "the shared store does not decide; said at most once a minute until it does"
            );
        }
    }

    fn script_sent(&self, endpoint: &str) {
        if self.shared.scripts.permits(SystemClock.now()) {
            tracing::info!(
                store = endpoint,
                "the shared store did not know the script: it went along with a call"
            );
        }
    }

    fn unreadable(&self, counters: u32) {
        self.cells.add(UNREADABLE, u64::from(counters));
    }

    fn degraded(&self, change: &Degradation<'_>) {
        match *change {
            Degradation::Began { error, again } => {
                let reason = error.kind();
                let place = KINDS.iter().position(|kind| *kind == reason);
                self.shared
                    .degraded
                    .store(place.map_or(0, |place| place + 1), Ordering::Relaxed);
                self.shared
                    .degradations
                    .fetch_add(u64::from(!again), Ordering::Relaxed);
                tracing::warn!(reason, %error, again, "deciding without the shared store");
            }
            Degradation::Ended {
                reason,
                lasted,
                decided,
                undecided,
            } => {
                self.shared.degraded.store(0, Ordering::Relaxed);
                tracing::info!(
                    reason,
                    ?lasted,
                    decided_without = decided,
                    errors = undecided,
                    "deciding with the shared store again"
                );
            }
        }
    }

    fn overflowed(&self) {
        self.cells.add(OVERFLOWED, 1);
        if self.shared.full.permits(SystemClock.now()) {
            tracing::warn!(
                "this process holds as many counters as it may, so new callers of a rule share one: raise --max-counters \
                 (said at most once a minute)"
            );
        }
    }

    fn refused_from_memory(&self) {
        self.cells.add(FROM_MEMORY, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_calls_into_buckets_and_errors_into_kinds() {
        let stores = Stores::new(2);
        let timeout = StoreError::Timeout {
            budget: Duration::from_millis(10),
        };
        stores.core(0).asked(Duration::from_micros(100), Ok(()));
        stores.core(1).asked(Duration::from_micros(101), Ok(()));
        stores.core(1).asked(Duration::from_secs(1), Err(&timeout));
        let filled: Vec<_> = stores
            .buckets()
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(filled, [(0.0001, 1), (0.0002, 1), (f64::INFINITY, 1)]);
        assert_eq!(stores.took(), Duration::from_micros(1_000_201));
        assert_eq!(
            stores.errors().collect::<Vec<_>>(),
            [
                ("timeout", 1),
                ("impatient", 0),
                ("unreachable", 0),
                ("refused", 0)
            ]
        );
    }

    #[test]
    fn is_degraded_for_a_reason_and_counts_what_is_a_change_of_its_own() {
        let stores = Stores::new(2);
        let error = StoreError::Refused {
            reason: String::new(),
        };
        let because = || -> Vec<_> {
            let degraded = stores.degraded().filter(|(_, degraded)| *degraded);
            degraded.map(|(reason, _)| reason).collect()
        };
        for (again, changes) in [(false, 1), (true, 1), (false, 2)] {
            stores
                .core(0)
                .degraded(&Degradation::Began { error: &error, again });
            assert_eq!((because(), stores.degradations()), (vec!["refused"], changes));
            stores.core(0).degraded(&Degradation::Ended {
                reason: "refused",
                lasted: Duration::ZERO,
                decided: 0,
                undecided: 0,
            });
            assert!(because().is_empty());
        }
    }

    #[test]
    fn every_kind_of_error_has_a_label() {
        let errors = [
            StoreError::Timeout {
                budget: Duration::ZERO,
            },
            StoreError::Impatient { left: Duration::ZERO },
            StoreError::Unreachable {
                endpoint: String::new(),
                reason: String::new(),
            },
            StoreError::Refused {
                reason: String::new(),
            },
        ];
        for error in &errors {
            assert!(KINDS.contains(&error.kind()), "{}", error.kind());
        }
    }
}

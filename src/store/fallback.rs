//! Decides locally while the shared store cannot: every instance by its share of each budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::memory::Memory;
use super::{Store, StoreError, StoreObserver};
use crate::domain::check::{Check, Group};
use crate::domain::limit::Limit;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Decisions;

/// A shared store, and a local one for when it fails.
#[derive(Clone)]
pub struct Fallback<S> {
    shared: S,
    local: Memory,
    instances: u32,
    state: Arc<State>,
    /// [`CALM`], but for tests.
    calm: Duration,
    observer: Arc<dyn StoreObserver>,
}

/// How long the shared store must not have failed before that is said: one that fails now and then is degraded all
/// the while, rather than changing with every call.
const CALM: Duration = Duration::from_secs(1);

struct State {
    degraded: AtomicBool,
    started: Instant,
    /// Microseconds since then.
    failed: AtomicU64,
}

impl<S: Store> Fallback<S> {
    /// Falls back from `shared` to `local`, where each of `instances` gets an even share.
    pub fn new(shared: S, local: Memory, instances: u32, observer: Arc<dyn StoreObserver>) -> Self {
        Self {
            shared,
            local,
            instances,
            state: Arc::new(State {
                degraded: AtomicBool::new(false),
                started: Instant::now(),
                failed: AtomicU64::new(0),
            }),
            calm: CALM,
            observer,
        }
    }

    fn decide_locally(&self, group: &Group<'_>, now: Timestamp) -> Decisions {
        let shares: Vec<Limit> = group
            .checks
            .iter()
            .map(|check| check.limit.share_of(self.instances))
            .collect();
        let checks: Vec<Check<'_>> = group
            .checks
            .iter()
            .zip(&shares)
            .map(|(check, limit)| Check { limit, ..*check })
            .collect();
        let decisions = self.local.decide_now(
            &Group {
                checks: &checks,
                ..*group
            },
            now,
        );
        Decisions {
            degraded: true,
            ..decisions
        }
    }

    fn failed(&self, error: &StoreError) {
        let state = &self.state;
        state.failed.store(state.now(), Ordering::Relaxed);
        if !state.degraded.swap(true, Ordering::Relaxed) {
            self.observer.degraded(true, &error.to_string());
        }
    }

    fn decided(&self) {
        let state = &self.state;
        if state.degraded.load(Ordering::Relaxed)
            && state.calm_for() >= self.calm
            && state.degraded.swap(false, Ordering::Relaxed)
        {
            self.observer.degraded(false, "");
        }
    }
}

impl State {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn calm_for(&self) -> Duration {
        Duration::from_micros(self.now().saturating_sub(self.failed.load(Ordering::Relaxed)))
    }
}

impl<S: Store> Store for Fallback<S> {
    async fn decide(
        &self,
        group: &Group<'_>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Decisions, StoreError> {
        match self.shared.decide(group, now, deadline).await {
            Ok(decisions) => {
                self.decided();
                Ok(decisions)
            }
            Err(error) => {
                self.failed(&error);
                Ok(self.decide_locally(group, now))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::AtomicU32;

    use parking_lot::Mutex;

    use super::*;
    use crate::domain::time::Micros;

    /// Fails every other time.
    #[derive(Clone, Default)]
    struct Flaky(Arc<AtomicU32>);

    impl Store for Flaky {
        fn decide(
            &self,
            _: &Group<'_>,
            _: Timestamp,
            _: Instant,
        ) -> impl Future<Output = Result<Decisions, StoreError>> + Send {
            let budget = Duration::ZERO;
            ready(match self.0.fetch_add(1, Ordering::Relaxed) % 2 {
                0 => Err(StoreError::Timeout { budget }),
                _ => Ok(Decisions::default()),
            })
        }
    }

    #[derive(Default)]
    struct Changes(Mutex<Vec<bool>>);

    impl StoreObserver for Changes {
        fn asked(&self, _: Duration, _: Result<(), &StoreError>) {}
        fn connected(&self, _: &str) {}
        fn connection_failed(&self, _: &str, _: &str, _: Duration) {}
        fn script_sent(&self, _: &str) {}
        fn unreadable(&self, _: u32) {}
        fn degraded(&self, degraded: bool, _: &str) {
            self.0.lock().push(degraded);
        }
        fn overflowed(&self) {}
    }

    #[tokio::test]
    async fn a_store_that_fails_now_and_then_is_one_change_and_not_many() {
        let changes = Arc::new(Changes::default());
        let observer = Arc::clone(&changes) as Arc<dyn StoreObserver>;
        let local = Memory::new(1, Arc::clone(&observer));
        let mut store = Fallback::new(Flaky::default(), local, 1, observer);
        store.calm = Duration::MAX;
        let nothing = Group {
            checks: &[],
            longest_wait: Micros::ZERO,
            compat: false,
        };
        for decided_locally in [true, false].repeat(50) {
            let decisions = store.decide(&nothing, Timestamp::default(), Instant::now()).await;
            assert_eq!(decisions.expect("a decision").degraded, decided_locally);
        }
        assert_eq!(*changes.0.lock(), [true]);
        store.calm = Duration::ZERO;
        store.shared.0.store(1, Ordering::Relaxed);
        let _ = store.decide(&nothing, Timestamp::default(), Instant::now()).await;
        assert_eq!(*changes.0.lock(), [true, false]);
    }
}

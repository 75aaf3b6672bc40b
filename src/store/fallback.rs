//! Decides locally while the shared store cannot: every instance by its share of each budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
    degraded: Arc<AtomicBool>,
    observer: Arc<dyn StoreObserver>,
}

impl<S: Store> Fallback<S> {
    /// Falls back from `shared` to `local`, where each of `instances` gets an even share.
    pub fn new(shared: S, local: Memory, instances: u32, observer: Arc<dyn StoreObserver>) -> Self {
        Self {
            shared,
            local,
            instances,
            degraded: Arc::default(),
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

    fn note(&self, failure: Option<&StoreError>) {
        let degraded = failure.is_some();
        if self.degraded.load(Ordering::Relaxed) != degraded
            && self.degraded.swap(degraded, Ordering::Relaxed) != degraded
        {
            self.observer
                .degraded(degraded, &failure.map(ToString::to_string).unwrap_or_default());
        }
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
                self.note(None);
                Ok(decisions)
            }
            Err(error) => {
                self.note(Some(&error));
                Ok(self.decide_locally(group, now))
            }
        }
    }
}

//! Decides in this process while the shared store cannot: each check as its rule says.

mod outage;
mod standby;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

pub use self::outage::Degradation;
pub use self::standby::Standby;
use super::{Store, StoreError};
use crate::domain::check::Group;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Decisions;

/// A shared store, and what decides when it fails.
#[derive(Clone)]
pub struct Fallback<S> {
    shared: S,
    standby: Arc<Standby>,
}

impl<S: Store> Fallback<S> {
    /// Asks `shared`, and `standby` for what it could not decide.
    pub const fn new(shared: S, standby: Arc<Standby>) -> Self {
        Self { shared, standby }
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
                // Limits of zero are decided without asking it.
                if group.checks.iter().any(|check| check.limit.count() > 0) {
                    self.standby.outage.answered(Instant::now);
                }
                Ok(decisions)
            }
            Err(error) => self.standby.decide(group, now, error),
        }
    }
}

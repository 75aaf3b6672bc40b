//! The seam between deciding what is asked and holding what was used.

pub mod fallback;
pub mod instances;
pub mod key;
pub mod memory;
pub mod redis;
pub mod refused;
mod secret_hash;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use self::fallback::Degradation;
use crate::domain::check::Group;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Decisions;

/// Holds counters and decides groups of checks against them.
///
/// A clone shares the same counters; every core keeps its own.
pub trait Store: Clone + Send + Sync + 'static {
    /// Decides one group atomically: all its checks at one moment, charged as their [`Charge`] and the group's verdict
    /// say.
    ///
    /// `now` is the caller's clock; a store with a clock of its own, shared by all instances, counts by that one.
    /// The answer is there before `deadline`, or the error is. The future may be dropped at any point: the group is
    /// then either decided as a whole or not at all.
    ///
    /// [`Charge`]: crate::domain::check::Charge
    fn decide(
        &self,
        group: &Group<'_>,
        now: Timestamp,
        deadline: Instant,
    ) -> impl Future<Output = Result<Decisions, StoreError>> + Send;
}

/// Why a store could not decide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No answer in time. Whether the group was charged is unknown.
    #[error("the store did not answer within {budget:?}")]
    Timeout {
        /// What was left to wait.
        budget: Duration,
    },
    /// The caller waits less long than a call may take, and there was no answer by then: that says nothing about the store.
    /// Whether the group was charged is unknown.
    #[error("the caller gave the store no more than {left:?}")]
    Impatient {
        /// What was left of its deadline.
        left: Duration,
    },
    /// No connection, so nothing was charged; or it was lost on the way, and that is unknown.
    #[error("the store at {endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// Where it should be, without credentials.
        endpoint: String,
        /// What the attempt ended with.
        reason: String,
    },
    /// The store answered that it will not; nothing was charged.
    #[error("the store refused: {reason}")]
    Refused {
        /// In the store's own words.
        reason: String,
    },
}

impl StoreError {
    /// A short, fixed word for a metric's label.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Impatient { .. } => "impatient",
            Self::Unreachable { .. } => "unreachable",
            Self::Refused { .. } => "refused",
        }
    }
}

/// Is told what happens inside a store, so that it needs to know no metrics. What it does not listen to passes by.
pub trait StoreObserver: Send + Sync + 'static {
    /// A call to the shared store ended, well or not.
    fn asked(&self, _took: Duration, _outcome: Result<(), &StoreError>) {}
    /// The shared store decides.
    fn connected(&self, _endpoint: &str) {}
    /// The shared store does not decide, for want of a connection or by its own word; it is tried again after the pause.
    fn connection_failed(&self, _endpoint: &str, _reason: &str, _pause: Duration) {}
    /// A server did not know the script, which was sent along with a call.
    fn script_sent(&self, _endpoint: &str) {}
    /// Counters held something unreadable and were taken as empty.
    fn unreadable(&self, _counters: u32) {}
    /// Groups are decided without the shared store from now on, or no longer.
    fn degraded(&self, _change: &Degradation<'_>) {}
    /// A full store sends new counters to their rule's overflow counter.
    fn overflowed(&self) {}
    /// A group was refused by what is known already, without the shared store.
    fn refused_from_memory(&self) {}
}

/// The operating system's randomness, by way of the standard library's own hash seeds: two or more cannot be guessed.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

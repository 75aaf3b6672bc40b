//! Which policies are in force, and what became of attempts to reload them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::domain::time::Timestamp;
use crate::service::reload::Outcome;

/// The outcomes, as labels.
const OUTCOMES: [(Outcome, &str); 3] = [
    (Outcome::Accepted, "accepted"),
    (Outcome::Rejected, "rejected"),
    (Outcome::Unchanged, "unchanged"),
];

/// What reloads did. They are rare, so all cores share it.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    hash: AtomicU64,
    /// Microseconds.
    since: AtomicU64,
    ended: [AtomicU64; OUTCOMES.len()],
    failed: AtomicBool,
}

impl Reloads {
    pub(super) fn in_force(&self, hash: u64, since: Timestamp) {
        self.hash.store(hash, Ordering::Relaxed);
        self.since.store(since.as_micros(), Ordering::Relaxed);
    }

    pub(super) fn ended(&self, outcome: Outcome) {
        self.failed.store(outcome == Outcome::Rejected, Ordering::Relaxed);
        for ((of, _), count) in OUTCOMES.iter().zip(&self.ended) {
            count.fetch_add(u64::from(*of == outcome), Ordering::Relaxed);
        }
    }

    /// Of the policies in force.
    pub(super) fn hash(&self) -> u64 {
        self.hash.load(Ordering::Relaxed)
    }

    /// Seconds since 1970 at which they came into force.
    pub(super) fn since(&self) -> f64 {
        std::time::Duration::from_micros(self.since.load(Ordering::Relaxed)).as_secs_f64()
    }

    /// Whether the last attempt was rejected.
    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Attempts by outcome.
    pub(super) fn by_outcome(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OUTCOMES
            .iter()
            .zip(&self.ended)
            .map(|((_, name), count)| (*name, count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_until_it_is_mended() {
        let reloads = Reloads::default();
        for (outcome, failed) in [
            (Outcome::Rejected, true),
            (Outcome::Unchanged, false),
            (Outcome::Rejected, true),
            (Outcome::Accepted, false),
        ] {
            reloads.ended(outcome);
            assert_eq!(reloads.failed(), failed, "{outcome:?}");
        }
        assert_eq!(
            reloads.by_outcome().collect::<Vec<_>>(),
            [("accepted", 1), ("rejected", 2), ("unchanged", 1)]
        );
    }
}

//! Answers from memory what the shared store would refuse: a caller that goes on over its limit costs the store one
//! call for each hit that it is admitted.
//!
//! # What is known
//!
//! A refusal says when the call would pass. Until then so many hits or more are refused again, whoever else is charged
//! meanwhile: that only puts it off. An admitted call that leaves nothing says the same of one hit. Both are counted
//! from when the call was sent, before the store looked, by a clock that nobody sets: so nothing is refused for longer
//! than the store would. A wait that is told from memory is counted from when the answer came, so nobody who waits it
//! returns too early.
//!
//! It never admits: what it does not refuse, the store decides. It can refuse what the store would by then admit:
//!
//! * When another instance gives hits back: until it hears of that, or, on a rule of which it has seen a give-back
//!   before, for a second. Hits given back through this process count at once.
//! * When another limit on the same counter, such as another plan of the same client, drains a bucket faster: elsewhere
//!   or in the same moment, at most until the wait that was told is over.
//! * When a cluster has taken hits for a group of which another slot refuses a part, and takes them back: for a second, since
//!   no refusal by a cluster is held for longer.
//! * When the store has lost its memory, or its clock was set forwards: at most until the wait that was told is over.
//!
//! # What is not answered
//!
//! Groups in which something is charged though they are refused, and groups that give back. Checks that cannot refuse by
//! themselves neither make a refusal nor are they remembered. Of a window what is known says nothing exact about *more*
//! hits than were refused, so a larger call is decided by the store, which tells it the right wait; of a bucket or a
//! fixed window it does. Decisions that were made without the shared store are not remembered, but what was before is
//! answered while the store is away.

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod properties;
mod refusal;
mod refusals;
mod rules;
mod shard;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use self::refusals::Known;
pub use self::refusals::Refusals;
use super::{Store, StoreError, StoreObserver};
use crate::domain::check::Group;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::Decisions;

/// A shared store, and what is known to be refused by it.
#[derive(Clone)]
pub struct Refused<S> {
    shared: S,
    refusals: Arc<Refusals>,
    observer: Arc<dyn StoreObserver>,
}

impl<S: Store> Refused<S> {
    /// Asks `shared` only what `refusals`, common to all cores, do not answer.
    pub fn new(shared: S, refusals: Arc<Refusals>, observer: Arc<dyn StoreObserver>) -> Self {
        Self {
            shared,
            refusals,
            observer,
        }
    }

    /// Decides by a `clock` that shows moments as [`Refusals`] has them.
    async fn decide_by(
        &self,
        clock: impl Fn() -> Micros + Send + Sync,
        group: &Group<'_>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Decisions, StoreError> {
        let sent = clock();
        if group.checks.iter().any(|check| check.hits.gives_back()) {
            let _reopening = Reopening::start(&self.refusals, group, &clock);
            return self.shared.decide(group, now, deadline).await;
        }
        let outdated = match self.refusals.ask(group, sent) {
            Known::Refused(decisions) => {
                self.observer.refused_from_memory();
                return Ok(decisions);
            }
            Known::Open { outdated } => outdated,
        };
        let decisions = self.shared.decide(group, now, deadline).await?;
        if decisions.degraded.is_none() {
            self.refusals.learn(group, &decisions, sent, clock(), outdated);
        }
        Ok(decisions)
    }
}

/// Forgets what was remembered of a group's counters once its give-backs are through. They may be even where no answer
/// came or nobody waited for it, so it happens whichever way the call ends.
struct Reopening<'a, F: Fn() -> Micros> {
    refusals: &'a Refusals,
    group: &'a Group<'a>,
    clock: &'a F,
}

impl<'a, F: Fn() -> Micros> Reopening<'a, F> {
    fn start(refusals: &'a Refusals, group: &'a Group<'a>, clock: &'a F) -> Self {
        for check in group.checks.iter().filter(|check| check.hits.gives_back()) {
            refusals.give_back_seen_at(check.key, clock());
        }
        Self {
            refusals,
            group,
            clock,
        }
    }
}

impl<F: Fn() -> Micros> Drop for Reopening<'_, F> {
    fn drop(&mut self) {
        for check in self.group.checks {
            self.refusals.forget_at(check.key, (self.clock)());
            if check.hits.gives_back() {
                self.refusals.tell(check.key);
            }
        }
    }
}

impl<S: Store> Store for Refused<S> {
    async fn decide(
        &self,
        group: &Group<'_>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Decisions, StoreError> {
        self.decide_by(|| self.refusals.now(), group, now, deadline).await
    }
}

//! What a process knows to be refused, shared by all its cores.

use std::hash::{Hash, Hasher};
use std::time::Instant;

use parking_lot::Mutex;

use super::refusal::Refusal;
use super::rules::Rules;
use super::shard::Shard;
use crate::domain::check::{Binding, Charge, Check, Group};
use crate::domain::limit::Limit;
use crate::domain::time::Micros;
use crate::domain::verdict::{Decision, Decisions, Verdict};
use crate::store::key::limit_of;
use crate::store::secret_hash::SecretHash;

/// Enough that two cores rarely meet on one.
pub(super) const SHARDS: usize = 64;

/// How long a refusal is held on a rule of which give-backs were seen: other instances may give back, too, and the word
/// of it may be lost.
pub(super) const LONGEST_WITH_GIVE_BACKS: Micros = Micros::SECOND;

/// What is known to be refused: 65 536 refusals at most, of 64 bytes each. Forgetting one is always safe.
///
/// Each is found by a 128-bit hash of its counter's key and holds for the limit's numbers as they were, so an edited
/// limit, or another plan, is not refused by it, and a reload need not drop any.
pub struct Refusals {
    started: Instant,
    secret: SecretHash,
    shards: [Mutex<Shard>; SHARDS],
    with_give_backs: Rules,
    tell: Option<Tell>,
}

/// Hears the key of a counter.
type Tell = Box<dyn Fn(&[u8]) + Send + Sync>;

/// What is known about a group.
pub(super) enum Known {
    /// It is refused.
    Refused(Decisions),
    /// Whether it is refused is not known.
    Open {
        /// What is remembered of its counters may speak of before, once it has been charged.
        outdated: bool,
    },
}

/// What is known about a check.
enum Found {
    Refused(Decision),
    /// Something that does not answer this question.
    Other,
    Nothing,
}

impl Default for Refusals {
    fn default() -> Self {
        Self::new()
    }
}

impl Refusals {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::with(Rules::new())
    }

    /// Nothing is known of a cluster. What it takes for a group in one slot it takes back when another slot refuses, which
    /// looks like a give-back: what is refused between the two is held for a second at most, on any rule.
    pub fn of_cluster() -> Self {
        Self::with(Rules::all())
    }

    fn with(with_give_backs: Rules) -> Self {
        Self {
            started: Instant::now(),
            secret: SecretHash::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            with_give_backs,
            tell: None,
        }
    }

    /// The same, of which `tell` hears the key of every counter that hits were given back to through this process, once they
    /// are.
    #[must_use]
    pub fn telling(self, tell: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self {
            tell: Some(Box::new(tell)),
            ..self
        }
    }

    /// Tells others of a give-back to the counter of `key`.
    pub(super) fn tell(&self, key: &[u8]) {
        if let Some(tell) = &self.tell {
            tell(key);
        }
    }

    /// Drops all that is remembered.
    pub fn forget_all(&self) {
        self.forget_all_at(self.now());
    }

    fn forget_all_at(&self, now: Micros) {
        for shard in &self.shards {
            shard.lock().forget_all(now);
        }
    }

    /// Drops what is remembered of the counter of `key`: the next call is decided by the store.
    pub fn forget(&self, key: &[u8]) {
        self.forget_at(key, self.now());
    }

    /// Hits were given back to the counter of `key`, here or by another instance. Drops what is remembered of it, and
    /// holds refusals of its rule for a second at most from now on.
    pub fn give_back_seen(&self, key: &[u8]) {
        self.give_back_seen_at(key, self.now());
    }

    /// The present moment, as a span since the beginning.
    pub(super) fn now(&self) -> Micros {
        self.started.elapsed().into()
    }

    pub(super) fn forget_at(&self, key: &[u8], now: Micros) {
        let hash = self.secret.of(key);
        self.shard(hash).lock().forget(hash, now);
    }

    pub(super) fn give_back_seen_at(&self, key: &[u8], now: Micros) {
        if self.with_give_backs.add(self.rule_of(key)) {
            // What was remembered of the rule is held for longer than it may be now. This happens once for a rule.
            self.forget_all_at(now);
        } else {
            self.forget_at(key, now);
        }
    }

    /// What is known about `group` at `now`.
    pub(super) fn ask(&self, group: &Group<'_>, now: Micros) -> Known {
        if group.compat || !group.checks.iter().all(is_charged_with_group) {
            return Known::Open { outdated: true };
        }
        let mut refused: Option<Decisions> = None;
        let mut outdated = false;
        for (place, check) in group.checks.iter().enumerate() {
            match self.look_up(check, group.longest_wait, now) {
                Found::Refused(decision) => {
                    let refused = refused.get_or_insert_with(|| not_asked(group));
                    refused.checks[place] = decision;
                }
                Found::Other => outdated = true,
                Found::Nothing => {}
            }
        }
        refused.map_or(Known::Open { outdated }, Known::Refused)
    }

    fn look_up(&self, check: &Check<'_>, longest_wait: Micros, now: Micros) -> Found {
        let hash = self.secret.of(check.key);
        let found = self.shard(hash).lock().find(hash);
        let Some(refusal) = found.filter(|refusal| now < refusal.ends()) else {
            return Found::Nothing;
        };
        if !speaks(check) {
            return Found::Other;
        }
        let numbers = self.numbers_of(check.limit);
        refusal
            .decide(check, numbers, longest_wait, now)
            .map_or(Found::Other, Found::Refused)
    }

    /// Remembers what the `decisions` about `group`, which was `sent` and `answered` then, say about later calls.
    /// `outdated` is what was said when it was asked about.
    pub(super) fn learn(
        &self,
        group: &Group<'_>,
        decisions: &Decisions,
        sent: Micros,
        answered: Micros,
        outdated: bool,
    ) {
        // There a refused call is charged, so what it says does not last.
        if group.compat {
            return;
        }
        for (check, decision) in group.checks.iter().zip(&decisions.checks) {
            let numbers = || self.numbers_of(check.limit);
            let refusal = if speaks(check) {
                Refusal::of(check, decision, numbers, group.longest_wait, sent, answered)
            } else {
                None
            };
            if let Some(refusal) = refusal {
                self.remember(check.key, refusal, sent);
            } else if outdated && was_charged(check, decision, decisions.refused) {
                let hash = self.secret.of(check.key);
                self.shard(hash).lock().remove(hash);
            }
        }
    }

    fn remember(&self, key: &[u8], refusal: Refusal, sent: Micros) {
        let hash = self.secret.of(key);
        let mut shard = self.shard(hash).lock();
        // Under the lock: a rule that is added meanwhile has all shards cleared afterwards.
        let refusal = if self.with_give_backs.holds(|| self.rule_of(key)) {
            refusal.held_until(sent.saturating_add(LONGEST_WITH_GIVE_BACKS))
        } else {
            refusal
        };
        shard.put(hash, refusal, sent);
    }

    fn shard(&self, hash: u128) -> &Mutex<Shard> {
        // A shard takes the low bits.
        &self.shards[(hash >> 64) as usize % SHARDS]
    }

    /// What stands for all that decides what `limit` admits.
    fn numbers_of(&self, limit: &Limit) -> u64 {
        let numbers = (
            limit.algorithm(),
            limit.grid(),
            limit.rate(),
            limit.capacity(),
            limit.delay(),
        );
        self.secret.of_parts(|hasher| numbers.hash(hasher)) as u64
    }

    /// What stands for the rule that a counter belongs to.
    fn rule_of(&self, key: &[u8]) -> u64 {
        let (domain, limit) = limit_of(key);
        self.secret.of_parts(|hasher| {
            hasher.write(domain);
            hasher.write(limit);
        }) as u64
    }

    /// How many are remembered at `now`.
    #[cfg(test)]
    pub(super) fn count(&self, now: Micros) -> usize {
        self.shards.iter().map(|shard| shard.lock().count(now)).sum()
    }
}

fn is_charged_with_group(check: &Check<'_>) -> bool {
    check.charge == Charge::AllOrNothing
}

/// Whether what is decided about `check` says something about later calls: it can refuse by itself, and is charged
/// nothing then.
fn speaks(check: &Check<'_>) -> bool {
    check.binding == Binding::Always && is_charged_with_group(check)
}

/// Whether a check that was decided so was charged, in a group that was `refused` or not.
fn was_charged(check: &Check<'_>, decision: &Decision, refused: bool) -> bool {
    match check.charge {
        Charge::AllOrNothing => decision.verdict == Verdict::UnderLimit && !refused,
        Charge::Each => decision.verdict == Verdict::UnderLimit,
        Charge::Always => true,
    }
}

/// A refusal of `group` in which nothing was looked at.
fn not_asked(group: &Group<'_>) -> Decisions {
    Decisions {
        checks: group.checks.iter().map(|_| Decision::NOT_ASKED).collect(),
        refused: true,
        ..Decisions::default()
    }
}

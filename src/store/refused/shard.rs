//! A part of what is remembered, under one lock, in room that does not grow.

use super::refusal::Refusal;
use crate::domain::time::Micros;

/// How many refusals can lie where one is looked for.
pub(super) const WAYS: usize = 8;

/// How many such places a shard has.
pub(super) const SETS: usize = 128;

/// Refusals by the hash of their counter's key. An idle process holds none of the room for them.
#[derive(Default)]
pub(super) struct Shard {
    sets: Vec<Set>,
    /// When something was last forgotten: what was sent before may speak of before.
    forgotten: Micros,
}

/// 512 bytes. The hashes lie together: most look-ups find none of them.
#[derive(Clone, Copy)]
struct Set {
    hashes: [u128; WAYS],
    refusals: [Refusal; WAYS],
}

impl Set {
    const EMPTY: Self = Self {
        hashes: [0; WAYS],
        refusals: [Refusal::NONE; WAYS],
    };

    fn place_of(&self, hash: u128) -> Option<usize> {
        self.hashes.iter().position(|held| *held == hash)
    }

    /// Where the one lies that ends first: an expired one, if there is any.
    fn first_to_end(&self) -> usize {
        (0..WAYS)
            .min_by_key(|place| self.refusals[*place].ends())
            .unwrap_or_default()
    }
}

impl Shard {
    /// What is remembered of a counter, expired or not.
    pub(super) fn find(&self, hash: u128) -> Option<Refusal> {
        let set = self.sets.get(set_of(hash))?;
        set.place_of(hash).map(|place| set.refusals[place])
    }

    /// Remembers `refusal`, learned from a question that was `sent` then, in place of what was known of the counter and,
    /// where there is no room, of what would be forgotten first.
    pub(super) fn put(&mut self, hash: u128, refusal: Refusal, sent: Micros) {
        if sent <= self.forgotten {
            return;
        }
        if self.sets.is_empty() {
            self.sets = vec![Set::EMPTY; SETS];
        }
        let set = &mut self.sets[set_of(hash)];
        let place = set.place_of(hash).unwrap_or_else(|| set.first_to_end());
        set.hashes[place] = hash;
        set.refusals[place] = refusal;
    }

    /// Drops what is remembered of a counter. What is on its way may be remembered.
    pub(super) fn remove(&mut self, hash: u128) {
        let Some(set) = self.sets.get_mut(set_of(hash)) else {
            return;
        };
        if let Some(place) = set.place_of(hash) {
            set.refusals[place] = Refusal::NONE;
        }
    }

    /// Drops what is remembered of a counter, also what is on its way `now`.
    pub(super) fn forget(&mut self, hash: u128, now: Micros) {
        self.forgotten = self.forgotten.max(now);
        self.remove(hash);
    }

    /// Drops everything, also what is on its way `now`.
    pub(super) fn forget_all(&mut self, now: Micros) {
        *self = Self {
            sets: Vec::new(),
            forgotten: self.forgotten.max(now),
        };
    }

    /// How many are remembered at `now`.
    #[cfg(test)]
    pub(super) fn count(&self, now: Micros) -> usize {
        let refusals = self.sets.iter().flat_map(|set| &set.refusals);
        refusals.filter(|refusal| refusal.ends() > now).count()
    }
}

fn set_of(hash: u128) -> usize {
    hash as usize % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_takes_64_bytes() {
        assert_eq!(size_of::<Set>(), 64 * WAYS);
    }
}

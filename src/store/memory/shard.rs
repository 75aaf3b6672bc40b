//! A part of the embedded store's counters, under one lock.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::decide::group::Stored;
use crate::decide::sliding_log::Log;
use crate::decide::state::{Encoded, Seen, State};
use crate::domain::check::Check;
use crate::domain::limit::Algorithm;
use crate::domain::quantity::Hits;
use crate::domain::time::Timestamp;

/// A shard looks for expired counters again when it has grown to twice what was left the last time, and not below this.
const FIRST_SWEEP: usize = 64;

/// Counters by the hash of their key.
#[derive(Default)]
pub(super) struct Shard {
    counters: HashTable<Counter>,
    logs: HashTable<LogCounter>,
    sweep_at: usize,
    /// No sweep in this second: a full shard has nothing to find twice in one.
    swept: u32,
    /// The latest second of a write since the last sweep.
    latest: u32,
}

/// One counter: 48 bytes.
struct Counter {
    hash: u128,
    state: Encoded,
    expires: u32,
}

struct LogCounter {
    hash: u128,
    log: Box<Log>,
    expires: u32,
}

impl Shard {
    pub(super) fn len(&self) -> usize {
        self.counters.len() + self.logs.len()
    }

    pub(super) fn holds(&self, hash: u128) -> bool {
        self.counters
            .find(hash as u64, |counter| counter.hash == hash)
            .is_some()
            || self
                .logs
                .find(hash as u64, |counter| counter.hash == hash)
                .is_some()
    }

    /// Where the counter is, if there is one and it is no log. A hint: whatever is put in or swept may move it, so who
    /// goes by it compares the hash that lies there.
    pub(super) fn locate(&self, hash: u128) -> Option<usize> {
        self.counters
            .find_bucket_index(hash as u64, |counter| counter.hash == hash)
    }

    pub(super) fn read(
        &self,
        hash: u128,
        located: Option<usize>,
        check: &Check<'_>,
        asked: u64,
        now: Timestamp,
    ) -> Stored {
        if check.limit.algorithm() == Algorithm::SlidingLog {
            let log = self.logs.find(hash as u64, |counter| counter.hash == hash);
            return match log.map(|counter| counter.log.view(check.limit, asked, now)) {
                Some(view) if view.used > 0 => Stored::State(State::Log(view)),
                _ => Stored::Nothing,
            };
        }
        let counter = located
            .and_then(|bucket| self.counters.get_bucket(bucket))
            .filter(|counter| counter.hash == hash)
            .or_else(|| self.counters.find(hash as u64, |counter| counter.hash == hash));
        match counter.map(|counter| State::decode(check.limit, counter.state.as_bytes())) {
            Some(Some(state)) => Stored::State(state),
            Some(None) => Stored::Unreadable,
            None => Stored::Nothing,
        }
    }

    pub(super) fn write(
        &mut self,
        hash: u128,
        located: Option<usize>,
        check: &Check<'_>,
        seen: &Seen,
        change: Hits,
    ) {
        self.latest = self.latest.max(seconds(seen.now));
        self.sweep_when_grown(seconds(seen.now));
        let expires = seconds(seen.now.plus(seen.reset_after(check.limit))).saturating_add(1);
        if check.limit.algorithm() == Algorithm::SlidingLog {
            self.write_log(hash, check, seen, change, expires);
            return;
        }
        if !seen.state.is_empty()
            && let Some(counter) = located.and_then(|bucket| self.counters.get_bucket_mut(bucket))
            && counter.hash == hash
        {
            counter.state = seen.state.encode();
            counter.expires = expires;
            return;
        }
        match self.counters.entry(
            hash as u64,
            |counter| counter.hash == hash,
            |counter| counter.hash as u64,
        ) {
            Entry::Occupied(counter) if seen.state.is_empty() => drop(counter.remove()),
            Entry::Occupied(mut counter) => {
                let counter = counter.get_mut();
                counter.state = seen.state.encode();
                counter.expires = expires;
            }
            Entry::Vacant(place) => {
                place.insert(Counter {
                    hash,
                    state: seen.state.encode(),
                    expires,
                });
            }
        }
    }

    fn write_log(&mut self, hash: u128, check: &Check<'_>, seen: &Seen, change: Hits, expires: u32) {
        let entry = self.logs.entry(
            hash as u64,
            |counter| counter.hash == hash,
            |counter| counter.hash as u64,
        );
        let mut counter = entry.or_insert_with(|| LogCounter {
            hash,
            log: Box::default(),
            expires,
        });
        match change {
            Hits::Take(hits) => {
                counter.get_mut().log.take(check.limit, hits, seen.now);
                counter.get_mut().expires = expires;
            }
            // The newest marks go first, so it may only expire sooner than was said.
            Hits::GiveBack(hits) => counter.get_mut().log.give_back(check.limit, hits, seen.now),
            Hits::Undo(hits, taken) => counter.get_mut().log.undo(check.limit, hits, taken, seen.now),
            Hits::Look(_) => {
                counter.get_mut().log.forget(check.limit, seen.now);
                counter.get_mut().expires = expires;
            }
        }
        if counter.get().log.is_empty() {
            counter.remove();
        }
    }

    /// Drops what has expired whenever the shard has doubled since the last time.
    fn sweep_when_grown(&mut self, now: u32) {
        if self.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.sweep(now);
            self.sweep_at = 2 * self.len();
        }
    }

    /// Whether a shard that holds `most` has room once what has expired is gone.
    pub(super) fn makes_room(&mut self, most: usize, now: Timestamp) -> bool {
        let now = seconds(now);
        if now != self.swept {
            self.swept = now;
            self.sweep(now);
        }
        self.len() < most
    }

    /// The clock was set back: what it left in the future expires as if it had been written now. It would take up room
    /// until the clock has caught up.
    fn set_back(&mut self, now: u32) {
        let sooner = |expires: u32, moment| expires.saturating_sub(seconds(moment).saturating_sub(now));
        for counter in &mut self.counters {
            counter.expires = sooner(counter.expires, counter.state.moment());
        }
        for counter in &mut self.logs {
            counter.expires = sooner(counter.expires, counter.log.last());
        }
    }

    fn sweep(&mut self, now: u32) {
        if self.latest > now.saturating_add(1) {
            self.set_back(now);
        }
        self.latest = now;
        self.counters.retain(|counter| counter.expires > now);
        self.logs.retain(|counter| counter.expires > now);
    }
}

/// Whole seconds since the epoch: enough to expire by until 2106.
fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.as_micros() / 1_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::limit;
    use super::*;
    use crate::domain::check::{Binding, Charge, OnStoreFailure};

    #[test]
    fn a_counter_takes_48_bytes() {
        assert_eq!(size_of::<Counter>(), 48);
    }

    #[test]
    fn a_stale_hint_finds_and_changes_no_other_counter() {
        let limit = limit(Algorithm::FixedWindow, 1000);
        let now = Timestamp::from_micros(1_000_000_000_000_000);
        let check = Check {
            key: b"k",
            limit: &limit,
            hits: Hits::Take(1),
            binding: Binding::Always,
            charge: Charge::AllOrNothing,
            on_store_failure: OnStoreFailure::Local,
        };
        let mut shard = Shard::default();
        let write = |shard: &mut Shard, hash: u128, located, hits: u64| {
            let mut seen = Seen::read(&check, None, now);
            (0..hits).for_each(|_| seen.take(&check, 1));
            shard.write(hash, located, &check, &seen, Hits::Take(hits));
        };
        let used = |shard: &Shard, hash: u128, located| match shard.read(hash, located, &check, 1, now) {
            Stored::State(State::Fixed(state)) => Some(state.count),
            _ => None,
        };
        write(&mut shard, 1, None, 7);
        let hint = shard.locate(1);
        assert!(hint.is_some());
        // The table grows, and moves all that is in it, several times.
        for hash in 2..2_000_u128 {
            write(&mut shard, hash, None, 3);
        }
        assert_eq!(used(&shard, 1, hint), Some(7));
        write(&mut shard, 1, hint, 8);
        for anywhere in 0..4_096 {
            assert_eq!(used(&shard, 1, Some(anywhere)), Some(8));
        }
        for hash in 2..2_000_u128 {
            assert_eq!(used(&shard, hash, hint), Some(3), "{hash}");
            write(&mut shard, hash, hint, 4);
            assert_eq!(used(&shard, hash, None), Some(4), "{hash}");
        }
        assert_eq!(used(&shard, 1, None), Some(8));
        assert_eq!(shard.len(), 1_999);
    }
}

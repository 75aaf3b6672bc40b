//! The embedded store: counters in this process, sharded, atomic per group, bounded.
//!
//! A counter is found by a 128-bit hash of its key under a secret of the process, so it costs the same however long
//! the key is, and no caller can make two keys meet.

#[cfg(test)]
mod fixtures;
#[cfg(all(test, feature = "loom"))]
mod interleavings;
mod lock;
mod shard;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use self::lock::{Mutex, MutexGuard};
use self::shard::Shard;
use super::key::limit_of;
use super::secret_hash::SecretHash;
use super::{Store, StoreError, StoreObserver};
use crate::decide::group::{self, Counters, Stored};
use crate::decide::state::Seen;
use crate::domain::check::{Check, Group};
use crate::domain::quantity::Hits;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Decisions;

/// Enough that two cores rarely meet on one.
const SHARDS: usize = 64;

/// The embedded store. Clones share the counters.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    secret: SecretHash,
    shards: [Mutex<Shard>; SHARDS],
    most_per_shard: usize,
    observer: Arc<dyn StoreObserver>,
}

impl Memory {
    /// A store that holds at most about `most_counters`; beyond that, new counters of a limit share one.
    pub fn new(most_counters: usize, observer: Arc<dyn StoreObserver>) -> Self {
        Self::with_secret(SecretHash::new(), most_counters, observer)
    }

    fn with_secret(secret: SecretHash, most_counters: usize, observer: Arc<dyn StoreObserver>) -> Self {
        Self {
            shared: Arc::new(Shared {
                secret,
                shards: std::array::from_fn(|_| Mutex::default()),
                most_per_shard: most_counters.div_ceil(SHARDS).max(1),
                observer,
            }),
        }
    }

    /// How many counters are held, expired ones included.
    pub fn len(&self) -> usize {
        self.shared.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Decides `group` at `now`.
    pub fn decide_now(&self, group: &Group<'_>, now: Timestamp) -> Decisions {
        let shared = &*self.shared;
        let mut counters = Held::lock(shared, group.checks, now);
        let decisions = group::decide(group, now, &mut counters);
        drop(counters);
        if decisions.unreadable > 0 {
            shared.observer.unreadable(decisions.unreadable);
        }
        decisions
    }
}

impl Shared {
    /// The counter that new counters of this key's limit share when there is no room. A group that has several such
    /// counters of one limit, `others` before this one, gets as many.
    fn overflow_hash(&self, key: &[u8], others: usize) -> u128 {
        let (domain, limit) = limit_of(key);
        self.secret.of_parts(|hasher| {
            hasher.write(domain);
            hasher.write(limit);
            hasher.write_usize(others);
        })
    }
}

const fn shard_of(hash: u128) -> usize {
    // The table takes the low bits.
    (hash >> 64) as usize % SHARDS
}

/// What stands for the keys of one group.
type Hashes = SmallVec<[u128; 8]>;

/// The counters of one group, their shards locked.
struct Held<'a> {
    counters: SmallVec<[Located; 2]>,
    shards: SmallVec<[(usize, MutexGuard<'a, Shard>); 2]>,
}

/// Where a counter of the group is.
struct Located {
    hash: u128,
    /// Among the shards that are locked.
    shard: usize,
    /// See [`Shard::locate`].
    bucket: Option<usize>,
}

impl<'a> Held<'a> {
    fn lock(shared: &'a Shared, checks: &[Check<'_>], now: Timestamp) -> Self {
        let hashes: Hashes = checks.iter().map(|check| shared.secret.of(check.key)).collect();
        let mut held = Self::lock_shards(shared, &hashes);
        if let Some(hashes) = held.send_new_to_overflow(shared, checks, now) {
            drop(held);
            shared.observer.overflowed();
            held = Self::lock_shards(shared, &hashes);
        }
        held
    }

    /// Locks the shards of these counters, each once and in order, so that no two groups wait for each other; and finds
    /// the counters in them.
    fn lock_shards(shared: &'a Shared, hashes: &[u128]) -> Self {
        let mut places: SmallVec<[usize; 8]> = hashes.iter().map(|hash| shard_of(*hash)).collect();
        places.sort_unstable();
        places.dedup();
        let shards: SmallVec<[_; 2]> = places
            .iter()
            .map(|place| (*place, shared.shards[*place].lock()))
            .collect();
        // All are found before any is looked at: the processor then waits for memory once and not for each in turn.
        let locate = |hash: &u128| {
            let shard = places.binary_search(&shard_of(*hash)).expect("locked above");
            Located {
                hash: *hash,
                shard,
                bucket: shards[shard].1.locate(*hash),
            }
        };
        let counters = hashes.iter().map(locate).collect();
        Self { counters, shards }
    }

    /// Where a shard is full of live counters, puts new ones off to the overflow counter of their limit. Gives the new
    /// places of all if any was put off.
    fn send_new_to_overflow(
        &mut self,
        shared: &Shared,
        checks: &[Check<'_>],
        now: Timestamp,
    ) -> Option<Hashes> {
        let mut put_off: SmallVec<[(usize, u128); 2]> = SmallVec::new();
        for (place, check) in checks.iter().enumerate() {
            let Located { hash, shard, .. } = self.counters[place];
            let shard = &mut *self.shards[shard].1;
            let most = shared.most_per_shard;
            // Nothing is ever in the counter of a limit of zero.
            if check.limit.count() > 0
                && shard.len() >= most
                && !shard.holds(hash)
                && !shard.makes_room(most, now)
            {
                let mut others = 0;
                let mut overflow = shared.overflow_hash(check.key, others);
                while put_off.iter().any(|(_, taken)| *taken == overflow) {
                    others += 1;
                    overflow = shared.overflow_hash(check.key, others);
                }
                put_off.push((place, overflow));
            }
        }
        if put_off.is_empty() {
            return None;
        }
        let mut hashes: Hashes = self.counters.iter().map(|counter| counter.hash).collect();
        for (place, overflow) in put_off {
            hashes[place] = overflow;
        }
        Some(hashes)
    }
}

impl Counters for Held<'_> {
    fn read(&mut self, place: usize, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        let Located { hash, shard, bucket } = self.counters[place];
        self.shards[shard].1.read(hash, bucket, check, asked, now)
    }

    fn write(&mut self, place: usize, check: &Check<'_>, seen: &Seen, change: Hits) {
        let Located { hash, shard, bucket } = self.counters[place];
        self.shards[shard].1.write(hash, bucket, check, seen, change);
    }
}

impl Store for Memory {
    async fn decide(&self, group: &Group<'_>, now: Timestamp, _: Instant) -> Result<Decisions, StoreError> {
        Ok(self.decide_now(group, now))
    }
}

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

/// The counters of one group, their shards locked.
struct Held<'a> {
    hashes: SmallVec<[u128; 2]>,
    shards: SmallVec<[(usize, MutexGuard<'a, Shard>); 2]>,
}

impl<'a> Held<'a> {
    fn lock(shared: &'a Shared, checks: &[Check<'_>], now: Timestamp) -> Self {
        let hashes = checks.iter().map(|check| shared.secret.of(check.key)).collect();
        let mut held = Self::lock_shards(shared, hashes);
        if held.send_new_to_overflow(shared, checks, now) {
            shared.observer.overflowed();
            held = Self::lock_shards(shared, std::mem::take(&mut held.hashes));
        }
        held
    }

    /// Locks the shards of these counters, each once and in order: so no two groups wait for each other.
    fn lock_shards(shared: &'a Shared, hashes: SmallVec<[u128; 2]>) -> Self {
        let mut places: SmallVec<[usize; 2]> = hashes.iter().map(|hash| shard_of(*hash)).collect();
        places.sort_unstable();
        places.dedup();
        let shards = places
            .into_iter()
            .map(|place| (place, shared.shards[place].lock()))
            .collect();
        Self { hashes, shards }
    }

    /// Where a shard is full of live counters, puts new ones off to the overflow counter of their limit, and lets go
    /// of the shards. Says whether any was put off.
    fn send_new_to_overflow(&mut self, shared: &Shared, checks: &[Check<'_>], now: Timestamp) -> bool {
        let mut put_off: SmallVec<[u128; 2]> = SmallVec::new();
        for (place, check) in checks.iter().enumerate() {
            let hash = self.hashes[place];
            let shard = self.shard(hash);
            let most = shared.most_per_shard;
            // Nothing is ever in the counter of a limit of zero.
            if check.limit.count() > 0
                && shard.len() >= most
                && !shard.holds(hash)
                && !shard.makes_room(most, now)
            {
                let mut others = 0;
                while put_off.contains(&shared.overflow_hash(check.key, others)) {
                    others += 1;
                }
                let overflow = shared.overflow_hash(check.key, others);
                put_off.push(overflow);
                self.hashes[place] = overflow;
            }
        }
        if !put_off.is_empty() {
            self.shards.clear();
        }
        !put_off.is_empty()
    }

    fn shard(&mut self, hash: u128) -> &mut Shard {
        let wanted = shard_of(hash);
        let at = self
            .shards
            .iter()
            .position(|(place, _)| *place == wanted)
            .unwrap_or_default();
        &mut self.shards[at].1
    }
}

impl Counters for Held<'_> {
    fn read(&mut self, place: usize, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        let hash = self.hashes[place];
        self.shard(hash).read(hash, check, asked, now)
    }

    fn write(&mut self, place: usize, check: &Check<'_>, seen: &Seen, change: Hits) {
        let hash = self.hashes[place];
        self.shard(hash).write(hash, check, seen, change);
    }
}

impl Store for Memory {
    async fn decide(&self, group: &Group<'_>, now: Timestamp, _: Instant) -> Result<Decisions, StoreError> {
        Ok(self.decide_now(group, now))
    }
}

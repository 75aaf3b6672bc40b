//! The embedded store: counters in this process, sharded, atomic per group, bounded.
//!
//! A counter is found by a 128-bit hash of its key under a secret of the process, so it costs the same however long
//! the key is, and no caller can make two keys meet.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::{Mutex, MutexGuard};
use siphasher::sip128::{Hasher128, SipHasher13};
use smallvec::SmallVec;

use super::key::limit_of;
use super::{Store, StoreError, StoreObserver};
use crate::decide::group::{self, Counters, Stored};
use crate::decide::sliding_log::Log;
use crate::decide::state::{Encoded, Seen, State};
use crate::domain::check::{Check, Group};
use crate::domain::limit::Algorithm;
use crate::domain::quantity::Hits;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Decisions;

/// Enough that two cores rarely meet on one.
const SHARDS: usize = 64;

/// A shard looks for expired counters again when it has grown to twice what was left the last time, and not below this.
const FIRST_SWEEP: usize = 64;

/// The embedded store. Clones share the counters.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    secret: SipHasher13,
    shards: [Mutex<Shard>; SHARDS],
    most_per_shard: usize,
    observer: Arc<dyn StoreObserver>,
}

#[derive(Default)]
struct Shard {
    counters: HashTable<Counter>,
    logs: HashTable<LogCounter>,
    sweep_at: usize,
    /// No sweep before this second: a full shard has nothing to find twice in one.
    swept: u32,
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

impl Memory {
    /// A store that holds at most about `most_counters`; beyond that, new counters of a limit share one.
    pub fn new(most_counters: usize, observer: Arc<dyn StoreObserver>) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&random().to_ne_bytes());
        key[8..].copy_from_slice(&random().to_ne_bytes());
        Self {
            shared: Arc::new(Shared {
                secret: SipHasher13::new_with_key(&key),
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
    fn hash(&self, key: &[u8]) -> u128 {
        let mut hasher = self.secret;
        hasher.write(key);
        hasher.finish128().as_u128()
    }

    /// The counter that new counters of this key's limit share when there is no room. A group that has several such
    /// counters of one limit, `others` before this one, gets as many.
    fn overflow_hash(&self, key: &[u8], others: usize) -> u128 {
        let (domain, limit) = limit_of(key);
        let mut hasher = self.secret;
        hasher.write(domain);
        hasher.write(limit);
        hasher.write_usize(others);
        hasher.finish128().as_u128()
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
        let hashes = checks.iter().map(|check| shared.hash(check.key)).collect();
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
            if shard.len() >= shared.most_per_shard && !shard.holds(hash) && !shard.makes_room(shared, now) {
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

impl Shard {
    fn len(&self) -> usize {
        self.counters.len() + self.logs.len()
    }

    fn holds(&self, hash: u128) -> bool {
        self.counters
            .find(hash as u64, |counter| counter.hash == hash)
            .is_some()
            || self
                .logs
                .find(hash as u64, |counter| counter.hash == hash)
                .is_some()
    }

    fn read(&self, hash: u128, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        if check.limit.algorithm() == Algorithm::SlidingLog {
            let log = self.logs.find(hash as u64, |counter| counter.hash == hash);
            return match log.map(|counter| counter.log.view(check.limit, asked, now)) {
                Some(view) if view.used > 0 => Stored::State(State::Log(view)),
                _ => Stored::Nothing,
            };
        }
        let counter = self.counters.find(hash as u64, |counter| counter.hash == hash);
        match counter.map(|counter| State::decode(check.limit, counter.state.as_bytes())) {
            Some(Some(state)) => Stored::State(state),
            Some(None) => Stored::Unreadable,
            None => Stored::Nothing,
        }
    }

    fn write(&mut self, hash: u128, check: &Check<'_>, seen: &Seen, change: Hits) {
        self.sweep_when_grown(seconds(seen.now));
        let expires = seconds(seen.now.plus(seen.reset_after(check.limit))).saturating_add(1);
        if check.limit.algorithm() == Algorithm::SlidingLog {
            self.write_log(hash, check, seen, change, expires);
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
            Hits::Look => {
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

    /// Whether a full shard has room once what has expired is gone.
    fn makes_room(&mut self, shared: &Shared, now: Timestamp) -> bool {
        let now = seconds(now);
        if now > self.swept {
            self.swept = now;
            self.sweep(now);
        }
        self.len() < shared.most_per_shard
    }

    fn sweep(&mut self, now: u32) {
        self.counters.retain(|counter| counter.expires > now);
        self.logs.retain(|counter| counter.expires > now);
    }
}

/// Whole seconds since the epoch: enough to expire by until 2106.
fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.as_micros() / 1_000_000).unwrap_or(u32::MAX)
}

impl Store for Memory {
    async fn decide(&self, group: &Group<'_>, now: Timestamp, _: Instant) -> Result<Decisions, StoreError> {
        Ok(self.decide_now(group, now))
    }
}

/// The operating system's randomness, by way of the standard library's own hash seeds.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::domain::check::{Binding, Charge};
    use crate::domain::limit::{Limit, LimitSpec, Period, Unit};
    use crate::domain::time::Micros;

    #[derive(Default)]
    struct Counted {
        overflowed: AtomicU32,
    }

    impl StoreObserver for Counted {
        fn asked(&self, _: Duration, _: Result<(), &StoreError>) {}
        fn connected(&self, _: &str) {}
        fn connection_failed(&self, _: &str, _: &str, _: Duration) {}
        fn unreadable(&self, _: u32) {}
        fn degraded(&self, _: bool, _: &str) {}
        fn overflowed(&self) {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn limit(algorithm: Algorithm, count: u32) -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from("limit"),
            named: true,
            count,
            period: Period::one(Unit::Minute),
            algorithm,
            burst: None,
            delay: Micros::ZERO,
            calendar: true,
        })
        .expect("a sound limit")
    }

    fn key(client: usize) -> Vec<u8> {
        format!("comporta:1:{{4:edge6:client{client}}}5:limitw60").into_bytes()
    }

    fn takes(store: &Memory, keys: &[Vec<u8>], limit: &Limit, now: Timestamp) -> bool {
        let checks: Vec<Check<'_>> = keys
            .iter()
            .map(|key| Check {
                key,
                limit,
                hits: Hits::take(1),
                binding: Binding::Always,
                charge: Charge::AllOrNothing,
            })
            .collect();
        !store
            .decide_now(
                &Group {
                    checks: &checks,
                    longest_wait: Micros::ZERO,
                    compat: false,
                },
                now,
            )
            .refused
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros((1_790_000_000 + seconds) * 1_000_000)
    }

    #[test]
    fn threads_together_admit_exactly_the_budget() {
        for algorithm in [
            Algorithm::TokenBucket,
            Algorithm::SlidingWindow,
            Algorithm::FixedWindow,
            Algorithm::SlidingLog,
        ] {
            let limit = limit(algorithm, 500);
            for round in 0..40 {
                let store = Memory::new(1000, Arc::new(Counted::default()));
                let (admitted, start) = (AtomicU64::new(0), Barrier::new(4));
                std::thread::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| {
                            start.wait();
                            for _ in 0..200 {
                                admitted.fetch_add(
                                    u64::from(takes(&store, &[key(round)], &limit, at(0))),
                                    Ordering::Relaxed,
                                );
                            }
                        });
                    }
                });
                assert_eq!(admitted.into_inner(), 500, "{algorithm:?}, round {round}");
            }
        }
    }

    #[test]
    fn a_share_of_the_slowest_limits_is_held() {
        for (count, unit, multiplier, instances) in [
            (7, Unit::Year, 1, 300),
            (7, Unit::Year, 10, 1024),
            (1, Unit::Year, 10, 1024),
            (1001, Unit::Month, 1, 1000),
        ] {
            let whole = Limit::new(LimitSpec {
                name: Arc::from("limit"),
                named: true,
                count,
                period: Period { unit, multiplier },
                algorithm: Algorithm::TokenBucket,
                burst: None,
                delay: Micros::ZERO,
                calendar: true,
            })
            .expect("a sound limit");
            let share = whole.share_of(instances);
            let store = Memory::new(1000, Arc::new(Counted::default()));
            let passed = (0..10).filter(|_| takes(&store, &[key(0)], &share, at(0)));
            assert_eq!(passed.count(), 1, "{whole:?} of {instances}");
            // A hit of this instance's comes back no sooner than its share of the rate says.
            let hit = u128::from(whole.rate().micros) * u128::from(instances) / u128::from(whole.rate().hits);
            let soon = at(u64::try_from(hit / 1_000_000).expect("some thousand years") * 9 / 10);
            assert!(
                hit > 1 << 53 || !takes(&store, &[key(0)], &share, soon),
                "{whole:?} of {instances}"
            );
        }
    }

    #[test]
    fn groups_that_cross_neither_wait_for_each_other_nor_split() {
        let limit = limit(Algorithm::SlidingWindow, 300);
        let store = Memory::new(1000, Arc::new(Counted::default()));
        let keys: Vec<Vec<u8>> = (0..6).map(key).collect();
        let backwards: Vec<Vec<u8>> = keys.iter().rev().cloned().collect();
        let (admitted, start) = (AtomicU64::new(0), Barrier::new(4));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let keys = if thread % 2 == 0 { &keys } else { &backwards };
                let (store, limit, admitted, start) = (&store, &limit, &admitted, &start);
                scope.spawn(move || {
                    start.wait();
                    for _ in 0..200 {
                        admitted.fetch_add(u64::from(takes(store, keys, limit, at(0))), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 300);
        for key in keys {
            assert!(
                !takes(&store, &[key], &limit, at(0)),
                "every counter of the group was charged alike"
            );
        }
    }

    #[test]
    fn a_full_store_shares_one_counter_among_the_new_ones_and_forgets_no_live_one() {
        let observer = Arc::new(Counted::default());
        let store = Memory::new(8 * SHARDS, Arc::clone(&observer) as Arc<dyn StoreObserver>);
        let limit = limit(Algorithm::SlidingWindow, 3);
        let mut firsts = 0;
        for client in 0..2000 {
            firsts += u32::from(takes(&store, &[key(client)], &limit, at(0)));
        }
        let own = u32::try_from(store.len()).expect("few") - 1;
        assert!(own <= 8 * SHARDS as u32, "{own}");
        assert!(observer.overflowed.load(Ordering::Relaxed) > 1400);
        assert_eq!(
            firsts,
            own + 3,
            "each counter that is held, and three among all the rest"
        );
        // Two new counters of one limit in one group are two counters still.
        let fresh = Memory::new(1, Arc::clone(&observer) as Arc<dyn StoreObserver>);
        for client in 0..500 {
            takes(&fresh, &[key(client)], &limit, at(0));
        }
        let pair = [key(1000), key(1001)];
        let passed = (0..10).filter(|_| takes(&fresh, &pair, &limit, at(61))).count();
        assert!(passed <= 3, "{passed}");
        // What has expired makes room.
        let before = observer.overflowed.load(Ordering::Relaxed);
        for client in 0..100 {
            assert!(takes(&store, &[key(5000 + client)], &limit, at(3600)));
        }
        assert_eq!(observer.overflowed.load(Ordering::Relaxed), before);
    }

    #[test]
    fn what_has_expired_is_swept_as_new_counters_come() {
        let store = Memory::new(1 << 20, Arc::new(Counted::default()));
        let limit = limit(Algorithm::FixedWindow, 3);
        for minute in 0..40 {
            for client in 0..4_000 {
                takes(
                    &store,
                    &[key(minute * 4_000 + client)],
                    &limit,
                    at(minute as u64 * 60),
                );
            }
        }
        assert!(store.len() < 24_000, "{} of 160000 are still held", store.len());
    }

    #[test]
    fn a_counter_takes_48_bytes() {
        assert_eq!(size_of::<Counter>(), 48);
    }
}

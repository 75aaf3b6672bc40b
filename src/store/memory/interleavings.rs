//! The embedded store under every order in which two threads can take its locks. `tests/run` runs these on their own:
//! `cargo test --features loom --lib interleavings`.

use loom::thread::{Builder, JoinHandle};
use siphasher::sip128::SipHasher13;

use super::fixtures::{key, limit};
use super::*;
use crate::domain::check::{Binding, Charge, OnStoreFailure};
use crate::domain::limit::{Algorithm, Limit};
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;

struct Silent;

impl StoreObserver for Silent {}

const NOW: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::TokenBucket,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
    Algorithm::FixedWindow,
];

/// A store whose counters lie in the same shards each time: a model must go the same way whenever its threads do.
fn store(most_counters: usize) -> Memory {
    Memory::with_secret(SecretHash(SipHasher13::new()), most_counters, Arc::new(Silent))
}

/// Runs `scenario` once for each order in which its threads can take turns. A dead end would be found too.
fn model(scenario: impl Fn() + Copy + Send + Sync + 'static) {
    loom::model(move || spawn(scenario).join().expect("a scenario that ends"));
}

/// A thread with room for what a debug build puts on the stack; the model's own have 32 KiB.
fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let words = (1 << 20) / size_of::<usize>();
    Builder::new().stack_size(words).spawn(run).expect("a thread")
}

/// Decides one group about the counters of `clients`.
fn decide(store: &Memory, clients: &[usize], limit: &Limit, hits: Hits) -> Decisions {
    let keys: Vec<_> = clients.iter().copied().map(key).collect();
    let check = |key| Check {
        key,
        limit,
        hits,
        binding: Binding::Always,
        charge: Charge::AllOrNothing,
        on_store_failure: OnStoreFailure::Local,
    };
    let checks: Vec<Check<'_>> = keys.iter().map(|key| check(key)).collect();
    let group = Group {
        checks: &checks,
        longest_wait: Micros::ZERO,
        compat: false,
    };
    store.decide_now(&group, NOW)
}

fn admitted(store: &Memory, clients: &[usize], limit: &Limit, times: u32) -> u32 {
    (0..times)
        .map(|_| u32::from(!decide(store, clients, limit, Hits::take(1)).refused))
        .sum()
}

/// What two threads have admitted together, each of which asks about its own `clients`.
fn together(store: &Memory, limit: &Limit, one: &[usize], other: &[usize], times: u32) -> u32 {
    let (theirs, its_limit, other) = (store.clone(), limit.clone(), other.to_vec());
    let thread = spawn(move || admitted(&theirs, &other, &its_limit, times));
    admitted(store, one, limit, times) + thread.join().expect("a thread that ends")
}

fn remaining(store: &Memory, client: usize, limit: &Limit) -> u64 {
    decide(store, &[client], limit, Hits::LOOK).checks[0].remaining
}

#[test]
fn one_counter_holds_exactly_its_limit() {
    for algorithm in ALGORITHMS {
        model(move || {
            let (store, limit) = (store(1000), limit(algorithm, 3));
            assert_eq!(together(&store, &limit, &[0], &[0], 2), 3);
            assert_eq!(remaining(&store, 0, &limit), 0);
        });
    }
}

#[test]
fn groups_that_cross_end_and_are_charged_whole() {
    for algorithm in ALGORITHMS {
        model(move || {
            let (store, limit) = (store(1000), limit(algorithm, 3));
            assert_eq!(together(&store, &limit, &[0, 1, 2], &[2, 1, 0], 2), 3);
            for client in 0..3 {
                assert_eq!(remaining(&store, client, &limit), 0, "counter {client}");
            }
        });
    }
}

#[test]
fn groups_that_overlap_charge_what_passed() {
    model(|| {
        let (store, limit) = (store(1000), limit(Algorithm::SlidingWindow, 3));
        let (theirs, its_limit) = (store.clone(), limit.clone());
        let thread = spawn(move || admitted(&theirs, &[1, 2], &its_limit, 2));
        let ours = admitted(&store, &[0, 1], &limit, 2);
        let theirs = thread.join().expect("a thread that ends");
        assert_eq!(ours + theirs, 3, "they share counter 1");
        assert_eq!(remaining(&store, 0, &limit), u64::from(3 - ours));
        assert_eq!(remaining(&store, 2, &limit), u64::from(3 - theirs));
    });
}

#[test]
fn what_is_given_back_meanwhile_is_there_once() {
    model(|| {
        let (store, limit) = (store(1000), limit(Algorithm::TokenBucket, 2));
        assert_eq!(admitted(&store, &[0, 1], &limit, 2), 2);
        let (theirs, its_limit) = (store.clone(), limit.clone());
        let thread = spawn(move || decide(&theirs, &[1, 0], &its_limit, Hits::give_back(1)));
        let ours = admitted(&store, &[0, 1], &limit, 2);
        thread.join().expect("a thread that ends");
        assert!(ours <= 1);
        assert_eq!(remaining(&store, 0, &limit), u64::from(1 - ours));
        assert_eq!(remaining(&store, 1, &limit), u64::from(1 - ours));
    });
}

#[test]
fn new_counters_of_a_full_store_share_one_whoever_comes_first() {
    model(|| {
        let (store, limit) = (store(1), limit(Algorithm::SlidingWindow, 2));
        let [first, second, third] = three_of_one_shard(&store);
        assert_eq!(admitted(&store, &[first], &limit, 1), 1, "and the shard is full");
        assert_eq!(together(&store, &limit, &[second], &[third], 2), 2);
        assert_eq!(remaining(&store, first, &limit), 1, "its own counter is its own");
    });
}

/// Clients whose counters lie in the same shard.
fn three_of_one_shard(store: &Memory) -> [usize; 3] {
    let shard = |client: usize| shard_of(store.shared.secret.of(&key(client)));
    let mut same = (0..).filter(|client| shard(*client) == shard(0));
    std::array::from_fn(|_| same.next().expect("enough of them"))
}

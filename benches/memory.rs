//! What one counter costs in memory: of the embedded store, resident and all in; of Redis, what `MEMORY USAGE` says.
//!
//! `cargo bench --bench memory`. Each algorithm of the embedded store is measured in a process of its own, by how much
//! `VmRSS` of /proc/self/status grew from before the first counter, allocator and all; the largest it was on the way
//! (`VmHWM`) is shown beside it. Keys have 40 bytes.

// A bench prints, and has no users who need docs.
#![allow(missing_docs, clippy::print_stdout)]

mod support;

use std::process::Command;
use std::sync::Arc;

use comporta::domain::limit::Algorithm;
use comporta::domain::time::Micros;
use comporta::store::memory::Memory;
use comporta::store::redis::{codec, script};

use self::support::{START, Server, Silent, group, key, limit, take};

// The allocator of the service.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The most that a counter of a bucket or a window may take.
const BAR: usize = 160;

/// The most that a bucket may take in Redis.
const REDIS_BAR: u64 = 120;

const COUNTERS: usize = 1_000_000;

/// Tables double, so what a counter takes depends on how long ago they did: a bucket at these counts too.
const OTHERS: [usize; 5] = [480_000, 600_000, 900_000, 940_000, 1_400_000];

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::TokenBucket,
    Algorithm::SlidingWindow,
    Algorithm::FixedWindow,
    Algorithm::SlidingLog,
];

/// Kilobytes that a line of this process's status says.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find(|line| line.starts_with(name))
        .expect("the line");
    let number = line.split_whitespace().nth(1).expect("a number");
    number.parse().expect("kilobytes")
}

/// Fills a store and prints what a counter takes, now and at most on the way.
fn fill(algorithm: Algorithm, counters: usize) {
    let limit = limit(algorithm);
    let store = Memory::new(10 * counters, Arc::new(Silent));
    let before = status("VmRSS");
    for client in 0..counters {
        let key = key(client);
        let checks = [take(&key, &limit)];
        let group = group(&checks);
        // All within the ten seconds that the least of them lives.
        let now = START.plus(Micros::new(client as u64 * 10_000_000 / counters as u64));
        assert!(!store.decide_now(&group, now).refused);
    }
    assert_eq!(store.len(), counters);
    let grown = |name| (status(name) - before) * 1024 / counters;
    println!("{} {}", grown("VmRSS"), grown("VmHWM"));
}

/// What [`fill`] says in a process of its own.
fn filled(algorithm: Algorithm, counters: usize) -> (usize, usize) {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["fill", algorithm.name(), &counters.to_string()])
        .output()
        .expect("this program again");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut numbers = printed
        .split_whitespace()
        .map(|number| number.parse().expect("bytes"));
    (numbers.next().expect("now"), numbers.next().expect("at most"))
}

fn embedded() -> bool {
    println!("Embedded store, bytes per counter: resident, and at most on the way\n");
    let mut kept = true;
    let at_the_bar = ALGORITHMS.map(|algorithm| (algorithm, COUNTERS));
    let others = OTHERS.map(|counters| (ALGORITHMS[0], counters));
    for (algorithm, counters) in at_the_bar.into_iter().chain(others) {
        let (bytes, most) = filled(algorithm, counters);
        println!("{:<16}{counters:>10}{bytes:>8}{most:>8}", algorithm.name());
        kept &= algorithm == Algorithm::SlidingLog || counters != COUNTERS || bytes <= BAR;
    }
    let kept_word = if kept { "yes" } else { "NO" };
    println!("\nbuckets and windows at most {BAR} at {COUNTERS}: {kept_word}\n");
    kept
}

/// Has Redis hold one counter of each algorithm, and prints what `MEMORY USAGE` says of it.
fn shared() -> bool {
    println!("Redis, MEMORY USAGE of one counter with a key of 40 bytes\n");
    let server = Server::start(&[]);
    let mut connection = server.connect();
    let mut kept = true;
    for algorithm in ALGORITHMS {
        let (limit, key) = (limit(algorithm), key(algorithm as usize));
        for (calls, what) in [(1, ""), (99, " after 100 calls")] {
            if calls > 1 && algorithm != Algorithm::SlidingLog {
                continue;
            }
            for _ in 0..calls {
                let checks = [take(&key, &limit)];
                let group = group(&checks);
                let mut command = redis::cmd("EVAL");
                command.arg(script::SOURCE).arg(1).arg(&key);
                for argument in codec::arguments(&group) {
                    command.arg(&argument[..]);
                }
                command.query::<redis::Value>(&mut connection).expect("a reply");
            }
            let usage: u64 = redis::cmd("MEMORY")
                .arg("USAGE")
                .arg(&key)
                .query(&mut connection)
                .expect("bytes");
            println!("{:<16}{usage:>14}{what}", algorithm.name());
            kept &= algorithm != Algorithm::TokenBucket || usage <= REDIS_BAR;
        }
    }
    println!(
        "\na bucket at most {REDIS_BAR}: {}",
        if kept { "yes" } else { "NO" }
    );
    kept
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, algorithm, counters] = &arguments[..]
        && what == "fill"
    {
        let algorithm = ALGORITHMS.into_iter().find(|known| known.name() == algorithm);
        fill(
            algorithm.expect("an algorithm"),
            counters.parse().expect("a number"),
        );
        return;
    }
    let (embedded, shared) = (embedded(), shared());
    std::process::exit(i32::from(!(embedded && shared)));
}

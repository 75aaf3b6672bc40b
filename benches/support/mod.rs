//! What the benches have in common.

#![allow(dead_code)] // Each of them needs its part of it.

pub mod callgrind;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use comporta::domain::check::{Binding, Charge, Check, Group, OnStoreFailure};
use comporta::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};
use comporta::store::StoreObserver;

/// When it is.
pub const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

/// Listens to nothing.
pub struct Silent;

impl StoreObserver for Silent {}

/// A hundred an hour.
pub fn limit(algorithm: Algorithm) -> Limit {
    limit_of(algorithm, 100, Unit::Hour)
}

/// So many in a unit of time. Where calls can wait, they wait for a second.
pub fn limit_of(algorithm: Algorithm, count: u32, unit: Unit) -> Limit {
    let is_leaky = algorithm == Algorithm::LeakyBucket;
    Limit::new(LimitSpec {
        name: Arc::from("limit"),
        named: true,
        count,
        period: Period::one(unit),
        algorithm,
        burst: None,
        delay: if is_leaky { Micros::SECOND } else { Micros::ZERO },
        calendar: true,
    })
    .expect("a sound limit")
}

/// Of 40 bytes.
pub fn key(client: usize) -> Vec<u8> {
    let key = format!("rl:1:{{4:edge17:client{client:010}}}5:limitt");
    assert_eq!(key.len(), 40);
    key.into_bytes()
}

/// A check that takes one.
pub fn take<'a>(key: &'a [u8], limit: &'a Limit) -> Check<'a> {
    Check {
        key,
        limit,
        hits: Hits::take(1),
        binding: Binding::Always,
        charge: Charge::AllOrNothing,
        on_store_failure: OnStoreFailure::Local,
    }
}

/// The group that callers who cannot wait ask about.
pub const fn group<'a>(checks: &'a [Check<'a>]) -> Group<'a> {
    Group {
        checks,
        longest_wait: Micros::ZERO,
        compat: false,
    }
}

/// Moves everything somewhere, always the same way.
pub fn shuffle<T>(items: &mut [T]) {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for at in (1..items.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        items.swap(at, (state >> 33) as usize % (at + 1));
    }
}

/// A Redis of our own, on a socket in a folder that goes with it.
pub struct Server {
    process: Child,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts one, under a program that runs it where `under` names one.
    pub fn start(under: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let line: Vec<&str> = under.iter().copied().chain(["redis-server"]).collect();
        let process = Command::new(line[0])
            .args(&line[1..])
            .args([
                "--port",
                "0",
                "--unixsocket",
                "redis.sock",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server");
        Self { process, folder }
    }

    /// A connection, once there is one to be had.
    pub fn connect(&self) -> redis::Connection {
        let url = format!("unix://{}", self.folder.path().join("redis.sock").display());
        let client = redis::Client::open(url).expect("a URL");
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match client.get_connection() {
                Ok(connection) => return connection,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Server {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The file of this name where it runs.
    pub fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Ends it as it likes to be ended.
    pub fn stop(&mut self) {
        let _: redis::RedisResult<()> = redis::cmd("SHUTDOWN").arg("NOSAVE").query(&mut self.connect());
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

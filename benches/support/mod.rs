//! What the benches have in common.

#![allow(dead_code)] // Each of them needs its part of it.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use comporta::domain::check::{Binding, Charge, Check, OnStoreFailure};
use comporta::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::Micros;

/// A hundred an hour.
pub fn limit(algorithm: Algorithm) -> Limit {
    Limit::new(LimitSpec {
        name: Arc::from("limit"),
        named: true,
        count: 100,
        period: Period::one(Unit::Hour),
        algorithm,
        burst: None,
        delay: Micros::ZERO,
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

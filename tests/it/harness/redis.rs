//! A Redis server of the test's own.

use std::process::Command;

use tempfile::TempDir;

use super::process::{PATIENCE, Process};

/// Keeps everything in memory and nothing on disk.
pub struct Redis {
    process: Process,
    port: u16,
    folder: TempDir,
}

impl Redis {
    /// Starts one on a free port.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder for Redis");
        loop {
            let port = super::free_port();
            // None if somebody else was quicker and has the port now.
            if let Some(process) = start(port, &folder) {
                return Self {
                    process,
                    port,
                    folder,
                };
            }
        }
    }

    /// Where it listens, as `--store` takes it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection of its own.
    pub fn connect(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("the URL of a server of our own");
        client
            .get_connection_with_timeout(PATIENCE)
            .expect("a connection to a server of our own")
    }

    /// All keys there are.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        redis::cmd("KEYS")
            .arg("*")
            .query(&mut self.connect())
            .expect("the keys")
    }

    /// Microseconds by its own clock.
    pub fn now(&self) -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME")
            .query(&mut self.connect())
            .expect("the server's time");
        seconds * 1_000_000 + micros
    }

    /// Stops answering, with all connections open.
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Answers again after [`Self::pause`].
    pub fn resume(&self) {
        self.process.signal("CONT");
    }

    /// Is gone, and what it knew with it.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Comes back after [`Self::kill`], empty, in the same place.
    pub fn restart(&mut self) {
        self.process = start(self.port, &self.folder).expect("the port that was ours a moment ago");
    }
}

fn start(port: u16, folder: &TempDir) -> Option<Process> {
    let mut process = Process::spawn(
        Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .current_dir(folder.path()),
    );
    // By what it says itself: on the same port there might as well be somebody else's.
    loop {
        let printed = process.printed();
        if printed.contains("Ready to accept connections") {
            return Some(process);
        }
        if printed.contains("Address already in use") {
            process.wait();
            return None;
        }
        process.poll("a sign of life", |process| {
            (process.printed() != printed).then_some(())
        });
    }
}

//! The servers that are compared: this same program, started once more.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::child::Child;
use super::error::BenchError;
use super::folder::Folder;
use super::meter;
use super::redis::Redis;

/// More than any bench makes.
const MOST_COUNTERS: &str = "4000000";

/// Where counters live.
#[derive(Clone, Copy)]
pub(super) enum Store<'a> {
    Memory,
    Redis(&'a Redis),
    /// In a Redis that is asked about every call alone.
    RedisOneByOne(&'a Redis),
}

impl<'a> Store<'a> {
    const fn redis(self) -> Option<&'a Redis> {
        match self {
            Self::Memory => None,
            Self::Redis(redis) | Self::RedisOneByOne(redis) => Some(redis),
        }
    }
}

/// A server that is ready.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// One that decides nothing.
    pub(super) async fn baseline(folder: &Folder) -> Result<Self, BenchError> {
        Self::start("baseline", &mut this_program("baseline")?, folder).await
    }

    /// One that decides by a policy. Where it cannot decide it says so: what stands in for its store is not to be measured.
    pub(super) async fn comporta(
        name: &str,
        policy: &str,
        store: Store<'_>,
        folder: &Folder,
    ) -> Result<Self, BenchError> {
        let policy = folder.write(&format!("{name}.yaml"), policy)?;
        let mut command = this_program("serve")?;
        command
            .arg(policy)
            .args(["--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--max-counters", MOST_COUNTERS, "--log-level", "warn"]);
        if let Some(redis) = store.redis() {
            command
                // Not as a flag: whoever lists processes would see a password.
                .env("COMPORTA_STORE", redis.url())
                .args(["--on-store-failure", "error", "--store-budget", "5s"])
                .args(["--key-prefix", redis.prefix()]);
        }
        if matches!(store, Store::RedisOneByOne(_)) {
            command.args(["--store-batch", "1"]);
        }
        Self::start(name, &mut command, folder).await
    }

    async fn start(name: &str, command: &mut Command, folder: &Folder) -> Result<Self, BenchError> {
        let ready_file = folder.path().join(format!("{name}.json"));
        command.arg("--ready-file").arg(&ready_file);
        // Not that of a server of the same name before it.
        let _ = fs::remove_file(&ready_file);
        let mut child = Child::start(name, command, folder)?;
        let address = child.wait(|| read_address(&ready_file)).await?;
        Ok(Self { child, address })
    }

    /// Where it is asked.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How much memory it holds, in bytes.
    pub(super) fn resident(&self) -> Option<u64> {
        meter::resident(self.id())
    }
}

/// This program, with a command and none of the settings that it may have in its environment.
fn this_program(command: &str) -> Result<Command, BenchError> {
    let program = env::current_exe().map_err(BenchError::io("find this program"))?;
    let mut child = Command::new(program);
    child.arg(command);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("COMPORTA_") {
            child.env_remove(name);
        }
    }
    Ok(child)
}

fn read_address(ready_file: &Path) -> Option<SocketAddr> {
    let ready: Value = serde_json::from_slice(&fs::read(ready_file).ok()?).ok()?;
    ready["grpc"].as_str()?.parse().ok()
}

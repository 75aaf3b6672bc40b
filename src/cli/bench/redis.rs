//! The Redis that counters live in: one that is started, or one that is there.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use super::child::Child;
use super::error::BenchError;
use super::folder::Folder;
use super::meter;

const PROGRAM: &str = "redis-server";

/// How often another port is tried: between choosing one and listening there somebody else may take it.
const TRIES: u32 = 5;

/// A Redis to keep counters in.
pub(super) struct Redis {
    url: String,
    /// In front of every key.
    prefix: String,
    own: Option<Own>,
}

/// One that was started.
struct Own {
    child: Child,
    address: SocketAddr,
}

impl Redis {
    /// One that is there.
    pub(super) fn given(url: &str) -> Self {
        Self::new(url.to_owned(), None)
    }

    /// Starts one that keeps nothing on disk.
    pub(super) async fn start(folder: &Folder) -> Result<Self, BenchError> {
        let mut tried = 0;
        loop {
            match start_on_a_free_port(folder).await {
                Ok(own) => return Ok(Self::new(format!("redis://{}", own.address), Some(own))),
                Err(BenchError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Err(BenchError::NoRedis);
                }
                Err(BenchError::Ended { .. }) if tried < TRIES => tried += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn new(url: String, own: Option<Own>) -> Self {
        let prefix = format!("comporta-bench-{}", std::process::id());
        Self { url, prefix, own }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Where it is, if it was started.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.own.as_ref().map(|own| own.address)
    }

    /// How long it has computed, if it was started.
    pub(super) fn cpu(&self) -> Option<Duration> {
        meter::cpu(self.own.as_ref()?.child.id())
    }
}

/// What is installed, in its own words; absent where nothing is.
pub(super) fn version() -> Option<String> {
    let output = Command::new(PROGRAM).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(format!("{PROGRAM} {version}"))
}

async fn start_on_a_free_port(folder: &Folder) -> Result<Own, BenchError> {
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(BenchError::io("find a free port"))?;
    let mut command = Command::new(PROGRAM);
    command
        .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
        .args(["--save", "", "--appendonly", "no"])
        .current_dir(folder.path());
    let mut child = Child::start(PROGRAM, &mut command, folder)?;
    child.wait(|| ping(address).ok()).await?;
    Ok(Own { child, address })
}

fn ping(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    if &answer == b"+PONG\r\n" {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

//! A process that ends with the bench.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use super::error::BenchError;
use super::folder::Folder;

/// How long one may take to be ready: what has to be read first can be large.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often it is looked at until then.
const LOOK: Duration = Duration::from_millis(5);

/// A process that ends with the bench.
pub(super) struct Child {
    name: String,
    process: process::Child,
    /// What it says goes there.
    said: PathBuf,
}

impl Child {
    /// Starts it without input.
    pub(super) fn start(name: &str, command: &mut Command, folder: &Folder) -> Result<Self, BenchError> {
        let said = folder.write(&format!("{name}.log"), "")?;
        let log = || {
            File::options()
                .append(true)
                .open(&said)
                .map_err(BenchError::io("log"))
        };
        let process = command
            .stdin(Stdio::null())
            .stdout(log()?)
            .stderr(log()?)
            .spawn()
            .map_err(BenchError::io(format!(
                "start {}",
                command.get_program().display()
            )))?;
        Ok(Self {
            name: name.to_owned(),
            process,
            said,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until `ready` has an answer.
    pub(super) async fn wait<T>(&mut self, mut ready: impl FnMut() -> Option<T>) -> Result<T, BenchError> {
        let start = Instant::now();
        loop {
            if let Some(ready) = ready() {
                return Ok(ready);
            }
            let name = self.name.clone();
            let ended = self.process.try_wait();
            if ended.map_err(BenchError::io(format!("watch {name}")))?.is_some() {
                let said = self.said();
                return Err(BenchError::Ended { name, said });
            }
            if start.elapsed() > PATIENCE {
                return Err(BenchError::NotReady {
                    name,
                    seconds: PATIENCE.as_secs(),
                    said: self.said(),
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn said(&self) -> String {
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        said.trim_end().to_owned()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

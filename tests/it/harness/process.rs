//! A child process that cannot outlive its test, and that says what it printed when something goes wrong.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Only a test that hangs gets this far, so it is no measure of
/// speed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Asks again and again until there is an answer.
pub fn poll<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "gave up waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A running program.
pub struct Process {
    name: String,
    child: Child,
    printed: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts it without input. What it prints on either stream is kept.
    pub fn spawn(command: &mut Command) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let printed = Arc::new(Mutex::new(Vec::new()));
        let readers = vec![
            keep(child.stdout.take().expect("its stdout"), Arc::clone(&printed)),
            keep(child.stderr.take().expect("its stderr"), Arc::clone(&printed)),
        ];
        Self {
            name,
            child,
            printed,
            readers,
        }
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().expect("the lock of what was printed")).into_owned()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the state of a child").is_none()
    }

    /// Asks `answer` until it has one, while the process runs.
    pub fn poll<T>(&mut self, what: &str, mut answer: impl FnMut(&mut Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = answer(self) {
                return answer;
            }
            if !self.is_running() {
                // Its last words may hold the answer.
                self.wait();
                if let Some(answer) = answer(self) {
                    return answer;
                }
                panic!(
                    "{} ended without {what}. It printed:\n{}",
                    self.name,
                    self.printed()
                );
            }
            let waited = start.elapsed();
            assert!(
                waited < PATIENCE,
                "{} runs, without {what}. It printed:\n{}",
                self.name,
                self.printed()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until it has printed a line that contains `text`.
    pub fn wait_for_line(&mut self, text: &str) {
        self.poll(&format!("a line with `{text}`"), |process| {
            process.printed().contains(text).then_some(())
        });
    }

    /// How much of the machine's memory it holds, as Linux counts it.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its state");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kib.unwrap_or_else(|| panic!("no memory in {status}"))
    }

    /// Sends a signal by its name: `TERM`, `STOP`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("sh")
            .args(["-c", r#"kill -s "$0" "$1""#, name, &self.child.id().to_string()])
            .status()
            .expect("sh sends signals");
        assert!(sent.success(), "{} takes no signal {name}", self.name);
    }

    /// Waits for its end. Everything it printed is there afterwards.
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the state of a child") {
                for reader in self.readers.drain(..) {
                    reader.join().expect("a thread that reads");
                }
                return status;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{} does not end. It printed:\n{}",
                self.name,
                self.printed()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it at once, without a word.
    pub fn kill(&mut self) {
        // An error says that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "where a test that fails says why")]
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- {} printed:\n{}", self.name, self.printed());
        }
    }
}

fn keep(mut stream: impl Read + Send + 'static, printed: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            printed
                .lock()
                .expect("the lock of what was printed")
                .extend_from_slice(&buffer[..count]);
        }
    })
}

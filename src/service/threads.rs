//! Threads that must not end unnoticed.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tokio::sync::mpsc;

/// Threads, and word of each that ends.
pub(super) struct Threads {
    tell: mpsc::UnboundedSender<String>,
    ended: mpsc::UnboundedReceiver<String>,
    running: usize,
}

impl Threads {
    pub(super) fn new() -> Self {
        let (tell, ended) = mpsc::unbounded_channel();
        Self {
            tell,
            ended,
            running: 0,
        }
    }

    /// Runs `body` on a thread of its own.
    pub(super) fn spawn(&mut self, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let tell = self.tell.clone();
        thread::Builder::new().name(name.clone()).spawn(move || {
            // The panic itself was already reported by the hook; what matters here is that the thread is gone.
            let _ = catch_unwind(AssertUnwindSafe(body));
            // Nobody listens once the server is gone.
            let _ = tell.send(name);
        })?;
        self.running += 1;
        Ok(())
    }

    /// The name of the next thread that ends. Pending for ever when none runs.
    pub(super) async fn next_end(&mut self) -> String {
        match self.ended.recv().await {
            Some(name) => {
                self.running -= 1;
                name
            }
            // Cannot be: this end holds a sender itself.
            None => std::future::pending().await,
        }
    }

    /// Waits until all have ended.
    pub(super) async fn all_ended(&mut self) {
        while self.running > 0 {
            self.next_end().await;
        }
    }
}

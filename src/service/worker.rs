//! One core: a runtime of its own and the connections that were handed to it.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::connection::{self, Counted, Load, Responder};
use super::random::Random;
use super::threads::Threads;

/// How long calls in flight may take to finish once their connections were told to go.
pub(super) const FINISH: Duration = Duration::from_secs(10);

/// Where the acceptor leaves connections for a core.
pub(super) struct Worker {
    load: Load,
    queue: mpsc::UnboundedSender<(TcpStream, Counted)>,
}

/// What the acceptor left for a core.
pub(super) type Connections = mpsc::UnboundedReceiver<(TcpStream, Counted)>;

/// What every core needs to serve.
#[derive(Clone)]
pub(super) struct Terms {
    /// About how long a connection is kept; for ever when absent.
    pub(super) age: Option<Duration>,
    /// Turns true when connections have to go.
    pub(super) draining: watch::Receiver<bool>,
    /// What ages are spread by.
    pub(super) random: Arc<Random>,
}

impl Worker {
    /// Starts a core. `serve` is called on the core's own thread, inside its runtime.
    ///
    /// The runtime is single-threaded: many requests that came in one read are answered with one write.
    pub(super) fn start<F: Future>(
        core: usize,
        threads: &mut Threads,
        serve: impl FnOnce(Connections) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (queue, connections) = mpsc::unbounded_channel();
        threads.spawn(format!("core-{core}"), move || {
            runtime.block_on(async move { serve(connections).await });
        })?;
        Ok(Self {
            load: Load::default(),
            queue,
        })
    }

    /// The connections that are open here.
    pub(super) fn open(&self) -> usize {
        self.load.open()
    }

    /// Hands a connection over.
    pub(super) fn take(&self, stream: TcpStream) {
        // A core that is gone ends the whole process; until then its connections close.
        let _ = self.queue.send((stream, self.load.add()));
    }
}

/// Serves what comes until the connections have to go, and then until those that are open have finished.
pub(super) async fn run(responder: impl Responder, mut queue: Connections, terms: Terms) {
    let mut draining = terms.draining.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            arrived = queue.recv() => {
                let Some((stream, counted)) = arrived else { break };
                match tokio::net::TcpStream::from_std(stream) {
                    Ok(stream) => {
                        let age = terms.age.map(|age| jittered(age, &terms.random));
                        let goodbye = terms.draining.clone();
                        connections.spawn(connection::serve(stream, counted, responder.clone(), age, goodbye));
                    }
                    Err(error) => tracing::warn!(%error, "a connection could not be taken over"),
                }
            }
            _ = draining.wait_for(|draining| *draining) => break,
            // Its result says nothing new: a panic was reported when it happened.
            Some(_) = connections.join_next() => {}
        }
    }
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(FINISH, finished).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "connections did not close in time and are cut"
        );
    }
}

/// An age up to a tenth shorter or longer than `age`.
fn jittered(age: Duration, random: &Random) -> Duration {
    let tenth = age / 10;
    let millis = u64::try_from(2 * tenth.as_millis()).unwrap_or(u64::MAX);
    age.saturating_sub(tenth) + Duration::from_millis(random.up_to(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_differ_by_up_to_a_tenth() {
        let random = Random::new(1);
        let ages: Vec<_> = (0..1000)
            .map(|_| jittered(Duration::from_secs(100), &random))
            .collect();
        assert!(ages.iter().all(|age| (90..=110).contains(&age.as_secs())));
        assert!(ages.iter().min() < ages.iter().max());
    }
}

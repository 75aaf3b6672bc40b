//! Keeps a link connected, and closes and opens its breaker by what the server does.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::connect;
use super::link::Link;
use super::meaning::{self, Meaning};
use super::probe::Probe;
use super::request::Failure;
use super::target::RedisTarget;
use super::url::Layout;
use crate::store::{StoreObserver, random};

/// The first wait after a failed attempt, or after a connection that did not last; each further one is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// The longest wait between attempts: how late at most a store that is back is noticed.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How often a server that does not decide is probed.
const BETWEEN_PROBES: Duration = Duration::from_millis(200);

/// How often an idle connection is asked whether it is still there. A store that was restarted costs no call then, and
/// one that cannot be reached any more without a word is noticed at all.
const BETWEEN_PINGS: Duration = Duration::from_secs(1);

/// Sentinels are asked whether the primary is still the same with one ping in so many: an old one that was cut off from
/// them, but not from us, would count on by itself.
const PINGS_BETWEEN_LOOKS: u32 = 5;

/// How long the answer to a ping or a probe may take. Far above any call's budget: a store that is merely slow keeps its
/// connections, and a connection that is of no use is given up before the network's own patience ends.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);

/// A link that is kept until this is dropped.
pub(super) struct Supervised {
    link: Arc<Link>,
    task: AbortHandle,
}

impl Supervised {
    /// Starts connecting on the current runtime.
    pub(super) fn start(
        link: Arc<Link>,
        target: Arc<RedisTarget>,
        layout: Layout,
        probe: Probe,
        budget: Duration,
        observer: Arc<dyn StoreObserver>,
    ) -> Self {
        let supervisor = Supervisor {
            link: Arc::clone(&link),
            is_node: matches!(target.layout(), Layout::Cluster(_)),
            target,
            layout,
            probe,
            budget,
            observer,
        };
        let task = tokio::spawn(supervisor.run()).abort_handle();
        Self { link, task }
    }

    /// The link.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Supervisor {
    link: Arc<Link>,
    target: Arc<RedisTarget>,
    layout: Layout,
    probe: Probe,
    budget: Duration,
    /// Whether it belongs to a cluster.
    is_node: bool,
    observer: Arc<dyn StoreObserver>,
}

impl Supervisor {
    async fn run(self) {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let started = Instant::now();
            let reason = self.serve().await.unwrap_or_else(|reason| reason);
            self.link.open(Failure::lost(reason.clone()));
            if started.elapsed() >= 2 * LONGEST_SILENCE + LONGEST_PAUSE {
                // It lasted. Whatever else is of no use at once (a replica that takes no writes, a proxy with nobody
                // behind it) would be made again with every call.
                pause = SHORTEST_PAUSE;
                continue;
            }
            self.observer
                .connection_failed(self.link.endpoint(), &reason, pause);
            sleep(jittered(pause)).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Connects and uses the connection for as long as it is of use. Either way, what comes back is why it is not.
    async fn serve(&self) -> Result<String, String> {
        let address = connect::find(&self.layout, &self.target).await?;
        let connection = connect::to(&self.target, &address).await?;
        Ok(tokio::select! {
            reason = self.link.send_over(connection.clone()) => reason,
            reason = self.watch(connection, &address) => reason,
        })
    }

    /// Closes the breaker whenever the server decides, until the connection is of no use any more.
    async fn watch(&self, mut connection: MultiplexedConnection, address: &connect::Address) -> String {
        loop {
            if let Err(reason) = self.probe_until_it_decides(&mut connection).await {
                return reason;
            }
            self.link.close();
            self.observer.connected(self.link.endpoint());
            tokio::select! {
                () = self.link.has_opened() => {}
                reason = self.ping_until_it_is_silent(&mut connection, address) => return reason,
            }
        }
    }

    async fn probe_until_it_decides(&self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        loop {
            let (meaning, reason) = match timeout(LONGEST_SILENCE, self.probe.run(connection)).await {
                Ok(Ok(took)) if took <= self.budget => return Ok(()),
                Ok(Ok(took)) => {
                    let reason = format!(
                        "it takes {took:?}, longer than the {:?} that a call may take",
                        self.budget
                    );
                    (Meaning::Late, reason)
                }
                Ok(Err(error)) => match Meaning::of(&error) {
                    Meaning::Abandon | Meaning::Lost => return Err(meaning::explained(&error)),
                    // Of a cluster's node, which tells who serves the counter: it knows its way about.
                    Meaning::Elsewhere { .. } if self.is_node => return Ok(()),
                    meaning => (meaning, meaning::explained(&error)),
                },
                Err(_) => return Err(format!("no answer within {LONGEST_SILENCE:?}")),
            };
            self.observer
                .connection_failed(self.link.endpoint(), &reason, BETWEEN_PROBES);
            self.link.open(Failure { meaning, reason });
            sleep(jittered(BETWEEN_PROBES)).await;
        }
    }

    async fn ping_until_it_is_silent(
        &self,
        connection: &mut MultiplexedConnection,
        address: &connect::Address,
    ) -> String {
        for pings in 1_u32.. {
            sleep(BETWEEN_PINGS).await;
            let ping = redis::cmd("PING");
            match timeout(LONGEST_SILENCE, ping.query_async::<()>(connection)).await {
                // Also an answer that says no, for want of rights, comes from a store that is there.
                Ok(Ok(())) => {}
                Ok(Err(error)) => match Meaning::of(&error) {
                    Meaning::Abandon | Meaning::Lost => return meaning::explained(&error),
                    _ => {}
                },
                Err(_) => return format!("no answer within {LONGEST_SILENCE:?}"),
            }
            if pings % PINGS_BETWEEN_LOOKS == 0
                && let Ok(now) = connect::find(&self.layout, &self.target).await
                && now != *address
            {
                return format!("the primary is {now} now");
            }
        }
        String::from("asked long enough")
    }
}

/// A quarter shorter to a quarter longer than `pause`, so that instances which lost a store together do not come back to
/// it together.
pub(super) fn jittered(pause: Duration) -> Duration {
    let share = u32::try_from(random() % 512).unwrap_or_default();
    pause * (768 + share) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_around_what_they_are() {
        let pauses: Vec<_> = (0..1000).map(|_| jittered(Duration::from_millis(1024))).collect();
        assert!(
            pauses
                .iter()
                .all(|pause| (768..1280).contains(&pause.as_millis()))
        );
        assert!(pauses.iter().min() < pauses.iter().max());
    }
}

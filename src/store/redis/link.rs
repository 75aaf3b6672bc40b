//! One connection and the supervisor that keeps it: calls never wait for a reconnect.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::url::RedisUrl;
use crate::store::{StoreError, StoreObserver};

/// How long an attempt to connect may take.
const CONNECTING: Duration = Duration::from_secs(2);

/// The first wait after a failed attempt, or after a connection that did not last; each further one is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// The longest wait between attempts: how late at most a store that is back is noticed.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often an idle connection is asked whether it is still there. A store that was restarted costs no call then, and
/// one that cannot be reached any more without a word is noticed at all.
const BETWEEN_PINGS: Duration = Duration::from_secs(1);

/// How long the answer may take. Far above any call's budget: a store that is merely slow keeps its connections.
const LONGEST_SILENCE: Duration = Duration::from_secs(3);

/// A connection that is there or is being made again in the background.
pub(super) struct Link {
    current: Mutex<Current>,
    lost: Notify,
    endpoint: String,
}

#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    /// Counts connections, so that a late failure of an old one does not end a new one.
    number: u64,
    /// Why there is none.
    reason: Option<String>,
}

impl Link {
    /// Starts connecting on the current runtime; the attempts end with the last user of the link.
    pub(super) fn start(url: &RedisUrl, observer: Arc<dyn StoreObserver>) -> Arc<Self> {
        let link = Arc::new(Self {
            current: Mutex::default(),
            lost: Notify::new(),
            endpoint: url.endpoint(),
        });
        tokio::spawn(supervise(Arc::downgrade(&link), url.clone(), observer));
        link
    }

    /// The connection and its number.
    pub(super) fn connection(&self) -> Result<(MultiplexedConnection, u64), StoreError> {
        let current = self.current.lock();
        match &current.connection {
            Some(connection) => Ok((connection.clone(), current.number)),
            None => Err(self.unreachable(current.reason.as_deref().unwrap_or("not connected yet"))),
        }
    }

    /// Gives up connection `number`: it is of no use any more.
    pub(super) fn give_up(&self, number: u64, reason: &str) {
        let mut current = self.current.lock();
        if current.number == number && current.connection.take().is_some() {
            current.reason = Some(reason.to_owned());
            self.lost.notify_one();
        }
    }

    /// The error that says so.
    pub(super) fn unreachable(&self, reason: &str) -> StoreError {
        StoreError::Unreachable {
            endpoint: self.endpoint.clone(),
            reason: reason.to_owned(),
        }
    }

    /// Puts `connection` to use, and tells its number.
    fn connected(&self, connection: MultiplexedConnection) -> u64 {
        let mut current = self.current.lock();
        current.connection = Some(connection);
        current.number += 1;
        current.reason = None;
        current.number
    }
}

async fn supervise(link: Weak<Link>, url: RedisUrl, observer: Arc<dyn StoreObserver>) {
    let endpoint = url.endpoint();
    let mut pause = SHORTEST_PAUSE;
    loop {
        match connect(&url).await {
            Ok(connection) => {
                observer.connected(&endpoint);
                let Some(link) = link.upgrade() else { return };
                let number = link.connected(connection.clone());
                let start = Instant::now();
                tokio::select! {
                    () = link.lost.notified() => {}
                    reason = end_of(connection) => {
                        link.give_up(number, &reason);
                        // Whoever gave it up, that was said; the word must not be taken for the end of the next one.
                        link.lost.notified().await;
                    }
                }
                if start.elapsed() >= LONGEST_PAUSE {
                    pause = SHORTEST_PAUSE;
                    continue;
                }
                // It was of no use: a replica that takes no writes, a proxy with nobody behind it. Made again at once,
                // there would be a connection for every call.
            }
            Err(error) => {
                let reason = error.to_string();
                observer.connection_failed(&endpoint, &reason, pause);
                let Some(link) = link.upgrade() else { return };
                link.current.lock().reason = Some(reason);
            }
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Waits until `connection` is of no use any more, and tells why.
async fn end_of(mut connection: MultiplexedConnection) -> String {
    loop {
        tokio::time::sleep(BETWEEN_PINGS).await;
        let ping = redis::cmd("PING");
        let answer = tokio::time::timeout(LONGEST_SILENCE, ping.query_async::<()>(&mut connection)).await;
        match answer {
            // Also an answer that says no, for want of rights, comes from a store that is there.
            Ok(Ok(())) => {}
            Ok(Err(error)) if answered(&error) => {}
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return format!("no answer within {LONGEST_SILENCE:?}"),
        }
    }
}

/// Whether it is the store that says so, rather than the connection.
pub(super) fn answered(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

async fn connect(url: &RedisUrl) -> RedisResult<MultiplexedConnection> {
    let client = Client::open(url.connection_info())?;
    // No response timeout of its own: each call brings what is left of its deadline.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTING))
        .set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

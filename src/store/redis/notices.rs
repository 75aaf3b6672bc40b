//! What instances tell each other over Redis: that hits came back, that counters were reset, that a policy is worth reading
//! again. Carried by a client of its own, which keeps its subscription by itself. Nothing waits for it: a notice that is
//! lost is a local refusal that lasts until its time, or a policy that is read when its own file changes.

mod tls;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::SubscriberClient;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::config::{
    ClusterDiscoveryPolicy, Config, ReconnectPolicy, Server, ServerConfig, UnresponsiveConfig,
};
use fred::types::{Builder, RespVersion};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::meaning::shown;
use super::target::RedisTarget;
use super::url::{Address, Layout};
use crate::store::key::Keys;
use crate::store::random;

/// So many notices wait to be sent; what comes beyond that is lost.
const MOST_WAITING: usize = 1024;

/// The pauses between attempts to connect.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long an answer may take before the connection counts as lost.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// What one instance tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Hits came back to the counter with this key.
    GivenBack(Vec<u8>),
    /// Counters are not what they were: nothing that is remembered of them holds.
    Reset,
    /// Somebody wants policies to be read again.
    Reload,
}

impl Notice {
    /// As `who` says it on the channel: in words that a person can send, too.
    fn write(&self, who: &str) -> Vec<u8> {
        let what = match self {
            Self::GivenBack(key) => [b"given-back ", &key[..]].concat(),
            Self::Reset => b"reset".to_vec(),
            Self::Reload => b"reload".to_vec(),
        };
        [who.as_bytes(), b" ", &what].concat()
    }

    /// What somebody other than `listener` says; none when a later version, or a stranger, says what this one does not know.
    fn read(bytes: &[u8], listener: &str) -> Option<Self> {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        match (&bytes[..space], &bytes[space + 1..]) {
            (who, _) if who == listener.as_bytes() => None,
            (_, b"reset") => Some(Self::Reset),
            (_, b"reload") => Some(Self::Reload),
            (_, what) => what
                .strip_prefix(b"given-back ")
                .map(|key| Self::GivenBack(key.to_vec())),
        }
    }
}

/// Where notices are left to be sent. Clones leave them in the same place.
#[derive(Clone, Debug)]
pub struct Teller(mpsc::Sender<Notice>);

impl Teller {
    /// Leaves `notice` to be sent, and never waits.
    pub fn tell(&self, notice: Notice) {
        // Nobody waits for it, and nobody counts on it.
        let _ = self.0.try_send(notice);
    }
}

/// The channel that all instances with one prefix share.
pub struct Notices {
    target: Arc<RedisTarget>,
    channel: String,
    /// Nobody else's.
    name: String,
    waiting: mpsc::Receiver<Notice>,
}

impl Notices {
    /// Notices in the Redis at `target`, on a channel beside the counters of `keys`; and where to leave some.
    pub fn new(target: Arc<RedisTarget>, keys: &Keys) -> (Self, Teller) {
        let (teller, waiting) = mpsc::channel(MOST_WAITING);
        let channel = keys.channel();
        let notices = Self {
            target,
            channel,
            name: format!("{:016x}", random()),
            waiting,
        };
        (notices, Teller(teller))
    }

    /// Sends what is left to be sent, and tells `heard` what others say, until it is dropped. Why it cannot is told to
    /// `troubled`, once until it can again.
    pub async fn run(mut self, heard: impl Fn(Notice), troubled: impl Fn(&str)) -> Infallible {
        let mut was_told = false;
        loop {
            match self.listen(&heard).await {
                Ok(()) => was_told = false,
                Err(reason) if !was_told => {
                    was_told = true;
                    troubled(&self.target.without_secrets(&shown(&reason)));
                }
                Err(_) => {}
            }
            sleep(LONGEST_PAUSE).await;
        }
    }

    /// Listens for as long as the client keeps its connection or can make it again.
    async fn listen(&mut self, heard: impl Fn(Notice)) -> Result<(), String> {
        let client = client(&self.target)?;
        let _connection = EndsWith(client.init().await.map_err(|error| error.to_string())?);
        let _subscriptions = EndsWith(client.manage_subscriptions());
        let mut messages = client.message_rx();
        let mut reconnections = client.reconnect_rx();
        client
            .subscribe(&self.channel)
            .await
            .map_err(|error| error.to_string())?;
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Ok(message) => message.value.as_bytes().and_then(|bytes| Notice::read(bytes, &self.name)).into_iter().for_each(&heard),
                    // Who knows what was said.
                    Err(RecvError::Lagged(_)) => heard(Notice::Reset),
                    Err(RecvError::Closed) => return Ok(()),
                },
                again = reconnections.recv() => match again {
                    Err(RecvError::Closed) => return Ok(()),
                    // Nor what was said meanwhile.
                    Ok(_) | Err(RecvError::Lagged(_)) => heard(Notice::Reset),
                },
                Some(notice) = self.waiting.recv() => {
                    let bytes = notice.write(&self.name);
                    // A notice that cannot be sent is lost.
                    let _ = client.publish::<(), _, _>(&self.channel, &bytes[..]).await;
                }
            }
        }
    }
}

/// A client that subscribes and publishes over one connection.
fn client(target: &RedisTarget) -> Result<SubscriberClient, String> {
    let servers = |addresses: &[Address]| addresses.iter().map(server).collect();
    let who = target.credentials();
    let config = Config {
        username: who.user.clone(),
        password: who.password.clone(),
        // Of the older protocol, a subscriber cannot publish.
        version: RespVersion::RESP3,
        server: match target.layout() {
            Layout::Single(Address::Unix(path)) => ServerConfig::Unix { path: path.clone() },
            Layout::Single(address) => ServerConfig::Centralized {
                server: server(address),
            },
            Layout::Cluster(seeds) => ServerConfig::Clustered {
                hosts: servers(seeds),
                policy: ClusterDiscoveryPolicy::default(),
            },
            Layout::Sentinel { sentinels, master } => ServerConfig::Sentinel {
                hosts: servers(sentinels),
                service_name: master.clone(),
                username: target.sentinel_credentials().user.clone(),
                password: target.sentinel_credentials().password.clone(),
            },
        },
        tls: tls::config(target)?,
        ..Config::default()
    };
    let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    let policy = ReconnectPolicy::new_exponential(0, millis(SHORTEST_PAUSE), millis(LONGEST_PAUSE), 2);
    Builder::from_config(config)
        .set_policy(policy)
        .with_connection_config(|connection| {
            connection.connection_timeout = LONGEST_SILENCE;
            connection.internal_command_timeout = LONGEST_SILENCE;
            connection.unresponsive = UnresponsiveConfig {
                max_timeout: Some(LONGEST_SILENCE),
                interval: LONGEST_SILENCE / 5,
            };
        })
        .with_performance_config(|performance| performance.default_command_timeout = LONGEST_SILENCE)
        .build_subscriber_client()
        .map_err(|error| error.to_string())
}

fn server(address: &Address) -> Server {
    match address {
        Address::Tcp(host, port) => Server::new(host, *port),
        Address::Unix(path) => Server::new(path.display().to_string(), 0),
    }
}

/// A task that ends with whoever started it.
struct EndsWith<T>(JoinHandle<T>);

impl<T> Drop for EndsWith<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_read_as_they_are_written() {
        for notice in [
            Notice::GivenBack(b"comporta:1:{4:edge}\xff \n".to_vec()),
            Notice::GivenBack(Vec::new()),
            Notice::Reset,
            Notice::Reload,
        ] {
            let bytes = notice.write("one");
            assert_eq!(Notice::read(&bytes, "one"), None);
            assert_eq!(Notice::read(&bytes, "other"), Some(notice));
        }
        assert_eq!(Notice::read(b"operator reset", "one"), Some(Notice::Reset));
        for strange in ["", "reset", "one", "one something new", "one reset "] {
            assert_eq!(Notice::read(strange.as_bytes(), "other"), None, "{strange}");
        }
    }

    #[test]
    fn what_nobody_sends_is_lost_beyond_a_bound() {
        let url = super::super::RedisUrl::parse("redis://h").expect("a URL");
        let (mut notices, teller) = Notices::new(Arc::new(url.into()), &Keys::new("test"));
        for _ in 0..2 * MOST_WAITING {
            teller.tell(Notice::Reset);
        }
        let left = std::iter::from_fn(|| notices.waiting.try_recv().ok()).count();
        assert_eq!(left, MOST_WAITING);
    }
}

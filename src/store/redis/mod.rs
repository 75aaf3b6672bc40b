//! The shared store: one atomic script per group, counted by the store's own clock.
//!
//! `link` is the way to one server: what waits for it goes in one call, and a `breaker` says whether it is asked at all.
//! `supervisor` keeps it connected and probes it while it is not asked. `cluster` has a link to each node and puts a group
//! together whose counters lie in several slots (`parts`). Beside decisions, each over a connection of its own: `heartbeat`,
//! `notices`, and the `doctor`.

mod breaker;
mod cluster;
pub mod codec;
mod connect;
mod doctor;
mod heartbeat;
mod link;
mod links;
mod meaning;
mod notices;
mod parts;
mod probe;
mod request;
pub mod script;
mod sentinel;
mod slots;
mod supervisor;
mod target;
mod url;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::cluster::{Cluster, TakenBack};
use self::codec::Reply;
pub use self::doctor::{Doctor, Finding, Info, Inspection};
pub use self::heartbeat::Heartbeat;
use self::links::Links;
pub use self::notices::{Notice, Notices, Teller};
pub use self::request::MOST_KEYS;
use self::request::Request;
use self::script::Script;
use self::supervisor::Supervised;
pub use self::target::{Certificates, Credentials, RedisTarget, RedisTargetError};
use self::url::Layout;
pub use self::url::{RedisUrl, RedisUrlError};
use super::key::Keys;
use super::{Store, StoreError, StoreObserver};
use crate::decide::group;
use crate::domain::check::Group;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Decisions;

/// What is kept of a caller's deadline for the way back.
const WAY_BACK: Duration = Duration::from_millis(3);

/// Whose clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// The store's own, shared by all instances.
    Store,
    /// The caller's, for tests that move time by hand. State then lives for an hour at least.
    Caller,
}

/// A Redis. Every core has its own connections.
#[derive(Clone)]
pub struct Redis {
    servers: Servers,
    budget: Duration,
    time: TimeSource,
    observer: Arc<dyn StoreObserver>,
}

#[derive(Clone)]
enum Servers {
    One(Arc<Supervised>),
    Cluster(Arc<Cluster>),
}

impl Redis {
    /// Starts to connect on the current runtime and does not wait for it. A call takes at most `budget`; groups that wait at
    /// the same time share one while they have no more than `most_keys` counters together. Of `keys`, only those for probes
    /// are used here.
    pub fn connect(
        target: &Arc<RedisTarget>,
        budget: Duration,
        most_keys: usize,
        time: TimeSource,
        keys: &Keys,
        observer: Arc<dyn StoreObserver>,
    ) -> Self {
        let links = Links {
            target: Arc::clone(target),
            script: Arc::new(Script::new(script::SOURCE)),
            keys: keys.clone(),
            budget,
            most_keys,
            observer: Arc::clone(&observer),
        };
        let servers = match target.layout().clone() {
            Layout::Cluster(seeds) => Servers::Cluster(Arc::new(Cluster::start(seeds, links))),
            one => Servers::One(Arc::new(links.start(links.endpoint(), one, &keys.probe(0)))),
        };
        Self {
            servers,
            budget,
            time,
            observer,
        }
    }

    async fn ask(
        &self,
        group: &Group<'_>,
        now: Timestamp,
    ) -> Result<(Decisions, Option<TakenBack>), StoreError> {
        let now = (self.time == TimeSource::Caller).then_some(now);
        match &self.servers {
            Servers::One(server) => {
                let link = server.link();
                match link.ask(Request::new(group, now)).await {
                    Ok(mut reply) => Ok((group::decide(group, reply.now, &mut reply), None)),
                    Err(failure) => Err(link.error(failure)),
                }
            }
            Servers::Cluster(cluster) => cluster.decide(group, now).await,
        }
    }
}

impl Store for Redis {
    async fn decide(
        &self,
        group: &Group<'_>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Decisions, StoreError> {
        if group.checks.iter().all(|check| check.limit.count() == 0) {
            return Ok(group::decide(group, now, &mut Reply::nothing(now)));
        }
        let started = Instant::now();
        let left = deadline
            .saturating_duration_since(started)
            .saturating_sub(WAY_BACK);
        let budget = self.budget.min(left);
        let answer = tokio::time::timeout(budget, self.ask(group, now)).await;
        let answer = answer.unwrap_or(Err(if left < self.budget {
            StoreError::Impatient { left }
        } else {
            StoreError::Timeout { budget }
        }));
        self.observer
            .asked(started.elapsed(), answer.as_ref().map(|_| ()));
        let (decisions, taken_back) = answer?;
        if let Some(taken_back) = taken_back {
            // The answer is known, whatever becomes of that.
            let _ = tokio::time::timeout(budget.saturating_sub(started.elapsed()), taken_back).await;
        }
        if decisions.unreadable > 0 {
            self.observer.unreadable(decisions.unreadable);
        }
        Ok(decisions)
    }
}

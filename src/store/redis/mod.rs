//! The shared store: one atomic script per group, counted by the store's own clock.

pub mod codec;
mod link;
pub mod script;
mod url;

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

use self::codec::Reply;
use self::link::{Link, answered};
pub use self::url::{RedisUrl, RedisUrlError};
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

/// A single Redis. Every core has its own connection.
#[derive(Clone)]
pub struct Redis {
    link: Arc<Link>,
    hash: Arc<str>,
    budget: Duration,
    time: TimeSource,
    observer: Arc<dyn StoreObserver>,
}

impl Redis {
    /// Starts to connect on the current runtime and does not wait for it. A call takes at most `budget`.
    pub fn connect(
        url: &RedisUrl,
        budget: Duration,
        time: TimeSource,
        observer: Arc<dyn StoreObserver>,
    ) -> Self {
        let hash = Arc::from(redis::Script::new(script::SOURCE).get_hash());
        Self {
            link: Link::start(url, Arc::clone(&observer)),
            hash,
            budget,
            time,
            observer,
        }
    }

    async fn ask(&self, group: &Group<'_>, now: Timestamp) -> Result<Reply, StoreError> {
        let (mut connection, number) = self.link.connection()?;
        let command = self.command("EVALSHA", &self.hash, group, now);
        let mut answer: RedisResult<Value> = command.query_async(&mut connection).await;
        if answer
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        {
            // Nothing ran. The script goes with the call, and stays.
            answer = self
                .command("EVAL", script::SOURCE, group, now)
                .query_async(&mut connection)
                .await;
        }
        let value = answer.map_err(|error| self.failed(number, &error))?;
        Reply::read(value, group.checks.len()).ok_or_else(|| StoreError::Refused {
            reason: "an answer that is none of the script's".to_owned(),
        })
    }

    fn command(&self, name: &str, script: &str, group: &Group<'_>, now: Timestamp) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(group.checks.len());
        for check in group.checks {
            command.arg(check.key);
        }
        for argument in codec::arguments(group) {
            command.arg(&argument[..]);
        }
        if self.time == TimeSource::Caller {
            command.arg(now.as_micros());
        }
        command
    }

    fn failed(&self, number: u64, error: &RedisError) -> StoreError {
        match error.kind() {
            // A master that became a replica will not take writes again on this connection.
            ErrorKind::Server(ServerErrorKind::ReadOnly) => {
                self.link.give_up(number, &error.to_string());
                StoreError::Refused {
                    reason: error.to_string(),
                }
            }
            _ if answered(error) => StoreError::Refused {
                reason: error.to_string(),
            },
            _ => {
                self.link.give_up(number, &error.to_string());
                self.link.unreachable(&error.to_string())
            }
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
        let budget = self.budget.min(
            deadline
                .saturating_duration_since(started)
                .saturating_sub(WAY_BACK),
        );
        let answer = tokio::time::timeout(budget, self.ask(group, now)).await;
        let answer = answer.unwrap_or(Err(StoreError::Timeout { budget }));
        self.observer
            .asked(started.elapsed(), answer.as_ref().map(|_| ()));
        let mut reply = answer?;
        let decisions = group::decide(group, reply.now, &mut reply);
        if decisions.unreadable > 0 {
            self.observer.unreadable(decisions.unreadable);
        }
        Ok(decisions)
    }
}

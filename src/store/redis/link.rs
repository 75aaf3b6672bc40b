//! The way to one server: what waits for it, what is under way, and whether it is asked at all. Calls never wait for a
//! connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use tokio::sync::{Notify, oneshot};

use super::breaker::{Breaker, Kept};
use super::codec::Reply;
use super::meaning::Meaning;
use super::request::{Batch, Failure, Request, Waiting};
use super::script::Script;
use crate::store::{StoreError, StoreObserver};

/// A connection that is there or is being made again in the background.
pub(super) struct Link {
    state: Mutex<State>,
    /// Something waits to be sent.
    work: Notify,
    /// The breaker has opened.
    opened: Notify,
    endpoint: String,
    script: Arc<Script>,
    /// How long a call may take before it counts as failed.
    budget: Duration,
    /// How many counters a call is about at most, where several groups share it.
    most_keys: usize,
    observer: Arc<dyn StoreObserver>,
}

struct State {
    breaker: Breaker,
    waiting: VecDeque<Waiting>,
    /// Why it is not asked.
    why: Failure,
}

impl Link {
    pub(super) fn new(
        endpoint: String,
        script: Arc<Script>,
        budget: Duration,
        most_keys: usize,
        observer: Arc<dyn StoreObserver>,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                breaker: Breaker::new(),
                waiting: VecDeque::new(),
                why: Failure::lost(String::from("not connected yet")),
            }),
            work: Notify::new(),
            opened: Notify::new(),
            endpoint,
            script,
            budget,
            most_keys,
            observer,
        })
    }

    /// Decides what `request` asks, unless it is known that nobody would. It may be dropped at any moment.
    pub(super) async fn ask(&self, request: Request) -> Result<Reply, Failure> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.state.lock();
            state.breaker.begin().map_err(|kept| match kept {
                Kept::Open => state.why.clone(),
                Kept::Full => Failure {
                    meaning: Meaning::Full,
                    reason: String::from("as many calls are under way as may be"),
                },
            })?;
            state.waiting.push_back(Waiting { request, answer });
        }
        let _under_way = UnderWay(self);
        self.work.notify_one();
        // Without an answer, whoever was to send it or to wait for it is gone, and with them the connection.
        answered.await.unwrap_or_else(|_| Err(self.lost()))
    }

    /// Why it is not asked.
    pub(super) fn lost(&self) -> Failure {
        self.state.lock().why.clone()
    }

    /// What `failure` is to a caller.
    pub(super) fn error(&self, failure: Failure) -> StoreError {
        let Failure { meaning, reason } = failure;
        match meaning {
            Meaning::Lost => StoreError::Unreachable {
                endpoint: self.endpoint.clone(),
                reason,
            },
            Meaning::Late => StoreError::Timeout { budget: self.budget },
            Meaning::NoScript
            | Meaning::Elsewhere { .. }
            | Meaning::Split
            | Meaning::Full
            | Meaning::Refused
            | Meaning::Down
            | Meaning::Abandon => StoreError::Refused { reason },
        }
    }

    /// Where it leads.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Whether it is asked.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().breaker.is_closed()
    }

    /// Asks no more, and says `why`. What waits gets that answer.
    pub(super) fn open(&self, why: Failure) {
        let given_up = {
            let mut state = self.state.lock();
            state.breaker.open();
            state.why = match why.meaning {
                // Whoever is not let through waits for nothing, and is charged nothing.
                Meaning::Late => Failure::lost(why.reason),
                _ => why,
            };
            std::mem::take(&mut state.waiting)
        };
        drop(given_up);
        self.opened.notify_one();
    }

    /// Asks again.
    pub(super) fn close(&self) {
        self.state.lock().breaker.close();
    }

    /// Waits until it asks no more.
    pub(super) async fn has_opened(&self) {
        while self.is_closed() {
            self.opened.notified().await;
        }
    }

    /// Sends over `connection` what is asked for as long as that is of use, and tells why it is not any more.
    pub(super) async fn send_over(&self, connection: MultiplexedConnection) -> String {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = self.work.notified() => {
                    while let Some(batch) = self.next_batch() {
                        under_way.push(self.send(connection.clone(), batch));
                    }
                }
                Some((batch, outcome)) = under_way.next(), if !under_way.is_empty() => {
                    if let Some(reason) = self.settle(batch, outcome) {
                        return reason;
                    }
                }
            }
        }
    }

    fn next_batch(&self) -> Option<Batch> {
        Batch::next(&mut self.state.lock().waiting, self.most_keys)
    }

    async fn send(&self, mut connection: MultiplexedConnection, batch: Batch) -> (Batch, Outcome) {
        let outcome = match tokio::time::timeout(self.budget, self.run(&mut connection, &batch)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure::of(&error)),
            Err(_) => Err(Failure {
                meaning: Meaning::Late,
                reason: format!("no answer within {:?}", self.budget),
            }),
        };
        (batch, outcome)
    }

    async fn run(&self, connection: &mut MultiplexedConnection, batch: &Batch) -> RedisResult<Value> {
        let command = |name: &str, script: &str| batch.command(name, script);
        let (value, was_sent) = self.script.run(connection, batch.entry(), command).await?;
        if was_sent {
            self.observer.script_sent(&self.endpoint);
        }
        Ok(value)
    }

    /// Hands out what came, and draws the conclusions: the reason for which the connection is of no more use, if so.
    fn settle(&self, batch: Batch, outcome: Outcome) -> Option<String> {
        let groups = batch.groups();
        let abandon = match &outcome {
            Ok(_) => {
                self.state.lock().breaker.succeed(groups);
                None
            }
            Err(failure) => match failure.meaning {
                Meaning::NoScript | Meaning::Elsewhere { .. } | Meaning::Split | Meaning::Full => None,
                Meaning::Refused | Meaning::Late => {
                    let opens = self.state.lock().breaker.fail();
                    if opens {
                        self.open(failure.clone());
                    }
                    None
                }
                Meaning::Down => {
                    self.open(failure.clone());
                    None
                }
                Meaning::Abandon | Meaning::Lost => {
                    self.open(failure.clone());
                    Some(failure.reason.clone())
                }
            },
        };
        batch.settle(outcome);
        abandon
    }
}

type Outcome = Result<Value, Failure>;

/// A call that counts as under way until its caller has its answer or has given up.
struct UnderWay<'a>(&'a Link);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state.lock().breaker.end();
    }
}

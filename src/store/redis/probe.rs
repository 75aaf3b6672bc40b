//! Finds out whether a server decides: the real script, as the real user, on a counter that nobody asks about.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, Value};

use super::codec::Reply;
use super::connect::Entry;
use super::request::Request;
use super::script::Script;
use crate::domain::check::{Binding, Charge, Check, Group, OnStoreFailure};
use crate::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;

/// One call that writes.
pub(super) struct Probe {
    script: Arc<Script>,
    request: Request,
}

impl Probe {
    /// A probe that counts in `key`.
    pub(super) fn new(script: Arc<Script>, key: &[u8]) -> Self {
        let spec = LimitSpec {
            name: Arc::from("probe"),
            named: true,
            count: u32::MAX,
            period: Period::one(Unit::Second),
            // What it leaves behind is gone in a millisecond.
            algorithm: Algorithm::TokenBucket,
            burst: None,
            delay: Micros::ZERO,
            calendar: true,
        };
        let limit = Limit::new(spec).expect("any count a second is a limit");
        let check = Check {
            key,
            limit: &limit,
            hits: Hits::take(1),
            binding: Binding::Always,
            charge: Charge::AllOrNothing,
            on_store_failure: OnStoreFailure::default(),
        };
        let group = Group {
            checks: &[check],
            longest_wait: Micros::ZERO,
            compat: false,
        };
        Self {
            script,
            request: Request::new(&group, None),
        }
    }

    /// Runs it and tells how long the server took, once it knows the script.
    ///
    /// # Errors
    /// What the server said instead, or how the connection ended.
    pub(super) async fn run(&self, connection: &mut MultiplexedConnection) -> Result<Duration, RedisError> {
        let command = |name: &str, script: &str| self.request.command(name, script);
        let mut started = Instant::now();
        let (mut answer, was_sent) = self.script.run(connection, Entry::Plain, command).await?;
        if was_sent {
            started = Instant::now();
            (answer, _) = self.script.run(connection, Entry::Plain, command).await?;
        }
        understood(answer).map(|()| started.elapsed())
    }
}

/// Whether it is the script that answers.
fn understood(answer: Value) -> Result<(), RedisError> {
    const STRANGE: &str = "an answer that is none of the script's";
    Reply::read(answer, 1)
        .map(|_| ())
        .ok_or_else(|| RedisError::from((ErrorKind::UnexpectedReturnType, STRANGE)))
}

//! One call after the other, of the many that one thread has under way.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedReceiver;

use super::keys::Picker;
use super::question::Question;
use super::tally::Tally;
use crate::service::asker::Asker;
use crate::service::client::AskError;
use crate::service::random::Random;

/// What the streams of a thread have in common.
pub(super) struct Shared {
    pub(super) question: Arc<Question>,
    pub(super) keys: Arc<Picker>,
    pub(super) random: Random,
    /// When no more calls are due.
    pub(super) until: Instant,
    /// When calls that were due and are not sent yet will not be sent any more.
    pub(super) give_up: Instant,
    /// When calls are due; absent when that is for the streams to say.
    pub(super) due: Option<tokio::sync::Mutex<UnboundedReceiver<Instant>>>,
    pub(super) tally: Mutex<Tally>,
}

impl Shared {
    /// When the next call of a stream is due, once it is; none when there is none. Without a schedule its first one always
    /// is: a machine that was too busy to start a round in time leaves none empty.
    async fn next(&self, is_first: bool) -> Option<Instant> {
        let Some(due) = &self.due else {
            let now = Instant::now();
            return (is_first || now < self.until).then_some(now);
        };
        loop {
            let due = due.lock().await.recv().await?;
            if Instant::now() < self.give_up {
                return Some(due);
            }
            self.count(|tally| tally.unsent += 1);
        }
    }

    fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Asks one call after the other.
pub(super) async fn stream(asker: Asker, shared: Arc<Shared>) -> Result<(), AskError> {
    let mut is_first = true;
    while let Some(due) = shared.next(is_first).await {
        is_first = false;
        let Some(key) = shared.keys.pick(&shared.random) else {
            break;
        };
        let answer = asker.ask(shared.question.write(key)).await;
        let waited = due.elapsed();
        shared.count(|tally| tally.answered(&answer, waited));
        if let Err(error @ AskError::Unreachable { .. }) = answer {
            return Err(error);
        }
    }
    Ok(())
}

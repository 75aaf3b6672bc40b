//! What is written down while a history lasts. Times are those since it began.

use std::time::{Duration, Instant};

use comporta::domain::time::{Micros, Timestamp};

use super::rules::Question;
use crate::redis_faults::load::Outcome;

/// A call and its end.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whom it asked.
    pub instance: usize,
    /// By which connection to it.
    pub connection: usize,
    pub question: &'static Question,
    /// When it was to be sent. On a machine that is busy with other things it is sent later.
    pub due: Micros,
    pub sent: Micros,
    pub answered: Micros,
    pub outcome: Outcome,
}

impl Call {
    /// How long its caller waited.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.answered.saturating_sub(self.sent).get())
    }

    /// Whether it was decided without the store.
    pub fn is_degraded(&self) -> bool {
        matches!(self.outcome, Outcome::Answered { degraded: true, .. })
    }

    /// Whether it was decided by the store.
    pub fn is_decided(&self) -> bool {
        matches!(self.outcome, Outcome::Answered { degraded: false, .. })
    }

    /// Whether it may pass.
    pub fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Answered { admitted: true, .. })
    }
}

/// From one moment to another.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: Micros,
    pub to: Micros,
}

/// All that was asked and answered, and what Redis went through meanwhile.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// How many instances share the counters.
    pub instances: u32,
    pub calls: Vec<Call>,
    /// What the clock of Redis showed when it began, at least and at most.
    pub epoch: [Timestamp; 2],
    /// When Redis lost what it knew, or some of it: each time within such a span.
    pub losses: Vec<Span>,
}

/// The clock of a history.
#[derive(Clone, Copy, Debug)]
pub struct Zero(pub Instant);

impl Zero {
    /// The time now.
    pub fn now(self) -> Micros {
        self.at(Instant::now())
    }

    /// The time at `moment`.
    pub fn at(self, moment: Instant) -> Micros {
        let since = moment.saturating_duration_since(self.0);
        Micros::new(u64::try_from(since.as_micros()).expect("a short history"))
    }
}

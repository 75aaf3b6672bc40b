//! What became of calls.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::spread::as_float;
use crate::domain::verdict::Verdict;
use crate::service::client::AskError;

/// What became of calls, and how long their answers took.
#[derive(Clone)]
pub(super) struct Tally {
    pub(super) admitted: u64,
    pub(super) refused: u64,
    /// Answered with an error instead.
    pub(super) errors: u64,
    /// Due by the schedule, and not sent: those before them took too long.
    pub(super) unsent: u64,
    /// What the first error said.
    pub(super) said: Option<String>,
    /// Nanoseconds until an answer, errors included, to three digits.
    latency: Histogram<u32>,
    /// From the start to the last answer.
    pub(super) took: Duration,
    /// How long those who asked have computed; absent where that is not known.
    pub(super) client_cpu: Option<Duration>,
}

impl Tally {
    /// # Panics
    /// Never: the bounds are sound.
    pub(super) fn new() -> Self {
        Self {
            admitted: 0,
            refused: 0,
            errors: 0,
            unsent: 0,
            said: None,
            latency: Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits can be kept")),
            took: Duration::ZERO,
            client_cpu: Some(Duration::ZERO),
        }
    }

    /// Counts an answer.
    pub(super) fn answered(&mut self, answer: &Result<Verdict, AskError>, after: Duration) {
        match answer {
            Ok(Verdict::UnderLimit) => self.admitted += 1,
            Ok(Verdict::OverLimit) => self.refused += 1,
            Err(error) => {
                self.errors += 1;
                self.said.get_or_insert_with(|| error.to_string());
            }
        }
        self.waited(after);
    }

    /// Counts how long an answer took, whatever it was.
    pub(super) fn waited(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // Grows to whatever is asked of it.
        let _ = self.latency.record(nanos.max(1));
    }

    /// Adds what others counted at the same time.
    pub(super) fn add(&mut self, other: &Self) {
        let took = self.took.max(other.took);
        self.add_later(other);
        self.took = took;
    }

    /// Adds what was counted at another time.
    pub(super) fn add_later(&mut self, other: &Self) {
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.errors += other.errors;
        self.unsent += other.unsent;
        if self.said.is_none() {
            self.said.clone_from(&other.said);
        }
        let _ = self.latency.add(&other.latency);
        self.took += other.took;
        self.client_cpu = self
            .client_cpu
            .zip(other.client_cpu)
            .map(|(one, other)| one + other);
    }

    /// How many calls were answered.
    pub(super) const fn calls(&self) -> u64 {
        self.admitted + self.refused + self.errors
    }

    /// Absent where none was answered.
    pub(super) fn calls_per_second(&self) -> Option<f64> {
        (!self.took.is_zero()).then(|| as_float(self.calls()) / self.took.as_secs_f64())
    }

    /// So many milliseconds at most for this part of the answers, from 0 to 1; absent where there are none.
    pub(super) fn latency_ms(&self, part: f64) -> Option<f64> {
        (!self.latency.is_empty()).then(|| as_float(self.latency.value_at_quantile(part)) / 1e6)
    }

    /// Microseconds per call; absent where the time is not known, or no call was answered.
    pub(super) fn micros_per_call(&self, time: Option<Duration>) -> Option<f64> {
        (self.calls() > 0).then_some(())?;
        Some(time?.as_secs_f64() * 1e6 / as_float(self.calls()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(micros: impl IntoIterator<Item = u64>) -> Tally {
        let mut tally = Tally::new();
        for micros in micros {
            tally.answered(&Ok(Verdict::UnderLimit), Duration::from_micros(micros));
        }
        tally.took = Duration::from_secs(2);
        tally
    }

    #[test]
    fn percentiles_are_of_all_that_asked() {
        let mut all = tally(1..=500);
        all.add(&tally(501..=1000));
        let close = |part: f64, expected: f64| {
            let millis = all.latency_ms(part).expect("answers");
            assert!((millis / expected - 1.0).abs() < 2e-3, "{part}: {millis}");
        };
        close(0.5, 0.5);
        close(0.99, 0.99);
        close(0.999, 0.999);
        close(1.0, 1.0);
        assert_eq!(all.calls_per_second(), Some(500.0));
        all.add_later(&tally([1; 1000]));
        assert_eq!(all.calls_per_second(), Some(500.0));
        assert_eq!(all.latency_ms(0.25), Some(0.001));
    }

    #[test]
    fn every_answer_is_counted_once() {
        let mut tally = Tally::new();
        let error = || Err(AskError::NoVerdict);
        for answer in [Ok(Verdict::UnderLimit), Ok(Verdict::OverLimit), error(), error()] {
            tally.answered(&answer, Duration::from_hours(1));
        }
        assert_eq!((tally.admitted, tally.refused, tally.errors), (1, 1, 2));
        assert_eq!(tally.calls(), 4);
        assert!(
            tally
                .said
                .as_deref()
                .is_some_and(|said| said.contains("no verdict"))
        );
        let hour = tally.latency_ms(0.5).expect("answers");
        assert!((hour / 3_600_000.0 - 1.0).abs() < 2e-3);
        assert_eq!(tally.micros_per_call(Some(Duration::from_micros(10))), Some(2.5));
    }

    #[test]
    fn of_nothing_nothing_is_known() {
        let mut none = Tally::new();
        assert_eq!(none.calls_per_second(), None);
        assert_eq!(none.latency_ms(0.5), None);
        assert_eq!(none.micros_per_call(Some(Duration::from_secs(1))), None);
        none.client_cpu = None;
        let mut one = tally([1]);
        one.add(&none);
        assert_eq!(
            (one.client_cpu, one.micros_per_call(one.client_cpu)),
            (None, None)
        );
    }
}

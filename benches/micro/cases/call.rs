//! A whole call with counters in memory, from the bytes of the request to those of the answer.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use comporta::clock::ManualClock;
use comporta::domain::time::Micros;
use comporta::domain::verdict::Verdict;
use comporta::policy::PolicySet;
use comporta::service::answer::Answer;
use comporta::service::decode::usual;
use comporta::service::headers::HeaderStyle;
use comporta::service::limiter::Limiter;
use comporta::service::live::Policies;
use comporta::service::options::LimiterOptions;
use comporta::service::{call, encode};
use comporta::store::key::Keys;
use comporta::store::memory::Memory;
use comporta::telemetry::metrics::Metrics;
use futures_util::FutureExt;

use super::{Call, question};
use crate::support::START;

const POLICY: &str = "
domain: bench
descriptors:
  - key: route
    value: checkout
    descriptors:
      - key: plan
        value: gold
        descriptors:
          - key: client
            rate_limit: { rate: 4000000000/year }
      - key: plan
        value: spent
        descriptors:
          - key: client
            rate_limit: { rate: 1/year }
";

/// Between two calls.
const STEP: Micros = Micros::new(7);

pub fn without_headers() -> Call {
    passing(Limited::new(HeaderStyle::Off, question::about(1)))
}

pub fn with_headers() -> Call {
    passing(Limited::new(HeaderStyle::Ietf, question::about(1)))
}

pub fn of_eight_descriptors() -> Call {
    passing(Limited::new(HeaderStyle::Ietf, question::about(8)))
}

/// Of a client that has spent its budget.
pub fn refused() -> Call {
    let limited = Limited::new(HeaderStyle::Ietf, question::about_plan("spent", 1));
    let mut written = Vec::new();
    assert_eq!(
        limited.call(&mut written),
        Verdict::UnderLimit,
        "the one of the year"
    );
    Box::new(move || assert_eq!(limited.call(&mut written), Verdict::OverLimit))
}

fn passing(limited: Limited) -> Call {
    let mut written = Vec::new();
    Box::new(move || assert_eq!(limited.call(&mut written), Verdict::UnderLimit))
}

/// Writes the answer to one call again and again.
pub fn answer(headers: HeaderStyle) -> Call {
    let answer = Limited::new(headers, question::about(1)).answer();
    let mut written = Vec::new();
    Box::new(move || write(black_box(&answer), &mut written))
}

/// A core of the service, and what it is asked.
struct Limited {
    limiter: Limiter<Memory, ManualClock>,
    clock: ManualClock,
    question: Bytes,
    deadline: Instant,
}

impl Limited {
    fn new(headers: HeaderStyle, question: Bytes) -> Self {
        let metrics = Arc::new(Metrics::new(1));
        let store = Memory::new(1_000_000, metrics.store_observer(0));
        let policies = PolicySet::parse(&[("policy.yaml", POLICY)]).expect("a sound policy");
        let policies = Arc::new(Policies::new(policies, metrics));
        let clock = ManualClock::at(START);
        let options = LimiterOptions {
            headers: Some(headers),
            ..LimiterOptions::default()
        };
        Self {
            limiter: Limiter::new(0, policies, store, clock.clone(), Keys::new("rl"), options),
            clock,
            question,
            deadline: Instant::now(),
        }
    }

    fn answer(&self) -> Answer {
        let asked = usual::request(black_box(&self.question)).expect("a usual one");
        let answer = call::answer(&self.limiter, Ok(asked), self.deadline);
        answer
            .now_or_never()
            .expect("nothing to wait for")
            .expect("an answer")
    }

    fn call(&self, written: &mut Vec<u8>) -> Verdict {
        self.clock.advance(STEP);
        let answer = self.answer();
        write(&answer, written);
        answer.verdict
    }
}

fn write(answer: &Answer, written: &mut Vec<u8>) {
    written.clear();
    encode::response(answer, written);
    black_box(written);
}

//! The limits that are asked about, and who asks.

use std::sync::Arc;

use comporta::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use comporta::domain::time::Micros;
use comporta::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use comporta::proto::envoy::service::ratelimit::v3::RateLimitRequest;

use crate::harness::comporta::request;

const DOMAIN: &str = "edge";

const YEAR: u32 = 365 * 86_400;

/// A rule of the policy. Each value of its key has a counter of its own.
#[derive(Debug)]
pub struct Rule {
    pub key: &'static str,
    pub algorithm: Algorithm,
    pub count: u32,
    pub seconds: u32,
}

/// Those of which a whole budget comes back within a second or two, and those of which next to nothing does.
pub static RULES: [Rule; 8] = [
    Rule::new("bucket", Algorithm::TokenBucket, 9, 1),
    Rule::new("window", Algorithm::SlidingWindow, 9, 1),
    Rule::new("log", Algorithm::SlidingLog, 18, 2),
    Rule::new("fixed", Algorithm::FixedWindow, 18, 2),
    Rule::new("bucket-a-year", Algorithm::TokenBucket, 60, YEAR),
    Rule::new("window-a-year", Algorithm::SlidingWindow, 60, YEAR),
    Rule::new("log-a-year", Algorithm::SlidingLog, 60, YEAR),
    Rule::new("fixed-a-year", Algorithm::FixedWindow, 60, YEAR),
];

impl Rule {
    const fn new(key: &'static str, algorithm: Algorithm, count: u32, seconds: u32) -> Self {
        Self {
            key,
            algorithm,
            count,
            seconds,
        }
    }

    /// Whether next to nothing comes back while a history lasts.
    pub fn is_slow(&self) -> bool {
        self.seconds == YEAR
    }

    /// Its limit.
    pub fn limit(&self) -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from(self.key),
            named: true,
            count: self.count,
            period: Period::new(Unit::Second, self.seconds).expect("a period"),
            algorithm: self.algorithm,
            burst: None,
            delay: Micros::ZERO,
            calendar: false,
        })
        .expect("a sound limit")
    }
}

/// All of them, and one that stops nobody.
pub fn policy() -> String {
    let rules = RULES.iter().map(|rule| {
        let (key, name, count, seconds) = (rule.key, rule.algorithm.name(), rule.count, rule.seconds);
        format!("  - {{ key: {key}, rate_limit: {{ rate: {count}/{seconds}s, algorithm: {name} }} }}\n")
    });
    let steady = "  - { key: steady, rate_limit: { rate: 1000000000/day } }\n";
    let rules: String = rules.collect();
    format!("domain: {DOMAIN}\ndescriptors:\n{steady}{rules}")
}

/// What a call does to each of its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    Take(u32),
    GiveBack(u32),
}

/// What is asked again and again.
#[derive(Debug)]
pub struct Question {
    /// The value of every key: whose counters they are.
    pub whose: &'static str,
    /// The keys.
    pub of: &'static [&'static str],
    pub hits: Hits,
}

/// One that no limit stops, so that all its calls reach the store.
pub static STEADY: Question = Question::new("steady", &["steady"], Hits::Take(1));

/// Those that are asked about more than they may have: one limit by itself, in large parts, several at once, and several
/// of which something is given back.
pub static QUESTIONS: [Question; 14] = [
    Question::new("greedy", &["bucket"], Hits::Take(1)),
    Question::new("greedy", &["window"], Hits::Take(1)),
    Question::new("greedy", &["log"], Hits::Take(1)),
    Question::new("greedy", &["fixed"], Hits::Take(1)),
    Question::new("greedy", &["bucket-a-year"], Hits::Take(1)),
    Question::new("greedy", &["window-a-year"], Hits::Take(1)),
    Question::new("greedy", &["log-a-year"], Hits::Take(1)),
    Question::new("greedy", &["fixed-a-year"], Hits::Take(1)),
    Question::new("parts", &["bucket", "bucket-a-year"], Hits::Take(3)),
    // More than the share of an instance.
    Question::new("parts", &["bucket"], Hits::Take(7)),
    Question::new("several", &["bucket", "window", "log", "fixed"], Hits::Take(1)),
    Question::new("several", &["window", "log"], Hits::Take(2)),
    Question::new("returning", &["bucket", "window", "log", "fixed"], Hits::Take(2)),
    Question::new(
        "returning",
        &["bucket", "window", "log", "fixed"],
        Hits::GiveBack(1),
    ),
];

impl Question {
    const fn new(whose: &'static str, of: &'static [&'static str], hits: Hits) -> Self {
        Self { whose, of, hits }
    }

    /// Its words.
    pub fn request(&self) -> RateLimitRequest {
        let descriptors: Vec<_> = self
            .of
            .iter()
            .map(|key| format!("{key}={}", self.whose))
            .collect();
        let descriptors: Vec<_> = descriptors.iter().map(String::as_str).collect();
        let (Hits::Take(hits) | Hits::GiveBack(hits)) = self.hits;
        let mut request = request(DOMAIN, &descriptors);
        for descriptor in &mut request.descriptors {
            *descriptor = RateLimitDescriptor {
                hits_addend: Some(u64::from(hits)),
                is_negative_hits: matches!(self.hits, Hits::GiveBack(_)),
                ..std::mem::take(descriptor)
            };
        }
        request
    }
}

//! A case's questions, the answers it expects, and how an answer compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use comporta::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use comporta::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry as WireEntry, RateLimitOverride,
};
use comporta::proto::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus;
use comporta::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use comporta::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use comporta::service::call::Unanswered;
use prost_types::value::Kind;
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Deserialize)]
pub struct Request {
    pub repeat: u32,
    domain: String,
    hits_addend: u32,
    descriptors: Vec<Descriptor>,
    pub expect: Expected,
}

#[derive(Clone, Deserialize)]
struct Descriptor {
    entries: Vec<Entry>,
    hits_addend: Option<u64>,
    limit: Option<Limit>,
}

#[derive(Clone, Deserialize)]
struct Entry {
    key: String,
    value: String,
}

#[derive(Clone, Deserialize)]
struct Limit {
    requests_per_unit: u32,
    unit: String,
    #[serde(default)]
    name: String,
}

#[derive(Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Expected {
    Answer {
        overall_code: String,
        statuses: Vec<Status>,
        headers: Option<Vec<Header>>,
        metadata: Option<Value>,
    },
    Error {
        message: String,
    },
    Crash,
}

#[derive(Clone, Deserialize)]
pub struct Status {
    code: String,
    current_limit: Option<Limit>,
    limit_remaining: u32,
    duration_until_reset: Option<i64>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Header {
    name: String,
    value: String,
}

/// What of an answer can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    Load,
    Verdict,
    Remaining,
    Limit,
    Name,
    Reset,
    Headers,
    Metadata,
    Error,
}

/// All that differs in one case.
#[derive(Default)]
pub struct Differences(Vec<(Aspect, String)>);

impl Differences {
    pub fn add(&mut self, aspect: Aspect, text: String) {
        self.0.push((aspect, text));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn aspects(&self) -> BTreeSet<Aspect> {
        self.0.iter().map(|(aspect, _)| *aspect).collect()
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(aspect, text)| writeln!(f, "    {aspect:?}: {text}"))
    }
}

impl Request {
    pub fn wire(&self) -> RateLimitRequest {
        RateLimitRequest {
            domain: self.domain.clone().into(),
            hits_addend: self.hits_addend,
            descriptors: self.descriptors.iter().map(Descriptor::wire).collect(),
        }
    }
}

impl Descriptor {
    fn wire(&self) -> RateLimitDescriptor {
        let entry = |entry: &Entry| WireEntry {
            key: entry.key.clone().into(),
            value: entry.value.clone().into(),
        };
        RateLimitDescriptor {
            entries: self.entries.iter().map(entry).collect(),
            limit: self.limit.as_ref().map(|limit| RateLimitOverride {
                requests_per_unit: limit.requests_per_unit,
                unit: override_unit(&limit.unit),
                unit_multiplier: None,
            }),
            hits_addend: self.hits_addend,
            is_negative_hits: false,
        }
    }
}

/// The enum of overrides numbers months and years unlike that of answers, and has no name for a week.
fn override_unit(name: &str) -> i32 {
    match name {
        "UNKNOWN" => 0,
        "SECOND" => 1,
        "MINUTE" => 2,
        "HOUR" => 3,
        "DAY" => 4,
        "MONTH" => 5,
        "YEAR" => 6,
        "WEEK" => 7,
        other => panic!("the unit {other}"),
    }
}

/// Tells `differs` of all in which the answer is not what was expected.
pub fn compare(
    expected: &Expected,
    answer: Result<RateLimitResponse, Unanswered>,
    shows_metadata: bool,
    mut differs: impl FnMut(Aspect, String),
) {
    let (answer, overall_code, expected_statuses, headers, metadata) = match (expected, answer) {
        (Expected::Error { message }, Err(error)) => {
            if !matches!(error, Unanswered::Invalid(_)) || error.to_string() != *message {
                differs(Aspect::Error, format!("`{error}` for `{message}`"));
            }
            return;
        }
        (
            Expected::Answer {
                overall_code,
                statuses,
                headers,
                metadata,
            },
            Ok(answer),
        ) => (answer, overall_code, statuses, headers, metadata),
        (_, answer) => return differs(Aspect::Error, format!("{answer:?}")),
    };
    let code = answer.overall_code().as_str_name();
    if code != overall_code {
        differs(Aspect::Verdict, format!("overall {code} for {overall_code}"));
    }
    assert_eq!(answer.statuses.len(), expected_statuses.len(), "statuses");
    for (place, (met, expected)) in answer.statuses.iter().zip(expected_statuses).enumerate() {
        expected.compare(met, |aspect, text| {
            differs(aspect, format!("descriptor {place}: {text}"));
        });
    }
    let shown: Vec<Header> = answer
        .response_headers_to_add
        .iter()
        .map(|header| Header {
            name: String::from_utf8_lossy(&header.key).into_owned(),
            value: String::from_utf8_lossy(&header.value).into_owned(),
        })
        .collect();
    if headers.as_ref().is_some_and(|headers| *headers != shown) {
        differs(Aspect::Headers, format!("{shown:?}"));
    }
    let added = answer.dynamic_metadata.unwrap_or_default();
    let added = added
        .fields
        .get("metadata")
        .cloned()
        .map_or_else(|| Value::Object(serde_json::Map::new()), json);
    let expected = metadata.as_ref().filter(|_| shows_metadata).cloned().map(floats);
    if expected.is_some_and(|expected| expected != added) {
        differs(Aspect::Metadata, added.to_string());
    }
}

impl Status {
    fn compare(&self, met: &DescriptorStatus, mut differs: impl FnMut(Aspect, String)) {
        let code = met.code().as_str_name();
        if code != self.code {
            differs(Aspect::Verdict, format!("{code} for {}", self.code));
        }
        if met.limit_remaining != self.limit_remaining {
            let text = format!("{} left for {}", met.limit_remaining, self.limit_remaining);
            differs(Aspect::Remaining, text);
        }
        let reset = met.duration_until_reset.map(|wait| wait.seconds);
        if reset != self.duration_until_reset {
            differs(
                Aspect::Reset,
                format!("{reset:?} for {:?}", self.duration_until_reset),
            );
        }
        let unit = |number| Unit::try_from(number).map_or("?", |unit: Unit| unit.as_str_name());
        let is_limit = match (&met.current_limit, &self.current_limit) {
            (None, None) => true,
            (Some(met), Some(limit)) => {
                if met.name != limit.name {
                    differs(Aspect::Name, format!("`{}` for `{}`", met.name, limit.name));
                }
                (
                    met.requests_per_unit,
                    unit(met.unit),
                    met.unit_multiplier.unwrap_or(1),
                ) == (limit.requests_per_unit, &limit.unit, 1)
            }
            _ => false,
        };
        if !is_limit {
            differs(Aspect::Limit, format!("{:?}", met.current_limit));
        }
    }
}

/// JSON with every number as the wire has them.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64().expect("a number")),
        Value::Array(items) => items.into_iter().map(floats).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (name, floats(value)))
            .collect(),
        other => other,
    }
}

fn json(value: prost_types::Value) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(yes)) => yes.into(),
        Some(Kind::NumberValue(number)) => number.into(),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(json).collect(),
        Some(Kind::StructValue(members)) => members
            .fields
            .into_iter()
            .map(|(name, value)| (name, json(value)))
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .collect(),
    }
}

//! Between the wire and our own words. The only file that knows both, and the one that says what a zero means.

use std::sync::Arc;

use bytes::Bytes;
use prost_types::value::Kind;
use prost_types::{Duration, ListValue, Struct, Value};
use serde_json::Value as Json;
use smallvec::SmallVec;

use super::answer::{Answer, Header, ShownLimit, Status};
use crate::domain::descriptor::{Descriptor, Entry, Override, Request};
use crate::domain::limit::{Period, Unit};
use crate::domain::quantity::Hits;
use crate::domain::verdict::Verdict;
use crate::policy::metadata::Metadata;
use crate::proto::envoy::config::core::v3::HeaderValue;
use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as WireUnit;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// The most descriptors of a request. Only a gateway's configuration decides how many there are.
pub const MOST_DESCRIPTORS: usize = 128;

/// The most entries of a descriptor.
pub const MOST_ENTRIES: usize = 32;

/// Why a request is no question that can be answered. All of it is the gateway's configuration, never a caller's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Without a domain there is no telling whose rules are meant.
    #[error("rate limit domain must not be empty")]
    NoDomain,
    /// Nothing is asked. These words and those above are the reference's: scripts may look for them.
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    /// More than is looked at.
    #[error("{0} descriptors are too many: at most {MOST_DESCRIPTORS} are allowed in one request")]
    TooManyDescriptors(usize),
    /// More than is looked at.
    #[error("descriptor {place} has {entries} entries: at most {MOST_ENTRIES} are allowed")]
    TooManyEntries {
        /// Which descriptor, counted from 1.
        place: usize,
        /// How many it has.
        entries: usize,
    },
    /// Every caller would share one counter, which no gateway can mean.
    #[error("descriptor {0} brings a limit but no entries to count by")]
    NothingToCount(usize),
}

/// What came over the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) request: Request,
    /// How many descriptors bring a limit whose unit says nothing to us.
    pub(super) unreadable_overrides: u32,
}

/// Reads a request.
pub(super) fn request(wire: RateLimitRequest) -> Result<Asked, Invalid> {
    if wire.domain.is_empty() {
        return Err(Invalid::NoDomain);
    }
    match wire.descriptors.len() {
        0 => return Err(Invalid::NoDescriptors),
        many if many > MOST_DESCRIPTORS => return Err(Invalid::TooManyDescriptors(many)),
        _ => {}
    }
    let mut unreadable_overrides = 0;
    let mut descriptors = Vec::with_capacity(wire.descriptors.len());
    for (place, descriptor) in wire.descriptors.into_iter().enumerate() {
        let entries = descriptor.entries.len();
        if entries > MOST_ENTRIES {
            return Err(Invalid::TooManyEntries {
                place: place + 1,
                entries,
            });
        }
        if entries == 0 && descriptor.limit.is_some() {
            return Err(Invalid::NothingToCount(place + 1));
        }
        let limit = descriptor.limit.as_ref().map(read_override);
        unreadable_overrides += u32::from(limit == Some(None));
        descriptors.push(read_descriptor(descriptor, limit.flatten(), wire.hits_addend));
    }
    Ok(Asked {
        request: Request {
            domain: wire.domain,
            descriptors,
        },
        unreadable_overrides,
    })
}

fn read_descriptor(wire: RateLimitDescriptor, limit: Option<Override>, hits_of_request: u32) -> Descriptor {
    let hits = hits(wire.hits_addend, wire.is_negative_hits, hits_of_request);
    let entries = wire
        .entries
        .into_iter()
        .map(|entry| Entry {
            key: entry.key,
            value: entry.value,
        })
        .collect();
    Descriptor { entries, hits, limit }
}

/// The limit that a request brings along; none when its unit is unknown or its period longer than any may be. An error
/// would let the request pass without any limit, so the policy's then hold.
fn read_override(wire: &RateLimitOverride) -> Option<Override> {
    let unit = match wire.unit {
        1 => Unit::Second,
        2 => Unit::Minute,
        3 => Unit::Hour,
        4 => Unit::Day,
        5 => Unit::Month,
        6 => Unit::Year,
        // Not in the enum of overrides, but in that of answers, and understood elsewhere.
        7 => Unit::Week,
        _ => return None,
    };
    // A zero multiplier means one, as in an answer.
    let period = Period::new(unit, wire.unit_multiplier.unwrap_or(1).max(1))?;
    Some(Override {
        count: wire.requests_per_unit,
        period,
    })
}

/// A descriptor's own hits win, and a zero that is present only looks. The request's zero cannot be told from unset,
/// and means one.
fn hits(of_descriptor: Option<u64>, negative: bool, of_request: u32) -> Hits {
    let hits = of_descriptor.unwrap_or_else(|| u64::from(of_request.max(1)));
    if negative {
        Hits::give_back(hits)
    } else {
        Hits::take(hits)
    }
}

/// Writes an answer. Its overall code is never the default, which a gateway would take for permission.
pub(super) fn response(answer: Answer) -> RateLimitResponse {
    let dynamic_metadata = Some(metadata(&answer));
    RateLimitResponse {
        overall_code: code(answer.verdict).into(),
        statuses: answer.statuses.into_iter().map(write_status).collect(),
        response_headers_to_add: write_headers(answer.headers),
        request_headers_to_add: Vec::new(),
        raw_body: answer.body.map(Bytes::from).unwrap_or_default(),
        dynamic_metadata,
    }
}

const fn code(verdict: Verdict) -> Code {
    match verdict {
        Verdict::UnderLimit => Code::Ok,
        Verdict::OverLimit => Code::OverLimit,
    }
}

fn write_status(status: Status) -> DescriptorStatus {
    DescriptorStatus {
        code: code(status.verdict).into(),
        limit_remaining: status.remaining,
        duration_until_reset: status.reset_secs().map(|seconds| Duration {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            nanos: 0,
        }),
        current_limit: status.limit.map(write_limit),
    }
}

fn write_limit(limit: ShownLimit) -> RateLimit {
    let multiplier = limit.period.multiplier;
    RateLimit {
        name: limit.name,
        requests_per_unit: limit.count,
        unit: write_unit(limit.period.unit).into(),
        unit_multiplier: (multiplier != 1).then_some(multiplier),
    }
}

const fn write_unit(unit: Unit) -> WireUnit {
    match unit {
        Unit::Second => WireUnit::Second,
        Unit::Minute => WireUnit::Minute,
        Unit::Hour => WireUnit::Hour,
        Unit::Day => WireUnit::Day,
        Unit::Week => WireUnit::Week,
        Unit::Month => WireUnit::Month,
        Unit::Year => WireUnit::Year,
    }
}

fn write_headers(headers: SmallVec<[Header; 4]>) -> Vec<HeaderValue> {
    let write = |header: Header| HeaderValue {
        key: header.name.into(),
        value: Bytes::from(header.value),
    };
    headers.into_iter().map(write).collect()
}

/// What access logs and later filters can read.
fn metadata(answer: &Answer) -> Struct {
    let verdict = match answer.verdict {
        Verdict::UnderLimit => "ok",
        Verdict::OverLimit => "over_limit",
    };
    let mut struct_ = Struct::default();
    let mut put = |name: &str, kind| struct_.fields.insert(name.to_owned(), Value { kind: Some(kind) });
    put("verdict", Kind::StringValue(verdict.to_owned()));
    put("cause", Kind::StringValue(answer.cause.name().to_owned()));
    put("degraded", Kind::BoolValue(answer.degraded));
    if let Some(rule) = &answer.rule {
        put("rule", Kind::StringValue(rule.clone()));
    }
    if !answer.uncounted.is_empty() {
        put("uncounted", Kind::StructValue(entries(&answer.uncounted)));
    }
    if !answer.metadata.is_empty() {
        put("metadata", Kind::StructValue(merged(&answer.metadata)));
    }
    struct_
}

/// Of two entries with one key the first.
fn entries(entries: &[Entry]) -> Struct {
    let mut struct_ = Struct::default();
    for entry in entries {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let value = Value {
            kind: Some(Kind::StringValue(text(&entry.value))),
        };
        struct_.fields.entry(text(&entry.key)).or_insert(value);
    }
    struct_
}

/// Of two members with one name the first.
fn merged(all: &[Arc<Metadata>]) -> Struct {
    let mut struct_ = Struct::default();
    for (name, value) in all.iter().flat_map(|metadata| metadata.iter()) {
        struct_
            .fields
            .entry(name.clone())
            .or_insert_with(|| write_json(value));
    }
    struct_
}

fn write_json(json: &Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(yes) => Kind::BoolValue(*yes),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(items) => Kind::ListValue(ListValue {
            values: items.iter().map(write_json).collect(),
        }),
        Json::Object(members) => Kind::StructValue(Struct {
            fields: members
                .iter()
                .map(|(name, value)| (name.clone(), write_json(value)))
                .collect(),
        }),
    };
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use smallvec::smallvec;

    use super::*;
    use crate::domain::limit::Period;
    use crate::domain::time::Micros;
    use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor;
    use crate::service::answer::Cause;
    use crate::service::field::FieldName;

    /// A field of bytes, a string or a message.
    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2, u8::try_from(value.len()).expect("short")];
        bytes.extend_from_slice(value);
        bytes
    }

    fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
        [field(1, key), field(2, value)].concat()
    }

    fn descriptor(entries: usize) -> RateLimitDescriptor {
        let entry = rate_limit_descriptor::Entry {
            key: Bytes::from_static(b"k"),
            value: Bytes::new(),
        };
        RateLimitDescriptor {
            entries: vec![entry; entries],
            ..RateLimitDescriptor::default()
        }
    }

    fn asking(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
        RateLimitRequest {
            domain: Bytes::from_static(b"edge"),
            descriptors,
            hits_addend: 0,
        }
    }

    #[test]
    fn reads_odd_values_and_skips_unknown_fields() {
        let first = [
            field(1, &entry(b"client", b"\xff\xfe\0")),
            field(1, &entry(b"empty", b"")),
        ]
        .concat();
        // Field 15 of the descriptor and field 9 of the request are not ours.
        let first = [first, field(15, b"later")].concat();
        let bytes = [
            field(1, b"edge\xff"),
            field(2, &first),
            field(9, b"later"),
            vec![3 << 3, 7],
        ]
        .concat();
        let wire = RateLimitRequest::decode(bytes.as_slice()).expect("decodes");
        let asked = request(wire).expect("a question");
        let entries = [(&b"client"[..], &b"\xff\xfe\0"[..]), (b"empty", b"")].map(|(key, value)| Entry {
            key: Bytes::from_static(key),
            value: Bytes::from_static(value),
        });
        assert_eq!(
            asked,
            Asked {
                request: Request {
                    domain: Bytes::from_static(b"edge\xff"),
                    descriptors: vec![Descriptor {
                        entries: entries.to_vec(),
                        hits: Hits::Take(7),
                        limit: None
                    }],
                },
                unreadable_overrides: 0,
            }
        );
    }

    #[test]
    fn says_what_each_zero_means() {
        assert_eq!(hits(None, false, 0), Hits::Take(1));
        assert_eq!(hits(None, false, 5), Hits::Take(5));
        assert_eq!(hits(Some(3), false, 5), Hits::Take(3));
        assert_eq!(hits(Some(0), false, 5), Hits::LOOK);
        assert_eq!(hits(Some(0), true, 5), Hits::LOOK);
        assert_eq!(hits(Some(17), true, 0), Hits::GiveBack(17));
        assert_eq!(hits(None, true, 0), Hits::GiveBack(1));
        assert_eq!(hits(Some(u64::MAX), false, 0), Hits::Take(Hits::MOST));
    }

    #[test]
    fn what_is_no_question_is_refused_with_the_bound() {
        let check = |wire, expected: &str| {
            assert_eq!(request(wire).expect_err("no question").to_string(), expected);
        };
        check(RateLimitRequest::default(), "rate limit domain must not be empty");
        check(asking(vec![]), "rate limit descriptor list must not be empty");
        check(
            asking(vec![descriptor(1); 129]),
            "129 descriptors are too many: at most 128 are allowed in one request",
        );
        check(
            asking(vec![descriptor(1), descriptor(33)]),
            "descriptor 2 has 33 entries: at most 32 are allowed",
        );
        let mut empty = descriptor(0);
        empty.limit = Some(RateLimitOverride::default());
        check(
            asking(vec![descriptor(0), empty]),
            "descriptor 2 brings a limit but no entries to count by",
        );
        assert!(request(asking(vec![descriptor(32); 128])).is_ok());
    }

    #[test]
    fn a_limit_of_the_requests_own_is_read_or_said_to_be_unreadable() {
        let read = |requests_per_unit, unit, unit_multiplier| {
            let mut own = descriptor(1);
            own.limit = Some(RateLimitOverride {
                requests_per_unit,
                unit,
                unit_multiplier,
            });
            let asked = request(asking(vec![own, descriptor(1)])).expect("a question");
            assert_eq!(asked.request.descriptors[1].limit, None);
            let limit = asked.request.descriptors[0].limit;
            assert_eq!(asked.unreadable_overrides, u32::from(limit.is_none()));
            limit.map(|limit| (limit.count, limit.period))
        };
        for (number, unit) in [
            (1, Unit::Second),
            (4, Unit::Day),
            (5, Unit::Month),
            (6, Unit::Year),
            (7, Unit::Week),
        ] {
            assert_eq!(read(10, number, None), Some((10, Period::one(unit))));
        }
        for unknown in [0, 8, -1, i32::MAX, i32::MIN] {
            assert_eq!(read(10, unknown, None), None);
        }
        assert_eq!(
            read(0, 2, None),
            Some((0, Period::one(Unit::Minute))),
            "refuses everything"
        );
        assert_eq!(
            read(u32::MAX, 2, Some(0)),
            Some((u32::MAX, Period::one(Unit::Minute))),
            "a gateway's -1"
        );
        assert_eq!(
            read(1, 2, Some(15)),
            Some((
                1,
                Period {
                    unit: Unit::Minute,
                    multiplier: 15
                }
            ))
        );
        assert_eq!(
            read(1, 6, Some(10)),
            Some((
                1,
                Period {
                    unit: Unit::Year,
                    multiplier: 10
                }
            ))
        );
        assert_eq!(read(1, 6, Some(11)), None, "longer than ten years");
        assert_eq!(read(1, 6, Some(u32::MAX)), None);
    }

    #[test]
    fn writes_every_part_of_an_answer() {
        let answer = Answer {
            verdict: Verdict::OverLimit,
            cause: Cause::OverLimit,
            rule: Some("client/plan".to_owned()),
            deciding: Some(0),
            degraded: true,
            statuses: smallvec![
                Status {
                    verdict: Verdict::OverLimit,
                    limit: Some(ShownLimit {
                        name: "client/plan".to_owned(),
                        count: 100,
                        period: Period {
                            unit: Unit::Minute,
                            multiplier: 15
                        },
                    }),
                    remaining: 0,
                    retry_after: Some(Micros::new(8_100_000)),
                    reset_after: Some(Micros::MINUTE),
                },
                Status::UNLIMITED,
            ],
            metadata: SmallVec::new(),
            uncounted: SmallVec::new(),
            headers: smallvec![Header {
                name: FieldName::ours("retry-after"),
                value: "9".to_owned()
            }],
            body: Some("{}".to_owned()),
        };
        let wire = response(answer);
        assert_eq!(wire.overall_code(), Code::OverLimit);
        let first = &wire.statuses[0];
        assert_eq!((first.code(), first.limit_remaining), (Code::OverLimit, 0));
        assert_eq!(
            first.duration_until_reset.map(|duration| duration.seconds),
            Some(9)
        );
        let limit = first.current_limit.as_ref().expect("a limit");
        assert_eq!(
            (limit.unit(), limit.unit_multiplier, limit.requests_per_unit),
            (WireUnit::Minute, Some(15), 100)
        );
        let second = &wire.statuses[1];
        assert_eq!((second.code(), second.limit_remaining), (Code::Ok, u32::MAX));
        assert!(second.current_limit.is_none() && second.duration_until_reset.is_none());
        assert_eq!(wire.response_headers_to_add[0].key, "retry-after");
        assert_eq!(wire.raw_body, "{}");
        let metadata = wire.dynamic_metadata.expect("metadata").fields;
        assert_eq!(
            metadata.keys().collect::<Vec<_>>(),
            ["cause", "degraded", "rule", "verdict"]
        );
    }

    #[test]
    fn an_answer_is_never_an_empty_message() {
        let wire = response(Answer::untouched(Cause::NoRule, 1));
        assert_eq!(wire.overall_code(), Code::Ok);
        assert!(!wire.encode_to_vec().is_empty());
    }
}

//! Writes an answer in protobuf, straight into the bytes that are sent: no message in between, and nothing measured before
//! it is written. Field numbers are those of `proto/`; tests read what is written with the generated types.

use std::sync::Arc;

use prost::Message as _;
use serde_json::Value as Json;
use smallvec::SmallVec;

use super::answer::{Answer, Header, ShownEntry, ShownLimit, Status};
use crate::domain::limit::Unit;
use crate::domain::verdict::Verdict;
use crate::policy::metadata::Metadata;
use crate::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as WireUnit;

/// The numbers of fields, by message.
mod field {
    pub(super) mod response {
        pub(crate) const OVERALL_CODE: u8 = 1;
        pub(crate) const STATUSES: u8 = 2;
        pub(crate) const RESPONSE_HEADERS: u8 = 3;
        pub(crate) const RAW_BODY: u8 = 5;
        pub(crate) const DYNAMIC_METADATA: u8 = 6;
    }
    pub(super) mod status {
        pub(crate) const CODE: u8 = 1;
        pub(crate) const CURRENT_LIMIT: u8 = 2;
        pub(crate) const LIMIT_REMAINING: u8 = 3;
        pub(crate) const DURATION_UNTIL_RESET: u8 = 4;
    }
    pub(super) mod limit {
        pub(crate) const REQUESTS_PER_UNIT: u8 = 1;
        pub(crate) const UNIT: u8 = 2;
        pub(crate) const NAME: u8 = 3;
        pub(crate) const UNIT_MULTIPLIER: u8 = 4;
    }
    pub(super) mod header {
        pub(crate) const KEY: u8 = 1;
        pub(crate) const VALUE: u8 = 2;
    }
    pub(super) mod value {
        pub(crate) const NULL: u8 = 1;
        pub(crate) const NUMBER: u8 = 2;
        pub(crate) const TEXT: u8 = 3;
        pub(crate) const BOOL: u8 = 4;
        pub(crate) const STRUCT: u8 = 5;
        pub(crate) const LIST: u8 = 6;
    }
    /// Of a struct its members, of a list its items, of a wrapper its value, of a duration its seconds.
    pub(super) const FIRST: u8 = 1;
    /// Of a member of a struct.
    pub(super) const MEMBER_VALUE: u8 = 2;
}

/// A message in the making: its fields are appended as they are written.
struct Message<'a>(&'a mut Vec<u8>);

/// How a field is written.
#[derive(Clone, Copy)]
enum Form {
    Varint = 0,
    Fixed64 = 1,
    Delimited = 2,
}

impl Message<'_> {
    /// No number above 15, and so one byte.
    fn tag(&mut self, field: u8, form: Form) {
        debug_assert!(field < 16, "{field}");
        self.0.push(field << 3 | form as u8);
    }

    /// A number, also when it is zero.
    fn number(&mut self, field: u8, number: u64) {
        self.tag(field, Form::Varint);
        write_varint(self.0, number);
    }

    /// A number; zero is what is read where none is written.
    fn number_unless_zero(&mut self, field: u8, number: u64) {
        if number != 0 {
            self.number(field, number);
        }
    }

    fn double(&mut self, field: u8, number: f64) {
        self.tag(field, Form::Fixed64);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, field: u8, bytes: &[u8]) {
        self.tag(field, Form::Delimited);
        write_varint(self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u8, write: impl FnOnce(Message<'_>)) {
        self.tag(field, Form::Delimited);
        self.0.push(0);
        let start = self.0.len();
        write(Message(self.0));
        match u8::try_from(self.0.len() - start) {
            Ok(length @ ..=0x7f) => self.0[start - 1] = length,
            _ => self.make_room_for_length(start),
        }
    }

    /// For the length of a message that began at `start`, where one byte does not hold it.
    #[cold]
    fn make_room_for_length(&mut self, start: usize) {
        let mut length = Vec::new();
        write_varint(&mut length, (self.0.len() - start) as u64);
        self.0.splice(start - 1..start, length);
    }

    /// A member of a struct.
    fn member(&mut self, name: &str, write: impl FnOnce(Message<'_>)) {
        self.message(field::FIRST, |mut member| {
            member.bytes(field::FIRST, name.as_bytes());
            member.message(field::MEMBER_VALUE, write);
        });
    }

    fn text_member(&mut self, name: &str, text: &str) {
        self.member(name, |mut value| value.bytes(field::value::TEXT, text.as_bytes()));
    }
}

fn write_varint(into: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// An answer as a message, for those that write messages in a form of their own.
///
/// # Panics
/// Never: what is written here can be read, for metadata is [not too deep](crate::policy::metadata::DEEPEST).
pub fn message(answer: &Answer) -> RateLimitResponse {
    let mut bytes = Vec::new();
    response(answer, &mut bytes);
    RateLimitResponse::decode(bytes.as_slice()).expect("what is written here can be read")
}

/// Appends a `RateLimitResponse`. Its overall code is never the default, which a gateway would take for permission.
pub fn response(answer: &Answer, into: &mut Vec<u8>) {
    let mut response = Message(into);
    response.number(field::response::OVERALL_CODE, code(answer.verdict));
    for status in &answer.statuses {
        response.message(field::response::STATUSES, |message| write_status(message, status));
    }
    for header in &answer.headers {
        response.message(field::response::RESPONSE_HEADERS, |message| {
            write_header(message, header);
        });
    }
    if let Some(body) = &answer.body {
        response.bytes(field::response::RAW_BODY, body.as_bytes());
    }
    response.message(field::response::DYNAMIC_METADATA, |message| {
        write_metadata(message, answer);
    });
}

const fn code(verdict: Verdict) -> u64 {
    match verdict {
        Verdict::UnderLimit => Code::Ok as u64,
        Verdict::OverLimit => Code::OverLimit as u64,
    }
}

fn write_status(mut message: Message<'_>, status: &Status) {
    message.number(field::status::CODE, code(status.verdict));
    if let Some(limit) = &status.limit {
        message.message(field::status::CURRENT_LIMIT, |message| {
            write_limit(message, limit);
        });
    }
    message.number_unless_zero(field::status::LIMIT_REMAINING, status.remaining.into());
    if let Some(seconds) = status.reset_secs() {
        message.message(field::status::DURATION_UNTIL_RESET, |mut duration| {
            duration.number_unless_zero(field::FIRST, seconds);
        });
    }
}

fn write_limit(mut message: Message<'_>, limit: &ShownLimit) {
    message.number_unless_zero(field::limit::REQUESTS_PER_UNIT, limit.count.into());
    message.number(field::limit::UNIT, unit(limit.period.unit));
    if !limit.name.is_empty() {
        message.bytes(field::limit::NAME, limit.name.as_bytes());
    }
    let multiplier = limit.period.multiplier;
    if multiplier != 1 {
        message.message(field::limit::UNIT_MULTIPLIER, |mut wrapper| {
            wrapper.number_unless_zero(field::FIRST, multiplier.into());
        });
    }
}

const fn unit(unit: Unit) -> u64 {
    let unit = match unit {
        Unit::Second => WireUnit::Second,
        Unit::Minute => WireUnit::Minute,
        Unit::Hour => WireUnit::Hour,
        Unit::Day => WireUnit::Day,
        Unit::Week => WireUnit::Week,
        Unit::Month => WireUnit::Month,
        Unit::Year => WireUnit::Year,
    };
    unit as u64
}

fn write_header(mut message: Message<'_>, header: &Header) {
    message.bytes(field::header::KEY, header.name.as_str().as_bytes());
    message.bytes(field::header::VALUE, header.value.as_bytes());
}

/// What access logs and later filters can read, by name.
fn write_metadata(mut message: Message<'_>, answer: &Answer) {
    message.text_member("cause", answer.cause.name());
    message.member("degraded", |mut value| {
        value.number(field::value::BOOL, answer.degraded.into());
    });
    if !answer.metadata.is_empty() {
        message.member("metadata", |mut value| {
            value.message(field::value::STRUCT, |message| {
                write_merged(message, &answer.metadata);
            });
        });
    }
    if let Some(rule) = &answer.rule {
        message.text_member("rule", rule);
    }
    if !answer.uncounted.is_empty() {
        message.member("uncounted", |mut value| {
            value.message(field::value::STRUCT, |message| {
                write_entries(message, &answer.uncounted);
            });
        });
    }
    let verdict = match answer.verdict {
        Verdict::UnderLimit => "ok",
        Verdict::OverLimit => "over_limit",
    };
    message.text_member("verdict", verdict);
}

/// Of two entries with one key the first.
fn write_entries(mut message: Message<'_>, entries: &[ShownEntry]) {
    let keys = entries.iter().map(|entry| String::from_utf8_lossy(&entry.key));
    let keys: SmallVec<[_; 4]> = keys.collect();
    for (place, (entry, key)) in entries.iter().zip(&keys).enumerate() {
        if !keys[..place].contains(key) {
            message.text_member(key, &String::from_utf8_lossy(&entry.value));
        }
    }
}

/// Of two members with one name the first.
fn write_merged(mut message: Message<'_>, all: &[Arc<Metadata>]) {
    for (place, metadata) in all.iter().enumerate() {
        // Most often they are of one rule.
        if all[..place].iter().any(|before| Arc::ptr_eq(before, metadata)) {
            continue;
        }
        for (name, value) in metadata.iter() {
            if all[..place].iter().all(|before| !before.contains_key(name)) {
                message.member(name, |message| write_json(message, value));
            }
        }
    }
}

fn write_json(mut message: Message<'_>, json: &Json) {
    match json {
        Json::Null => message.number(field::value::NULL, 0),
        Json::Number(number) => message.double(field::value::NUMBER, number.as_f64().unwrap_or_default()),
        Json::String(text) => message.bytes(field::value::TEXT, text.as_bytes()),
        Json::Bool(yes) => message.number(field::value::BOOL, u64::from(*yes)),
        Json::Object(members) => message.message(field::value::STRUCT, |mut message| {
            for (name, value) in members {
                message.member(name, |message| write_json(message, value));
            }
        }),
        Json::Array(items) => message.message(field::value::LIST, |mut message| {
            for item in items {
                message.message(field::FIRST, |message| write_json(message, item));
            }
        }),
    }
}

#[cfg(test)]
mod tests;

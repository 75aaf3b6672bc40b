//! Writes an answer in protobuf, straight into the bytes that are sent: no message in between, and nothing measured before
//! it is written. Field numbers are those of `proto/`; tests read what is written with the generated types.

use std::sync::Arc;

use prost::Message as _;
use serde_json::Value as Json;

use super::answer::{Answer, Header, ShownEntry, ShownLimit, Status};
use crate::domain::limit::Unit;
use crate::domain::verdict::Verdict;
use crate::policy::metadata::Metadata;
use crate::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as WireUnit;

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
        self.message(1, |mut member| {
            member.bytes(1, name.as_bytes());
            member.message(2, write);
        });
    }

    fn text_member(&mut self, name: &str, text: &str) {
        self.member(name, |mut value| value.bytes(3, text.as_bytes()));
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
/// Never: what is written here can be read.
pub fn message(answer: &Answer) -> RateLimitResponse {
    let mut bytes = Vec::new();
    response(answer, &mut bytes);
    RateLimitResponse::decode(bytes.as_slice()).expect("what is written here can be read")
}

/// Appends a `RateLimitResponse`. Its overall code is never the default, which a gateway would take for permission.
pub fn response(answer: &Answer, into: &mut Vec<u8>) {
    let mut response = Message(into);
    response.number(1, code(answer.verdict));
    for status in &answer.statuses {
        response.message(2, |message| write_status(message, status));
    }
    for header in &answer.headers {
        response.message(3, |message| write_header(message, header));
    }
    if let Some(body) = &answer.body {
        response.bytes(5, body.as_bytes());
    }
    response.message(6, |message| write_metadata(message, answer));
}

const fn code(verdict: Verdict) -> u64 {
    match verdict {
        Verdict::UnderLimit => Code::Ok as u64,
        Verdict::OverLimit => Code::OverLimit as u64,
    }
}

fn write_status(mut message: Message<'_>, status: &Status) {
    message.number(1, code(status.verdict));
    if let Some(limit) = &status.limit {
        message.message(2, |message| write_limit(message, limit));
    }
    message.number_unless_zero(3, status.remaining.into());
    if let Some(seconds) = status.reset_secs() {
        message.message(4, |mut duration| duration.number_unless_zero(1, seconds));
    }
}

fn write_limit(mut message: Message<'_>, limit: &ShownLimit) {
    message.number_unless_zero(1, limit.count.into());
    message.number(2, unit(limit.period.unit));
    if !limit.name.is_empty() {
        message.bytes(3, limit.name.as_bytes());
    }
    let multiplier = limit.period.multiplier;
    if multiplier != 1 {
        message.message(4, |mut wrapper| {
            wrapper.number_unless_zero(1, multiplier.into());
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
    message.bytes(1, header.name.as_str().as_bytes());
    message.bytes(2, header.value.as_bytes());
}

/// What access logs and later filters can read, by name.
fn write_metadata(mut message: Message<'_>, answer: &Answer) {
    message.text_member("cause", answer.cause.name());
    message.member("degraded", |mut value| {
        value.number(4, answer.degraded.into());
    });
    if !answer.metadata.is_empty() {
        message.member("metadata", |mut value| {
            value.message(5, |message| write_merged(message, &answer.metadata));
        });
    }
    if let Some(rule) = &answer.rule {
        message.text_member("rule", rule);
    }
    if !answer.uncounted.is_empty() {
        message.member("uncounted", |mut value| {
            value.message(5, |message| write_entries(message, &answer.uncounted));
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
    for (place, entry) in entries.iter().enumerate() {
        let key = String::from_utf8_lossy(&entry.key);
        let is_first = |before: &ShownEntry| String::from_utf8_lossy(&before.key) != key;
        if entries[..place].iter().all(is_first) {
            message.text_member(&key, &String::from_utf8_lossy(&entry.value));
        }
    }
}

/// Of two members with one name the first.
fn write_merged(mut message: Message<'_>, all: &[Arc<Metadata>]) {
    for (place, metadata) in all.iter().enumerate() {
        for (name, value) in metadata.iter() {
            if all[..place].iter().all(|before| !before.contains_key(name)) {
                message.member(name, |message| write_json(message, value));
            }
        }
    }
}

fn write_json(mut message: Message<'_>, json: &Json) {
    match json {
        Json::Null => message.number(1, 0),
        Json::Number(number) => message.double(2, number.as_f64().unwrap_or_default()),
        Json::String(text) => message.bytes(3, text.as_bytes()),
        Json::Bool(yes) => message.number(4, u64::from(*yes)),
        Json::Object(members) => message.message(5, |mut message| {
            for (name, value) in members {
                message.member(name, |message| write_json(message, value));
            }
        }),
        Json::Array(items) => message.message(6, |mut message| {
            for item in items {
                message.message(1, |message| write_json(message, item));
            }
        }),
    }
}

#[cfg(test)]
mod tests;

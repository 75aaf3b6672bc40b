//! The same question and answer as JSON over HTTP, for scripts: protobuf's own mapping, as far as these messages need
//! it.

mod read;
mod tree;

use std::sync::Arc;
use std::time::Instant;

use axum::body::{self, Body};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use prost_types::Struct;
use prost_types::value::Kind;
use serde_json::{Map, Number, Value};

use super::call::{self, Unanswered};
use super::limiter::Limiter;
use super::rls::{LARGEST_MESSAGE, LONGEST_CALL};
use super::{decode, encode};
use crate::clock::Clock;
use crate::domain::verdict::Verdict;
use crate::proto::envoy::config::core::v3::HeaderValue as WireHeader;
use crate::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use crate::store::Store;

/// Answers a question in JSON, whatever the method: 200 where the request may pass and 429 where not, each with the
/// answer. What is no question gets no reason: the reference gives none either, and scripts compare the text.
pub(super) async fn reply<S: Store, C: Clock>(limiter: Arc<Limiter<S, C>>, body: Body) -> Response {
    let deadline = Instant::now() + LONGEST_CALL;
    let read = body::to_bytes(body, LARGEST_MESSAGE).await.ok();
    let Some(wire) = read.and_then(|bytes| read::request(&bytes)) else {
        limiter.reject();
        return refusal(StatusCode::BAD_REQUEST, "Bad Request\n");
    };
    match call::answer(&limiter, decode::request(&wire), deadline).await {
        Ok(answer) => {
            let status = match answer.verdict {
                Verdict::OverLimit => StatusCode::TOO_MANY_REQUESTS,
                Verdict::UnderLimit => StatusCode::OK,
            };
            let json = [(header::CONTENT_TYPE, "application/json")];
            (status, json, write(encode::message(&answer)).to_string()).into_response()
        }
        Err(Unanswered::Invalid(_) | Unanswered::UnknownDomain { .. }) => {
            refusal(StatusCode::BAD_REQUEST, "Bad Request\n")
        }
        Err(Unanswered::Undecided(_)) => refusal(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable\n"),
    }
}

fn refusal(status: StatusCode, text: &'static str) -> Response {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, plain)]);
    (status, headers, text).into_response()
}

/// A message in the making. What is zero or empty is left out.
#[derive(Default)]
struct Message(Map<String, Value>);

impl Message {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        let is_empty = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Number(number) => number.as_u64() == Some(0),
            Value::Array(items) => items.is_empty(),
            Value::Bool(_) | Value::Object(_) => false,
        };
        if !is_empty {
            self.0.insert(name.to_owned(), value);
        }
    }
}

impl From<Message> for Value {
    fn from(message: Message) -> Self {
        Self::Object(message.0)
    }
}

fn write(answer: RateLimitResponse) -> Value {
    let mut message = Message::default();
    message.put("overallCode", code(answer.overall_code));
    message.put("statuses", list(&answer.statuses, status));
    message.put(
        "responseHeadersToAdd",
        list(&answer.response_headers_to_add, field),
    );
    message.put("requestHeadersToAdd", list(&answer.request_headers_to_add, field));
    message.put("rawBody", base64(&answer.raw_body));
    message.put("dynamicMetadata", answer.dynamic_metadata.map(structure));
    message.into()
}

fn list<T>(items: &[T], write: fn(&T) -> Value) -> Value {
    items.iter().map(write).collect()
}

/// The name of a code; nothing for the one that is zero.
fn code(number: i32) -> Value {
    match Code::try_from(number) {
        Ok(Code::Unknown) => Value::Null,
        Ok(code) => code.as_str_name().into(),
        Err(_) => number.into(),
    }
}

fn status(status: &DescriptorStatus) -> Value {
    let mut message = Message::default();
    message.put("code", code(status.code));
    message.put("currentLimit", status.current_limit.as_ref().map(limit));
    message.put("limitRemaining", status.limit_remaining);
    // Ours are whole seconds.
    let until_reset = status
        .duration_until_reset
        .map(|wait| format!("{}s", wait.seconds));
    message.put("durationUntilReset", until_reset);
    message.into()
}

fn limit(limit: &RateLimit) -> Value {
    let mut message = Message::default();
    message.put("name", limit.name.as_str());
    message.put("requestsPerUnit", limit.requests_per_unit);
    message.put(
        "unit",
        match Unit::try_from(limit.unit) {
            Ok(Unit::Unknown) => Value::Null,
            Ok(unit) => unit.as_str_name().into(),
            Err(_) => limit.unit.into(),
        },
    );
    message.put("unitMultiplier", limit.unit_multiplier);
    message.into()
}

fn field(header: &WireHeader) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut message = Message::default();
    message.put("key", text(&header.key));
    message.put("value", text(&header.value));
    message.into()
}

fn structure(structure: Struct) -> Value {
    let members = structure.fields.into_iter();
    Value::Object(members.map(|(name, value)| (name, any(value))).collect())
}

fn any(value: prost_types::Value) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(yes)) => yes.into(),
        Some(Kind::NumberValue(number)) => whole(number).map_or_else(|| number.into(), Value::Number),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(any).collect(),
        Some(Kind::StructValue(members)) => structure(members),
    }
}

/// A number without a point, where it has no fraction and is small enough to be exact.
fn whole(number: f64) -> Option<Number> {
    /// 2^53.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then(|| Number::from(number as i64))
}

/// Bytes as JSON holds them: the alphabet of RFC 4648, padded.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | usize::from(group.get(at).copied().unwrap_or(0))
        });
        for at in 0..4 {
            let digit = ALPHABET[bits >> (18 - 6 * at) & 63];
            text.push(char::from(if at <= group.len() { digit } else { b'=' }));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost_types::Duration;
    use serde_json::json;

    use super::*;

    #[test]
    fn zeros_are_left_out_and_waits_are_text() {
        let answer = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            statuses: vec![
                DescriptorStatus {
                    code: Code::OverLimit.into(),
                    current_limit: Some(RateLimit {
                        name: String::new(),
                        requests_per_unit: 10,
                        unit: Unit::Minute.into(),
                        unit_multiplier: Some(15),
                    }),
                    limit_remaining: 0,
                    duration_until_reset: Some(Duration {
                        seconds: 35,
                        nanos: 0,
                    }),
                },
                DescriptorStatus {
                    code: Code::Ok.into(),
                    ..DescriptorStatus::default()
                },
            ],
            raw_body: Bytes::from_static(b"ab"),
            ..RateLimitResponse::default()
        };
        let expected = json!({
            "overallCode": "OVER_LIMIT",
            "statuses": [
                {
                    "code": "OVER_LIMIT",
                    "currentLimit": { "requestsPerUnit": 10, "unit": "MINUTE", "unitMultiplier": 15 },
                    "durationUntilReset": "35s",
                },
                { "code": "OK" },
            ],
            "rawBody": "YWI=",
        });
        assert_eq!(write(answer), expected);
    }

    #[test]
    fn bytes_are_written_as_the_rfc_has_them() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(b"\xff\xfe\xfd"), "//79");
    }

    #[test]
    fn whole_numbers_have_no_point() {
        let number = |number| {
            any(prost_types::Value {
                kind: Some(Kind::NumberValue(number)),
            })
            .to_string()
        };
        assert_eq!(number(2.0), "2");
        assert_eq!(number(-1.0), "-1");
        assert_eq!(number(2.5), "2.5");
    }
}

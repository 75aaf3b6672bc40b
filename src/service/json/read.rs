//! Reads a question. Strict, as protobuf's own reader is: an unknown or repeated name, a number out of range or text
//! that is no Unicode make it none.

use bytes::Bytes;
use serde_json::Number;

use super::tree::Tree;
use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use crate::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::proto::envoy::r#type::v3::RateLimitUnit;

/// The question in `bytes`, if it is one.
pub(super) fn request(bytes: &[u8]) -> Option<RateLimitRequest> {
    message(
        serde_json::from_slice(bytes).ok()?,
        |request: &mut RateLimitRequest, name, value| {
            match name {
                "domain" => request.domain = given(value, text)?.unwrap_or_default(),
                "descriptors" => {
                    request.descriptors = given(value, |value| list(value, descriptor))?.unwrap_or_default();
                }
                "hitsAddend" | "hits_addend" => {
                    request.hits_addend = given(value, small)?.unwrap_or_default();
                }
                _ => return None,
            }
            Some(())
        },
    )
}

fn descriptor(tree: Tree) -> Option<RateLimitDescriptor> {
    message(tree, |descriptor: &mut RateLimitDescriptor, name, value| {
        match name {
            "entries" => descriptor.entries = given(value, |value| list(value, entry))?.unwrap_or_default(),
            "limit" => descriptor.limit = given(value, limit)?,
            "hitsAddend" | "hits_addend" => descriptor.hits_addend = given(value, number)?,
            // Hits that are given back are not for scripts: the reference does not know them here.
            _ => return None,
        }
        Some(())
    })
}

fn entry(tree: Tree) -> Option<Entry> {
    message(tree, |entry: &mut Entry, name, value| {
        match name {
            "key" => entry.key = given(value, text)?.unwrap_or_default(),
            "value" => entry.value = given(value, text)?.unwrap_or_default(),
            _ => return None,
        }
        Some(())
    })
}

fn limit(tree: Tree) -> Option<RateLimitOverride> {
    message(tree, |limit: &mut RateLimitOverride, name, value| {
        match name {
            "requestsPerUnit" | "requests_per_unit" => {
                limit.requests_per_unit = given(value, small)?.unwrap_or_default();
            }
            "unit" => limit.unit = given(value, unit)?.unwrap_or_default(),
            "unitMultiplier" | "unit_multiplier" => {
                limit.unit_multiplier = given(value, small)?;
            }
            _ => return None,
        }
        Some(())
    })
}

/// A message of an object's members, each of which `set` takes.
fn message<M: Default>(tree: Tree, set: impl Fn(&mut M, &str, Tree) -> Option<()>) -> Option<M> {
    let Tree::Object(members) = tree else { return None };
    let mut message = M::default();
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in members {
        // The two spellings of a name are one.
        let plain = name.replace('_', "").to_ascii_lowercase();
        if seen.contains(&plain) {
            return None;
        }
        seen.push(plain);
        set(&mut message, &name, value)?;
    }
    Some(message)
}

/// What `read` makes of a member's value; nothing of null, which counts as left out.
fn given<T>(tree: Tree, read: impl FnOnce(Tree) -> Option<T>) -> Option<Option<T>> {
    match tree {
        Tree::Null => Some(None),
        tree => read(tree).map(Some),
    }
}

fn list<T>(tree: Tree, read: fn(Tree) -> Option<T>) -> Option<Vec<T>> {
    let Tree::List(items) = tree else { return None };
    items.into_iter().map(read).collect()
}

fn text(tree: Tree) -> Option<Bytes> {
    let Tree::Text(text) = tree else { return None };
    Some(Bytes::from(text))
}

/// A whole number that is not negative, in any spelling that JSON has for it, also as text.
fn number(tree: Tree) -> Option<u64> {
    match tree {
        Tree::Number(number) => natural(&number),
        Tree::Text(text) if text.ends_with(|last: char| last.is_ascii_digit()) => {
            let spaced = text.starts_with(|first: char| first.is_ascii_whitespace());
            natural(&serde_json::from_str(&text).ok().filter(|_| !spaced)?)
        }
        _ => None,
    }
}

fn small(tree: Tree) -> Option<u32> {
    u32::try_from(number(tree)?).ok()
}

fn natural(number: &Number) -> Option<u64> {
    /// 2^64.
    const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        let is_natural = float.fract() == 0.0 && (0.0..TOO_LARGE).contains(&float);
        #[allow(clippy::cast_sign_loss)] // It has none.
        let natural = float as u64;
        is_natural.then_some(natural)
    })
}

/// A unit by its name, or by its number: a week has no name here.
fn unit(tree: Tree) -> Option<i32> {
    match tree {
        Tree::Text(name) => RateLimitUnit::from_str_name(&name).map(i32::from),
        Tree::Number(number) => i32::try_from(number.as_i64()?).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;

    /// A question with `member` added to its only descriptor.
    fn with(member: &str) -> Option<RateLimitDescriptor> {
        let text = WHOLE.replace("\"v\"}]", &format!("\"v\"}}],{member}"));
        let mut asked = request(text.as_bytes())?;
        asked.descriptors.pop()
    }

    #[test]
    fn both_spellings_and_numbers_as_text_are_read() {
        let hits = |member: &str| with(member).and_then(|descriptor| descriptor.hits_addend);
        for spelling in ["hitsAddend", "hits_addend"] {
            assert_eq!(hits(&format!(r#""{spelling}":3"#)), Some(3));
        }
        assert_eq!(hits(r#""hitsAddend":"18446744073709551615""#), Some(u64::MAX));
        assert_eq!(hits(r#""hitsAddend":1e2"#), Some(100));
        assert_eq!(hits(r#""hitsAddend":"2.0""#), Some(2));
        assert_eq!(hits(r#""hitsAddend":null"#), None);
        assert!(with(r#""hitsAddend":null"#).is_some(), "null is left out");
        let limit = |member: &str| with(member).and_then(|descriptor| descriptor.limit);
        let units = [(r#""DAY""#, 4), ("7", 7)];
        for (unit, number) in units {
            let limit =
                limit(&format!(r#""limit":{{"requestsPerUnit":"5","unit":{unit}}}"#)).expect("a limit");
            assert_eq!((limit.requests_per_unit, limit.unit), (5, number));
        }
        assert_eq!(limit(r#""limit":{"unit":"WEEK"}"#), None);
    }

    #[test]
    fn what_is_no_question_is_none() {
        assert!(request(WHOLE.as_bytes()).is_some());
        for text in [
            "",
            "}",
            "null",
            "[]",
            "1",
            r#"["d",[]]"#,
            r#"{"domain":1}"#,
            r#"{"domain":"d","x":1}"#,
            r#"{"domain":"d","x":null}"#,
            r#"{"domain":"d","domain":"d"}"#,
            r#"{"hitsAddend":1,"hits_addend":1}"#,
            r#"{"hitsAddend":-1}"#,
            r#"{"hitsAddend":4294967296}"#,
            r#"{"hitsAddend":1.5}"#,
            r#"{"hitsAddend":true}"#,
            r#"{"hitsAddend":" 1"}"#,
            r#"{"hitsAddend":"1 "}"#,
            r#"{"hitsAddend":""}"#,
            r#"{"descriptors":[null]}"#,
            r#"{"descriptors":{}}"#,
            r#"{"domain":"\ud800"}"#,
            r#"{"domain":"d"} {}"#,
        ] {
            assert_eq!(request(text.as_bytes()), None, "{text}");
        }
        assert_eq!(request(b"{\"domain\":\"\xff\"}"), None);
        for member in [
            r#""isNegativeHits":true"#,
            r#""hitsAddend":-1"#,
            r#""hitsAddend":18446744073709551616"#,
        ] {
            assert_eq!(with(member), None, "{member}");
        }
    }
}

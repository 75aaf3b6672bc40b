//! Counter keys: injective, versioned, of bounded length, readable.
//!
//! `<prefix>:1:{<domain><key><value>…}<limit's name><algorithm><period>`. Every part is written with its length in
//! front; what is between the braces decides which counters share a cluster slot, so braces in a part are escaped. The
//! key names the rule and not its numbers: an edited limit goes on with what was used.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::domain::limit::{Algorithm, Grid, Limit};

/// The encoding's version: another one would misread the state that this one left.
const VERSION: u8 = 1;

/// Parts longer than this stand as their SHA-256: callers choose values, and must not rule the size of keys.
const LONGEST_PART: usize = 64;

/// Writes counter keys that start with one prefix.
#[derive(Clone, Debug)]
pub struct Keys {
    start: Vec<u8>,
}

impl Keys {
    /// Keys that start with `prefix`.
    pub fn new(prefix: &str) -> Self {
        let mut start = Vec::new();
        escape(&mut start, prefix.as_bytes());
        let _ = write!(start, ":{VERSION}:{{");
        Self { start }
    }

    /// Appends the key of the counter that `limit` has for these entries of `domain`.
    pub fn write<'a>(
        &self,
        into: &mut Vec<u8>,
        domain: &[u8],
        counted: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        limit: &Limit,
    ) {
        self.write_entries(into, domain, counted);
        part(into, limit.name().as_bytes());
        write_algorithm(into, limit);
    }

    /// Appends the key of the counter of a limit that a request brought along for these entries: no limit of a policy
    /// has the same one.
    pub fn write_override<'a>(
        &self,
        into: &mut Vec<u8>,
        domain: &[u8],
        counted: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        limit: &Limit,
    ) {
        self.write_entries(into, domain, counted);
        // The name of a policy's limit starts with a digit, that of its length.
        into.push(b'o');
        write_algorithm(into, limit);
    }

    /// Appends the key of the one counter that these entries of `domain` have per period, whichever limit counts in it.
    pub fn write_nameless<'a>(
        &self,
        into: &mut Vec<u8>,
        domain: &[u8],
        counted: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        limit: &Limit,
    ) {
        self.write_entries(into, domain, counted);
        into.push(b'n');
        write_algorithm(into, limit);
    }

    fn write_entries<'a>(
        &self,
        into: &mut Vec<u8>,
        domain: &[u8],
        counted: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        into.extend_from_slice(&self.start);
        part(into, domain);
        for (key, value) in counted {
            part(into, key);
            part(into, value);
        }
        into.push(b'}');
    }
}

fn write_algorithm(into: &mut Vec<u8>, limit: &Limit) {
    let period = limit.period().length().get() / 1_000_000;
    let _ = match (limit.algorithm(), limit.grid()) {
        (Algorithm::TokenBucket, _) => write!(into, "t"),
        (Algorithm::LeakyBucket, _) => write!(into, "l"),
        (Algorithm::SlidingWindow, _) => write!(into, "w{period}"),
        (Algorithm::SlidingLog, _) => write!(into, "g{period}"),
        (Algorithm::FixedWindow, Grid::Epoch) => write!(into, "f{period}"),
        (Algorithm::FixedWindow, Grid::Monday) => write!(into, "f{period}w"),
        (Algorithm::FixedWindow, Grid::Months(months)) => write!(into, "f{months}m"),
    };
}

/// What all counters of one limit have in common: the domain and all that comes after the braces.
pub fn limit_of(key: &[u8]) -> (&[u8], &[u8]) {
    let open = key
        .iter()
        .position(|byte| *byte == b'{')
        .map_or(0, |open| open + 1);
    let close = key.iter().position(|byte| *byte == b'}').unwrap_or(key.len());
    let domain = key.get(open..close).and_then(first_part).unwrap_or_default();
    (domain, &key[close..])
}

fn first_part(parts: &[u8]) -> Option<&[u8]> {
    let digits = parts.iter().position(|byte| !byte.is_ascii_digit())?;
    let length: usize = std::str::from_utf8(&parts[..digits]).ok()?.parse().ok()?;
    parts.get(..digits + 1 + length)
}

/// One part: `<length>:<bytes>`, or `64#<hash>` for a long one.
fn part(into: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() > LONGEST_PART {
        let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
        let mut hex = String::with_capacity(2 * digest.as_ref().len());
        for byte in digest.as_ref() {
            let _ = write!(hex, "{byte:02x}");
        }
        let _ = write!(into, "{}#", hex.len());
        into.extend_from_slice(hex.as_bytes());
        return;
    }
    let escaped = bytes.len() + 2 * bytes.iter().filter(|byte| is_special(**byte)).count();
    let mut digits = [0; 3];
    into.extend_from_slice(decimal(escaped, &mut digits));
    into.push(b':');
    if escaped == bytes.len() {
        into.extend_from_slice(bytes);
    } else {
        escape(into, bytes);
    }
}

/// `number`, below 1000, in decimal: on the path of every call, where `write!` is slow.
fn decimal(mut number: usize, digits: &mut [u8; 3]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

const fn is_special(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'%')
}

fn escape(into: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        if is_special(*byte) {
            let _ = write!(into, "%{byte:02X}");
        } else {
            into.push(*byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::limit::{LimitSpec, Period, Unit};
    use crate::domain::time::Micros;

    fn limit(name: &str, algorithm: Algorithm, unit: Unit) -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from(name),
            named: true,
            count: 10,
            period: Period::one(unit),
            algorithm,
            burst: None,
            delay: Micros::ZERO,
            calendar: true,
        })
        .expect("a sound limit")
    }

    fn key(domain: &[u8], entries: &[(Vec<u8>, Vec<u8>)], limit: &Limit) -> Vec<u8> {
        let mut key = Vec::new();
        let entries = entries
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_slice()));
        Keys::new("comporta").write(&mut key, domain, entries, limit);
        key
    }

    fn text(domain: &str, entries: &[(&str, &str)], limit: &Limit) -> String {
        let entries: Vec<_> = entries
            .iter()
            .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect();
        String::from_utf8(key(domain.as_bytes(), &entries, limit)).expect("text in, text out")
    }

    #[test]
    fn keys_can_be_read() {
        let bucket = limit("client/plan", Algorithm::TokenBucket, Unit::Minute);
        assert_eq!(
            text("edge", &[("client", "acme")], &bucket),
            "comporta:1:{4:edge6:client4:acme}11:client/plant"
        );
        let window = limit("daily", Algorithm::FixedWindow, Unit::Day);
        assert_eq!(
            text("edge", &[("a{b}", "50%")], &window),
            "comporta:1:{4:edge8:a%7Bb%7D5:50%25}5:dailyf86400"
        );
    }

    #[test]
    fn long_values_are_hashed_and_cannot_be_forged() {
        let bucket = limit("l", Algorithm::TokenBucket, Unit::Minute);
        let long = text("d", &[("k", &"x".repeat(1 << 20))], &bucket);
        assert!(long.len() < 120, "{long}");
        let hash = &long[long.find('#').expect("hashed") + 1..][..64];
        assert_ne!(
            long,
            text("d", &[("k", hash)], &bucket),
            "the hash itself, sent as a value, is another client"
        );
    }

    #[test]
    fn a_month_on_the_calendar_is_not_thirty_days() {
        let calendar = limit("q", Algorithm::FixedWindow, Unit::Month);
        assert!(text("d", &[], &calendar).ends_with("1:qf1m"));
        assert_eq!(
            limit_of(text("d", &[("k", "v")], &calendar).as_bytes()),
            (&b"1:d"[..], &b"}1:qf1m"[..])
        );
    }

    fn part_strategy() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(prop::sample::select(b"a1:#%{}=\0\xff".to_vec()), 0..6),
            prop::collection::vec(any::<u8>(), 0..80),
        ]
    }

    proptest! {
        #[test]
        fn no_two_counters_share_a_key(
            many in prop::collection::vec(
                (part_strategy(), prop::collection::vec((part_strategy(), part_strategy()), 0..3)),
                2..24,
            )
        ) {
            let bucket = limit("l", Algorithm::TokenBucket, Unit::Minute);
            let mut seen = HashMap::new();
            for counter in many {
                let key = key(&counter.0, &counter.1, &bucket);
                prop_assert_eq!(key.iter().filter(|byte| **byte == b'{' || **byte == b'}').count(), 2);
                if let Some(other) = seen.insert(key, counter.clone()) {
                    prop_assert_eq!(other, counter);
                }
            }
        }
    }
}

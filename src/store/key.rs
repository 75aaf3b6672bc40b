//! Counter keys: injective, versioned, of bounded length, readable.
//!
//! `<prefix>:1:{<domain><key><value>…}<limit's name><algorithm><period>`. Every part is written with its length in
//! front; what is between the braces decides which counters share a cluster slot, so braces in a part are escaped. The
//! key names the rule and not its numbers: an edited limit goes on with what was used.
//!
//! Where a domain is sharded by an entry, and others are counted beside it, only that one stands between the braces.
//! The others follow at the end, behind a plus and the place that it had among them:
//! `<prefix>:1:{<domain><key><value>}<limit's name><algorithm><period>+<place>/<key><value>…`. So all counters of one
//! client share a slot, and the key of a client without other entries is the same either way.
//!
//! Values that nobody may read stand as their HMAC-SHA256 by the secret that all instances share.

mod part;
#[cfg(test)]
mod tests;

use std::io::Write as _;

use ring::hmac;

use super::random;
use crate::domain::limit::{Algorithm, Grid, Limit};

/// The encoding's version: another one would misread the state that this one left.
const VERSION: u8 = 1;

/// The domain that a counter belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Realm<'a> {
    /// Its name.
    pub domain: &'a [u8],
    /// The key of the entry by which its counters share a cluster slot.
    pub shard_by: Option<&'a [u8]>,
}

/// An entry that a counter belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The entry's key.
    pub key: &'a [u8],
    /// Its value, normalised.
    pub value: &'a [u8],
    /// Whether nobody may read the value.
    pub secret: bool,
}

/// Writes counter keys that start with one prefix.
#[derive(Clone, Debug)]
pub struct Keys {
    start: Vec<u8>,
    /// Prints as its algorithm only.
    secret: hmac::Key,
}

impl Keys {
    /// Keys that start with `prefix`. Secret values stand in them as no other process can know, so that they must not
    /// leave this one.
    pub fn new(prefix: &str) -> Self {
        let secret: [[u8; 8]; 4] = std::array::from_fn(|_| random().to_ne_bytes());
        Self::with_secret(prefix, secret.as_flattened())
    }

    /// Keys that start with `prefix`, the same in every process that knows `secret`.
    pub fn with_secret(prefix: &str, secret: &[u8]) -> Self {
        let mut start = Vec::new();
        part::escape(&mut start, prefix.as_bytes());
        let _ = write!(start, ":{VERSION}:{{");
        Self {
            start,
            secret: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    /// The key under which instances are heard.
    pub fn instances(&self) -> Vec<u8> {
        [&self.start[..], b"instances}"].concat()
    }

    /// The channel on which instances tell each other what happens to counters: text, for it starts with the prefix.
    pub fn channel(&self) -> String {
        format!("{}notices}}", String::from_utf8_lossy(&self.start))
    }

    /// The key of a counter that nobody asks about. By `number` it can be had in every slot of a cluster.
    pub fn probe(&self, number: u32) -> Vec<u8> {
        let mut key = self.start.clone();
        // No domain's name: that would stand behind its length and a colon.
        let _ = write!(key, "{number}}}probe");
        key
    }

    /// Appends the key of the counter that `limit` has for these entries.
    pub fn write<'a>(
        &self,
        into: &mut Vec<u8>,
        realm: Realm<'_>,
        counted: impl Iterator<Item = Part<'a>> + Clone,
        limit: &Limit,
    ) {
        self.write_key(into, realm, counted, limit, Name::OfLimit);
    }

    /// Appends the key of the counter of a limit that a request brought along for these entries: no limit of a policy
    /// has the same one.
    pub fn write_override<'a>(
        &self,
        into: &mut Vec<u8>,
        realm: Realm<'_>,
        counted: impl Iterator<Item = Part<'a>> + Clone,
        limit: &Limit,
    ) {
        self.write_key(into, realm, counted, limit, Name::Override);
    }

    /// Appends the key of the one counter that these entries have per period, whichever limit counts in it.
    pub fn write_nameless<'a>(
        &self,
        into: &mut Vec<u8>,
        realm: Realm<'_>,
        counted: impl Iterator<Item = Part<'a>> + Clone,
        limit: &Limit,
    ) {
        self.write_key(into, realm, counted, limit, Name::None);
    }

    /// Few keys hold anything that must be escaped: so they are written as if none did, looked over once, and the few are
    /// written again, which is the most that a caller can make them cost.
    fn write_key<'a>(
        &self,
        into: &mut Vec<u8>,
        realm: Realm<'_>,
        counted: impl Iterator<Item = Part<'a>> + Clone,
        limit: &Limit,
        name: Name,
    ) {
        let start = into.len();
        let writer = Writer {
            keys: self,
            realm,
            limit,
            name,
        };
        let from = writer.write(into, counted.clone(), part::write_plain);
        if part::need_escape(&into[from..]) {
            into.truncate(start);
            writer.write(into, counted, part::write);
        }
    }
}

/// What stands in a key for the limit's name.
#[derive(Clone, Copy)]
enum Name {
    OfLimit,
    Override,
    None,
}

/// All of a key but its entries.
struct Writer<'k> {
    keys: &'k Keys,
    realm: Realm<'k>,
    limit: &'k Limit,
    name: Name,
}

impl Writer<'_> {
    /// Appends a key, its parts as `append` does. Says where they begin.
    fn write<'a>(
        &self,
        into: &mut Vec<u8>,
        counted: impl Iterator<Item = Part<'a>> + Clone,
        append: impl Fn(&mut Vec<u8>, &[u8]) + Copy,
    ) -> usize {
        into.extend_from_slice(&self.keys.start);
        let start = into.len();
        append(into, self.realm.domain);
        let shard = self
            .realm
            .shard_by
            .and_then(|key| counted.clone().position(|part| part.key == key));
        let is_shard = |place| shard.is_none_or(|shard| shard == place);
        let mut others = 0;
        for (place, part) in counted.clone().enumerate() {
            if is_shard(place) {
                self.write_entry(into, part, append);
            } else {
                others += 1;
            }
        }
        into.push(b'}');
        match self.name {
            Name::OfLimit => append(into, self.limit.name().as_bytes()),
            // The name of a policy's limit starts with a digit, that of its length.
            Name::Override => into.push(b'o'),
            Name::None => into.push(b'n'),
        }
        write_algorithm(into, self.limit);
        if let Some(shard) = shard.filter(|_| others > 0) {
            into.push(b'+');
            part::number(into, shard);
            into.push(b'/');
            for (_, part) in counted.enumerate().filter(|(place, _)| *place != shard) {
                self.write_entry(into, part, append);
            }
        }
        start
    }

    fn write_entry(&self, into: &mut Vec<u8>, entry: Part<'_>, append: impl Fn(&mut Vec<u8>, &[u8])) {
        append(into, entry.key);
        if entry.secret {
            part::write_secret(into, entry.value, &self.keys.secret);
        } else {
            append(into, entry.value);
        }
    }
}

/// Letters and digits.
fn write_algorithm(into: &mut Vec<u8>, limit: &Limit) {
    let mut put = |letter, number: u64| {
        into.push(letter);
        part::number(into, number);
    };
    let period = limit.period().length().get() / 1_000_000;
    match (limit.algorithm(), limit.grid()) {
        (Algorithm::TokenBucket, _) => into.push(b't'),
        (Algorithm::LeakyBucket, _) => into.push(b'l'),
        (Algorithm::SlidingWindow, _) => put(b'w', period),
        (Algorithm::SlidingLog, _) => put(b'g', period),
        (Algorithm::FixedWindow, Grid::Epoch) => put(b'f', period),
        (Algorithm::FixedWindow, Grid::Monday) => {
            put(b'f', period);
            into.push(b'w');
        }
        (Algorithm::FixedWindow, Grid::Months(months)) => {
            put(b'f', months.into());
            into.push(b'm');
        }
    }
}

/// What all counters of one limit have in common: the domain, and what comes after the braces but for entries.
pub fn limit_of(key: &[u8]) -> (&[u8], &[u8]) {
    let open = key
        .iter()
        .position(|byte| *byte == b'{')
        .map_or(0, |open| open + 1);
    let close = key.iter().position(|byte| *byte == b'}').unwrap_or(key.len());
    let domain = key.get(open..close).and_then(part::first).unwrap_or_default();
    let limit = &key[close..];
    // A name may hold a plus.
    let name = limit.get(1..).and_then(part::first).map_or(0, <[u8]>::len);
    let behind_name = limit.iter().skip(1 + name);
    let end = behind_name.clone().take_while(|byte| **byte != b'+').count();
    (domain, limit.get(..1 + name + end).unwrap_or(limit))
}

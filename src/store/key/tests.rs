//! Keys are read, told apart and kept short.

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

fn keys() -> Keys {
    Keys::with_secret("comporta", b"known to all instances")
}

fn key(realm: Realm<'_>, entries: &[(Vec<u8>, Vec<u8>)], limit: &Limit) -> Vec<u8> {
    let mut key = Vec::new();
    let part = |(key, value)| Part {
        key,
        value,
        secret: key == b"secret",
    };
    let parts = entries.iter().map(|(key, value)| part((&key[..], &value[..])));
    keys().write(&mut key, realm, parts, limit);
    key
}

/// Sharded where the domain is `by-KEY`.
fn text(domain: &str, entries: &[(&str, &str)], limit: &Limit) -> String {
    let entries: Vec<_> = entries
        .iter()
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect();
    let realm = Realm {
        domain: domain.as_bytes(),
        shard_by: domain.strip_prefix("by-").map(str::as_bytes),
    };
    String::from_utf8(key(realm, &entries, limit)).expect("text in, text out")
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

/// A domain, the entry it is sharded by, and entries of which few keys are the same often.
type Counter = (Vec<u8>, Option<Vec<u8>>, Vec<(Vec<u8>, Vec<u8>)>);

fn counter() -> impl Strategy<Value = Counter> {
    let name = || {
        prop_oneof![
            2 => prop::sample::select(vec![b"a".to_vec(), b"secret".to_vec(), b"+0/".to_vec()]),
            1 => part_strategy(),
        ]
    };
    (
        name(),
        prop::option::of(name()),
        prop::collection::vec((name(), part_strategy()), 0..4),
    )
}

proptest! {
    #[test]
    fn no_two_counters_share_a_key(many in prop::collection::vec(counter(), 2..24)) {
        // With a plus, and like the end of a sharded key.
        for name in ["l", "t+0/1:a1:b"] {
            let bucket = limit(name, Algorithm::TokenBucket, Unit::Minute);
            let mut seen = HashMap::new();
            let mut limits = HashMap::new();
            for (domain, shard_by, entries) in &many {
                let realm = Realm { domain, shard_by: shard_by.as_deref() };
                let key = key(realm, entries, &bucket);
                prop_assert_eq!(key.iter().filter(|byte| **byte == b'{' || **byte == b'}').count(), 2);
                let (of, limit) = limit_of(&key);
                let of_limit = (of.to_vec(), limit.to_vec());
                prop_assert_eq!(limits.entry(domain).or_insert_with(|| of_limit.clone()), &of_limit);
                if let Some(shard) = shard_by.as_ref().and_then(|key| entries.iter().find(|entry| entry.0 == *key)) {
                    let whole = self::key(realm, std::slice::from_ref(shard), &bucket);
                    prop_assert_eq!(tag(&key), tag(&whole), "only the one entry rules the slot");
                }
                if let Some(other) = seen.insert(key, (domain, entries)) {
                    prop_assert_eq!(other, (domain, entries));
                }
            }
        }
    }
}

/// What Redis Cluster hashes.
fn tag(key: &[u8]) -> &[u8] {
    let open = key.iter().position(|byte| *byte == b'{').expect("a brace");
    let close = key.iter().position(|byte| *byte == b'}').expect("its end");
    &key[open + 1..close]
}

#[test]
fn a_sharded_domain_keeps_all_counters_of_one_client_in_one_slot() {
    let bucket = limit("client/route", Algorithm::TokenBucket, Unit::Minute);
    let check = |entries: &[(&str, &str)], expected: &str| {
        let key = text("by-client", entries, &bucket);
        assert_eq!(key, format!("comporta:1:{expected}"));
        let (domain, limit) = limit_of(key.as_bytes());
        assert_eq!((domain, limit), (&b"9:by-client"[..], &b"}12:client/routet"[..]));
    };
    check(
        &[("client", "acme"), ("route", "export")],
        "{9:by-client6:client4:acme}12:client/routet+0/5:route6:export",
    );
    check(
        &[("route", "{x}"), ("client", "acme"), ("client", "b")],
        "{9:by-client6:client4:acme}12:client/routet+1/5:route7:%7Bx%7D6:client1:b",
    );
    check(
        &[("client", "acme")],
        "{9:by-client6:client4:acme}12:client/routet",
    );
    check(
        &[("address", "::1"), ("route", "a")],
        "{9:by-client7:address3:::15:route1:a}12:client/routet",
    );
}

#[test]
fn a_secret_value_stands_as_a_hash_that_only_who_knows_the_secret_can_make() {
    let bucket = limit("l", Algorithm::TokenBucket, Unit::Minute);
    let key = text("d", &[("secret", "hunter2")], &bucket);
    // echo -n hunter2 | openssl dgst -sha256 -hmac 'known to all instances'
    let hash = "c2683b6d0230e2733851c91cffe9a0b50b27e68f06daa2fd306fa2dd3a06975e";
    assert_eq!(key, format!("comporta:1:{{1:d6:secret64${hash}}}1:lt"));
    assert_ne!(
        key,
        text("d", &[("secret", hash)], &bucket),
        "the hash itself, sent as a value, is another client"
    );
    let write = |keys: &Keys| {
        let realm = Realm {
            domain: b"d",
            shard_by: None,
        };
        let part = Part {
            key: b"secret",
            value: b"hunter2",
            secret: true,
        };
        let mut key = Vec::new();
        keys.write(&mut key, realm, std::iter::once(part), &bucket);
        key
    };
    assert_eq!(write(&keys()), key.as_bytes());
    assert_ne!(write(&Keys::with_secret("comporta", b"another")), key.as_bytes());
    assert_ne!(write(&Keys::new("comporta")), write(&Keys::new("comporta")));
    assert!(!format!("{:?}", keys()).contains("known"), "{:?}", keys());
}

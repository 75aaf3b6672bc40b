//! Whatever bytes a gateway sends: reading them never panics, and what they become is within its bounds.

use std::collections::HashSet;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::decode::{self, MOST_DESCRIPTORS, MOST_ENTRIES};
use super::options::Modes;
use super::plan::{Plan, Reached};
use crate::domain::check::OnStoreFailure;
use crate::domain::quantity::Hits;
use crate::policy::PolicySet;
use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use crate::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::store::key::Keys;

const POLICY: &str = "
domain: edge
plans:
  api:
    free: { rate: 60/minute, burst: 10 }
    default: free
descriptors:
  - key: client
    rate_limit: { rate: 10/second }
    descriptors:
      - key: plan
        rate_limit: { plan: api }
      - key: address
        rate_limit: { rate: 20/minute }
  - key: client
    value: 'a*'
    rate_limit: { unlimited: true }
  - key: address
    rate_limit: { rate: 5/minute }
";

/// No key is longer: each of at most 66 parts has up to 64 bytes, escaped, and a length in front.
const LONGEST_KEY: usize = 66 * (3 * 64 + 4) + 64;

/// Words that the policy knows, and any others.
fn any_word() -> impl Strategy<Value = Bytes> {
    let known = prop::sample::select(vec![
        "client", "plan", "address", "free", "a", "10.0.0.1", "{", "",
    ]);
    prop_oneof![
        4 => known.prop_map(|word| Bytes::from_static(word.as_bytes())),
        1 => prop::collection::vec(any::<u8>(), 0..100).prop_map(Bytes::from),
    ]
}

fn any_descriptor() -> impl Strategy<Value = RateLimitDescriptor> {
    let entry = || (any_word(), any_word()).prop_map(|(key, value)| Entry { key, value });
    let entries = prop_oneof![
        9 => prop::collection::vec(entry(), 0..4),
        1 => prop::collection::vec(entry(), 0..MOST_ENTRIES + 3),
    ];
    let hits = prop_oneof![Just(None), (0_u64..3).prop_map(Some), any::<u64>().prop_map(Some)];
    let limit = prop::option::weighted(0.1, (any::<u32>(), any::<i32>()));
    (entries, hits, any::<bool>(), limit).prop_map(|(entries, hits_addend, is_negative_hits, limit)| {
        RateLimitDescriptor {
            entries,
            hits_addend,
            is_negative_hits,
            limit: limit.map(|(requests_per_unit, unit)| RateLimitOverride {
                requests_per_unit,
                unit,
                unit_multiplier: None,
            }),
        }
    })
}

fn any_request() -> impl Strategy<Value = RateLimitRequest> {
    let domain = prop_oneof![9 => Just(Bytes::from_static(b"edge")), 1 => any_word()];
    let descriptors = prop_oneof![
        9 => prop::collection::vec(any_descriptor(), 0..6),
        1 => prop::collection::vec(any_descriptor(), 0..MOST_DESCRIPTORS + 3),
    ];
    let hits = prop_oneof![0_u32..3, any::<u32>()];
    (domain, descriptors, hits).prop_map(|(domain, descriptors, hits_addend)| RateLimitRequest {
        domain,
        descriptors,
        hits_addend,
    })
}

/// A request as bytes, some of them changed, and cut or with something behind.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)
    ];
    let tail = prop::collection::vec(any::<u8>(), 0..8);
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (any_request(), changes, tail, cut).prop_map(|(request, changes, tail, cut)| {
        let mut bytes = request.encode_to_vec();
        if !bytes.is_empty() {
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            match cut {
                Some(cut) => bytes.truncate(cut.index(bytes.len())),
                None if tail.len() < 4 => bytes.extend_from_slice(&tail),
                None => {}
            }
        }
        bytes
    })
}

/// Reads a frame as far as it can be read, and checks what it becomes.
fn follow(bytes: &[u8], set: &PolicySet, keys: &Keys) {
    let Ok(wire) = RateLimitRequest::decode(bytes) else {
        assert_eq!(decode::usual::request(bytes), None, "nobody else can read it");
        return;
    };
    let expected = decode::request(&wire);
    if let Some(usual) = decode::usual::request(bytes) {
        assert_eq!(Ok(usual), expected, "read in two ways");
    }
    let Ok(asked) = expected else { return };
    let request = asked.request;
    assert!(!request.domain.is_empty());
    assert!((1..=MOST_DESCRIPTORS).contains(&request.descriptors.len()));
    for descriptor in &request.descriptors {
        assert!(descriptor.entries.len() <= MOST_ENTRIES);
        match descriptor.hits {
            Hits::Undo(..) => panic!("nobody can ask for an undo"),
            Hits::Take(hits) | Hits::GiveBack(hits) => assert!((1..=Hits::MOST).contains(&hits)),
            Hits::Look(hits) => assert_eq!(hits, 1),
        }
    }
    let Some(policy) = set.policy(request.domain) else {
        return;
    };
    let plan = Plan::new(&request, policy, keys, Modes::default());
    assert_eq!(plan.reached.len(), request.descriptors.len());
    let checks = plan.to_checks(OnStoreFailure::Local);
    for reached in &plan.reached {
        if let Reached::Limited(_, places) = reached {
            assert!(places.iter().all(|place| *place < checks.len()), "{reached:?}");
        }
    }
    let gives_back = |hits| matches!(hits, Hits::GiveBack(_));
    assert!(
        checks.is_sorted_by_key(|check| !gives_back(check.hits)),
        "give-backs stand first"
    );
    let mut seen = HashSet::new();
    for check in &checks {
        assert!(check.key.len() <= LONGEST_KEY, "{} bytes", check.key.len());
        assert!(
            seen.insert((gives_back(check.hits), check.key)),
            "a counter is named twice"
        );
    }
}

fn policies() -> PolicySet {
    PolicySet::parse(&[("policy.yaml", POLICY)]).expect("a sound policy")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn any_frame_becomes_a_group_within_its_bounds(frame in any_frame()) {
        follow(&frame, &policies(), &Keys::new("comporta"));
    }

    #[test]
    fn any_bytes_at_all_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        follow(&bytes, &policies(), &Keys::new("comporta"));
    }
}

#[test]
fn frames_reach_every_kind_of_rule() {
    // Or the properties above would hold of nothing.
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let (set, keys, mut runner) = (policies(), Keys::new("comporta"), TestRunner::deterministic());
    let (mut limited, mut unlimited, mut several, mut usual) = (0, 0, 0, 0);
    for _ in 0..2_000 {
        let wire = any_request().new_tree(&mut runner).expect("a request").current();
        let Ok(asked) = decode::request(&wire) else {
            continue;
        };
        let Some(policy) = set.policy(asked.request.domain) else {
            continue;
        };
        usual += usize::from(decode::usual::request(&wire.encode_to_vec()).is_some());
        let plan = Plan::new(&asked.request, policy, &keys, Modes::default());
        several += usize::from(plan.checks().len() > 1);
        limited += plan
            .reached
            .iter()
            .filter(|reached| matches!(reached, Reached::Limited(..)))
            .count();
        unlimited += plan
            .reached
            .iter()
            .filter(|reached| matches!(reached, Reached::Unlimited(_)))
            .count();
    }
    assert!(
        limited > 50 && unlimited > 5 && several > 20 && usual > 50,
        "{limited}, {unlimited}, {several}, {usual}"
    );
}

//! What a match costs, however many rules there are. Instructions and time are for `benches/matching.rs` to count.

use std::fmt::Write;

use comporta::domain::descriptor::Entry;
use comporta::policy::PolicySet;

use crate::harness::allocator::allocations;

fn entries(descriptor: &str) -> Vec<Entry<'_>> {
    let pairs = descriptor.split(',').map(|text| text.split_once('='));
    pairs
        .map(|pair| pair.expect("a key and a value"))
        .map(|(key, value)| Entry::new(key, value))
        .collect()
}

fn policy(rules: usize) -> PolicySet {
    let mut policy = String::from(
        "
domain: edge
plans:
  api: { pro: { rate: 60/minute }, default: { rate: 6/minute } }
descriptors:
  - { key: a, value: b, descriptors: [{ key: a, value: b, descriptors: [{ key: a, value: b, descriptors: [{ key: a,
      value: b, rate_limit: { rate: 1/day } }] }] }] }
  - key: pattern
    value: a*
    rate_limit: { rate: 1/day }
  - key: address
    cidrs: [10.0.0.0/8]
    normalize: { ipv4_prefix: 32 }
    rate_limit: { rate: 1/day }
  - key: tenant
    value: one
    descriptors:
",
    );
    for rule in 0..rules {
        let _ = writeln!(policy, "      - key: client\n        value: client-{rule}");
        let _ = writeln!(
            policy,
            "        secret: true\n        rate_limit: {{ rate: 60/minute }}"
        );
        let _ = writeln!(
            policy,
            "        descriptors:\n          - key: route\n            value: export"
        );
        let _ = writeln!(
            policy,
            "            descriptors: [{{ key: plan, rate_limit: {{ plan: api }} }}]"
        );
    }
    PolicySet::parse(&[("policy.yaml", policy)]).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn a_match_allocates_nothing() {
    let set = policy(2_000);
    for (descriptor, matches) in [
        ("tenant=one,client=client-0", true),
        ("tenant=one,client=client-1999", true),
        ("tenant=one,client=client-1999,route=export,plan=pro", true),
        ("tenant=one,client=client-1999,route=export,plan=none", true),
        ("tenant=one,client=client-2000", false),
        ("tenant=two,client=client-0", false),
        ("a=b,a=b,a=b,a=b", true),
        ("pattern=abc", true),
        ("pattern=b", false),
        ("address=10.1.2.3", true),
        ("address=11.1.2.3", false),
        ("none=here", false),
    ] {
        let entries = entries(descriptor);
        let (allocated, found) = allocations(|| {
            let (_, policy) = set.find(b"edge").expect("the domain");
            policy.find(&entries).is_some()
        });
        assert_eq!(found, matches, "{descriptor}");
        assert_eq!(allocated, 0, "{descriptor}");
    }
    let (allocated, _) = allocations(|| vec![1]);
    assert_eq!(allocated, 1, "somebody counts");
}

//! Finding the rule of a descriptor.

use std::hint::black_box;

use comporta::domain::descriptor::Entry;
use comporta::policy::PolicySet;

use super::Call;

const POLICY: &str = "
domain: bench
descriptors:
  - key: route
    value: checkout
    descriptors:
      - key: plan
        value: gold
        descriptors:
          - key: client
            rate_limit: { rate: 100/hour }
";

/// One of three entries: two by value, the last by key.
pub fn three_entries() -> Call {
    let set = PolicySet::parse(&[("policy.yaml", POLICY)]).expect("a sound policy");
    let entries = [
        Entry::new("route", "checkout"),
        Entry::new("plan", "gold"),
        Entry::new("client", "0000000042"),
    ];
    Box::new(move || {
        let policy = set.policy(black_box(b"bench")).expect("a domain");
        let found = policy.find(black_box(&entries));
        assert!(black_box(&found).is_some());
    })
}

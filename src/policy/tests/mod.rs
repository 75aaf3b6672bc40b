//! Whole policies and the descriptors that meet them.

mod oracle;

use super::*;

const EDGE: &str = include_str!("../../../tests/policies/good/edge.yaml");

fn entries(descriptor: &str) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut rest = Some(descriptor);
    while let Some(text) = rest {
        // A comma before a blank is part of a value.
        let end = text
            .match_indices(',')
            .map(|(at, _)| at)
            .find(|at| !text[at + 1..].starts_with(' '));
        let entry = &text[..end.unwrap_or(text.len())];
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        entries.extend((!entry.is_empty()).then(|| Entry::new(key, value)));
        rest = end.map(|end| &text[end + 1..]);
    }
    entries
}

/// Rule, limits and counted entries in short: `client/plan: client/plan 60/minute burst 10 token_bucket [client=a]`.
fn found(policy: &str, descriptor: &str) -> String {
    let set = PolicySet::parse(&[("policy.yaml", policy)]).unwrap_or_else(|problems| panic!("{problems}"));
    let entries = entries(descriptor);
    let Some(found) = set.policies()[0].find(&entries) else {
        return "none".to_owned();
    };
    let limits = match found.limits {
        Limits::Unlimited => "unlimited".to_owned(),
        Limits::Held(limits) => limits.iter().map(shown).collect::<Vec<_>>().join(" + "),
    };
    let counted: Vec<String> = found
        .counted
        .iter()
        .map(|counted| format!("{}={}", counted.key.escape_ascii(), counted.value.escape_ascii()))
        .collect();
    format!("{}: {limits} [{}]", found.rule.path, counted.join(","))
}

fn shown(limit: &Limit) -> String {
    let name = if limit.is_named() {
        format!("{} ", limit.name())
    } else {
        String::new()
    };
    format!(
        "{name}{}/{} {} {}",
        limit.count(),
        limit.period(),
        limit.capacity(),
        limit.algorithm().name()
    )
}

fn check(policy: &str, descriptor: &str, expected: &str) {
    assert_eq!(found(policy, descriptor), expected, "{descriptor}");
}

#[test]
fn a_plan_sizes_the_budget_of_a_client_and_is_no_part_of_its_key() {
    check(
        EDGE,
        "client=a,plan=free",
        "client/plan: 60/minute 10 token_bucket [client=a]",
    );
    check(
        EDGE,
        "client=a,plan=pro",
        "client/plan: 600/minute 90 token_bucket [client=a]",
    );
    check(
        EDGE,
        "client=a,plan=gold",
        "client/plan: 60/minute 10 token_bucket [client=a]",
    );
    check(
        EDGE,
        "client=a,plan=default",
        "client/plan: 60/minute 10 token_bucket [client=a]",
    );
    check(
        EDGE,
        "client=a,plan=",
        "client/plan: 60/minute 10 token_bucket [client=a]",
    );
    check(
        EDGE,
        "client=a,route_class=expensive,plan=pro",
        "client/route_class=expensive/plan: 20/minute 3 token_bucket [client=a,route_class=expensive]",
    );
    check(
        EDGE,
        "client=a,route_class=expensive,plan=enterprise",
        "client/route_class=expensive/plan: unlimited [client=a,route_class=expensive]",
    );
    check(
        EDGE,
        "client=acme,plan=free",
        "client=acme/plan: acme-contract 20000/minute 3000 token_bucket [client=acme,plan=free]",
    );
}

#[test]
fn a_descriptor_that_leads_nowhere_has_no_rule() {
    check(EDGE, "", "none");
    check(EDGE, "client=a", "none");
    check(EDGE, "client=a,plan=free,more=x", "none");
    check(EDGE, "client=a,route_class=cheap,plan=free", "none");
    check(EDGE, "plan=free,client=a", "none");
    check(EDGE, "Client=a,plan=free", "none");
    check(EDGE, "client=acme,route_class=cheap,plan=free", "none");
}

#[test]
fn addresses_are_counted_by_network() {
    let rule = "caller=anonymous/remote_address: 20/minute 5 token_bucket";
    check(
        EDGE,
        "caller=anonymous,remote_address=192.0.2.1",
        &format!("{rule} [caller=anonymous,remote_address=192.0.2.1]"),
    );
    check(
        EDGE,
        "caller=anonymous,remote_address=::ffff:192.0.2.1",
        &format!("{rule} [caller=anonymous,remote_address=192.0.2.1]"),
    );
    check(
        EDGE,
        "caller=anonymous,remote_address=2001:db8::7",
        &format!("{rule} [caller=anonymous,remote_address=2001:db8::/64]"),
    );
    check(
        EDGE,
        "caller=anonymous,remote_address=?",
        &format!("{rule} [caller=anonymous,remote_address=not-an-address]"),
    );
}

#[test]
fn exact_goes_before_pattern_and_pattern_before_the_rest() {
    let policy = "
domain: d
descriptors:
  - { key: k, rate_limit: { rate: 1/day } }
  - { key: k, value: 'a*', rate_limit: { rate: 2/day } }
  - { key: k, value: 'ab*', rate_limit: { rate: 3/day } }
  - { key: k, value: ab, rate_limit: { rate: 4/day } }
  - { key: a, value: x, descriptors: [{ key: b, value: one, rate_limit: { rate: 5/day } }] }
  - { key: a, descriptors: [{ key: b, rate_limit: { rate: 7/day } }] }
  - { key: a, value: b_c, rate_limit: { rate: 8/day } }
  - { key: 'pre*', rate_limit: { rate: 9/day } }
";
    check(policy, "k=ab", "k=ab: 4/day 4 sliding_window [k=ab]");
    check(policy, "k=abc", "k=a*: 2/day 2 sliding_window [k=abc]");
    check(policy, "k=zz", "k: 1/day 1 sliding_window [k=zz]");
    check(policy, "k=", "k: 1/day 1 sliding_window [k=]");
    check(
        policy,
        "a=x,b=one",
        "a=x/b=one: 5/day 5 sliding_window [a=x,b=one]",
    );
    check(policy, "a=x,b=two", "none");
    check(policy, "a=y,b=two", "a/b: 7/day 7 sliding_window [a=y,b=two]");
    check(policy, "a_b=c", "none");
    check(policy, "prefix=v", "none");
    check(policy, "pre*=v", "pre*: 9/day 9 sliding_window [pre*=v]");
}

#[test]
fn a_set_without_files_is_refused() {
    let none: [(&str, &str); 0] = [];
    let problems = PolicySet::parse(&none).expect_err("nothing to load");
    assert_eq!(problems.to_string(), "policy: there is no policy file at all\n");
}

#[test]
fn values_may_be_any_bytes() {
    let set = PolicySet::parse(&[(
        "p",
        "{domain: d, descriptors: [{key: k, rate_limit: {rate: 1/day}}]}",
    )]);
    let set = set.unwrap_or_else(|problems| panic!("{problems}"));
    let entries = [Entry::new("k", b"\xff\x00")];
    let found = set
        .policy(b"d")
        .and_then(|policy| policy.find(&entries))
        .expect("a rule");
    assert_eq!(*found.counted[0].value, *b"\xff\x00");
    assert!(set.policy(b"e").is_none());
}

#[test]
fn scalars_keep_their_text_and_aliases_and_merge_keys_are_expanded() {
    let policy = "
domain: d
descriptors:
  - { key: k, value: yes, rate_limit: &x { unit: day, requests_per_unit: 3 } }
  - { key: k, value: 0x10, rate_limit: { <<: *x, requests_per_unit: 0x10 } }
  - { key: k, value: 010, rate_limit: { <<: [{ unit: week }, *x] } }
  - { key: k, value: 1e3, rate_limit: *x }
  - { key: on, value: 2024-01-01, rate_limit: { rate: 1/WEEK } }
  - { key: n, value: null, rate_limit: null, descriptors: ~ }
  - { key: e, value: '', rate_limit: { rate: 36/36h } }
";
    check(policy, "k=yes", "k=yes: 3/day 3 sliding_window [k=yes]");
    check(policy, "k=true", "none");
    check(policy, "k=0x10", "k=0x10: 16/day 16 sliding_window [k=0x10]");
    check(policy, "k=16", "none");
    check(policy, "k=010", "k=010: 3/week 3 sliding_window [k=010]");
    check(policy, "k=1e3", "k=1e3: 3/day 3 sliding_window [k=1e3]");
    check(
        policy,
        "on=2024-01-01",
        "on=2024-01-01: 1/week 1 sliding_window [on=2024-01-01]",
    );
    check(policy, "n=x", "none");
    check(policy, "e=x", "e: 36/36 hours 36 sliding_window [e=x]");
}

#[test]
fn documents_and_files_of_a_domain_are_one_policy() {
    let first = "
domain: d
plans: { p: { free: { rate: 1/day }, default: free } }
descriptors: [{ key: client, descriptors: [{ key: plan, rate_limit: { plan: p } }] }]
---
domain: other
---
";
    let second = "
domain: d
descriptors:
  - key: client
    shadow_mode: true
    rate_limit: { rate: 2/day }
    descriptors: [{ key: route, rate_limit: { plan: p, burst: 4 } }]
";
    let set =
        PolicySet::parse(&[("a", first), ("b", second)]).unwrap_or_else(|problems| panic!("{problems}"));
    let domains: Vec<_> = set.domains().collect();
    assert_eq!(domains, ["d", "other"]);
    let paths: Vec<_> = set.policies()[0].rules().iter().map(|rule| &*rule.path).collect();
    assert_eq!(paths, ["client", "client/plan", "client/route"]);
    assert!(set.policies()[0].rules()[0].shadow_mode);
    assert_eq!(set.limit_count(), 3);
    assert_ne!(
        set.hash(),
        PolicySet::parse(&[("b", second), ("a", first)]).map_or(0, |set| set.hash())
    );
}

#[test]
fn paths_are_fit_for_headers_and_tell_rules_apart() {
    let policy = "
domain: d
descriptors:
  - { key: k, value: 'a/b', rate_limit: { rate: 1/day } }
  - { key: k, value: a, descriptors: [{ key: b, rate_limit: { rate: 2/day } }] }
  - { key: \"q\\\"=/é%\", value: \"\\\\\\n\", rate_limit: { rate: 3/day } }
";
    check(policy, "k=a/b", "k=a%2Fb: 1/day 1 sliding_window [k=a/b]");
    check(policy, "k=a,b=x", "k=a/b: 2/day 2 sliding_window [k=a,b=x]");
    check(policy, "q\"=/é%=\\\n", "none");
}

#[test]
fn a_rule_may_hold_several_limits() {
    let policy = "
domain: d
plans:
  api:
    free: [{ rate: 60/minute, burst: 10 }, { rate: 10000/day }]
    pro: { rate: 600/minute }
    none: { unlimited: true }
    default: { rate: 1/hour }
descriptors:
  - key: a
    rate_limits:
      - { rate: 10/second }
      - { rate: 100/15m, shadow_mode: true }
      - { rate: 1000/day, name: daily }
  - { key: b, rate_limit: { plan: api } }
  - { key: c, rate_limit: { plan: api, name: x } }
  - { key: e, rate_limits: [{ plan: api }, { rate: 5/week }] }
";
    check(
        policy,
        "a=1",
        "a: 10/second 10 sliding_window + 100/15 minutes 100 sliding_window + daily 1000/day 1000 sliding_window [a=1]",
    );
    check(
        policy,
        "b=free",
        "b: 60/minute 10 token_bucket + 10000/day 10000 sliding_window []",
    );
    check(policy, "b=pro", "b: 600/minute 600 sliding_window []");
    check(policy, "b=other", "b: 1/hour 1 sliding_window []");
    check(
        policy,
        "c=free",
        "c: x:minute 60/minute 10 token_bucket + x:day 10000/day 10000 sliding_window []",
    );
    check(policy, "c=pro", "c: x 600/minute 600 sliding_window []");
    check(policy, "e=none", "e: 5/week 5 sliding_window []");
    check(
        policy,
        "e=pro",
        "e: 600/minute 600 sliding_window + 5/week 5 sliding_window []",
    );
    let set = PolicySet::parse(&[("p", policy)]).unwrap_or_else(|problems| panic!("{problems}"));
    let entries = entries("a=1");
    let found = set.policies()[0].find(&entries).expect("a rule");
    let Limits::Held(limits) = found.limits else {
        panic!("no limits")
    };
    let names: Vec<&str> = limits.iter().map(|limit| &**limit.name()).collect();
    assert_eq!(names, ["a:second", "a:15m", "daily"]);
    let binding: Vec<Binding> = (0..3).map(|index| found.binding(index)).collect();
    assert_eq!(binding, [Binding::Always, Binding::Never, Binding::Always]);
}

#[test]
fn what_names_the_plan_or_is_not_counted_is_no_part_of_the_key() {
    let policy = "
domain: d
plans: { api: { free: { rate: 1/day }, pro: { rate: 2/day }, default: free } }
descriptors:
  - key: client
    descriptors:
      - key: plan
        descriptors:
          - key: api_key
            counted: false
            value_to_metric: true
            descriptors:
              - { key: route, rate_limit: { plan: api, plan_entry: plan } }
";
    check(
        policy,
        "client=a,plan=pro,api_key=k,route=r",
        "client/plan/api_key/route: 2/day 2 sliding_window [client=a,route=r]",
    );
    let set = PolicySet::parse(&[("p", policy)]).unwrap_or_else(|problems| panic!("{problems}"));
    let entries = entries("client=a,plan=pro,api_key=k/1,route=r");
    let found = set.policies()[0].find(&entries).expect("a rule");
    let uncounted: Vec<&[u8]> = found.uncounted.iter().map(|counted| &*counted.value).collect();
    assert_eq!(uncounted, [b"pro".as_slice(), b"k/1"]);
    assert_eq!(
        found.rule.metric_path(&entries).as_deref(),
        Some("client/plan/api_key=k/1/route")
    );
}

#[test]
fn the_longest_network_goes_before_patterns() {
    let policy = "
domain: d
descriptors:
  - { key: ip, value: 10.1.2.3, rate_limit: { rate: 1/day } }
  - { key: ip, cidrs: [10.0.0.0/8], rate_limit: { rate: 2/day } }
  - { key: ip, cidrs: [10.1.0.0/16, '2001:db8::/32'], share_threshold: true, rate_limit: { rate: 3/day } }
  - { key: ip, value: '10.*', rate_limit: { rate: 4/day } }
  - { key: ip, value: 'x*', share_threshold: true, rate_limit: { rate: 5/day } }
  - { key: ip, rate_limit: { rate: 6/day } }
  - { key: net, cidrs: [10.1.2.0/24], normalize: { ipv4_prefix: 24 }, rate_limit: { rate: 7/day } }
  - { key: xff, normalize: { forwarded_for: { trusted_hops: 1 } }, rate_limit: { rate: 8/day } }
  - { key: user, value: Acme, normalize: { case: lower }, rate_limit: { rate: 9/day } }
";
    check(
        policy,
        "ip=10.1.2.3",
        "ip=10.1.2.3: 1/day 1 sliding_window [ip=10.1.2.3]",
    );
    check(
        policy,
        "ip=10.2.2.3",
        "ip=10.0.0.0/8: 2/day 2 sliding_window [ip=10.2.2.3]",
    );
    check(
        policy,
        "ip=10.1.2.4",
        "ip=10.1.0.0/16+1: 3/day 3 sliding_window [ip=10.1.0.0/16+1]",
    );
    check(
        policy,
        "ip=2001:db8::1",
        "ip=10.1.0.0/16+1: 3/day 3 sliding_window [ip=10.1.0.0/16+1]",
    );
    check(policy, "ip=10.x", "ip=10.*: 4/day 4 sliding_window [ip=10.x]");
    check(policy, "ip=xy", "ip=x*: 5/day 5 sliding_window [ip=x*]");
    check(policy, "ip=11.0.0.1", "ip: 6/day 6 sliding_window [ip=11.0.0.1]");
    check(
        policy,
        "net=10.1.2.99",
        "net=10.1.2.0/24: 7/day 7 sliding_window [net=10.1.2.0/24]",
    );
    check(policy, "net=10.1.3.99", "none");
    check(
        policy,
        "xff=9.9.9.9, 1.1.1.1",
        "xff: 8/day 8 sliding_window [xff=9.9.9.9]",
    );
    check(
        policy,
        "user=ACME",
        "user=Acme: 9/day 9 sliding_window [user=acme]",
    );
}

#[test]
fn defaults_and_compat_are_said_once_for_a_domain() {
    let policy = "
domain: d
compat: reference
defaults: { shadow_mode: true, cost: 3, advice: slow down, metadata: { a: [1, yes, ~, 0x, '1'] } }
descriptors:
  - { key: a, rate_limit: { unit: week, requests_per_unit: 5 } }
  - { key: b, shadow_mode: false, cost: 1, charge: each, quota_mode: true, rate_limit: { unit: day } }
  - { key: c, rate_limit: { rate: 5/day, burst: 6 } }
";
    check(policy, "a=1", "a: 5/week 5 fixed_window [a=1]");
    check(policy, "b=1", "b: 0/day 0 fixed_window [b=1]");
    check(policy, "c=1", "c: 5/day 6 token_bucket [c=1]");
    let set = PolicySet::parse(&[("p", policy)]).unwrap_or_else(|problems| panic!("{problems}"));
    let policy = &set.policies()[0];
    assert!(policy.compat());
    let [a, b, _] = policy.rules() else {
        panic!("three rules")
    };
    assert_eq!(
        (a.binding, a.charge, a.cost, a.advice()),
        (Binding::Never, Charge::Always, 3, Some("slow down"))
    );
    assert_eq!(
        (b.binding, b.charge, b.cost),
        (Binding::WithAllQuotas, Charge::Each, 1)
    );
    let metadata = a
        .metadata()
        .map(|metadata| serde_json::Value::Object(Metadata::clone(metadata)));
    assert_eq!(
        metadata,
        Some(serde_json::json!({ "a": [1, true, null, "0x", "1"] }))
    );
    let Limits::Held(limits) = a.all_limits().next().expect("one") else {
        panic!("no limits")
    };
    assert_eq!(limits[0].grid(), crate::domain::limit::Grid::Epoch);
    let assumed = Assumed {
        compat: true,
        charge: Some(Charge::AllOrNothing),
    };
    let set = PolicySet::parse_assuming(
        &[(
            "p",
            "{domain: d, descriptors: [{key: k, rate_limit: {unit: day}}]}",
        )],
        assumed,
    );
    let set = set.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(set.policies()[0].rules()[0].charge, Charge::AllOrNothing);
}

#[test]
fn a_delay_is_that_of_the_item_else_of_the_rule_else_of_the_defaults() {
    let delays = |policy: &str| -> Vec<String> {
        let set =
            PolicySet::parse(&[("policy.yaml", policy)]).unwrap_or_else(|problems| panic!("{problems}"));
        let rules = set.policies()[0].rules().iter();
        rules
            .flat_map(|rule| rule.budget.shares().flat_map(Share::held))
            .map(|limit| format!("{} {}", limit.name(), limit.delay()))
            .collect()
    };
    let policy = "domain: d
defaults: { on_excess: { delay: 1s } }
descriptors:
  - { key: a, rate_limit: { rate: 9/1s, burst: 5 } }
  - { key: b, on_excess: { delay: 2s }, rate_limits: [{ rate: 9/1s, burst: 5 }, { name: n, rate: 1/day, burst: 5, on_excess: { delay: 3s } }] }
  - { key: c, on_excess: reject, rate_limit: { rate: 9/1s } }
  - { key: e, rate_limit: { rate: 9/1s, algorithm: leaky_bucket } }
";
    assert_eq!(delays(policy), ["a 1s", "b:second 2s", "n 3s", "c 0s", "e 1s"]);
    let set = PolicySet::parse(&[("policy.yaml", policy)]).expect("a good policy");
    let delaying: Vec<String> = set
        .delaying()
        .map(|rule| format!("{} {}", rule.path, rule.origin.as_ref().expect("a place")))
        .collect();
    assert_eq!(
        delaying,
        ["a policy.yaml:4:12", "b policy.yaml:5:12", "e policy.yaml:7:12"]
    );
}

#[test]
fn the_nearest_rule_is_the_one_whose_value_was_probably_meant() {
    let nearest = |descriptor: &str| -> Vec<String> {
        let policy = "domain: d
descriptors:
  - { key: client, value: zebra, rate_limit: { rate: 1/day } }
  - { key: client, value: acme, rate_limit: { rate: 1/day } }
  - { key: address, cidrs: [10.0.0.0/8], rate_limit: { rate: 1/day } }
  - { key: path, value: /a/b, descriptors: [{ key: m, rate_limit: { rate: 1/day } }] }
  - { key: path, value: /a/*, rate_limit: { rate: 1/day } }
";
        let set = PolicySet::parse(&[("policy.yaml", policy)]).expect("a good policy");
        let entries = entries(descriptor);
        let near = set.policies()[0].nearest(&entries, 3);
        near.iter().map(|near| near.rule.path.to_string()).collect()
    };
    assert_eq!(nearest("client=acmee"), ["client=acme", "client=zebra"]);
    assert_eq!(nearest("address=11.0.0.1"), ["address=10.0.0.0/8"]);
    // Hidden by the exact value, and a level above the other.
    assert_eq!(nearest("path=/a/b"), ["path=/a/*", "path=/a/b/m"]);
    assert_eq!(nearest("unlike=anything"), [""; 0]);
}

#[test]
fn a_rule_is_three_lines_of_the_processors_cache() {
    assert_eq!(size_of::<Rule>(), 3 * 64);
}

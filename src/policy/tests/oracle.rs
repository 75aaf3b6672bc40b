//! Matching against a reading of the rules that is too simple to be wrong, and too slow to be used.

use std::fmt::Write;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const KEYS: [&str; 3] = ["a", "b", "a_b"];
const WRITTEN: [&str; 9] = ["", "x", "y", "x_y", "x*", "*y", "x*y", "*", "10.0.0.1"];
const SENT: [&str; 9] = ["", "x", "y", "x_y", "xy", "xxy", "b_x", "10.0.0.1", "10.0.9.9"];
const NETWORKS: [&str; 3] = ["10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/32"];

/// A node of a policy.
#[derive(Clone, Debug)]
struct Written {
    key: &'static str,
    value: &'static str,
    network: Option<&'static str>,
    limited: bool,
    children: Vec<Written>,
}

impl Written {
    fn same(&self, other: &Self) -> bool {
        self.key == other.key && (self.network, self.value) == (other.network, other.value)
    }

    /// How closely it fits an entry, the lowest the best: exact, network by length, pattern by place, any.
    fn fit(&self, place: usize, key: &str, value: &str) -> Option<(u8, usize)> {
        if self.key != key {
            return None;
        }
        match (self.network, self.value) {
            (Some(network), _) => {
                let network: ipnet::IpNet = network.parse().expect("a network");
                let inside = value
                    .parse()
                    .is_ok_and(|address: std::net::IpAddr| network.contains(&address));
                inside.then_some((1, usize::from(128 - network.prefix_len())))
            }
            (None, "") => Some((3, 0)),
            (None, pattern) if pattern.contains('*') => glob(pattern, value).then_some((2, place)),
            (None, exact) => (exact == value).then_some((0, 0)),
        }
    }

    fn write(&self, indent: usize, path: &str, out: &mut String) {
        let blank = " ".repeat(indent);
        let _ = writeln!(out, "{blank}- key: '{}'", self.key);
        match self.network {
            Some(network) => {
                let _ = writeln!(out, "{blank}  cidrs: ['{network}']");
            }
            None => {
                let _ = writeln!(out, "{blank}  value: '{}'", self.value);
            }
        }
        if self.limited {
            let _ = writeln!(out, "{blank}  rate_limit: {{ rate: 1/day, name: '{path}' }}");
        }
        write_all(&self.children, indent + 2, path, out);
    }
}

fn write_all(nodes: &[Written], indent: usize, above: &str, out: &mut String) {
    if !nodes.is_empty() {
        let _ = writeln!(out, "{}descriptors:", " ".repeat(indent));
        for (place, node) in nodes.iter().enumerate() {
            node.write(indent, &format!("{above}.{place}"), out);
        }
    }
}

fn glob(pattern: &str, value: &str) -> bool {
    match pattern.chars().next() {
        None => value.is_empty(),
        Some('*') => (0..=value.len()).any(|skipped| glob(&pattern[1..], &value[skipped..])),
        Some(first) => value.starts_with(first) && glob(&pattern[1..], &value[1..]),
    }
}

/// The name of the limit that a descriptor meets.
fn expected(nodes: &[Written], descriptor: &[(&str, &str)], above: &str) -> Option<String> {
    let ((key, value), rest) = descriptor.split_first()?;
    let fits = nodes
        .iter()
        .enumerate()
        .filter_map(|(place, node)| Some((node.fit(place, key, value)?, place)));
    let (_, place) = fits.min()?;
    let path = format!("{above}.{place}");
    match rest {
        [] => nodes[place].limited.then_some(path),
        _ => expected(&nodes[place].children, rest, &path),
    }
}

fn nodes() -> impl Strategy<Value = Vec<Written>> {
    let network = prop_oneof![4 => Just(None), 1 => select(NETWORKS.to_vec()).prop_map(Some)];
    let node = (
        select(KEYS.to_vec()),
        select(WRITTEN.to_vec()),
        network,
        any::<bool>(),
    );
    let leaf = node.clone().prop_map(|(key, value, network, limited)| Written {
        key,
        value: if network.is_some() { "" } else { value },
        network,
        limited,
        children: Vec::new(),
    });
    let tree = leaf.prop_recursive(3, 60, 6, move |inner| {
        (node.clone(), vec(inner, 0..6)).prop_map(|((key, value, network, limited), children)| Written {
            key,
            value: if network.is_some() { "" } else { value },
            network,
            limited,
            children: once_each(children),
        })
    });
    vec(tree, 1..8).prop_map(once_each)
}

fn once_each(nodes: Vec<Written>) -> Vec<Written> {
    let mut kept: Vec<Written> = Vec::new();
    for node in nodes {
        if !kept.iter().any(|other| other.same(&node)) {
            kept.push(node);
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_descriptor_meets_the_rule_that_a_plain_reading_gives(
        nodes in nodes(),
        descriptors in vec(vec((select(KEYS.to_vec()), select(SENT.to_vec())), 0..4), 20),
    ) {
        let mut policy = "domain: d\n".to_owned();
        write_all(&nodes, 0, "n", &mut policy);
        let set = PolicySet::parse(&[("p", &policy)]).unwrap_or_else(|problems| panic!("{problems}\n{policy}"));
        for descriptor in descriptors {
            let entry = |(key, value): &(&'static str, &'static str)| Entry::new(*key, *value);
            let entries: Vec<Entry<'_>> = descriptor.iter().map(entry).collect();
            let found = set.policies()[0].find(&entries);
            // What is explained is what is decided.
            let trace = set.policies()[0].trace(&entries);
            let told = match &trace.end {
                trace::End::Rule(told) => Some(told.rule.index),
                _ => None,
            };
            prop_assert_eq!(told, found.as_ref().map(|found| found.rule.index));
            let misses = set.policies()[0].nearest(&entries, 3);
            prop_assert!(found.is_some() || misses.iter().all(|near| !near.differences.is_empty()), "{:?} in\n{}", descriptor, policy);
            let name = found.as_ref().map(|found| match found.limits {
                Limits::Held(limits) => limits[0].name().to_string(),
                Limits::Unlimited => String::new(),
            });
            prop_assert_eq!(name, expected(&nodes, &descriptor, "n"), "{:?} in\n{}", descriptor, policy);
            if let Some(found) = found {
                let counted: Vec<(&[u8], &[u8])> = found.counted.iter().map(|one| (one.key, &*one.value)).collect();
                let sent: Vec<(&[u8], &[u8])> = entries.iter().map(|entry| (entry.key, entry.value)).collect();
                prop_assert_eq!(counted, sent);
            }
        }
    }
}

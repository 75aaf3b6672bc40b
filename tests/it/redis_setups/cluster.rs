//! Spread over a cluster.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use super::{ODD_PASSWORD, serve_with, uses};
use crate::harness::certificates::Certificates;
use crate::harness::cluster::Cluster;
use crate::harness::comporta::{Comporta, admitted};
use crate::harness::proxy::Mode;
use crate::harness::redis::{Redis, Setup};

const FIVE: [&str; 5] = ["client=a", "client=b", "client=c", "client=d", "client=e"];

/// Waits until every core has reached all primaries.
fn wait_for_nodes(comporta: &Comporta) {
    for descriptor in FIVE {
        comporta.wait_for_store("edge", descriptor);
    }
}

/// Verdicts and what is left after each of a number of calls, most of which are about counters in several slots.
fn history(comporta: &Comporta) -> Vec<(bool, Vec<u32>)> {
    wait_for_nodes(comporta);
    let client = comporta.client();
    let groups = [&FIVE[..], &FIVE[..2], &FIVE[1..4], &FIVE[4..]];
    let asked = groups.iter().cycle().take(40).map(|group| {
        let answer = client.ask("edge", group);
        let left = answer.statuses.iter().map(|status| status.limit_remaining);
        (admitted(&answer), left.collect())
    });
    asked.collect()
}

#[test]
fn one_primary_or_three_decide_as_a_single_server_does() {
    let single = Redis::start();
    let expected = history(&serve_with(&single.url(), &[]));
    assert!(expected.iter().any(|(admitted, _)| !admitted), "{expected:?}");
    for primaries in [1, 3] {
        let cluster = Cluster::of(primaries, 0);
        let comporta = serve_with(&cluster.url(), &[]);
        assert_eq!(history(&comporta), expected, "{primaries} primaries");
        uses(&comporta);
    }
}

#[test]
fn callers_are_spread_over_all_primaries_whatever_they_are_called() {
    const CALLERS: usize = 3_000;
    let cluster = Cluster::of(3, 0);
    let comporta = serve_with(&cluster.url(), &[]);
    wait_for_nodes(&comporta);
    // Braces of a caller's own must not choose the slot.
    for name in [|n| format!("client={n}"), |n| format!("client={{x}}{n}")] {
        let before: Vec<usize> = (0..3).map(|node| callers_on(&cluster, node)).collect();
        thread::scope(|scope| {
            for part in 0..4 {
                let client = comporta.client();
                scope.spawn(move || {
                    for n in (part..CALLERS).step_by(4) {
                        assert!(client.admits("edge", &name(n)));
                    }
                });
            }
        });
        for (node, before) in before.into_iter().enumerate() {
            let share = (callers_on(&cluster, node) - before) as f64 / CALLERS as f64;
            assert!((0.2..=0.45).contains(&share), "{share} on node {node}");
        }
    }
}

/// How many callers are counted there: what is in braces tells them apart, and all counters of one are together.
fn callers_on(cluster: &Cluster, node: usize) -> usize {
    let tag = |key: Vec<u8>| {
        let start = key.iter().position(|byte| *byte == b'{').expect("a tag");
        let end = key.iter().rposition(|byte| *byte == b'}').expect("its end");
        key[start..end].to_vec()
    };
    cluster
        .node(node)
        .keys()
        .into_iter()
        .map(tag)
        .collect::<HashSet<_>>()
        .len()
}

#[test]
fn counters_in_several_slots_are_asked_about_at_once() {
    // So long that nothing else matters, and not so long that a node counts as gone.
    const LATENCY: Duration = Duration::from_millis(400);
    let cluster = Cluster::of(3, 0);
    let proxies = cluster.hide_behind_proxies();
    let addresses: Vec<String> = proxies.iter().map(|proxy| proxy.address()).collect();
    let comporta = serve_with(&format!("redis-cluster://{}", addresses.join(",")), &[]);
    wait_for_nodes(&comporta);
    for proxy in &proxies {
        proxy.set(Mode::Delay(LATENCY));
    }
    let client = comporta.client();
    let start = Instant::now();
    assert!(admitted(&client.ask("edge", &FIVE)));
    let took = start.elapsed();
    let nodes = (0..3).filter(|node| callers_on(&cluster, *node) > 0).count();
    assert_eq!(nodes, 3, "callers that say nothing of some nodes");
    assert!((LATENCY..3 * LATENCY).contains(&took), "{took:?}");
}

#[test]
fn a_cluster_behind_tls_and_passwords() {
    let certificates = Certificates::issue();
    let setup = Setup::default().tls(&certificates).password(ODD_PASSWORD);
    let cluster = Cluster::of_kind(setup, 3, 0);
    let [certificate, key] = certificates.of("client");
    let password = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(password.path(), ODD_PASSWORD).expect("a password is written");
    let flags = [
        ["--store-ca", &certificates.authority()],
        ["--store-cert", &certificate],
        ["--store-key", &key],
        [
            "--store-password-file",
            password.path().to_str().expect("a path in UTF-8"),
        ],
    ];
    uses(&serve_with(&cluster.url(), flags.as_flattened()));
}

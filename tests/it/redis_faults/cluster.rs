//! A cluster that loses a node, moves slots and changes its primaries.

use std::collections::BTreeSet;

use super::load::{CONNECTIONS, Load};
use super::{DOMAIN, Fault, loaded};
use crate::harness::cluster::Cluster;
use crate::harness::comporta::Comporta;

/// An instance on a cluster, with load on it, and the slots that the load is about.
fn spread(cluster: &Cluster) -> (Comporta, Load, Vec<usize>) {
    let (comporta, load) = loaded(&cluster.url());
    let slots: BTreeSet<usize> = (0..3)
        .flat_map(|node| cluster.node(node).keys())
        .map(|key| cluster.slot_of(&key))
        .collect();
    // Of every steady caller and the greedy ones.
    assert!(slots.len() > CONNECTIONS, "{slots:?}");
    (comporta, load, slots.into_iter().collect())
}

#[test]
fn loses_a_primary() {
    let mut cluster = Cluster::start();
    let (comporta, load, slots) = spread(&cluster);
    let gone = cluster.owner_of(slots[0]);
    cluster.node_mut(gone).kill();
    cluster.wait_for_successor(slots[0], gone);
    let record = load.until_recovered();
    Fault {
        // What it had acknowledged and its replica had not heard.
        losses: 1,
        ..Fault::new("a cluster's primary killed")
    }
    .check(&comporta, &record);
}

#[test]
fn moves_slots_that_are_in_use() {
    let cluster = Cluster::start();
    let (comporta, load, slots) = spread(&cluster);
    for _ in 0..2 {
        for slot in &slots {
            cluster.move_slot(*slot, (cluster.owner_of(*slot) + 1) % 3);
        }
    }
    let record = load.until_recovered();
    Fault {
        is_felt: false,
        ..Fault::new("a cluster's slots moved twice")
    }
    .check(&comporta, &record);
}

#[test]
fn exchanges_primaries_and_replicas() {
    let cluster = Cluster::start();
    let (comporta, load, _) = spread(&cluster);
    for replica in 3..6 {
        cluster.fail_over_to(replica);
    }
    let record = load.until_recovered();
    Fault {
        is_felt: false,
        ..Fault::new("a cluster's primaries exchanged")
    }
    .check(&comporta, &record);
    // By now nobody asks those that were the primaries.
    comporta.wait_for_store(DOMAIN, "steady=0");
}

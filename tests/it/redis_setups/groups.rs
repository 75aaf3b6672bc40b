//! Groups whose counters lie in several slots of a cluster.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::harness::cluster::Cluster;
use crate::harness::comporta::{Client, Comporta, admitted, request};
use crate::harness::process::poll;

const POLICY: &str = "
domain: edge
descriptors:
  - { key: client, rate_limit: { rate: 100/day, algorithm: fixed_window } }
  - { key: blocked, rate_limit: { rate: 0/day } }
";

/// Enough for every node to have some.
const CLIENTS: [&str; 6] = [
    "client=a", "client=b", "client=c", "client=d", "client=e", "client=f",
];

fn serve(cluster: &Cluster) -> Comporta {
    let flags = ["--store-budget", "60s", "--on-store-failure", "error"];
    let comporta = Comporta::serve_text(POLICY, &[&["--store", &cluster.url()], &flags[..]].concat());
    for client in CLIENTS {
        comporta.wait_for_store("edge", client);
    }
    comporta
}

/// What is left of each budget.
fn left(client: &Client) -> Vec<u32> {
    let mut look = request("edge", &CLIENTS);
    for descriptor in &mut look.descriptors {
        descriptor.hits_addend = Some(0);
    }
    let answer = client.send(look).expect("an answer");
    answer
        .statuses
        .iter()
        .map(|status| status.limit_remaining)
        .collect()
}

#[test]
fn a_group_that_one_slot_refuses_leaves_nothing_in_the_others() {
    const CALLERS: usize = 4;
    let cluster = Cluster::of(3, 0);
    let comporta = serve(&cluster);
    let observer = comporta.client();
    let wanted: Vec<&str> = CLIENTS.into_iter().chain(["blocked=b"]).collect();
    let ended = AtomicBool::new(false);
    let lowest = thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let client = comporta.client();
                let wanted = &wanted;
                scope.spawn(move || {
                    for _ in 0..100 {
                        assert!(!admitted(&client.ask("edge", wanted)));
                    }
                })
            })
            .collect();
        let (ended, observer) = (&ended, &observer);
        let watch = scope.spawn(move || {
            let mut lowest = 100;
            while !ended.load(Ordering::SeqCst) {
                for left in left(observer) {
                    assert!(left <= 100, "nobody finds more than there is: {left}");
                    lowest = lowest.min(left);
                }
            }
            lowest
        });
        for caller in callers {
            caller.join().expect("a caller");
        }
        ended.store(true, Ordering::SeqCst);
        watch.join().expect("an observer")
    });
    let _ = writeln!(
        io::stderr(),
        "{CALLERS} callers, each refused 100 times: an observer found {lowest} of 100 at the least"
    );
    poll("budgets as they were", || {
        (left(&observer) == [100; 6]).then_some(())
    });
}

#[test]
fn a_group_in_several_slots_takes_of_each_once() {
    let cluster = Cluster::of(3, 0);
    let comporta = serve(&cluster);
    let client = comporta.client();
    for _ in 0..3 {
        assert!(admitted(&client.ask("edge", &CLIENTS)));
    }
    assert_eq!(left(&client), [97; 6]);
}

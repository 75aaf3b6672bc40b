//! A Redis Cluster of the test's own.

use super::process::poll;
use super::proxy::Proxy;
use super::redis::{Redis, Setup};

const SLOTS: usize = 16_384;

/// Primaries that share the slots evenly, and as many replicas behind them, all of which know each other.
pub struct Cluster {
    nodes: Vec<Redis>,
    /// What the nodes call each other.
    ids: Vec<String>,
}

/// What one node thinks of another.
struct Seen {
    id: String,
    is_primary: bool,
    is_well: bool,
    slots: Vec<(usize, usize)>,
}

impl Cluster {
    /// Three primaries and a replica for each: nodes 3 to 5 follow nodes 0 to 2.
    pub fn start() -> Self {
        Self::of(3, 3)
    }

    /// So many primaries, and so many replicas, which follow them in turn.
    pub fn of(primaries: usize, replicas: usize) -> Self {
        Self::of_kind(Setup::default(), primaries, replicas)
    }

    /// The same of nodes of that kind.
    pub fn of_kind(setup: Setup, primaries: usize, replicas: usize) -> Self {
        let mut setup = setup.with(&["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]);
        if setup.has_tls() {
            setup = setup.with(&["--tls-cluster", "yes"]);
        }
        let nodes: Vec<Redis> = (0..primaries + replicas).map(|_| setup.clone().start()).collect();
        let ids = nodes.iter().map(|node| node.ask(&["CLUSTER", "MYID"])).collect();
        let cluster = Self { nodes, ids };
        cluster.form(primaries);
        cluster
    }

    fn form(&self, primaries: usize) {
        for (place, node) in self.nodes.iter().enumerate() {
            let () = node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(place + 1).to_string()]);
            if place < primaries {
                let [first, next] = [place, place + 1].map(|place| place * SLOTS / primaries);
                let range = [first, next - 1].map(|slot| slot.to_string());
                let () = node.ask(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
            }
            let address = node.address();
            let (host, port) = address.split_once(':').expect("an address");
            let () = self.nodes[0].ask(&["CLUSTER", "MEET", host, port]);
        }
        let all = self.nodes.len();
        poll("nodes that know each other", || {
            self.up().all(|node| seen_by(node).len() == all).then_some(())
        });
        for (place, replica) in self.nodes[primaries..].iter().enumerate() {
            let () = replica.ask(&["CLUSTER", "REPLICATE", &self.ids[place % primaries]]);
        }
        poll("replicas that everybody knows", || {
            let known =
                |node: &Redis| seen_by(node).iter().filter(|node| node.is_primary).count() == primaries;
            self.up().all(known).then_some(())
        });
        self.wait_until_well();
    }

    /// Waits until all nodes that are there agree that every slot is served, and replicas have what their primaries have.
    pub fn wait_until_well(&self) {
        poll("a cluster that is well", || {
            let well = |node: &Redis| {
                let state: String = node.ask(&["CLUSTER", "INFO"]);
                state.contains("cluster_state:ok")
                    && (is_primary(node) || node.info("master_link_status") == "up")
            };
            let mut views = self.up().map(served_by);
            let first = views.next();
            let agreed = views.all(|view| Some(view) == first);
            (agreed && self.up().all(well)).then_some(())
        });
    }

    /// Where it is, as `--store` takes it, without a password.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(Redis::address).collect();
        format!("{}-cluster://{}", self.nodes[0].scheme(), addresses.join(","))
    }

    /// Puts a proxy in front of every node, and makes all callers go by them.
    pub fn hide_behind_proxies(&self) -> Vec<Proxy> {
        let hide = |node: &Redis| {
            let proxy = Proxy::start(&node.address());
            let address = proxy.address();
            let (_, port) = address.split_once(':').expect("an address");
            let () = node.ask(&["CONFIG", "SET", "cluster-announce-port", port]);
            proxy
        };
        let proxies: Vec<Proxy> = self.nodes.iter().map(hide).collect();
        poll("nodes that name the proxies", || {
            let named = |node: &Redis| {
                let lines: String = node.ask(&["CLUSTER", "NODES"]);
                proxies.iter().all(|proxy| lines.contains(&proxy.address()))
            };
            self.up().all(named).then_some(())
        });
        proxies
    }

    /// A node.
    pub fn node(&self, place: usize) -> &Redis {
        &self.nodes[place]
    }

    /// A node, to end it or bring it back. One that comes back is still a member.
    pub fn node_mut(&mut self, place: usize) -> &mut Redis {
        &mut self.nodes[place]
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &[u8]) -> usize {
        let mut command = redis::cmd("CLUSTER");
        command.arg("KEYSLOT").arg(key);
        let node = self.up().next().expect("a node");
        command.query(&mut node.connect()).expect("a slot")
    }

    /// Which node serves a slot.
    pub fn owner_of(&self, slot: usize) -> usize {
        self.owner_seen_by(self.up().next().expect("a node"), slot)
    }

    /// Whether a node is a primary by its own account.
    pub fn is_primary(&self, place: usize) -> bool {
        is_primary(&self.nodes[place])
    }

    /// Makes a replica the primary, and its primary the replica, while both are there.
    pub fn fail_over_to(&self, replica: usize) {
        let () = self.nodes[replica].ask(&["CLUSTER", "FAILOVER"]);
        poll("a new primary", || self.is_primary(replica).then_some(()));
        self.wait_until_well();
    }

    /// Waits until somebody else serves `slot` in the place of `gone`.
    pub fn wait_for_successor(&self, slot: usize, gone: usize) {
        poll("a successor", || {
            self.up()
                .all(|node| self.owner_seen_by(node, slot) != gone)
                .then_some(())
        });
        self.wait_until_well();
    }

    /// Moves a slot, key by key, as one does while it is in use.
    pub fn move_slot(&self, slot: usize, to: usize) {
        let from = self.owner_of(slot);
        let (number, target) = (slot.to_string(), self.nodes[to].address());
        let (host, port) = target.split_once(':').expect("an address");
        let set = |node: usize, what: &str, id: &str| -> () {
            self.nodes[node].ask(&["CLUSTER", "SETSLOT", &number, what, id])
        };
        set(to, "IMPORTING", &self.ids[from]);
        set(from, "MIGRATING", &self.ids[to]);
        let mut connection = self.nodes[from].connect();
        loop {
            let mut some = redis::cmd("CLUSTER");
            some.arg("GETKEYSINSLOT").arg(slot).arg(10);
            let keys: Vec<Vec<u8>> = some.query(&mut connection).expect("keys");
            if keys.is_empty() {
                break;
            }
            let mut command = redis::cmd("MIGRATE");
            command
                .arg(host)
                .arg(port)
                .arg("")
                .arg(0)
                .arg(5_000)
                .arg("KEYS")
                .arg(keys);
            // NOKEY if they have come to their end meanwhile.
            let _: String = command.query(&mut connection).expect("keys that move");
        }
        set(to, "NODE", &self.ids[to]);
        for (place, node) in self.nodes.iter().enumerate() {
            if place != to && node.is_up() && is_primary(node) {
                set(place, "NODE", &self.ids[to]);
            }
        }
        self.wait_until_well();
    }

    fn up(&self) -> impl Iterator<Item = &Redis> {
        self.nodes.iter().filter(|node| node.is_up())
    }

    /// `usize::MAX` if it thinks that nobody does.
    fn owner_seen_by(&self, node: &Redis, slot: usize) -> usize {
        let owner = served_by(node)
            .into_iter()
            .find(|(first, last, _)| (*first..=*last).contains(&slot));
        owner
            .and_then(|(_, _, owner)| self.ids.iter().position(|id| *id == owner))
            .unwrap_or(usize::MAX)
    }
}

/// The ranges of slots that are served, and by whom, as `node` thinks.
fn served_by(node: &Redis) -> Vec<(usize, usize, String)> {
    let mut ranges: Vec<_> = seen_by(node)
        .into_iter()
        .filter(|other| other.is_primary && other.is_well)
        .flat_map(|other| {
            other
                .slots
                .into_iter()
                .map(move |(first, last)| (first, last, other.id.clone()))
        })
        .collect();
    ranges.sort();
    ranges
}

fn is_primary(node: &Redis) -> bool {
    node.info("role") == "master"
}

/// What `node` thinks of all, itself included; those with which it still shakes hands are not known yet.
fn seen_by(node: &Redis) -> Vec<Seen> {
    let lines: String = node.ask(&["CLUSTER", "NODES"]);
    lines
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| !words[2].contains("handshake"))
        .map(|words| Seen {
            id: words[0].to_owned(),
            is_primary: words[2].contains("master"),
            is_well: !words[2].contains("fail"),
            // Those that move stand in brackets, beside where they are.
            slots: words[8..]
                .iter()
                .filter(|slots| !slots.starts_with('['))
                .map(|slots| {
                    let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
                    let number = |text: &str| text.parse().expect("a slot");
                    (number(first), number(last))
                })
                .collect(),
        })
        .collect()
}

/// Otherwise a test might wait for what never comes, or take a failover for done that is not.
#[test]
fn a_cluster_loses_nothing_by_moves_and_failovers() {
    let mut cluster = Cluster::start();
    let key = "{tag}counter";
    let slot = cluster.slot_of(key.as_bytes());
    let count = |cluster: &Cluster| cluster.node(cluster.owner_of(slot)).ask::<u64>(&["INCR", key]);
    let first = cluster.owner_of(slot);
    assert_eq!((first < 3, count(&cluster)), (true, 1));

    let second = (first + 1) % 3;
    cluster.move_slot(slot, second);
    assert_eq!((cluster.owner_of(slot), count(&cluster)), (second, 2));

    let third = second + 3;
    cluster.fail_over_to(third);
    assert_eq!((cluster.owner_of(slot), count(&cluster)), (third, 3));

    // A replica has what its primary was told before this.
    let mut connection = cluster.node(third).connect();
    let mut both = redis::pipe();
    both.cmd("INCR").arg(key).cmd("WAIT").arg(1).arg(10_000);
    assert_eq!(both.query::<(u64, u64)>(&mut connection), Ok((4, 1)));
    cluster.node_mut(third).kill();
    cluster.wait_for_successor(slot, third);
    assert_eq!((cluster.owner_of(slot), count(&cluster)), (second, 5));
    cluster.node_mut(third).restart();
    cluster.wait_until_well();
    assert!(!cluster.is_primary(third));
    assert!(cluster.url().starts_with("redis-cluster://127.0.0.1:"));
}

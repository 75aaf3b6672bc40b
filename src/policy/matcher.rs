//! The tree of rules as it is walked for every descriptor: a hash probe per entry, however many rules there are.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};

use bytes::Bytes;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;
use ipnet::IpNet;

use crate::domain::descriptor::Entry;

use super::networks::Networks;
use super::normalize::Normalizer;
use super::pattern::Pattern;

/// A node of a tree, by its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(u32);

/// Which values of its key lead to a node.
pub(super) enum Match {
    /// This one; normalised, where the key's values are.
    Exact(Bytes),
    /// Those of this form.
    Pattern(Pattern),
    /// Addresses in one of these networks.
    Networks(Vec<IpNet>),
    /// Those that lead nowhere else.
    Any,
}

/// All nodes of one domain.
///
/// Exact values and branches are found through a table each for the whole tree, keyed by the parent node as well, so
/// that an entry costs the same at any size. Callers choose the values and must not be able to choose collisions, so
/// the hash is keyed at random.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    exact: HashTable<NodeId>,
    branches: HashTable<Branch>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Node {
    parent: NodeId,
    key: Bytes,
    /// Where it is an exact one that leads here.
    value: Option<Bytes>,
    /// What all values that lead here count as, if they share a counter.
    shared: Option<Bytes>,
    rule: Option<usize>,
    /// Some child is led to by an exact value.
    leads_by_value: bool,
    /// Some key of the children has its values normalised first.
    normalizes: bool,
}

/// What the children of one key on one level have in common.
#[derive(Debug)]
pub(super) struct Branch {
    parent: NodeId,
    key: Bytes,
    normalizer: Option<Normalizer>,
    networks: Networks<NodeId>,
    patterns: Vec<(Pattern, NodeId)>,
    any: Option<NodeId>,
}

impl Tree {
    /// Above the first level.
    pub(super) const ROOT: NodeId = NodeId(0);

    /// A tree without rules.
    pub(super) fn new() -> Self {
        let root = Node {
            parent: Self::ROOT,
            key: Bytes::new(),
            value: None,
            shared: None,
            rule: None,
            leads_by_value: false,
            normalizes: false,
        };
        Self {
            nodes: vec![root],
            exact: HashTable::new(),
            branches: HashTable::new(),
            hasher: RandomState::new(),
        }
    }

    /// Has the values of `key` below `parent` read by `normalizer`.
    pub(super) fn normalize(&mut self, parent: NodeId, key: &Bytes, normalizer: Normalizer) {
        self.branch(parent, key).normalizer = Some(normalizer);
        self.node_mut(parent).normalizes = true;
    }

    /// Adds a node. No other below `parent` has the same key and leads there in the same way.
    pub(super) fn add(&mut self, parent: NodeId, key: &Bytes, leads: Match, rule: Option<usize>) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        let value = match leads {
            Match::Exact(value) => Some(value),
            Match::Pattern(pattern) => {
                self.branch(parent, key).patterns.push((pattern, id));
                None
            }
            Match::Networks(networks) => {
                let branch = self.branch(parent, key);
                for network in networks {
                    branch.networks.insert(network, id);
                }
                None
            }
            Match::Any => {
                self.branch(parent, key).any = Some(id);
                None
            }
        };
        let leads_by_value = value.is_some();
        self.nodes.push(Node {
            parent,
            key: key.clone(),
            value,
            shared: None,
            rule,
            leads_by_value: false,
            normalizes: false,
        });
        if leads_by_value {
            self.index_by_value(id);
        }
        id
    }

    fn index_by_value(&mut self, id: NodeId) {
        let parent = self.node(id).parent;
        self.node_mut(parent).leads_by_value = true;
        let Self {
            nodes, exact, hasher, ..
        } = self;
        let hash = |id: &NodeId| {
            let node = &nodes[id.0 as usize];
            hash_of(hasher, node.parent, &node.key, node.value.as_deref())
        };
        exact.insert_unique(hash(&id), id, hash);
    }

    /// Has all values that lead to `node` count as `value`.
    pub(super) fn share(&mut self, node: NodeId, value: Bytes) {
        self.node_mut(node).shared = Some(value);
    }

    /// The rule of a node, if it has one.
    pub(super) fn rule(&self, node: NodeId) -> Option<usize> {
        self.node(node).rule
    }

    /// The key of the entry that leads to a node; empty above the first level.
    pub(super) fn key(&self, node: NodeId) -> &Bytes {
        &self.node(node).key
    }

    /// The exact value that leads to a node, if one does.
    pub(super) fn value(&self, node: NodeId) -> Option<&Bytes> {
        self.node(node).value.as_ref()
    }

    /// The node above.
    pub(super) fn parent(&self, node: NodeId) -> NodeId {
        self.node(node).parent
    }

    /// All nodes below the root, in the order of the files.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        (1..self.nodes.len()).filter_map(|place| u32::try_from(place).ok().map(NodeId))
    }

    /// What leads on other than by exact values.
    pub(super) fn branches(&self) -> impl Iterator<Item = &Branch> {
        self.branches.iter()
    }

    /// The value of `entry` as it is matched below `at`.
    pub(super) fn read<'d>(&self, at: NodeId, entry: &'d Entry) -> Cow<'d, [u8]> {
        let branch = self.find_branch(at, &entry.key);
        match branch.and_then(|branch| branch.normalizer) {
            Some(normalizer) => normalizer.apply(&entry.value),
            None => Cow::Borrowed(&entry.value),
        }
    }

    /// The longest network below `at` that the value `read` of `key` is in.
    pub(super) fn network(&self, at: NodeId, key: &[u8], read: &[u8]) -> Option<IpNet> {
        let found = self.find_branch(at, key)?.networks.longest(read)?;
        Some(found.0)
    }

    /// The node below `at` that `entry` leads to, and its value as it is counted: that of the exact value, else of the
    /// longest network it is in, else of the first pattern that fits, else the one without a value.
    pub(super) fn step<'d>(&self, at: NodeId, entry: &'d Entry) -> Option<(NodeId, Cow<'d, [u8]>)> {
        let level = self.node(at);
        let mut value = Cow::Borrowed(&entry.value[..]);
        let next = if level.normalizes {
            let branch = self.find_branch(at, &entry.key);
            if let Some(normalizer) = branch.and_then(|branch| branch.normalizer) {
                value = normalizer.apply(&entry.value);
            }
            self.exact(at, level, &entry.key, &value)
                .or_else(|| branch?.inexact(&value))?
        } else {
            // The branch is only looked for where no exact value leads on.
            self.exact(at, level, &entry.key, &value)
                .or_else(|| self.find_branch(at, &entry.key)?.inexact(&value))?
        };
        if let Some(shared) = &self.node(next).shared {
            value = Cow::Owned(shared.to_vec());
        }
        Some((next, value))
    }

    fn exact(&self, at: NodeId, level: &Node, key: &[u8], value: &[u8]) -> Option<NodeId> {
        if !level.leads_by_value {
            return None;
        }
        let hash = hash_of(&self.hasher, at, key, Some(value));
        let same = |id: &NodeId| {
            let node = self.node(*id);
            node.parent == at && node.key == key && node.value.as_deref() == Some(value)
        };
        self.exact.find(hash, same).copied()
    }

    fn find_branch(&self, at: NodeId, key: &[u8]) -> Option<&Branch> {
        self.branches
            .find(hash_of(&self.hasher, at, key, None), |branch| {
                branch.parent == at && branch.key == key
            })
    }

    fn branch(&mut self, parent: NodeId, key: &Bytes) -> &mut Branch {
        let Self { branches, hasher, .. } = self;
        let slot = branches.entry(
            hash_of(hasher, parent, key, None),
            |branch| branch.parent == parent && branch.key == key,
            |branch| hash_of(hasher, branch.parent, &branch.key, None),
        );
        let branch = || Branch {
            parent,
            key: key.clone(),
            normalizer: None,
            networks: Networks::default(),
            patterns: Vec::new(),
            any: None,
        };
        match slot {
            Slot::Occupied(found) => found.into_mut(),
            Slot::Vacant(free) => free.insert(branch()).into_mut(),
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }
}

impl Branch {
    /// Networks, each beside the node it leads to.
    pub(super) fn networks(&self) -> impl Iterator<Item = (IpNet, NodeId)> {
        self.networks.iter()
    }

    /// Patterns, in the order in which they are tried, each beside the node it leads to.
    pub(super) fn patterns(&self) -> &[(Pattern, NodeId)] {
        &self.patterns
    }

    fn inexact(&self, value: &[u8]) -> Option<NodeId> {
        let pattern = || {
            self.patterns
                .iter()
                .find(|(pattern, _)| pattern.matches(value))
                .map(|(_, id)| *id)
        };
        self.networks.find(value).or_else(pattern).or(self.any)
    }
}

fn hash_of(hasher: &RandomState, parent: NodeId, key: &[u8], value: Option<&[u8]>) -> u64 {
    let mut hash = hasher.build_hasher();
    hash.write_u32(parent.0);
    // The key's length keeps it apart from the value.
    hash.write_usize(key.len());
    hash.write(key);
    if let Some(value) = value {
        hash.write(value);
    }
    hash.finish()
}

//! The tree of rules as it is walked for every descriptor: a hash probe per entry, however many rules there are.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroU32;

use bytes::Bytes;
use hashbrown::hash_table::Entry as Slot;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use ipnet::IpNet;
use smallvec::SmallVec;

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
/// that an entry costs the same at any size. Nothing that a caller sends is ever put in, so none can make them slow, and
/// the hash may be a quick one.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Each key once, however many nodes have it: there are few, so they stay in the processor's cache.
    keys: Vec<Bytes>,
    key_ids: HashMap<Bytes, KeyId>,
    exact: HashTable<NodeId>,
    branches: HashTable<Branch>,
    hasher: DefaultHashBuilder,
}

/// A key of a tree, by its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyId(u32);

/// Small enough for one line of the processor's cache: with many rules, what a look-up costs is what it has to fetch.
#[derive(Debug)]
struct Node {
    parent: NodeId,
    key: KeyId,
    /// Where it is an exact one that leads here. Most are short, and lie in the node itself.
    value: Option<SmallVec<[u8; 16]>>,
    /// What all values that lead here count as, if they share a counter.
    shared: Option<Box<[u8]>>,
    /// Counted from one.
    rule: Option<NonZeroU32>,
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
            key: KeyId(0),
            value: None,
            shared: None,
            rule: None,
            leads_by_value: false,
            normalizes: false,
        };
        Self {
            nodes: vec![root],
            keys: vec![Bytes::new()],
            key_ids: HashMap::from_iter([(Bytes::new(), KeyId(0))]),
            exact: HashTable::new(),
            branches: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Has the values of `key` below `parent` read by `normalizer`.
    pub(super) fn normalize(&mut self, parent: NodeId, key: &Bytes, normalizer: Normalizer) {
        self.branch(parent, key).normalizer = Some(normalizer);
        self.node_mut(parent).normalizes = true;
    }

    /// Adds a node. No other below `parent` has the same key and leads there in the same way.
    pub(super) fn add(&mut self, parent: NodeId, key: &Bytes, leads: Match, rule: Option<usize>) -> NodeId {
        let id = NodeId(narrow(self.nodes.len()));
        let value = match leads {
            Match::Exact(value) => Some(SmallVec::from_slice(&value)),
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
        let key = self.key_id(key);
        self.nodes.push(Node {
            parent,
            key,
            value,
            shared: None,
            rule: rule.and_then(|rule| NonZeroU32::new(narrow(rule + 1))),
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
            nodes,
            keys,
            exact,
            hasher,
            ..
        } = self;
        let hash = |id: &NodeId| {
            let node = &nodes[id.0 as usize];
            hash_of(
                hasher,
                node.parent,
                &keys[node.key.0 as usize],
                node.value.as_deref(),
            )
        };
        exact.insert_unique(hash(&id), id, hash);
    }

    fn key_id(&mut self, key: &Bytes) -> KeyId {
        if let Some(id) = self.key_ids.get(key) {
            return *id;
        }
        let id = KeyId(narrow(self.keys.len()));
        self.keys.push(key.clone());
        self.key_ids.insert(key.clone(), id);
        id
    }

    /// Has all values that lead to `node` count as `value`.
    pub(super) fn share(&mut self, node: NodeId, value: &str) {
        self.node_mut(node).shared = Some(value.as_bytes().into());
    }

    /// The rule of a node, if it has one.
    pub(super) fn rule(&self, node: NodeId) -> Option<usize> {
        self.node(node).rule.map(|rule| rule.get() as usize - 1)
    }

    /// The key of the entry that leads to a node; empty above the first level.
    pub(super) fn key(&self, node: NodeId) -> &Bytes {
        &self.keys[self.node(node).key.0 as usize]
    }

    /// The exact value that leads to a node, if one does.
    pub(super) fn value(&self, node: NodeId) -> Option<&[u8]> {
        self.node(node).value.as_deref()
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
    pub(super) fn read<'d>(&self, at: NodeId, entry: &Entry<'d>) -> Cow<'d, [u8]> {
        let branch = self.find_branch(at, entry.key);
        match branch.and_then(|branch| branch.normalizer) {
            Some(normalizer) => normalizer.apply(entry.value),
            None => Cow::Borrowed(entry.value),
        }
    }

    /// The longest network below `at` that the value `read` of `key` is in.
    pub(super) fn network(&self, at: NodeId, key: &[u8], read: &[u8]) -> Option<IpNet> {
        let found = self.find_branch(at, key)?.networks.longest(read)?;
        Some(found.0)
    }

    /// The node below `at` that `entry` leads to, and its value as it is counted: that of the exact value, else of the
    /// longest network it is in, else of the first pattern that fits, else the one without a value.
    pub(super) fn step<'d>(&self, at: NodeId, entry: &Entry<'d>) -> Option<(NodeId, Cow<'d, [u8]>)> {
        let level = self.node(at);
        let mut value = Cow::Borrowed(entry.value);
        let next = if level.normalizes {
            let branch = self.find_branch(at, entry.key);
            if let Some(normalizer) = branch.and_then(|branch| branch.normalizer) {
                value = normalizer.apply(entry.value);
            }
            self.exact(at, level, entry.key, &value)
                .or_else(|| branch?.inexact(&value))?
        } else {
            // The branch is only looked for where no exact value leads on.
            self.exact(at, level, entry.key, &value)
                .or_else(|| self.find_branch(at, entry.key)?.inexact(&value))?
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
            let same_key = self.keys[node.key.0 as usize] == key;
            node.parent == at && same_key && node.value.as_deref() == Some(value)
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

/// A set of so many nodes does not fit in memory.
fn narrow(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

fn hash_of(hasher: &DefaultHashBuilder, parent: NodeId, key: &[u8], value: Option<&[u8]>) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_one_line_of_the_processors_cache() {
        assert!(size_of::<Node>() <= 64, "{}", size_of::<Node>());
    }
}

//! Which values lead to a node, as a person reads them.

use std::collections::HashMap;

use bytes::Bytes;

use super::Policy;
use super::matcher::{NodeId, Tree};
use super::normalize;
use super::pattern::Pattern;
use super::secret::SECRET;

/// Which values of its key lead to a node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// This one.
    Exact(Bytes),
    /// Addresses in one of these networks.
    Networks(Vec<String>),
    /// Those of this form.
    Pattern(String),
    /// Those that lead nowhere else.
    Any,
}

/// A node of the tree: the key of an entry, and which of its values lead here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The key.
    pub key: Bytes,
    /// The values.
    pub lead: Lead,
}

impl Lead {
    /// What may be shown of it where its values are secret.
    pub(super) fn hidden(self) -> Self {
        match self {
            Self::Exact(_) => Self::Exact(Bytes::from_static(SECRET.as_bytes())),
            Self::Pattern(_) => Self::Pattern(SECRET.to_owned()),
            Self::Networks(_) => Self::Networks(vec![SECRET.to_owned()]),
            Self::Any => Self::Any,
        }
    }

    /// Whether `value`, normalised, is one of these. Others may go before it.
    pub(super) fn fits(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => exact == value,
            Self::Pattern(text) => Pattern::new(text).is_some_and(|pattern| pattern.matches(value)),
            Self::Networks(networks) => {
                let value = std::str::from_utf8(value).ok().and_then(normalize::network);
                value.is_some_and(|value| {
                    let networks = networks.iter().filter_map(|network| normalize::network(network));
                    networks.into_iter().any(|network| network.contains(&value))
                })
            }
            Self::Any => true,
        }
    }
}

/// The levels of a tree, for looking at many of them.
pub(super) struct Levels<'t> {
    tree: &'t Tree,
    /// Of nodes to which not just one value leads.
    inexact: HashMap<NodeId, Lead>,
}

impl Policy {
    /// Of each rule, by its place, the keys of the entries that lead to it.
    pub fn keys_of_rules(&self) -> Vec<Vec<&[u8]>> {
        let mut keys = vec![Vec::new(); self.rules.len()];
        for node in self.tree.nodes() {
            if let Some(keys) = self.tree.rule(node).and_then(|rule| keys.get_mut(rule)) {
                let mut at = node;
                while at != Tree::ROOT {
                    keys.push(&self.tree.key(at)[..]);
                    at = self.tree.parent(at);
                }
                keys.reverse();
            }
        }
        keys
    }
}

impl<'t> Levels<'t> {
    pub(super) fn new(tree: &'t Tree) -> Self {
        let mut inexact = HashMap::new();
        for branch in tree.branches() {
            for (network, id) in branch.networks() {
                let lead = inexact.entry(id).or_insert_with(|| Lead::Networks(Vec::new()));
                if let Lead::Networks(networks) = lead {
                    networks.push(normalize::shown(network));
                }
            }
            for (pattern, id) in branch.patterns() {
                inexact.insert(*id, Lead::Pattern(pattern.to_string()));
            }
        }
        for lead in inexact.values_mut() {
            if let Lead::Networks(networks) = lead {
                networks.sort();
            }
        }
        Self { tree, inexact }
    }

    /// The level that `node` is.
    pub(super) fn level(&self, node: NodeId) -> Level {
        let lead = match (self.tree.value(node), self.inexact.get(&node)) {
            (Some(value), _) => Lead::Exact(Bytes::copy_from_slice(value)),
            (None, Some(lead)) => lead.clone(),
            (None, None) => Lead::Any,
        };
        Level {
            key: self.tree.key(node).clone(),
            lead,
        }
    }

    /// The nodes that lead to `node`, itself the last.
    pub(super) fn way_to(&self, node: NodeId) -> Vec<NodeId> {
        let mut way = vec![node];
        let mut at = self.tree.parent(node);
        while at != Tree::ROOT {
            way.push(at);
            at = self.tree.parent(at);
        }
        way.reverse();
        way
    }
}

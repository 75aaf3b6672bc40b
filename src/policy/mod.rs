//! What a policy says, compiled: immutable, swapped whole.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::domain::check::{Binding, Charge};
use crate::domain::descriptor::Entry;
use crate::domain::limit::Limit;

/// All domains of one load. Immutable; a reload makes another one.
#[derive(Debug, Default)]
pub struct PolicySet {
    policies: hashbrown::HashMap<Bytes, Policy>,
}

/// The tree of rules of one domain.
#[derive(Debug)]
pub struct Policy {
    domain: Bytes,
    rules: Vec<Rule>,
}

/// A node that carries limits, or says that there are none.
#[derive(Debug)]
pub struct Rule {
    /// Its place in [`Policy::rules`]: what metrics are indexed by.
    pub index: usize,
    /// Keys joined by `/`, with `=value` where the rule has one: `client/route_class=expensive/plan`.
    pub path: Arc<str>,
    /// Whether it is only watched.
    pub shadow_mode: bool,
    /// Whether its checks can refuse a group.
    pub binding: Binding,
    /// When its checks are charged.
    pub charge: Charge,
    /// Multiplies the hits of what reaches this rule.
    pub cost: u32,
    /// A sentence for the refused caller.
    pub advice: Option<Arc<str>>,
}

/// What a rule holds its callers to.
#[derive(Debug)]
pub enum Limits {
    /// Everything passes and nothing is counted.
    Unlimited,
    /// All of these at once; one to eight.
    Held(Box<[Limit]>),
}

/// Where a descriptor arrived.
#[derive(Debug)]
pub struct Found<'p, 'd> {
    /// The rule.
    pub rule: &'p Rule,
    /// Its limits, those of the caller's plan where it names one.
    pub limits: &'p Limits,
    /// The entries that make the counter's key, normalised, in order.
    pub counted: SmallVec<[Counted<'d>; 4]>,
}

/// One entry as it is counted.
#[derive(Debug, PartialEq, Eq)]
pub struct Counted<'d> {
    /// The entry's key.
    pub key: &'d [u8],
    /// Its value, normalised.
    pub value: Cow<'d, [u8]>,
}

impl PolicySet {
    /// The policy about `domain`.
    pub fn policy(&self, domain: &[u8]) -> Option<&Policy> {
        self.policies.get(domain)
    }

    /// Every policy.
    pub fn domains(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }
}

impl Policy {
    /// The domain it is about.
    pub fn domain(&self) -> &Bytes {
        &self.domain
    }

    /// Every rule, in the order of their indices.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Where a descriptor arrives.
    pub fn find<'p, 'd>(&'p self, _entries: &'d [Entry]) -> Option<Found<'p, 'd>> {
        None
    }
}

//! What a policy says, compiled: immutable, swapped whole.
//!
//! A set is read in three steps, each of which goes on behind a mistake, so that all are reported at once:
//! text → `tree` (everything with its place) → `forms` (everything typed) → [`PolicySet`] (everything sound).
//!
//! What is decided here, where the format leaves a choice:
//! - `value: ""` and `name: ""` are none at all, as in the reference; so are null and a key without a value.
//! - A node may be written in several documents. They are one node if at most one of them says more about it than where
//!   its children are; a second one that does is an error, and so is the same node twice in one document.
//! - `normalize` with one prefix has the usual other one: 32 for IPv4, 64 for IPv6. Ports, brackets and zones are left
//!   out of an address, and a network counts as such. An X-Forwarded-For list that is shorter than the trusted hops is
//!   no address: whoever sent it came past a proxy.
//! - A limit of a list is named `path:period`, `path:15m`; a rule that renames a row that is a list names it
//!   `name:period`.
//! - `plan_entry` names the nearest entry of that key. An `unlimited` row stays so whatever the rule says beside `plan`.
//! - `defaults` holds for whatever of it makes sense on a node; its `algorithm` for limits without a `burst`.
//! - `on_excess` of an item goes before that of its rule, and that before `defaults`. A delay is an error wherever it
//!   comes to a limit that knows no slot in the future: such a limit says `on_excess: reject`.
//! - `secret` on one node makes its key secret in the whole domain. What the policy says of such values is matched as it
//!   is written and left out of rules' paths, and so of limits' names.
//! - What `defaults` say of `on_store_failure` holds for limits that requests bring along where no rule is, too.
//! - Under `compat` a `rate_limit` without `requests_per_unit` is 0, as in the reference; else it is an error.

mod budget;
mod compile;
mod excess;
mod file;
mod forms;
mod keys;
mod later;
pub mod leads;
mod limits;
mod lint;
mod matcher;
mod merge;
pub mod metadata;
mod metric;
pub mod nearest;
mod networks;
mod node;
mod normalize;
mod number;
mod path;
mod pattern;
mod plans;
pub mod problem;
pub mod rate;
pub(crate) mod reading;
mod replaces;
pub mod schema;
mod secret;
mod section;
mod settings;
mod shard;
mod spelling;
mod table;
#[cfg(test)]
mod tests;
pub mod trace;
mod tree;

use std::borrow::Cow;
use std::hash::Hasher;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::domain::check::{Binding, Charge, OnStoreFailure};
use crate::domain::descriptor::{Entry, USUAL_ENTRIES};
use crate::domain::limit::Limit;
use crate::domain::time::Micros;

use budget::{Budget, Share};
use matcher::Tree;
use metadata::Metadata;
use metric::Part;
use problem::{Origin, Problem, Problems, Report};

/// All domains of one load. Immutable; a reload makes another one.
#[derive(Debug, Default)]
pub struct PolicySet {
    policies: Vec<Policy>,
    by_domain: hashbrown::HashMap<Bytes, usize>,
    warnings: Problems,
    hash: u64,
}

/// What is taken for said by files that cannot say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumed {
    /// `compat: reference`, by every domain.
    pub compat: bool,
    /// This `charge`, by every rule that names none.
    pub charge: Option<Charge>,
}

impl PolicySet {
    /// The set that `sources` are: of each file its name, for messages, and its bytes.
    ///
    /// Documents of one domain are merged in the order given; that order also decides between patterns.
    ///
    /// # Errors
    /// Everything that is wrong with the set, where anything is. A set is accepted whole or not at all.
    pub fn parse<N: AsRef<str>, B: AsRef<[u8]>>(sources: &[(N, B)]) -> Result<Self, Problems> {
        Self::parse_assuming(sources, Assumed::default())
    }

    /// As [`parse`](Self::parse), with some things taken for said.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_assuming<N: AsRef<str>, B: AsRef<[u8]>>(
        sources: &[(N, B)],
        assumed: Assumed,
    ) -> Result<Self, Problems> {
        if sources.is_empty() {
            return Err(Problems::from(vec![Problem::about_file(
                "policy",
                "there is no policy file at all",
            )]));
        }
        let mut report = Report::new(sources.iter().map(|(name, _)| name.as_ref().into()).collect());
        let mut documents = Vec::new();
        for (source, (_, bytes)) in (0..).zip(sources) {
            for root in tree::read(source, bytes.as_ref(), &mut report) {
                documents.extend(file::document(&root, &mut report));
            }
        }
        secret::spread(&mut documents, &mut report);
        let policies = compile::policies(&documents, assumed, &mut report);
        let errors = report.errors();
        let problems = report.finish();
        if errors > 0 {
            return Err(problems);
        }
        let by_domain = policies
            .iter()
            .enumerate()
            .map(|(index, policy)| (policy.domain.clone(), index))
            .collect();
        Ok(Self {
            policies,
            by_domain,
            warnings: problems,
            hash: hash(sources),
        })
    }

    /// The policy of `domain`.
    pub fn policy(&self, domain: &[u8]) -> Option<&Policy> {
        self.find(domain).map(|(_, policy)| policy)
    }

    /// The policy of `domain` and its place among [`policies`](Self::policies).
    pub fn find(&self, domain: &[u8]) -> Option<(usize, &Policy)> {
        let place = *self.by_domain.get(domain)?;
        Some((place, self.policies.get(place)?))
    }

    /// All policies, in the order of their domains.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The domains, in order.
    pub fn domains(&self) -> impl Iterator<Item = &Bytes> {
        self.policies.iter().map(Policy::domain)
    }

    /// How many rules there are: nodes with a limit, unlimited ones included.
    pub fn limit_count(&self) -> usize {
        self.policies.iter().map(|policy| policy.rules.len()).sum()
    }

    /// Stands for the bytes of the sources, in their order: the same on every instance that loaded the same.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The [`hash`](Self::hash) that a set of these sources would have, without compiling them.
    pub fn hash_of<N, B: AsRef<[u8]>>(sources: &[(N, B)]) -> u64 {
        hash(sources)
    }

    /// The rules some of whose callers may be [delayed](Limit::delay): whoever cannot hold replies must not serve them.
    pub fn delaying(&self) -> impl Iterator<Item = &Rule> {
        let rules = self.policies.iter().flat_map(|policy| &policy.rules);
        rules.filter(|rule| rule.delays())
    }

    /// The domain whose name is most like `domain`, if one is like it at all.
    pub fn domain_like(&self, domain: &str) -> Option<&str> {
        let domains = self
            .domains()
            .filter_map(|domain| std::str::from_utf8(domain).ok());
        spelling::nearest(domain, domains)
    }

    /// What is probably not what was meant.
    pub const fn warnings(&self) -> &Problems {
        &self.warnings
    }
}

fn hash<N, B: AsRef<[u8]>>(sources: &[(N, B)]) -> u64 {
    let mut hasher = siphasher::sip::SipHasher13::new();
    for (_, bytes) in sources {
        let bytes = bytes.as_ref();
        hasher.write_u64(bytes.len() as u64);
        hasher.write(bytes);
    }
    hasher.finish()
}

/// The tree of rules of one domain.
#[derive(Debug)]
pub struct Policy {
    domain: Bytes,
    compat: bool,
    rules: Vec<Rule>,
    overrides: Rule,
    shard_by: Option<Bytes>,
    secret_keys: Box<[Bytes]>,
    tree: Tree,
}

impl Policy {
    /// The domain, as the gateway sends it.
    pub const fn domain(&self) -> &Bytes {
        &self.domain
    }

    /// Whether the domain asks for the choices of the reference as a whole. Its limits and rules are made accordingly
    /// (windows from the epoch, everything charged); what is left is how answers are given.
    pub const fn compat(&self) -> bool {
        self.compat
    }

    /// Whether the one counter of these limits is known by entries and period alone, as in the reference, where a rule has
    /// one limit; several of one period need their names.
    pub const fn is_nameless(&self, limits: &[Limit]) -> bool {
        self.compat && limits.len() == 1
    }

    /// The rules, in the order of the files.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule of limits that requests bring along where no other is about them. Its index follows the last of
    /// [`rules`](Self::rules).
    pub const fn overrides(&self) -> &Rule {
        &self.overrides
    }

    /// The key of the entry by which the domain's counters share a cluster slot.
    pub fn shard_by(&self) -> Option<&[u8]> {
        self.shard_by.as_deref()
    }

    /// The keys whose values are shown nowhere, in order.
    pub const fn secret_keys(&self) -> &[Bytes] {
        &self.secret_keys
    }

    /// Whether values of `key` are shown nowhere, whatever they lead to.
    pub fn is_secret(&self, key: &[u8]) -> bool {
        self.secret_keys.iter().any(|secret| secret == key)
    }

    /// Where a descriptor arrives: at the rule that its entries lead to, one level each, down to the last.
    ///
    /// On a level an exact value goes first, then the longest network, then the first pattern in the order of the
    /// files, then the node without a value. There is no way back up, and a node without a limit is no rule.
    pub fn find<'d>(&self, entries: &[Entry<'d>]) -> Option<Found<'_, 'd>> {
        let mut at = Tree::ROOT;
        let mut counted: SmallVec<[Counted<'d>; USUAL_ENTRIES]> = SmallVec::new();
        for entry in entries {
            let (node, value) = self.tree.step(at, entry)?;
            counted.push(Counted {
                key: entry.key,
                value,
                secret: false,
            });
            at = node;
        }
        let rule = &self.rules[self.tree.rule(at)?];
        let plan = rule.budget.plan_entry().map(|entry| &*counted[entry].value);
        let share = rule.budget.of(plan);
        for (entry, counted) in counted.iter_mut().enumerate().filter(|_| rule.secret != 0) {
            counted.secret = rule.secret >> entry & 1 == 1;
        }
        let mut uncounted = SmallVec::new();
        for entry in (0..counted.len())
            .rev()
            .filter(|entry| rule.uncounted >> entry & 1 == 1)
        {
            uncounted.insert(0, counted.remove(entry));
        }
        Some(Found {
            rule,
            limits: &share.limits,
            counted,
            uncounted,
            shadowed: share.shadowed,
        })
    }
}

/// A node that carries limits, or says that there are none.
///
/// Three lines of the processor's cache, where it begins with one: with many rules, a look-up costs what it has to fetch.
#[derive(Debug)]
#[repr(align(64))]
pub struct Rule {
    /// Its place in [`Policy::rules`]: what metrics are indexed by.
    pub index: usize,
    /// Keys joined by `/`, with `=value` where the rule has one: `client/route_class=expensive/plan`. Printable ASCII
    /// without quotes and backslashes, other bytes as `%XX`. No two rules of a domain share one, but for those that
    /// only secret values set apart: such a value is written `(secret)`.
    pub path: Arc<str>,
    /// Where it is written; absent for one that stands in no file.
    pub origin: Option<Box<Origin>>,
    /// Whether it is only watched.
    pub shadow_mode: bool,
    /// Whether it refuses only together with all others of its kind.
    pub quota_mode: bool,
    /// Whether its checks can refuse a group; see [`Found::binding`] for single limits.
    pub binding: Binding,
    /// When its checks are charged.
    pub charge: Charge,
    /// What becomes of its checks while the shared store cannot decide; as the process is told where it does not say.
    pub on_store_failure: Option<OnStoreFailure>,
    /// Multiplies the hits of what reaches this rule.
    pub cost: u32,
    /// Apart, so that a rule is small.
    rare: Option<Box<Rare>>,
    /// A bit for each entry, by its place, that is no part of the counter's key.
    uncounted: u64,
    /// A bit for each entry, by its place, whose value is shown nowhere.
    secret: u64,
    budget: Budget,
}

/// What few rules say.
#[derive(Debug, Default, PartialEq)]
struct Rare {
    advice: Option<Arc<str>>,
    metadata: Option<Arc<Metadata>>,
    replaces: Box<[Arc<str>]>,
    /// The path, with where it shows callers' values.
    metric: Option<Box<[Part]>>,
}

impl Rare {
    /// Nothing, where all of it is absent.
    fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl Rule {
    /// A sentence for the refused caller.
    pub fn advice(&self) -> Option<&str> {
        self.rare.as_ref()?.advice.as_deref()
    }

    /// What it adds to the metadata of the answers it passes.
    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.rare.as_ref()?.metadata.as_ref()
    }

    /// The names of limits that it sets aside when both meet in a request, see [`Limit::name`]. Under
    /// [`compat`](Policy::compat) a limit that [was not given a name](Limit::is_named) has none.
    pub fn replaces(&self) -> &[Arc<str>] {
        self.rare.as_ref().map_or(&[], |rare| &rare.replaces)
    }

    /// The path with the values of `entries`, which lead here, where the policy asks for metrics by value; `None` where
    /// it does not. As many as there are values: whoever keeps metrics by it must bound them.
    pub fn metric_path(&self, entries: &[Entry<'_>]) -> Option<String> {
        let parts = self.rare.as_ref()?.metric.as_ref()?;
        Some(metric::path(parts, entries))
    }

    /// The plans that have limits of their own, in no order; none where all callers are held to the same.
    pub fn plans(&self) -> impl Iterator<Item = &Bytes> {
        match &self.budget {
            Budget::Flat(_) => None,
            Budget::ByPlan { rows, .. } => Some(rows.keys()),
        }
        .into_iter()
        .flatten()
    }

    /// What the callers of `plan` are held to; without one, those whose plan is not listed.
    pub fn limits_of(&self, plan: Option<&[u8]>) -> &Limits {
        &self.budget.of(plan).limits
    }

    /// A bit for each entry, by its place, that is no part of the counter's key.
    pub const fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// A bit for each entry, by its place, whose value is shown nowhere.
    pub const fn secret(&self) -> u64 {
        self.secret
    }

    /// Whether the [`plans`](Self::plans) are values that are shown nowhere.
    pub fn hides_plans(&self) -> bool {
        let plan = self.budget.plan_entry();
        plan.is_some_and(|entry| self.secret >> entry & 1 == 1)
    }

    /// Everything that any caller may be held to: of each plan that is listed, and of those that are not.
    pub fn all_limits(&self) -> impl Iterator<Item = &Limits> {
        self.budget.shares().map(|share| &share.limits)
    }

    fn delays(&self) -> bool {
        let mut limits = self.budget.shares().flat_map(Share::held);
        limits.any(|limit| limit.delay() > Micros::ZERO)
    }
}

/// What a rule holds its callers to.
#[derive(Debug)]
pub enum Limits {
    /// Everything passes and nothing is counted.
    Unlimited,
    /// All of these at once; one to eight. Most rules have one, and it lies in the rule itself: with many rules, a
    /// look-up costs what it has to fetch.
    Held(SmallVec<[Limit; 1]>),
}

/// Where a descriptor arrived.
#[derive(Debug)]
pub struct Found<'p, 'd> {
    /// The rule.
    pub rule: &'p Rule,
    /// Its limits, those of the caller's plan where it names one.
    pub limits: &'p Limits,
    /// The entries that make the counter's key, normalised, in order.
    pub counted: SmallVec<[Counted<'d>; USUAL_ENTRIES]>,
    /// The entries that led here but make no key: the one that named the plan, and those not `counted`.
    pub uncounted: SmallVec<[Counted<'d>; 1]>,
    /// A bit for each limit, by its place.
    shadowed: u8,
}

impl Found<'_, '_> {
    /// Whether the limit at place `index` can refuse a group.
    pub const fn binding(&self, index: usize) -> Binding {
        if self.is_shadowed(index) {
            Binding::Never
        } else {
            self.rule.binding
        }
    }

    /// Whether the limit at place `index` is only watched, because its rule is or it alone.
    pub const fn is_shadowed(&self, index: usize) -> bool {
        self.rule.shadow_mode || self.shadowed >> index & 1 == 1
    }
}

/// One entry as it is counted.
#[derive(Debug, PartialEq, Eq)]
pub struct Counted<'d> {
    /// The entry's key.
    pub key: &'d [u8],
    /// Its value, normalised.
    pub value: Cow<'d, [u8]>,
    /// Whether the value is shown nowhere, and stands in the counter's key as a keyed hash.
    pub secret: bool,
}

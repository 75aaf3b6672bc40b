//! The policies in force: one immutable set, swapped whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};

use super::observer::{Observer, Tally, Uncounted};
use super::throttle::Throttle;
use crate::domain::time::Micros;
use crate::policy::{Policy, PolicySet};

/// Holds the policies in force and takes the next ones.
pub struct Policies {
    current: ArcSwap<Live>,
    generations: AtomicU64,
    observer: Arc<dyn Observer>,
    /// For the warning about domains that no policy is about.
    pub(super) unknown_domain: Throttle,
    /// For the warning about limits that requests bring along.
    pub(super) overrides: Throttle,
    /// For the warning about calls that are larger than their limit.
    pub(super) refused_for_size: Throttle,
    /// For the warning about requests that nothing could decide.
    pub(super) undecided: Throttle,
}

impl Policies {
    /// `policies` in force from the start.
    pub fn new(policies: PolicySet, observer: Arc<dyn Observer>) -> Self {
        let first = Live::new(1, policies, observer.as_ref());
        Self {
            current: ArcSwap::from_pointee(first),
            generations: AtomicU64::new(1),
            observer,
            unknown_domain: Throttle::every(Micros::MINUTE),
            overrides: Throttle::every(Micros::MINUTE),
            refused_for_size: Throttle::every(Micros::MINUTE),
            undecided: Throttle::every(Micros::MINUTE),
        }
    }

    /// Puts `policies` in force from the next call on and returns their generation, counted from 1. Calls that are
    /// being decided finish under the policies they began with.
    pub fn publish(&self, policies: PolicySet) -> u64 {
        self.replace(policies).0
    }

    /// As [`publish`](Self::publish), and returns as well what was in force until now: calls may still hold it.
    pub(super) fn replace(&self, policies: PolicySet) -> (u64, Arc<Live>) {
        let generation = self.generations.fetch_add(1, Ordering::SeqCst) + 1;
        let next = Live::new(generation, policies, self.observer.as_ref());
        (generation, self.current.swap(Arc::new(next)))
    }

    /// Who is told what happens under these policies.
    pub(super) fn observer(&self) -> &dyn Observer {
        self.observer.as_ref()
    }

    /// The policies in force now.
    pub(super) fn load(&self) -> Guard<Arc<Live>> {
        self.current.load()
    }
}

/// One set of policies and what counts the calls under it.
pub(super) struct Live {
    generation: u64,
    policies: PolicySet,
    tallies: Vec<Arc<dyn Tally>>,
}

impl Live {
    fn new(generation: u64, policies: PolicySet, observer: &dyn Observer) -> Self {
        let in_order: Vec<&Policy> = policies.policies().iter().collect();
        let tallies = observer.opens(generation, &in_order);
        Self {
            generation,
            policies,
            tallies,
        }
    }

    /// Which load they are, counted from 1.
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// The policies themselves.
    pub(super) const fn set(&self) -> &PolicySet {
        &self.policies
    }

    /// The policy about `domain` and its place among all.
    pub(super) fn find(&self, domain: &[u8]) -> Option<(usize, &Policy)> {
        self.policies.find(domain)
    }

    /// The domains that policies are about, for a person to read.
    pub(super) fn domains(&self) -> String {
        self.domain_names().join(", ")
    }

    /// The same, one by one.
    pub(super) fn domain_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .policies
            .domains()
            .map(|domain| domain.escape_ascii().to_string())
            .collect();
        names.sort_unstable();
        names
    }

    /// What counts the calls of `core`.
    pub(super) fn tally(&self, core: usize) -> &dyn Tally {
        self.tallies.get(core).map_or(&Uncounted, Arc::as_ref)
    }
}

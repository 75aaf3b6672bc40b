//! What the service reports, so that it needs to know no metrics.

use std::sync::Arc;

use super::answer::Cause;
use crate::domain::verdict::Verdict;
use crate::policy::Policy;

/// Is told about the policies that are in force.
pub trait Observer: Send + Sync + 'static {
    /// These policies are about to come into force. The answer counts what happens under them: one tally per core.
    fn opens(&self, generation: u64, policies: &[&Policy]) -> Vec<Arc<dyn Tally>>;
    /// A request brought limits of its own that cannot be read and are not heeded.
    fn overrides_ignored(&self, descriptors: u32);
}

/// Counts what becomes of the calls of one core under one set of policies.
///
/// Domains are named by their place among the policies that [`Observer::opens`] was told of, rules by their place in
/// [`Policy::rules`].
pub trait Tally: Send + Sync + 'static {
    /// A call ended; the domain is absent when no policy is about it.
    fn called(&self, domain: Option<usize>, cause: Cause);
    /// A descriptor that reached a rule was answered with `verdict`.
    fn decided(&self, domain: usize, rule: usize, verdict: Verdict);
    /// The same, for a rule whose policy asks for metrics by callers' values: `path` is the rule's, with the values. As
    /// many as callers choose; whoever keeps them must see to an end.
    fn decided_by_value(&self, domain: usize, path: &str, verdict: Verdict);
    /// A rule that is only watched would have refused.
    fn shadow_refused(&self, domain: usize, rule: usize);
    /// A call asked a rule for more hits than it can ever hold.
    fn refused_for_size(&self, domain: usize, rule: usize);
}

/// Counts nothing: for cores that nobody counts.
#[derive(Clone, Copy, Debug)]
pub struct Uncounted;

impl Tally for Uncounted {
    fn called(&self, _domain: Option<usize>, _cause: Cause) {}
    fn decided(&self, _domain: usize, _rule: usize, _verdict: Verdict) {}
    fn decided_by_value(&self, _domain: usize, _path: &str, _verdict: Verdict) {}
    fn shadow_refused(&self, _domain: usize, _rule: usize) {}
    fn refused_for_size(&self, _domain: usize, _rule: usize) {}
}

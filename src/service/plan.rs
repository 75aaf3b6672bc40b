//! What one request needs to have decided: the group of checks that its descriptors come to, and where each arrived.

use std::cell::RefCell;
use std::ops::{Deref, Range};

use smallvec::SmallVec;

use super::answer::ShownEntry;
use super::draft::Draft;
use super::options::Modes;
use crate::domain::check::{Binding, Check, Group, OnStoreFailure};
use crate::domain::descriptor::Request;
use crate::domain::limit::Limit;
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;
use crate::policy::{Policy, Rule};
use crate::store::key::Keys;

/// What one request needs to have decided.
pub(super) struct Plan<'p> {
    pub(super) keys: KeyBuffer,
    /// In the order of the group: give-backs first, no counter twice.
    pub(super) checks: SmallVec<[Planned<'p>; 2]>,
    /// In the order of the request.
    pub(super) reached: SmallVec<[Reached<'p>; 2]>,
    /// Entries that led to a rule and are no part of a counter.
    pub(super) uncounted: SmallVec<[ShownEntry; 1]>,
    /// Of rules whose metrics are kept apart by callers' values: the place in `reached`, and the path with the values.
    pub(super) by_value: Vec<(usize, String)>,
    /// Whether the domain is decided as the reference does.
    pub(super) compat: bool,
    /// Whether nothing can refuse.
    pub(super) shadow: bool,
}

/// Where one descriptor arrived.
#[derive(Clone, Debug)]
pub(super) enum Reached<'p> {
    /// It has no entries.
    Nothing,
    /// No rule is about it.
    NoRule,
    /// Its rule says that nothing limits.
    Unlimited(&'p Rule),
    /// Its rule's limits, and for each the place of its check in the group.
    Limited(&'p Rule, SmallVec<[usize; 2]>),
    /// Another rule of the request sets all its rule's limits aside.
    Replaced,
}

impl Reached<'_> {
    /// Whether the check at `place` in the group is about it.
    pub(super) fn meets(&self, place: usize) -> bool {
        matches!(self, Self::Limited(_, places) if places.contains(&place))
    }
}

/// One check of the group, its key still in the buffer.
#[derive(Debug)]
pub(super) struct Planned<'p> {
    pub(super) key: Range<usize>,
    /// The rule it comes from.
    pub(super) rule: &'p Rule,
    /// The limit it is held to.
    pub(super) limit: Held<'p>,
    /// Whether the policy only watches it.
    pub(super) shadow: bool,
    /// Whether it can refuse the request.
    pub(super) binding: Binding,
    /// What holds while the shared store fails, where the policy says.
    pub(super) on_store_failure: Option<OnStoreFailure>,
    pub(super) hits: Hits,
}

impl Planned<'_> {
    pub(super) fn gives_back(&self) -> bool {
        self.hits.gives_back()
    }
}

/// A limit of the policy, or one that the request brought along.
#[derive(Debug)]
pub(super) enum Held<'p> {
    OfPolicy(&'p Limit),
    OfRequest(Box<Limit>),
}

impl Deref for Held<'_> {
    type Target = Limit;

    fn deref(&self) -> &Limit {
        match self {
            Self::OfPolicy(limit) => limit,
            Self::OfRequest(limit) => limit,
        }
    }
}

impl<'p> Plan<'p> {
    /// Matches every descriptor of `request` and lays out the checks.
    pub(super) fn new(request: &Request<'_>, policy: &'p Policy, keys: &Keys, modes: Modes) -> Self {
        let mut draft = Draft::new(request.domain, request.descriptors.len(), policy, keys, modes);
        let reached = request
            .descriptors
            .iter()
            .map(|descriptor| draft.reach(descriptor))
            .collect();
        draft.finish(reached)
    }

    /// Whether there is nothing for a store to decide.
    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// The check at `place` in the group.
    pub(super) fn check(&self, place: usize) -> &Planned<'p> {
        &self.checks[place]
    }

    /// All checks, in the order of the group.
    pub(super) fn checks(&self) -> &[Planned<'p>] {
        &self.checks
    }

    /// The checks as a store takes them, to be put in a [`Group`] by [`group`]; rules that do not say what holds while
    /// the store fails do as `usual`.
    pub(super) fn to_checks(&self, usual: OnStoreFailure) -> SmallVec<[Check<'_>; 2]> {
        self.checks
            .iter()
            .map(|check| Check {
                key: self.keys.key(&check.key),
                limit: &check.limit,
                hits: check.hits,
                binding: check.binding,
                charge: check.rule.charge,
                on_store_failure: check.on_store_failure.unwrap_or(usual),
            })
            .collect()
    }
}

/// `checks` as one question. Answers cannot be held, so no check may be delayed.
pub(super) fn group<'a>(checks: &'a [Check<'a>], compat: bool) -> Group<'a> {
    Group {
        checks,
        longest_wait: Micros::ZERO,
        compat,
    }
}

thread_local! {
    /// Buffers that no call is using: as many as calls were ever in flight at once on this core.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Buffers above this are not kept: one odd request must not cost its memory for good.
const LARGEST_KEPT: usize = 64 << 10;

/// A buffer that is used again by later calls, also when the call is dropped half-way.
pub(super) struct KeyBuffer(Vec<u8>);

impl KeyBuffer {
    /// The key that was appended at `place`.
    pub(super) fn key(&self, place: &Range<usize>) -> &[u8] {
        &self.0[place.clone()]
    }

    pub(super) fn take() -> Self {
        Self(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }

    /// Appends a key, and says where it is.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let start = self.0.len();
        write(&mut self.0);
        start..self.0.len()
    }
}

impl Drop for KeyBuffer {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        if buffer.capacity() <= LARGEST_KEPT {
            buffer.clear();
            // A call may be dropped while its thread ends, and the spare buffers with it.
            let _ = SPARE.try_with(|spare| spare.borrow_mut().push(buffer));
        }
    }
}

//! From what a request's descriptors reached to the group of checks that a store is asked to decide.

use std::cell::RefCell;
use std::ops::Range;

use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};

use crate::domain::check::{Check, Group};
use crate::domain::descriptor::Request;
use crate::domain::limit::Limit;
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;
use crate::policy::{Limits, Policy, Rule};
use crate::store::key::Keys;

/// Up to this many wanted checks are compared with each other rather than hashed.
const FEW: usize = 16;

/// What one request needs to have decided.
pub(super) struct Plan<'p> {
    keys: KeyBuffer,
    /// In the order of the group: give-backs first, no counter twice.
    checks: SmallVec<[Planned<'p>; 2]>,
    /// In the order of the request.
    pub(super) reached: SmallVec<[Reached<'p>; 2]>,
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
    key: Range<usize>,
    /// The rule it comes from.
    pub(super) rule: &'p Rule,
    /// The limit it is held to.
    pub(super) limit: &'p Limit,
    hits: Hits,
}

impl Planned<'_> {
    fn gives_back(&self) -> bool {
        matches!(self.hits, Hits::GiveBack(_))
    }
}

impl<'p> Plan<'p> {
    /// Matches every descriptor of `request` and lays out the checks.
    pub(super) fn new(request: &Request, policy: &'p Policy, keys: &Keys) -> Self {
        let mut buffer = KeyBuffer::take();
        let mut wanted: SmallVec<[Planned<'p>; 2]> = SmallVec::new();
        let mut reached: SmallVec<[Reached<'p>; 2]> = SmallVec::with_capacity(request.descriptors.len());
        for descriptor in &request.descriptors {
            if descriptor.entries.is_empty() {
                reached.push(Reached::Nothing);
                continue;
            }
            let Some(found) = policy.find(&descriptor.entries) else {
                reached.push(Reached::NoRule);
                continue;
            };
            let limits = match found.limits {
                Limits::Unlimited => {
                    reached.push(Reached::Unlimited(found.rule));
                    continue;
                }
                Limits::Held(limits) => limits,
            };
            let first = wanted.len();
            for limit in limits {
                let counted = found
                    .counted
                    .iter()
                    .map(|entry| (entry.key, entry.value.as_ref()));
                let key = buffer.append(|into| keys.write(into, &request.domain, counted, limit));
                let hits = descriptor.hits.times(found.rule.cost);
                wanted.push(Planned {
                    key,
                    rule: found.rule,
                    limit,
                    hits,
                });
            }
            reached.push(Reached::Limited(found.rule, (first..wanted.len()).collect()));
        }
        let (checks, places) = arrange(wanted, &buffer.0);
        for reached in &mut reached {
            if let Reached::Limited(_, wanted) = reached {
                wanted.iter_mut().for_each(|place| *place = places[*place]);
            }
        }
        Self {
            keys: buffer,
            checks,
            reached,
        }
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

    /// The checks as a store takes them, to be put in a [`Group`] by [`group`].
    pub(super) fn to_checks(&self) -> SmallVec<[Check<'_>; 2]> {
        self.checks
            .iter()
            .map(|check| Check {
                key: &self.keys.0[check.key.clone()],
                limit: check.limit,
                hits: check.hits,
                binding: check.rule.binding,
                charge: check.rule.charge,
            })
            .collect()
    }
}

/// `checks` as one question. Answers cannot be held, so no check may be delayed.
pub(super) fn group<'a>(checks: &'a [Check<'a>]) -> Group<'a> {
    Group {
        checks,
        longest_wait: Micros::ZERO,
    }
}

/// Give-backs first, and what names the same counter decided once with the larger hits: asked twice, a caller would
/// be charged twice for one request. Also tells for each wanted check where it went.
fn arrange<'p>(
    wanted: SmallVec<[Planned<'p>; 2]>,
    keys: &[u8],
) -> (SmallVec<[Planned<'p>; 2]>, SmallVec<[usize; 2]>) {
    if wanted.len() < 2 {
        return (wanted, smallvec![0]);
    }
    let mut places: SmallVec<[usize; 2]> = smallvec![0; wanted.len()];
    let mut checks: SmallVec<[Planned<'p>; 2]> = SmallVec::with_capacity(wanted.len());
    let mut wanted: SmallVec<[_; 2]> = wanted.into_iter().enumerate().collect();
    wanted.sort_by_key(|(_, check)| !check.gives_back());
    let mut seen = HashMap::new();
    let many = wanted.len() > FEW;
    for (at, check) in wanted {
        let name = (check.gives_back(), &keys[check.key.clone()]);
        let same = if many {
            seen.get(&name).copied()
        } else {
            checks
                .iter()
                .position(|other| (other.gives_back(), &keys[other.key.clone()]) == name)
        };
        places[at] = same.unwrap_or(checks.len());
        if let Some(place) = same {
            merge(&mut checks[place], &check);
            continue;
        }
        if many {
            seen.insert(name, checks.len());
        }
        checks.push(check);
    }
    (checks, places)
}

/// One counter asked twice is asked for the larger hits. Where a gateway sends one client under two plans, the
/// smaller of the two budgets holds.
fn merge<'p>(into: &mut Planned<'p>, check: &Planned<'p>) {
    into.hits = match (into.hits, check.hits) {
        (Hits::Take(one), Hits::Take(other)) => Hits::Take(one.max(other)),
        (Hits::GiveBack(one), Hits::GiveBack(other)) => Hits::GiveBack(one.max(other)),
        (Hits::Look, other) => other,
        (one, _) => one,
    };
    if check.limit.capacity() < into.limit.capacity() {
        into.limit = check.limit;
    }
}

thread_local! {
    /// Buffers that no call is using: as many as calls were ever in flight at once on this core.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Buffers above this are not kept: one odd request must not cost its memory for good.
const LARGEST_KEPT: usize = 64 << 10;

/// A buffer that is used again by later calls, also when the call is dropped half-way.
struct KeyBuffer(Vec<u8>);

impl KeyBuffer {
    fn take() -> Self {
        Self(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }

    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
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

//! From what a request's descriptors reached to the group of checks that a store is asked to decide.

use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};

use crate::domain::check::{Binding, Check, Group};
use crate::domain::descriptor::{Descriptor, Override, Request};
use crate::domain::limit::{Algorithm, Limit, LimitSpec};
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;
use crate::policy::{Found, Limits, Policy, Rule};
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

/// One check of the group, its key still in the buffer.
#[derive(Debug)]
pub(super) struct Planned<'p> {
    key: Range<usize>,
    /// The rule it comes from.
    pub(super) rule: &'p Rule,
    /// The limit it is held to.
    pub(super) limit: Held<'p>,
    hits: Hits,
}

impl Planned<'_> {
    fn gives_back(&self) -> bool {
        matches!(self.hits, Hits::GiveBack(_))
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
    pub(super) fn new(request: &Request, policy: &'p Policy, keys: &Keys) -> Self {
        let mut draft = Draft {
            domain: &request.domain,
            keys,
            buffer: KeyBuffer::take(),
            wanted: SmallVec::new(),
        };
        let mut reached: SmallVec<[Reached<'p>; 2]> = request
            .descriptors
            .iter()
            .map(|descriptor| draft.reach(descriptor, policy))
            .collect();
        let Draft { buffer, wanted, .. } = draft;
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
                limit: &check.limit,
                hits: check.hits,
                binding: check.rule.binding,
                charge: check.rule.charge,
            })
            .collect()
    }
}

/// A plan in the making: checks in the order of the request, counters perhaps named twice.
struct Draft<'p, 'r> {
    domain: &'r [u8],
    keys: &'r Keys,
    buffer: KeyBuffer,
    wanted: SmallVec<[Planned<'p>; 2]>,
}

impl<'p> Draft<'p, '_> {
    /// Wants the checks that `descriptor` asks for.
    fn reach(&mut self, descriptor: &Descriptor, policy: &'p Policy) -> Reached<'p> {
        if descriptor.entries.is_empty() {
            return Reached::Nothing;
        }
        let found = policy.find(&descriptor.entries);
        if let Some(limit) = descriptor.limit.and_then(limit_of_request) {
            return self.reach_override(descriptor, found.as_ref(), limit, policy);
        }
        let Some(found) = found else {
            return Reached::NoRule;
        };
        let Limits::Held(limits) = found.limits else {
            return Reached::Unlimited(found.rule);
        };
        let first = self.wanted.len();
        for limit in limits {
            let counted = found
                .counted
                .iter()
                .map(|entry| (entry.key, entry.value.as_ref()));
            let key = self
                .buffer
                .append(|into| self.keys.write(into, self.domain, counted, limit));
            let hits = descriptor.hits.times(found.rule.cost);
            self.wanted.push(Planned {
                key,
                rule: found.rule,
                limit: Held::OfPolicy(limit),
                hits,
            });
        }
        Reached::Limited(found.rule, (first..self.wanted.len()).collect())
    }

    /// A request's own limit replaces all those of the rule, and holds where no rule is about the descriptor. Its
    /// counter is its own, so that it cannot disturb the rule's.
    fn reach_override(
        &mut self,
        descriptor: &Descriptor,
        found: Option<&Found<'p, '_>>,
        limit: Limit,
        policy: &'p Policy,
    ) -> Reached<'p> {
        let rule = found.map_or_else(|| policy.overrides(), |found| found.rule);
        let key = self.buffer.append(|into| match found {
            Some(found) => {
                let counted = found
                    .counted
                    .iter()
                    .map(|entry| (entry.key, entry.value.as_ref()));
                self.keys.write_override(into, self.domain, counted, &limit);
            }
            None => {
                let all = descriptor
                    .entries
                    .iter()
                    .map(|entry| (entry.key.as_ref(), entry.value.as_ref()));
                self.keys.write_override(into, self.domain, all, &limit);
            }
        });
        let hits = descriptor.hits.times(rule.cost);
        self.wanted.push(Planned {
            key,
            rule,
            limit: Held::OfRequest(Box::new(limit)),
            hits,
        });
        Reached::Limited(rule, smallvec![self.wanted.len() - 1])
    }
}

/// A limit that a request brought along, counted in a sliding window.
fn limit_of_request(asked: Override) -> Option<Limit> {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("override"));
    Limit::new(LimitSpec {
        name: Arc::clone(&NAME),
        named: false,
        count: asked.count,
        period: asked.period,
        algorithm: Algorithm::SlidingWindow,
        burst: None,
        delay: Micros::ZERO,
        calendar: true,
    })
    .ok()
}

/// `checks` as one question. Answers cannot be held, so no check may be delayed.
pub(super) fn group<'a>(checks: &'a [Check<'a>]) -> Group<'a> {
    Group {
        checks,
        longest_wait: Micros::ZERO,
        compat: false,
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
            merge(&mut checks[place], check);
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
/// smaller of the two budgets holds; where one of two rules is only watched, the other binds.
fn merge<'p>(into: &mut Planned<'p>, check: Planned<'p>) {
    into.hits = match (into.hits, check.hits) {
        (Hits::Take(one), Hits::Take(other)) => Hits::Take(one.max(other)),
        (Hits::GiveBack(one), Hits::GiveBack(other)) => Hits::GiveBack(one.max(other)),
        (Hits::Look, other) => other,
        (one, _) => one,
    };
    if into.rule.binding != Binding::Always && check.rule.binding == Binding::Always {
        into.rule = check.rule;
    }
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

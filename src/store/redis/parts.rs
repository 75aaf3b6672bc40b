//! A group whose counters lie in several slots of a cluster. Each part is decided where it lies, all at once; when another
//! part refuses, what a part took is taken back. Between the two, others may see it as taken: they may be refused for it,
//! never admitted.

use smallvec::SmallVec;

use super::codec::Reply;
use super::slots::slot_of;
use crate::decide::group::{self, Counters, Stored};
use crate::decide::state::Seen;
use crate::domain::check::{Binding, Charge, Check, Group};
use crate::domain::quantity::Hits;
use crate::domain::time::Timestamp;
use crate::domain::verdict::{Decision, Decisions, Verdict};

/// The checks of a group that share a slot.
#[derive(Debug)]
pub(super) struct Part<'a> {
    /// The slot.
    pub(super) slot: u16,
    checks: Vec<Check<'a>>,
    /// Their places in the group.
    places: Vec<usize>,
}

/// The parts of `group`: one, where a slot holds all of its counters.
pub(super) fn of<'a>(group: &Group<'a>) -> SmallVec<[Part<'a>; 1]> {
    let mut parts: SmallVec<[Part<'a>; 1]> = SmallVec::new();
    for (place, check) in group.checks.iter().enumerate() {
        let slot = slot_of(check.key);
        let known = parts.iter().position(|part| part.slot == slot);
        let part = known.unwrap_or_else(|| {
            parts.push(Part {
                slot,
                checks: Vec::new(),
                places: Vec::new(),
            });
            parts.len() - 1
        });
        parts[part].checks.push(*check);
        parts[part].places.push(place);
    }
    parts
}

impl<'a> Part<'a> {
    /// The checks as its slot is asked. Whether quotas refuse shows only in all parts together, so none does in its own.
    pub(super) fn asked(&self) -> Vec<Check<'a>> {
        let asked = |check: &Check<'a>| Check {
            binding: match check.binding {
                Binding::WithAllQuotas => Binding::Never,
                other => other,
            },
            ..*check
        };
        self.checks.iter().map(asked).collect()
    }
}

/// What is to be taken back in a slot.
#[derive(Debug)]
pub(super) struct Undo<'a> {
    pub(super) slot: u16,
    pub(super) checks: Vec<Check<'a>>,
}

/// What all `replies`, one for each of `parts`, say together about `group`, and what follows for some of them.
pub(super) fn settle<'a>(
    group: &Group<'a>,
    parts: &[Part<'a>],
    replies: &mut [Reply],
) -> (Decisions, Vec<Undo<'a>>) {
    let alone: Vec<Decisions> = parts
        .iter()
        .zip(replies.iter_mut())
        .map(|(part, reply)| {
            let checks = part.asked();
            group::decide(
                &Group {
                    checks: &checks,
                    ..*group
                },
                reply.now,
                reply,
            )
        })
        .collect();
    let refused = group::refuses(parts.iter().zip(&alone).flat_map(|(part, decisions)| {
        let bindings = part.checks.iter().map(|check| check.binding);
        bindings.zip(decisions.checks.iter().map(|decision| decision.verdict))
    }));
    let mut undone = Vec::new();
    let mut decisions: Vec<Option<Decision>> = vec![None; group.checks.len()];
    let mut unreadable = 0;
    for ((part, reply), alone) in parts.iter().zip(replies).zip(&alone) {
        if refused && !alone.refused {
            let checks = taken(part, alone, reply);
            if !checks.is_empty() {
                undone.push(Undo {
                    slot: part.slot,
                    checks,
                });
            }
        }
        let checks = Group {
            checks: &part.checks,
            ..*group
        };
        let decided = group::decide_part(&checks, refused, reply.now, reply);
        unreadable += decided.unreadable;
        for (place, decision) in part.places.iter().zip(decided.checks) {
            decisions[*place] = Some(decision);
        }
    }
    let decisions = Decisions {
        checks: decisions.into_iter().flatten().collect(),
        refused,
        degraded: None,
        unreadable,
    };
    (decisions, undone)
}

/// What `part`, which passed by itself, was charged for the sake of the group.
fn taken<'a>(part: &Part<'a>, alone: &Decisions, reply: &mut Reply) -> Vec<Check<'a>> {
    let checks = part.checks.iter().zip(&alone.checks).enumerate();
    checks
        .filter_map(|(place, (check, decision))| match check.hits {
            Hits::Take(hits)
                if check.charge == Charge::AllOrNothing && decision.verdict == Verdict::UnderLimit =>
            {
                Some(Check {
                    hits: Hits::Undo(hits, charged_at(place, check, reply)),
                    ..*check
                })
            }
            _ => None,
        })
        .collect()
}

/// The moment that a charge was made at: the slot's, or the state's own where its clock was overtaken.
fn charged_at(place: usize, check: &Check<'_>, reply: &mut Reply) -> Timestamp {
    let now = reply.now;
    match reply.read(place, check, check.hits.asked(), now) {
        Stored::State(state) => Seen::read(check, Some(state), now).now,
        Stored::Nothing | Stored::Unreadable => now,
    }
}

#[cfg(test)]
mod tests;

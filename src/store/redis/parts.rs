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

/// What is known of a group once each of its parts has answered or failed.
pub(super) struct Settled<'a> {
    /// The decisions; none when a part that failed might have refused. One that did refuse speaks for the group, whatever the
    /// others would say.
    pub(super) decisions: Option<Decisions>,
    /// What parts took in vain.
    pub(super) undone: Vec<Undo<'a>>,
}

/// What `replies`, one for each of `parts` that has answered, say together about `group`, and what follows for some of
/// them.
pub(super) fn settle<'a>(
    group: &Group<'a>,
    parts: &[Part<'a>],
    replies: &mut [Option<Reply>],
) -> Settled<'a> {
    let alone: Vec<Option<Decisions>> = parts
        .iter()
        .zip(replies.iter_mut())
        .map(|(part, reply)| {
            let reply = reply.as_mut()?;
            let checks = part.asked();
            let part = Group {
                checks: &checks,
                ..*group
            };
            Some(group::decide(&part, reply.now, reply))
        })
        .collect();
    let refused = is_refused(parts, &alone);
    let mut undone = Vec::new();
    let mut decisions = vec![Decision::NOT_ASKED; group.checks.len()];
    let mut unreadable = 0;
    for ((part, reply), alone) in parts.iter().zip(replies).zip(&alone) {
        let (Some(reply), Some(alone)) = (reply, alone) else {
            continue;
        };
        if refused != Some(false) && !alone.refused {
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
        let decided = group::decide_part(&checks, refused.unwrap_or(true), reply.now, reply);
        unreadable += decided.unreadable;
        for (place, decision) in part.places.iter().zip(decided.checks) {
            decisions[*place] = decision;
        }
    }
    let decisions = refused.map(|refused| Decisions {
        checks: decisions.into(),
        refused,
        degraded: None,
        unreadable,
    });
    Settled { decisions, undone }
}

/// Whether the group is refused; unknown while nobody refuses and a part is missing. Quotas refuse only all together.
fn is_refused(parts: &[Part<'_>], alone: &[Option<Decisions>]) -> Option<bool> {
    let answered = parts.iter().zip(alone).flat_map(|(part, decisions)| {
        let decisions = decisions.iter().flat_map(|decisions| &decisions.checks);
        part.checks.iter().zip(decisions)
    });
    let fates = answered.map(|(check, decision)| (check.binding, decision.verdict));
    if alone.iter().all(Option::is_some) {
        return Some(group::refuses(fates));
    }
    let refuses = |(binding, verdict)| binding == Binding::Always && verdict == Verdict::OverLimit;
    fates.into_iter().any(refuses).then_some(true)
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

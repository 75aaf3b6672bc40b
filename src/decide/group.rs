//! Decides a group: weigh every check, then charge what may be charged. `lua/frame.lua` is its twin.

use super::Fit;
use super::arith::was_set_back;
use super::state::{Seen, State};
use crate::domain::check::{Binding, Charge, Check, Group};
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::{Decision, Decisions, Reason, Verdict};
use smallvec::SmallVec;

/// What lies in a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing.
    Nothing,
    /// Something that none of our versions writes: it counts as nothing and is replaced.
    Unreadable,
    /// A state.
    State(State),
}

/// The counters of a group's checks, by the place of the check.
pub trait Counters {
    /// What lies in the counter of `check` at `now`, for a call that asks for `asked` hits.
    fn read(&mut self, place: usize, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored;

    /// Puts what `change` left in its place, to be forgotten once the whole budget is back. Called only where something
    /// changed; with a look, where the clock was set back: the state then goes on from now.
    fn write(&mut self, place: usize, check: &Check<'_>, seen: &Seen, change: Hits);
}

struct Weighed {
    seen: Seen,
    fit: Fit,
}

/// Decides `group` at `now`.
pub fn decide(group: &Group<'_>, now: Timestamp, counters: &mut impl Counters) -> Decisions {
    decide_unless(group, None, now, counters)
}

/// Decides `part` of a group whose other checks are decided elsewhere: whether the group is `refused` is known from all of
/// them, see [`refuses`].
pub fn decide_part(
    part: &Group<'_>,
    refused: bool,
    now: Timestamp,
    counters: &mut impl Counters,
) -> Decisions {
    decide_unless(part, Some(refused), now, counters)
}

/// Whether checks refuse their group that bind so and were decided so.
pub fn refuses(checks: impl Iterator<Item = (Binding, Verdict)>) -> bool {
    let mut quotas = 0;
    let mut spent_quotas = 0;
    for (binding, verdict) in checks {
        let over = verdict == Verdict::OverLimit;
        match binding {
            Binding::Always if over => return true,
            Binding::WithAllQuotas => {
                quotas += 1;
                spent_quotas += u32::from(over);
            }
            Binding::Always | Binding::Never => {}
        }
    }
    quotas > 0 && quotas == spent_quotas
}

fn decide_unless(
    group: &Group<'_>,
    refused: Option<bool>,
    now: Timestamp,
    counters: &mut impl Counters,
) -> Decisions {
    let mut decisions = Decisions::default();
    let mut weighed: SmallVec<[Weighed; 8]> = SmallVec::new();
    decisions.checks.reserve(group.checks.len());
    for (place, check) in group.checks.iter().enumerate() {
        weighed.push(weigh(
            group,
            place,
            check,
            now,
            counters,
            &mut decisions.unreadable,
        ));
    }
    decisions.refused = refused.unwrap_or_else(|| {
        let bindings = group.checks.iter().map(|check| check.binding);
        refuses(bindings.zip(weighed.iter().map(|weighed| weighed.fit.verdict())))
    });
    for (place, (check, weighed)) in group.checks.iter().zip(&mut weighed).enumerate() {
        let charged = match check.charge {
            Charge::AllOrNothing => weighed.fit.passes() && !decisions.refused,
            Charge::Each => weighed.fit.passes(),
            // Was charged when it was weighed.
            Charge::Always => false,
        };
        if let (true, Hits::Take(hits)) = (charged, check.hits) {
            charge(place, check, weighed, hits, counters);
        }
        decisions
            .checks
            .push(decision(group, check, weighed, decisions.refused));
    }
    decisions
}

/// Looks at one counter. What happens whatever the group's verdict happens here: give-backs, and charges of rules that
/// always charge.
fn weigh(
    group: &Group<'_>,
    place: usize,
    check: &Check<'_>,
    now: Timestamp,
    counters: &mut impl Counters,
    unreadable: &mut u32,
) -> Weighed {
    if check.limit.count() == 0 {
        // Nothing is ever in it.
        let seen = Seen {
            state: State::empty(check.limit, now),
            now,
        };
        return Weighed {
            seen,
            fit: fit(group, check, &seen),
        };
    }
    let (stored, seen) = read(group, place, check, now, counters);
    *unreadable += u32::from(stored == Stored::Unreadable);
    if let Stored::State(state) = stored
        && was_set_back(state.moment(), now)
    {
        // Kept where it is, it would stand still until the clock has caught up, for refusals write nothing.
        counters.write(place, check, &seen, Hits::LOOK);
    }
    let mut weighed = Weighed {
        seen,
        fit: fit(group, check, &seen),
    };
    match check.hits {
        Hits::GiveBack(hits) | Hits::Undo(hits, _) => match (stored, weighed.seen.state) {
            (Stored::Nothing, _) => {}
            (_, State::Log(view)) => {
                if view.used > 0 {
                    counters.write(place, check, &weighed.seen, check.hits);
                    // Only the log itself knows what is then left of it.
                    weighed.seen = read(group, place, check, now, counters).1;
                }
            }
            _ => {
                match check.hits {
                    Hits::Undo(_, taken) => weighed.seen.undo(check.limit, hits, taken),
                    _ => weighed.seen.give_back(hits),
                }
                counters.write(place, check, &weighed.seen, check.hits);
            }
        },
        Hits::Take(hits) if check.charge == Charge::Always => {
            charge(place, check, &mut weighed, hits, counters);
        }
        Hits::Take(_) | Hits::Look(_) => {}
    }
    weighed
}

fn read(
    group: &Group<'_>,
    place: usize,
    check: &Check<'_>,
    now: Timestamp,
    counters: &mut impl Counters,
) -> (Stored, Seen) {
    let stored = counters.read(place, check, group.asked(check.hits), now);
    let seen = match stored {
        Stored::State(state) => Seen::read(check, Some(state), now),
        Stored::Nothing | Stored::Unreadable => Seen::read(check, None, now),
    };
    (stored, seen)
}

/// How what `check` asks fits into what was seen.
fn fit(group: &Group<'_>, check: &Check<'_>, seen: &Seen) -> Fit {
    if check.hits.gives_back() {
        return Fit::Now;
    }
    let fit = seen.fit(
        check.limit,
        group.asked(check.hits),
        check.longest_wait(group.longest_wait),
    );
    match (fit, seen.window_ends_after(check.limit)) {
        (Fit::Never, Some(end)) if group.compat => Fit::Later(end),
        _ => fit,
    }
}

fn charge(place: usize, check: &Check<'_>, weighed: &mut Weighed, hits: u64, counters: &mut impl Counters) {
    if check.limit.count() == 0 {
        return;
    }
    weighed.seen.take(check, hits);
    counters.write(place, check, &weighed.seen, check.hits);
}

/// The one place where a decision is made from a state.
fn decision(group: &Group<'_>, check: &Check<'_>, weighed: &Weighed, refused: bool) -> Decision {
    let Weighed { seen, fit } = weighed;
    let limit = check.limit;
    let (verdict, reason, retry_after, delay) = match *fit {
        Fit::Now => (Verdict::UnderLimit, Reason::Fits, None, Micros::ZERO),
        Fit::After(wait) => (
            Verdict::UnderLimit,
            Reason::Fits,
            None,
            if refused { Micros::ZERO } else { wait },
        ),
        Fit::Later(_) => (
            Verdict::OverLimit,
            Reason::Spent,
            retry_after(group, check, seen),
            Micros::ZERO,
        ),
        Fit::Never if limit.count() == 0 => (Verdict::OverLimit, Reason::Blocked, None, Micros::ZERO),
        Fit::Never => (Verdict::OverLimit, Reason::TooManyHits, None, Micros::ZERO),
    };
    Decision {
        verdict,
        reason,
        remaining: if verdict == Verdict::OverLimit {
            0
        } else {
            seen.remaining(limit)
        },
        retry_after,
        next_after: seen.next_after(limit),
        reset_after: match seen.window_ends_after(limit) {
            Some(end) if group.compat => end,
            _ => seen.reset_after(limit),
        },
        delay,
    }
}

/// When the same call would pass, counted from what the counter holds now: a charge made despite the refusal puts it
/// off.
fn retry_after(group: &Group<'_>, check: &Check<'_>, seen: &Seen) -> Option<Micros> {
    match fit(group, check, seen) {
        Fit::Later(wait) => Some(wait),
        Fit::Now | Fit::After(_) | Fit::Never => None,
    }
}

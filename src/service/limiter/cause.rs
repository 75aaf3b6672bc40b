//! Why a request got its verdict, in one word.

use super::{checked, is_shadow_refusal, refuses};
use crate::domain::verdict::{Decision, Decisions, Reason, Verdict};
use crate::service::answer::Cause;
use crate::service::plan::{Plan, Reached};

/// The one word for the whole request: the most telling of what its descriptors met.
pub(super) fn of(plan: &Plan<'_>, decisions: &Decisions) -> Cause {
    if decisions.refused {
        return of_refusal(plan, decisions);
    }
    let met = |wanted: fn(&Reached<'_>) -> bool| plan.reached.iter().any(wanted);
    if checked(plan, decisions).any(|(_, decision)| is_let_through(decision)) {
        Cause::StoreFailedOpen
    } else if checked(plan, decisions).any(|(check, decision)| is_shadow_refusal(plan, check, decision)) {
        Cause::Shadow
    } else if met(|reached| matches!(reached, Reached::Limited(..))) {
        Cause::UnderLimit
    } else if met(|reached| matches!(reached, Reached::Unlimited(_))) {
        Cause::Unlimited
    } else if met(|reached| matches!(reached, Reached::NoRule | Reached::Replaced)) {
        Cause::NoRule
    } else {
        Cause::NoEntries
    }
}

/// A limit that is spent says more than a store that is gone.
fn of_refusal(plan: &Plan<'_>, decisions: &Decisions) -> Cause {
    let refusing = |wanted: fn(Reason) -> bool| {
        checked(plan, decisions).any(|(check, decision)| refuses(check, decision) && wanted(decision.reason))
    };
    if refusing(Reason::has_figures) {
        Cause::OverLimit
    } else if refusing(|reason| reason == Reason::Ceiling) {
        Cause::Ceiling
    } else {
        Cause::StoreFailedClosed
    }
}

/// Whether a check passes only because nobody could decide it.
fn is_let_through(decision: &Decision) -> bool {
    decision.verdict == Verdict::UnderLimit && decision.reason == Reason::StoreFailed
}

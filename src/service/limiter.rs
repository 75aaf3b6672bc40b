//! The use case: may this request pass? Knows no transport.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use super::answer::{Answer, Cause, Header, ShownLimit, Status};
use super::headers::{self, Budget, HeaderStyle};
use super::live::{Live, Policies};
use super::observer::Tally;
use super::plan::{Plan, Planned, Reached, group};
use super::random::Random;
use super::refusal::Refusal;
use crate::clock::Clock;
use crate::domain::check::Binding;
use crate::domain::descriptor::Request;
use crate::domain::limit::Limit;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::{Decision, Decisions, Verdict};
use crate::policy::Rule;
use crate::store::key::Keys;
use crate::store::{Store, StoreError};

/// The most of a domain's name that a log line shows.
const LONGEST_SHOWN_DOMAIN: usize = 64;

/// Decides requests against the policies in force. Every core has its own.
pub struct Limiter<S, C> {
    /// Which core this is; names the tally.
    core: usize,
    /// The policies in force, shared by all cores.
    policies: Arc<Policies>,
    /// Holds the counters.
    store: S,
    /// Read once per request.
    clock: C,
    /// How counters are named.
    keys: Keys,
    /// Which headers answers carry.
    headers: HeaderStyle,
    random: Random,
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// The limiter of `core`.
    pub fn new(
        core: usize,
        policies: Arc<Policies>,
        store: S,
        clock: C,
        keys: Keys,
        headers: HeaderStyle,
    ) -> Self {
        let random = Random::new(clock.now().as_micros() ^ (core as u64).rotate_left(32));
        Self {
            core,
            policies,
            store,
            clock,
            keys,
            headers,
            random,
        }
    }

    /// Decides `request` before `deadline`.
    ///
    /// # Errors
    /// When the store could not decide and nothing decides in its place. The caller must then be told of an error:
    /// neither verdict would be true.
    pub async fn decide(&self, request: &Request, deadline: Instant) -> Result<Answer, StoreError> {
        let now = self.clock.now();
        let live = self.policies.load();
        let tally = live.tally(self.core);
        let Some((domain, policy)) = live.find(&request.domain) else {
            self.warn_of_unknown_domain(&request.domain, &live, now);
            tally.called(None, Cause::UnknownDomain);
            return Ok(Answer::unlimited(Cause::UnknownDomain, request.descriptors.len()));
        };
        let plan = Plan::new(request, policy, &self.keys);
        let decisions = if plan.is_empty() {
            Decisions::default()
        } else {
            let checks = plan.to_checks();
            match self.store.decide(&group(&checks), now, deadline).await {
                Ok(decisions) => decisions,
                Err(error) => {
                    self.warn_of_failure(&error, now);
                    tally.called(Some(domain), Cause::StoreFailed);
                    return Err(error);
                }
            }
        };
        let answer = self.answer(&plan, &decisions);
        count(tally, domain, &plan, &answer, &decisions);
        Ok(answer)
    }

    /// Counts a request that was not a question.
    pub fn reject(&self) {
        self.policies.load().tally(self.core).called(None, Cause::Invalid);
    }

    /// Counts that `descriptors` brought limits of their own, which are not heeded yet: the policy's hold instead. An
    /// error would let the request pass without any.
    pub fn ignore_overrides(&self, descriptors: u32) {
        self.policies.observer().overrides_ignored(descriptors);
        if self.policies.overrides.permits(self.clock.now()) {
            tracing::warn!(
                descriptors,
                "a request brings its own limit, which is not supported yet; the policy's limits are used instead \
                 (said at most once a minute)"
            );
        }
    }

    fn answer(&self, plan: &Plan<'_>, decisions: &Decisions) -> Answer {
        let statuses = plan
            .reached
            .iter()
            .map(|reached| status(plan, reached, decisions))
            .collect();
        let verdict = if decisions.refused {
            Verdict::OverLimit
        } else {
            Verdict::UnderLimit
        };
        let deciding = deciding(plan, decisions);
        let mut answer = Answer {
            verdict,
            cause: cause(plan, decisions),
            rule: deciding.map(|place| plan.check(place).rule.path.to_string()),
            deciding: deciding.and_then(|place| plan.reached.iter().position(|reached| reached.meets(place))),
            degraded: decisions.degraded,
            statuses,
            headers: SmallVec::new(),
            body: None,
        };
        let enforced: SmallVec<[Budget<'_>; 4]> = checked(plan, decisions)
            .filter(|(check, _)| !check.rule.shadow_mode)
            .map(|(check, decision)| Budget {
                limit: check.limit,
                decision,
            })
            .collect();
        headers::add(self.headers, &enforced, &mut answer.headers);
        if decisions.refused {
            self.explain_refusal(plan, decisions, &mut answer);
        }
        answer
    }

    fn explain_refusal(&self, plan: &Plan<'_>, decisions: &Decisions, answer: &mut Answer) {
        let refusing: SmallVec<[Budget<'_>; 4]> = checked(plan, decisions)
            .filter(|(check, decision)| refuses(check.rule, decision))
            .map(|(check, decision)| Budget {
                limit: check.limit,
                decision,
            })
            .collect();
        let advice = deciding(plan, decisions).and_then(|place| plan.check(place).rule.advice.as_deref());
        let refusal = Refusal::new(&refusing, advice, &self.random);
        if let Some(seconds) = refusal.retry_after() {
            answer.headers.push(Header {
                name: "retry-after",
                value: seconds.to_string(),
            });
        }
        answer.body = refusal.body();
        if answer.body.is_some() {
            let value = String::from("application/problem+json");
            answer.headers.push(Header {
                name: "content-type",
                value,
            });
        }
    }

    #[cold]
    fn warn_of_failure(&self, error: &StoreError, now: Timestamp) {
        if self.policies.undecided.permits(now) {
            tracing::warn!(
                %error,
                "a request could not be decided, so its gateway gets an error; said at most once a minute"
            );
        }
    }

    #[cold]
    fn warn_of_unknown_domain(&self, domain: &[u8], live: &Live, now: Timestamp) {
        if self.policies.unknown_domain.permits(now) {
            let shown = &domain[..domain.len().min(LONGEST_SHOWN_DOMAIN)];
            tracing::warn!(
                domain = %shown.escape_ascii(),
                loaded = %live.domains(),
                "no policy is about this domain, so its requests pass; said at most once a minute"
            );
        }
    }
}

/// Every check beside what was decided about it.
fn checked<'a, 'p>(
    plan: &'a Plan<'p>,
    decisions: &'a Decisions,
) -> impl Iterator<Item = (&'a Planned<'p>, &'a Decision)> {
    plan.checks().iter().zip(&decisions.checks)
}

/// Whether a check that was decided so refuses its request, given that the request is refused.
fn refuses(rule: &Rule, decision: &Decision) -> bool {
    // Quotas refuse only all together; where one of a refused request is spent without the others, something else
    // refused, and it is still among what stands in the way of the next call.
    decision.verdict == Verdict::OverLimit && rule.binding != Binding::Never
}

/// The place of the check that a person would name: the one that refuses longest, else the one nearest its limit.
fn deciding(plan: &Plan<'_>, decisions: &Decisions) -> Option<usize> {
    checked(plan, decisions)
        .enumerate()
        .min_by_key(|(_, (check, decision))| order(check.rule, decision))
        .map(|(place, _)| place)
}

/// Orders decisions from what matters most to what matters least; ties keep the order of the request.
fn order(rule: &Rule, decision: &Decision) -> (bool, std::cmp::Reverse<u64>, u64) {
    if refuses(rule, decision) {
        let wait = decision.retry_after.map_or(u64::MAX, Micros::get);
        (false, std::cmp::Reverse(wait), 0)
    } else {
        (true, std::cmp::Reverse(0), decision.remaining)
    }
}

fn status(plan: &Plan<'_>, reached: &Reached<'_>, decisions: &Decisions) -> Status {
    let Reached::Limited(rule, places) = reached else {
        return Status::UNLIMITED;
    };
    let shown = places
        .iter()
        .filter_map(|&place| Some((plan.check(place).limit, decisions.checks.get(place)?)))
        .min_by_key(|(_, decision)| order(rule, decision));
    let Some((limit, decision)) = shown else {
        return Status::UNLIMITED;
    };
    Status {
        verdict: shown_verdict(rule, decision),
        limit: Some(shown_limit(limit)),
        remaining: u32::try_from(decision.remaining).unwrap_or(u32::MAX),
        retry_after: decision.retry_after,
        reset_after: Some(decision.reset_after),
    }
}

/// A rule that is only watched shows as if it let everything pass.
fn shown_verdict(rule: &Rule, decision: &Decision) -> Verdict {
    if rule.shadow_mode {
        Verdict::UnderLimit
    } else {
        decision.verdict
    }
}

fn shown_limit(limit: &Limit) -> ShownLimit {
    ShownLimit {
        name: limit.name().to_string(),
        count: limit.count(),
        period: limit.period(),
    }
}

/// The one word for the whole request: the most telling of what its descriptors met.
fn cause(plan: &Plan<'_>, decisions: &Decisions) -> Cause {
    if decisions.refused {
        return Cause::OverLimit;
    }
    let met = |wanted: fn(&Reached<'_>) -> bool| plan.reached.iter().any(wanted);
    if checked(plan, decisions).any(|(check, decision)| is_shadow_refusal(check.rule, decision)) {
        Cause::Shadow
    } else if met(|reached| matches!(reached, Reached::Limited(..))) {
        Cause::UnderLimit
    } else if met(|reached| matches!(reached, Reached::Unlimited(_))) {
        Cause::Unlimited
    } else if met(|reached| matches!(reached, Reached::NoRule)) {
        Cause::NoRule
    } else {
        Cause::NoEntries
    }
}

fn is_shadow_refusal(rule: &Rule, decision: &Decision) -> bool {
    rule.shadow_mode && decision.verdict == Verdict::OverLimit
}

fn count(tally: &dyn Tally, domain: usize, plan: &Plan<'_>, answer: &Answer, decisions: &Decisions) {
    tally.called(Some(domain), answer.cause);
    for (reached, status) in plan.reached.iter().zip(&answer.statuses) {
        if let Reached::Unlimited(rule) | Reached::Limited(rule, _) = reached {
            tally.decided(domain, rule.index, status.verdict);
        }
    }
    for (check, decision) in checked(plan, decisions) {
        if is_shadow_refusal(check.rule, decision) {
            tally.shadow_refused(domain, check.rule.index);
        }
    }
}

#[cfg(test)]
mod tests;

//! The use case: may this request pass? Knows no transport.

mod cause;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use super::answer::{Answer, Cause, Header, ShownLimit, Status};
use super::field::FieldName;
use super::headers::{self, Budget, HeaderStyle};
use super::live::{Live, Policies};
use super::observer::Tally;
use super::options::LimiterOptions;
use super::plan::{Plan, Planned, Reached, group};
use super::random::Random;
use super::refusal::{self, Refusal};
use crate::clock::Clock;
use crate::domain::check::Binding;
use crate::domain::descriptor::Request;
use crate::domain::limit::Limit;
use crate::domain::time::Timestamp;
use crate::domain::verdict::{Decision, Decisions, Reason, Verdict};
use crate::policy::metadata::Metadata;
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
    options: LimiterOptions,
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
        options: LimiterOptions,
    ) -> Self {
        let random = Random::new(clock.now().as_micros() ^ (core as u64).rotate_left(32));
        Self {
            core,
            policies,
            store,
            clock,
            keys,
            options,
            random,
        }
    }

    /// Decides `request` before `deadline`.
    ///
    /// # Errors
    /// When the store could not decide and nothing decides in its place. The caller must then be told of an error:
    /// neither verdict would be true.
    pub async fn decide(&self, request: &Request<'_>, deadline: Instant) -> Result<Answer, StoreError> {
        let now = self.clock.now();
        let live = self.policies.load();
        let tally = live.tally(self.core);
        let Some((domain, policy)) = live.find(request.domain) else {
            self.warn_of_unknown_domain(request.domain, &live, now);
            tally.called(None, Cause::UnknownDomain);
            return Ok(Answer::untouched(Cause::UnknownDomain, request.descriptors.len()));
        };
        let plan = Plan::new(request, policy, &self.keys, self.options.modes);
        let decisions = if plan.is_empty() {
            Decisions::default()
        } else {
            let checks = plan.to_checks(self.options.on_store_failure);
            match self
                .store
                .decide(&group(&checks, plan.compat), now, deadline)
                .await
            {
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
        self.warn_of_size(&plan, &decisions, now);
        Ok(answer)
    }

    /// Counts a request that was not a question.
    pub fn reject(&self) {
        self.policies.load().tally(self.core).called(None, Cause::Invalid);
    }

    /// Counts that `descriptors` brought limits of their own that cannot be read: the policy's hold instead. An error
    /// would let the request pass without any.
    pub fn ignore_overrides(&self, descriptors: u32) {
        self.policies.observer().overrides_ignored(descriptors);
        if self.policies.overrides.permits(self.clock.now()) {
            tracing::warn!(
                descriptors,
                "a request brings a limit in a unit that is unknown or longer than ten years; the policy's limits hold \
                 instead (said at most once a minute)"
            );
        }
    }

    fn answer(&self, plan: &Plan<'_>, decisions: &Decisions) -> Answer {
        let statuses: SmallVec<[Status; 2]> = plan
            .reached
            .iter()
            .map(|reached| status(plan, reached, decisions))
            .collect();
        let deciding = deciding(plan, decisions);
        let mut answer = Answer {
            verdict: if decisions.refused {
                Verdict::OverLimit
            } else {
                Verdict::UnderLimit
            },
            cause: cause::of(plan, decisions),
            rule: deciding.map(|place| Arc::clone(&plan.check(place).rule.path)),
            deciding: deciding.and_then(|place| plan.reached.iter().position(|reached| reached.meets(place))),
            degraded: decisions.degraded.is_some(),
            metadata: metadata(plan, decisions, &statuses),
            uncounted: plan.uncounted.clone(),
            statuses,
            headers: SmallVec::new(),
            body: None,
        };
        if let Some(why) = decisions.degraded.filter(|_| !plan.compat) {
            answer.headers.push(Header {
                name: FieldName::ours("x-comporta-degraded"),
                value: String::from(why),
            });
        }
        let LimiterOptions {
            headers: style,
            names,
            ..
        } = &self.options;
        if plan.compat {
            let met: SmallVec<[_; 4]> = checked(plan, decisions)
                .filter(|(_, decision)| decision.reason.has_figures())
                .map(|met| (shown_verdict(met.0, met.1), budget(met)))
                .collect();
            let style = style.unwrap_or(HeaderStyle::Off);
            headers::add_as_reference(style, names, &met, &mut answer.headers);
            return answer;
        }
        let enforced: SmallVec<[Budget<'_>; 8]> = checked(plan, decisions)
            .filter(|(check, decision)| !is_watched(plan, check) && decision.reason.has_figures())
            .map(budget)
            .collect();
        headers::add(style.unwrap_or_default(), names, &enforced, &mut answer.headers);
        if decisions.refused {
            self.explain_refusal(plan, decisions, &mut answer);
        }
        answer
    }

    fn explain_refusal(&self, plan: &Plan<'_>, decisions: &Decisions, answer: &mut Answer) {
        let refusing: SmallVec<[Budget<'_>; 4]> = checked(plan, decisions)
            .filter(|(check, decision)| refuses(check, decision))
            .map(budget)
            .collect();
        let advice = deciding(plan, decisions).and_then(|place| plan.check(place).rule.advice());
        let refusal = Refusal::new(&refusing, advice, &self.random);
        if let Some(seconds) = refusal.retry_after() {
            answer.headers.push(Header {
                name: FieldName::ours("retry-after"),
                value: seconds.to_string(),
            });
        }
        answer.body = refusal.body();
        if answer.body.is_some() {
            let value = String::from("application/problem+json");
            answer.headers.push(Header {
                name: FieldName::ours("content-type"),
                value,
            });
        }
    }

    /// Tells of rules that refuse a call for its size alone: what is charged late, as the tokens of an answer that has
    /// been sent, would then never be counted.
    fn warn_of_size(&self, plan: &Plan<'_>, decisions: &Decisions, now: Timestamp) {
        let too_large = checked(plan, decisions).find(|(_, decision)| decision.reason == Reason::TooManyHits);
        let Some((check, _)) = too_large else { return };
        if self.policies.refused_for_size.permits(now) {
            tracing::warn!(
                rule = %check.rule.path,
                "refused for size: a call asks for more than the limit can ever hold; if these are late charges use \
                 `charge: always` (said at most once a minute)"
            );
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
            tracing::warn!(
                domain = shown_domain(domain),
                loaded = live.domains(),
                unknown_domain = ?self.options.unknown_domain,
                "no policy is about this domain; said at most once a minute"
            );
        }
    }

    /// How it answers.
    pub(super) const fn options(&self) -> &LimiterOptions {
        &self.options
    }

    /// The domains that policies are about, for a person to read.
    pub(super) fn domains(&self) -> String {
        self.policies.load().domains()
    }
}

/// A domain as a message shows it, cut where it is long.
pub(super) fn shown_domain(domain: &[u8]) -> String {
    domain[..domain.len().min(LONGEST_SHOWN_DOMAIN)]
        .escape_ascii()
        .to_string()
}

/// Every check beside what was decided about it.
fn checked<'a, 'p>(
    plan: &'a Plan<'p>,
    decisions: &'a Decisions,
) -> impl Iterator<Item = (&'a Planned<'p>, &'a Decision)> {
    plan.checks().iter().zip(&decisions.checks)
}

fn budget<'a>((check, decision): (&'a Planned<'_>, &'a Decision)) -> Budget<'a> {
    Budget {
        limit: &check.limit,
        decision,
    }
}

/// Whether a check that was decided so refuses its request, given that the request is refused.
fn refuses(check: &Planned<'_>, decision: &Decision) -> bool {
    // Quotas refuse only all together; where one of a refused request is spent without the others, something else
    // refused, and it is still among what stands in the way of the next call.
    decision.verdict == Verdict::OverLimit && check.binding != Binding::Never
}

/// The place of the check that a person would name: the one that refuses longest, else the one nearest its limit.
fn deciding(plan: &Plan<'_>, decisions: &Decisions) -> Option<usize> {
    checked(plan, decisions)
        .enumerate()
        .min_by_key(|(_, (check, decision))| order(check, decision))
        .map(|(place, _)| place)
}

/// Orders decisions from what matters most to what matters least; ties keep the order of the request.
fn order(check: &Planned<'_>, decision: &Decision) -> (bool, Reverse<u64>, u64) {
    if refuses(check, decision) {
        (false, Reverse(refusal::wait_of(decision)), 0)
    } else if decision.reason.has_figures() {
        (true, Reverse(0), decision.remaining)
    } else {
        (true, Reverse(0), u64::MAX)
    }
}

fn status(plan: &Plan<'_>, reached: &Reached<'_>, decisions: &Decisions) -> Status {
    let places = match reached {
        Reached::Limited(_, places) => places,
        Reached::Unlimited(_) => return Status::UNLIMITED,
        Reached::Nothing | Reached::NoRule | Reached::Replaced => return Status::UNTOUCHED,
    };
    let shown = places
        .iter()
        .filter_map(|&place| Some((plan.check(place), decisions.checks.get(place)?)))
        .min_by_key(|(check, decision)| order(check, decision));
    let Some((check, decision)) = shown else {
        return Status::UNTOUCHED;
    };
    if !decision.reason.has_figures() {
        return Status {
            verdict: shown_verdict(check, decision),
            retry_after: decision.retry_after,
            ..Status::UNTOUCHED
        };
    }
    Status {
        verdict: shown_verdict(check, decision),
        limit: Some(shown_limit(&check.limit, plan.compat)),
        remaining: u32::try_from(decision.remaining).unwrap_or(u32::MAX),
        retry_after: decision.retry_after,
        reset_after: Some(decision.reset_after),
    }
}

/// What a rule only watches shows as if it let everything pass. What is watched only because everything is shows what
/// it would do.
fn shown_verdict(check: &Planned<'_>, decision: &Decision) -> Verdict {
    if check.shadow {
        Verdict::UnderLimit
    } else {
        decision.verdict
    }
}

/// Whether a check is weighed and counted but refuses nobody.
fn is_watched(plan: &Plan<'_>, check: &Planned<'_>) -> bool {
    check.shadow || plan.shadow
}

fn shown_limit(limit: &Limit, compat: bool) -> ShownLimit {
    let is_shown = !compat || limit.is_named();
    ShownLimit {
        name: if is_shown {
            Arc::clone(limit.name())
        } else {
            Arc::default()
        },
        count: limit.count(),
        period: limit.period(),
    }
}

/// Whether none of the limits that a descriptor arrived at was looked at: another one is known to be spent.
fn was_left_open(reached: &Reached<'_>, decisions: &Decisions) -> bool {
    let is_open = |place: &usize| {
        let decision = decisions.checks.get(*place);
        decision.is_some_and(|decision| decision.reason == Reason::NotAsked)
    };
    matches!(reached, Reached::Limited(_, places) if places.iter().all(is_open))
}

/// What the rules that let pass say for whoever reads on.
fn metadata(plan: &Plan<'_>, decisions: &Decisions, statuses: &[Status]) -> SmallVec<[Arc<Metadata>; 1]> {
    plan.reached
        .iter()
        .zip(statuses)
        .filter(|(reached, status)| {
            status.verdict == Verdict::UnderLimit && !was_left_open(reached, decisions)
        })
        .filter_map(|(reached, _)| match reached {
            Reached::Limited(rule, _) | Reached::Unlimited(rule) => rule.metadata().cloned(),
            Reached::Nothing | Reached::NoRule | Reached::Replaced => None,
        })
        .collect()
}

fn is_shadow_refusal(plan: &Plan<'_>, check: &Planned<'_>, decision: &Decision) -> bool {
    is_watched(plan, check) && decision.verdict == Verdict::OverLimit
}

fn count(tally: &dyn Tally, domain: usize, plan: &Plan<'_>, answer: &Answer, decisions: &Decisions) {
    tally.called(Some(domain), answer.cause);
    let met = || plan.reached.iter().zip(&answer.statuses);
    for (reached, status) in met().filter(|(reached, _)| !was_left_open(reached, decisions)) {
        if let Reached::Unlimited(rule) | Reached::Limited(rule, _) = reached {
            tally.decided(domain, rule.index, status.verdict);
        }
    }
    for (place, path) in &plan.by_value {
        if let Some((reached, status)) = met().nth(*place)
            && !was_left_open(reached, decisions)
        {
            tally.decided_by_value(domain, path, status.verdict);
        }
    }
    for (check, decision) in checked(plan, decisions) {
        if is_shadow_refusal(plan, check, decision) {
            tally.shadow_refused(domain, check.rule.index);
        }
        if decision.reason == Reason::TooManyHits {
            tally.refused_for_size(domain, check.rule.index);
        }
    }
}

#[cfg(test)]
mod tests;

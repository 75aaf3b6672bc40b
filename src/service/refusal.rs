//! What a refused caller is told: which limit, how much, and when to come back.

use serde::Serialize;

use super::headers::Budget;
use super::random::Random;
use crate::domain::limit::Limit;
use crate::domain::time::Micros;
use crate::domain::verdict::{Decision, Reason};

/// The problem types of draft-ietf-httpapi-ratelimit-headers.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// Why a request is refused, put together from the checks that refuse it.
pub(super) struct Refusal<'a> {
    /// What refuses, in the order met; at least one.
    refusing: &'a [Budget<'a>],
    advice: Option<&'a str>,
    retry_after: Option<u64>,
}

impl<'a> Refusal<'a> {
    /// A refusal by `refusing`, with the advice of the rule that decides.
    pub(super) fn new(refusing: &'a [Budget<'a>], advice: Option<&'a str>, random: &Random) -> Self {
        let retry_after = longest_wait(refusing).map(|wait| spread(wait, random));
        Self {
            refusing,
            advice,
            retry_after,
        }
    }

    /// Whole seconds after which the caller should come back; absent when waiting does not help.
    pub(super) fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    /// The body, as `application/problem+json`.
    pub(super) fn body(&self) -> Option<String> {
        let worst = self
            .refusing
            .iter()
            .max_by_key(|budget| wait_of(budget.decision))?;
        // Where nobody knows what is used, no quota is known to be exceeded, and no advice about it helps.
        let exceeded = worst.decision.reason.has_figures();
        let (r#type, title) = if exceeded {
            (QUOTA_EXCEEDED, "Quota exceeded")
        } else {
            (REDUCED_CAPACITY, "Temporarily reduced capacity")
        };
        let problem = Problem {
            r#type,
            title,
            status: 429,
            detail: detail(worst, self.retry_after),
            violated_policies: names(self.refusing),
            limit: exceeded.then(|| worst.limit.count()),
            period: exceeded.then(|| worst.limit.period().to_string()),
            retry_after: self.retry_after,
            advice: self.advice.filter(|_| exceeded),
        };
        // Strings and numbers always have a form in JSON.
        serde_json::to_string(&problem).ok()
    }
}

/// The limits that are spent, each name once: many counters of one rule may refuse together.
fn names<'a>(refusing: &'a [Budget<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for budget in refusing
        .iter()
        .filter(|budget| budget.decision.reason.has_figures())
    {
        let name: &str = budget.limit.name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// RFC 9457, with the members of the draft and ours.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: String,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated_policies: Vec<&'a str>,
    /// Hits per period of the limit that is waited for longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<String>,
    /// The same seconds as in the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a str>,
}

fn detail(worst: &Budget<'_>, retry_after: Option<u64>) -> String {
    let limit = describe(worst.limit);
    match (worst.decision.reason, retry_after) {
        (Reason::TooManyHits, _) => {
            let (largest, name) = (worst.limit.largest(), worst.limit.name());
            format!(
                "One call asks for more than the {largest} hits that the limit {name} can ever hold. Waiting does not help."
            )
        }
        (Reason::Blocked, _) => format!("{limit} lets nothing pass."),
        (Reason::StoreFailed, _) => format!("{limit} cannot be checked at the moment. Try again shortly."),
        (Reason::Ceiling, seconds) => {
            let when = seconds.map_or_else(
                || String::from("shortly"),
                |seconds| format!("in {}", in_words(seconds)),
            );
            format!("Less than usual is let through at the moment. Try again {when}.")
        }
        (_, Some(seconds)) => format!("{limit} is spent. Try again in {}.", in_words(seconds)),
        (_, None) => format!("{limit} is spent."),
    }
}

fn in_words(seconds: u64) -> String {
    match seconds {
        1 => String::from("1 second"),
        many => format!("{many} seconds"),
    }
}

fn describe(limit: &Limit) -> String {
    format!(
        "The limit {} ({} per {})",
        limit.name(),
        limit.count(),
        limit.period()
    )
}

/// The wait until every refusing check would let this call pass, but for those that cannot be decided, of which nobody
/// knows; absent when one never would, and when there are no others.
fn longest_wait(refusing: &[Budget<'_>]) -> Option<Micros> {
    let decisions = refusing.iter().map(|budget| budget.decision);
    decisions
        .filter(|decision| decision.reason != Reason::StoreFailed)
        .map(|decision| decision.retry_after)
        .reduce(|one, other| Some(one?.max(other?)))
        .flatten()
}

/// Orders what refuses: a wait that nobody knows is the shortest of all, and never is the longest.
pub(super) fn wait_of(decision: &Decision) -> u64 {
    match (decision.reason, decision.retry_after) {
        (Reason::StoreFailed, _) => 0,
        (_, None) => u64::MAX,
        (_, Some(wait)) => wait.get(),
    }
}

/// `wait` in whole seconds, rounded up, and up to a fifth of it, but at least a second, more: so that refused callers
/// do not all come back at once, and none before it would pass.
fn spread(wait: Micros, random: &Random) -> u64 {
    let fifth = wait.get().div_ceil(5_000_000).max(1);
    wait.ceil_secs() + random.up_to(fifth)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::limit::{Algorithm, LimitSpec, Period, Unit};
    use crate::domain::verdict::Verdict;

    fn limit(name: &str, count: u32, unit: Unit) -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from(name),
            named: true,
            count,
            period: Period::one(unit),
            algorithm: Algorithm::SlidingWindow,
            burst: None,
            delay: Micros::ZERO,
            calendar: false,
        })
        .expect("a sound limit")
    }

    fn over(reason: Reason, retry_after: Option<Micros>) -> Decision {
        Decision {
            verdict: Verdict::OverLimit,
            reason,
            remaining: 0,
            retry_after,
            next_after: retry_after,
            reset_after: Micros::MINUTE,
            delay: Micros::ZERO,
        }
    }

    #[test]
    fn comes_back_only_ever_later_and_by_at_most_a_fifth() {
        let random = Random::new(7);
        for (micros, least, most) in [
            (1, 1, 2),
            (1_000_000, 1, 2),
            (9_500_000, 10, 12),
            (60_000_000, 60, 72),
        ] {
            let drawn: Vec<_> = (0..1000).map(|_| spread(Micros::new(micros), &random)).collect();
            assert_eq!(drawn.iter().min(), Some(&least), "{micros} µs");
            assert_eq!(drawn.iter().max(), Some(&most), "{micros} µs");
        }
    }

    #[test]
    fn the_longest_wait_counts_and_never_beats_all() {
        let (minute, day) = (limit("a", 1, Unit::Minute), limit("b", 1, Unit::Day));
        let (soon, late) = (
            over(Reason::Spent, Some(Micros::SECOND)),
            over(Reason::Spent, Some(Micros::HOUR)),
        );
        let never = over(Reason::TooManyHits, None);
        let budgets = [
            Budget {
                limit: &minute,
                decision: &soon,
            },
            Budget {
                limit: &day,
                decision: &late,
            },
        ];
        assert_eq!(longest_wait(&budgets), Some(Micros::HOUR));
        let budgets = [
            Budget {
                limit: &minute,
                decision: &never,
            },
            Budget {
                limit: &day,
                decision: &late,
            },
        ];
        assert_eq!(longest_wait(&budgets), None);
    }

    #[test]
    fn the_body_says_which_limit_how_much_and_when() {
        let limit = limit("client/plan", 60, Unit::Minute);
        let decision = over(Reason::Spent, Some(Micros::from_secs(10)));
        let budgets = [Budget {
            limit: &limit,
            decision: &decision,
        }; 2];
        let refusal = Refusal::new(&budgets, Some("Ask for \"more\"."), &Random::new(1));
        let body: serde_json::Value = serde_json::from_str(&refusal.body().expect("a body")).expect("JSON");
        let seconds = refusal.retry_after().expect("a wait");
        assert!((10..=12).contains(&seconds));
        assert_eq!(
            body,
            serde_json::json!({
                "type": QUOTA_EXCEEDED,
                "title": "Quota exceeded",
                "status": 429,
                "detail": format!("The limit client/plan (60 per minute) is spent. Try again in {seconds} seconds."),
                "violated-policies": ["client/plan"],
                "limit": 60,
                "period": "minute",
                "retry_after": seconds,
                "advice": "Ask for \"more\".",
            })
        );
    }

    #[test]
    fn a_call_that_never_can_pass_is_not_told_to_wait() {
        let limit = limit("client/plan", 60, Unit::Minute);
        let decision = over(Reason::TooManyHits, None);
        let budgets = [Budget {
            limit: &limit,
            decision: &decision,
        }];
        let refusal = Refusal::new(&budgets, None, &Random::new(1));
        assert_eq!(refusal.retry_after(), None);
        let body = refusal.body().expect("a body");
        assert!(body.contains("Waiting does not help."), "{body}");
        assert!(
            !body.contains("retry_after") && !body.contains("advice"),
            "{body}"
        );
    }
}

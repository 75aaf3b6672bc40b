//! What a limit comes to: the most it admits, and what becomes of it when Redis is gone.

use std::fmt;
use std::num::NonZeroU32;

use crate::domain::check::OnStoreFailure;
use crate::domain::limit::{Algorithm, Grid, Limit, Unit};
use crate::domain::time::Micros;
use crate::policy::Limits;
use crate::policy::trace::{End, Step};
use crate::store::key::{Keys, Part, Realm};

use super::{Explanation, Met, readable};

/// In front of every key, where a server is not told otherwise.
const PREFIX: &str = "comporta";

/// The limits of the rule that was met, each beside the readable key of its counter.
pub(super) fn limits_of<'e>(explanation: &Explanation<'e>) -> Vec<(&'e Limit, String)> {
    let Some(Met { policy, trace, .. }) = &explanation.met else {
        return Vec::new();
    };
    let End::Rule(found) = &trace.end else {
        return Vec::new();
    };
    let Limits::Held(limits) = found.limits else {
        return Vec::new();
    };
    let keys = Keys::new(PREFIX);
    let key = |limit: &Limit| {
        let mut key = Vec::new();
        // What is secret is written as a word: a hash of it under no real secret would name no counter.
        let entries = found.counted.iter().map(|entry| Part {
            key: entry.key,
            value: if entry.secret { b"(secret)" } else { &entry.value },
            secret: false,
        });
        let realm = Realm {
            domain: explanation.domain,
            shard_by: policy.shard_by(),
        };
        if policy.is_nameless(limits) {
            keys.write_nameless(&mut key, realm, entries, limit);
        } else {
            keys.write(&mut key, realm, entries, limit);
        }
        readable(&key)
    };
    limits.iter().map(|limit| (limit, key(limit))).collect()
}

/// What a limit says: `60 per minute, token_bucket of 10`.
pub(super) fn said(limit: &Limit) -> String {
    let (count, period, algorithm) = (limit.count(), limit.period(), limit.algorithm().name());
    match limit.algorithm() {
        Algorithm::TokenBucket => format!("{count} per {period}, {algorithm} of {}", limit.capacity()),
        Algorithm::LeakyBucket => format!(
            "{count} per {period}, {algorithm} with a queue of {}",
            limit.delay()
        ),
        _ => format!("{count} per {period}, {algorithm}"),
    }
}

/// Spans for which the worst case is told: the limit's own, and a day where that is longer.
pub(super) fn spans(limit: &Limit) -> Vec<Span<'_>> {
    let own = match (limit.algorithm(), limit.grid()) {
        (Algorithm::FixedWindow, Grid::Months(_)) => {
            Span::Days(limit.shortest_window().get() / Micros::DAY.get())
        }
        _ => Span::Period(limit),
    };
    let day = (limit.period().length() < Micros::DAY).then_some(Span::Days(1));
    std::iter::once(own).chain(day).collect()
}

/// A length of time in words.
#[derive(Clone, Copy)]
pub(super) enum Span<'l> {
    /// That of a limit.
    Period(&'l Limit),
    Days(u64),
}

impl Span<'_> {
    pub(super) fn length(self) -> Micros {
        match self {
            Self::Period(limit) => limit.period().length(),
            Self::Days(days) => Micros::new(days * Micros::DAY.get()),
        }
    }
}

impl fmt::Display for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // By any other algorithm than windows on the calendar it is always so many days.
            Self::Period(limit) if matches!(limit.period().unit, Unit::Month | Unit::Year) => {
                write!(f, "{} days", limit.period().length().get() / Micros::DAY.get())
            }
            Self::Period(limit) => limit.period().fmt(f),
            Self::Days(1) => f.write_str("day"),
            Self::Days(days) => write!(f, "{days} days"),
        }
    }
}

/// The most that is admitted: `at most 10 at once, 70 in any minute, 86410 in any day`.
pub(super) fn worst_case(limit: &Limit) -> String {
    if limit.count() == 0 {
        return String::from("nothing, ever");
    }
    let in_any = |most: &dyn Fn(Micros) -> u64| -> String {
        let spans = spans(limit);
        let told = spans
            .iter()
            .map(|span| format!("{} in any {span}", most(span.length())));
        told.collect::<Vec<_>>().join(", ")
    };
    let spans = in_any(&|span| limit.most_within(span));
    match limit.algorithm() {
        Algorithm::LeakyBucket => format!(
            "one hit at a time, evenly spaced: {}; {}",
            in_any(&|span| 1 + limit.rate().drained_in(span).whole),
            match limit.largest() {
                1 => String::from("no call of several hits ever passes"),
                most => format!(
                    "up to {} more where calls have several hits, {most} at most",
                    most - 1
                ),
            }
        ),
        Algorithm::FixedWindow => format!(
            "at most {} in a window, and {} within a moment where two meet: {spans}",
            limit.count(),
            2 * u64::from(limit.count())
        ),
        _ => format!("at most {} at once, {spans}", limit.most_at_once()),
    }
}

/// Why the worst case is what it is.
pub(super) fn why(limit: &Limit) -> Option<String> {
    if limit.count() == 0 {
        return None;
    }
    let (count, period) = (limit.count(), limit.period());
    let interval = Micros::new(period.length().get().div_ceil(u64::from(count)));
    Some(match limit.algorithm() {
        Algorithm::TokenBucket => format!(
            "the bucket's {}, and {count} per {period} as it refills: one every {interval}",
            limit.capacity()
        ),
        Algorithm::LeakyBucket => format!(
            "one every {interval}; what waits longer than {} is refused",
            limit.delay()
        ),
        Algorithm::SlidingWindow => {
            format!("what the last {period} used up comes back bit by bit, and never two budgets at once")
        }
        Algorithm::SlidingLog => format!(
            "each hit comes back {} after it was taken",
            Micros::new(period.length().get())
        ),
        Algorithm::FixedWindow => match limit.grid() {
            Grid::Epoch => format!("windows of a {period} begin at whole multiples of it since 1970, in UTC"),
            Grid::Monday => String::from("weeks begin on Mondays, at midnight in UTC"),
            Grid::Months(_) => String::from("they begin on the first of a month, at midnight in UTC"),
        },
    })
}

/// What happens to what does not fit.
pub(super) fn on_excess(limit: &Limit, is_shadowed: bool) -> String {
    if is_shadowed {
        String::from("passes all the same, and a metric counts it")
    } else if limit.count() == 0 {
        String::from("refused; waiting does not help")
    } else if limit.delay() == Micros::ZERO {
        String::from("refused, and told when to come back")
    } else {
        format!(
            "held until there is room, for {} at most; beyond that refused",
            limit.delay()
        )
    }
}

/// What holds while Redis is gone, by `choice`.
pub(super) fn degraded(
    limit: &Limit,
    choice: OnStoreFailure,
    is_shadowed: bool,
    instances: Option<NonZeroU32>,
) -> String {
    match choice {
        _ if limit.count() == 0 => String::from("refused as ever"),
        OnStoreFailure::Local => by_share(limit, instances),
        OnStoreFailure::Allow => {
            String::from("passes and is counted nowhere, up to --fallback-ceiling where there is one")
        }
        OnStoreFailure::Deny if is_shadowed => String::from("passes all the same, and a metric counts it"),
        OnStoreFailure::Deny => String::from("refused, and not told when to come back, for nobody knows"),
        OnStoreFailure::Error => String::from(
            "the gateway gets an error, whatever other limits of the request say, and does as it is configured",
        ),
    }
}

/// What one instance grants by itself.
fn by_share(limit: &Limit, instances: Option<NonZeroU32>) -> String {
    let Some(instances) = instances.filter(|instances| instances.get() > 1) else {
        return format!(
            "each instance decides by itself, as a bucket: {} per {} and {} at once, both ÷ --instances",
            limit.count(),
            limit.period(),
            limit.share_of(1).capacity()
        );
    };
    let share = limit.share_of(instances.get());
    let span = Span::Period(limit);
    let once = u64::from(share.capacity());
    let within = once + share.rate().drained_in(span.length()).whole;
    let all = u64::from(instances.get());
    format!(
        "each of {all} instances decides by itself, as a bucket: at most {once} at once and {within} in any {span}; all \
         together {} and {}. One larger call, if it is not above the limit, still passes an empty bucket",
        once * all,
        within * all
    )
}

/// Whether the value of an entry was changed before it was matched.
pub(super) fn is_normalised(step: &Step<'_>) -> bool {
    step.read != step.sent
}

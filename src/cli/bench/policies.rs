//! The policies that servers are started with, and what is asked under them.

use std::fmt::Write as _;
use std::sync::Arc;

use super::question::{Question, caller};
use crate::domain::limit::{Algorithm, Limit, LimitError, LimitSpec, Period, Unit};
use crate::domain::time::Micros;

const DOMAIN: &str = "bench";

/// The value of the first of three entries: it says what limit holds for the caller, who is the last.
#[derive(Clone, Copy)]
pub(super) enum Route {
    /// Never refuses.
    Wide,
    /// Refuses all but the first.
    Spent,
    /// [`HOT`] hits a second.
    Hot,
}

/// What [`Route::Hot`] grants a second.
pub(super) const HOT: u32 = 1000;

impl Route {
    const fn name(self) -> &'static str {
        match self {
            Self::Wide => "checkout",
            Self::Spent => "spent",
            Self::Hot => "hot",
        }
    }

    fn rate(self) -> String {
        match self {
            Self::Wide => String::from("4000000000/hour"),
            Self::Spent => String::from("1/day"),
            Self::Hot => format!("{HOT}/second"),
        }
    }

    /// The question about one caller under it, or about several at once.
    pub(super) fn ask(self, callers: usize) -> Question {
        let before = [("route", self.name()), ("plan", "gold")];
        Question::new(DOMAIN, &before, "client", callers)
    }
}

/// Every route. Their limits are sliding windows, as limits are that do not say otherwise.
pub(super) fn routes() -> String {
    let mut policy = format!("domain: {DOMAIN}\ndescriptors:\n");
    for route in [Route::Wide, Route::Spent, Route::Hot] {
        let _ = write!(
            policy,
            "  - key: route
    value: {}
    descriptors:
      - key: plan
        value: gold
        descriptors:
          - key: client
            rate_limit: {{ rate: {} }}
",
            route.name(),
            route.rate()
        );
    }
    policy
}

/// A rule for each of so many callers by name, all under [`Route::Wide`].
pub(super) fn rules(count: u64) -> String {
    let mut policy = format!(
        "domain: {DOMAIN}
descriptors:
  - key: route
    value: {}
    descriptors:
      - key: plan
        value: gold
        descriptors:
",
        Route::Wide.name()
    );
    for number in 0..count {
        let _ = writeln!(
            policy,
            "          - {{ key: client, value: \"{}\", rate_limit: {{ rate: {} }} }}",
            caller(number),
            Route::Wide.rate()
        );
    }
    policy
}

/// A rule whose counters have keys of [`SHORT_KEY`] bytes.
pub(super) fn short_keys() -> String {
    let rate = Route::Wide.rate();
    format!("domain: b\ndescriptors:\n  - {{ key: c, rate_limit: {{ rate: {rate} }} }}\n")
}

/// How long the keys of counters under [`short_keys`] are.
pub(super) const SHORT_KEY: usize = 40;

/// The question about so many callers under [`short_keys`].
pub(super) fn ask_short_keys(callers: usize) -> Question {
    Question::new("b", &[], "c", callers)
}

/// The limit of [`Route::Hot`]: what it promises is held against what was admitted.
pub(super) fn hot_limit() -> Result<Limit, LimitError> {
    Limit::new(LimitSpec {
        name: Arc::from(Route::Hot.name()),
        named: true,
        count: HOT,
        period: Period::one(Unit::Second),
        algorithm: Algorithm::SlidingWindow,
        burst: None,
        delay: Micros::ZERO,
        calendar: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::descriptor::Entry;
    use crate::policy::{Limits, PolicySet};
    use crate::store::key::{Keys, Part, Realm};

    fn parse(policy: &str) -> PolicySet {
        PolicySet::parse(&[("bench.yaml", policy)]).expect("a sound policy")
    }

    #[test]
    fn policies_are_sound() {
        assert_eq!(parse(&routes()).limit_count(), 3);
        assert_eq!(parse(&rules(1)).limit_count(), 1);
        assert_eq!(parse(&rules(1000)).limit_count(), 1000);
        assert_eq!(parse(&short_keys()).limit_count(), 1);
    }

    #[test]
    fn short_keys_are_as_short_as_they_are_said_to_be() {
        let policy = parse(&short_keys());
        let caller = caller(7);
        let entries = [Entry::new("c", &caller)];
        let found = policy.policies()[0].find(&entries).expect("a rule");
        let Limits::Held(limits) = found.rule.limits_of(None) else {
            panic!("unlimited");
        };
        let realm = Realm {
            domain: b"b",
            shard_by: None,
        };
        let parts = found.counted.iter().map(|entry| Part {
            key: entry.key,
            value: &entry.value,
            secret: false,
        });
        let mut key = Vec::new();
        Keys::new("comporta").write(&mut key, realm, parts, &limits[0]);
        assert_eq!(key.len(), SHORT_KEY);
    }

    #[test]
    fn what_is_promised_is_what_the_policy_says() {
        let routes = parse(&routes());
        let hot = routes.policies()[0].rules().last().expect("three rules");
        let Limits::Held(limits) = hot.limits_of(None) else {
            panic!("unlimited");
        };
        for span in [Micros::SECOND, Micros::MINUTE] {
            let promised = hot_limit().expect("a sound limit").most_within(span);
            assert_eq!(limits[0].most_within(span), promised);
        }
        assert_eq!(limits[0].count(), HOT);
    }
}

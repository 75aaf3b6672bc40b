//! What a step expects, and how an answer differs from it.

use std::fmt;

use super::words::show_span;
use crate::domain::limit::Period;
use crate::domain::time::Micros;
use crate::domain::verdict::Verdict;
use crate::service::answer::{Answer, Cause, ShownLimit, Status};

/// What a step expects of the answer; what is absent may be anything.
#[derive(Debug, Default)]
pub struct Expectation {
    pub(super) verdict: Option<Verdict>,
    pub(super) rule: Option<OrNone<String>>,
    pub(super) cause: Option<Cause>,
    pub(super) admitted: Option<u32>,
    /// Of the status that decided.
    pub(super) figures: Figures,
    pub(super) statuses: Option<Vec<Figures>>,
}

/// What is expected of what is said about one descriptor.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) verdict: Option<Verdict>,
    pub(super) remaining: Option<OrNone<u32>>,
    pub(super) limit: Option<OrNone<Shape>>,
    pub(super) name: Option<OrNone<String>>,
    pub(super) retry_after: Option<Retry>,
    pub(super) reset_after: Option<OrNone<Micros>>,
}

/// Something, or the word `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OrNone<T> {
    None,
    Some(T),
}

/// When to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// There is no need.
    None,
    /// Waiting does not help.
    Never,
    /// After this time.
    After(Micros),
}

/// A limit's count and, where that matters, its period.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) count: u32,
    pub(super) period: Option<Period>,
}

impl PartialEq for Shape {
    /// An absent period is any.
    fn eq(&self, other: &Self) -> bool {
        let same_period = match (self.period, other.period) {
            (Some(one), Some(other)) => one.length() == other.length(),
            _ => true,
        };
        self.count == other.count && same_period
    }
}

/// One thing that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What: `remaining`, `statuses[1].verdict`.
    pub what: String,
    /// As the test says it.
    pub expected: String,
    /// As a test would say it.
    pub got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, expected {}", self.what, self.got, self.expected)
    }
}

impl Expectation {
    /// How the last answer of several, of which `admitted` passed, differs from this.
    pub(super) fn compare(&self, answer: &Answer, admitted: u32) -> Vec<Difference> {
        let mut found = Differences::default();
        let rule = OrNone::from(answer.rule.as_deref().map(str::to_owned));
        found.compare("verdict", self.verdict.as_ref(), &answer.verdict, |verdict| {
            word(*verdict).into()
        });
        found.compare("cause", self.cause.as_ref(), &answer.cause, |cause| {
            cause.name().into()
        });
        found.compare("admitted", self.admitted.as_ref(), &admitted, u32::to_string);
        found.compare("rule", self.rule.as_ref(), &rule, OrNone::to_string);
        let deciding = answer.deciding.and_then(|place| answer.statuses.get(place));
        found.compare_figures("", &self.figures, deciding.unwrap_or(&Status::UNLIMITED));
        for (place, (figures, status)) in self.statuses.iter().flatten().zip(&answer.statuses).enumerate() {
            found.compare_figures(&format!("statuses[{place}]."), figures, status);
        }
        found.0
    }
}

#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn compare<T: PartialEq>(
        &mut self,
        what: &str,
        expected: Option<&T>,
        got: &T,
        show: impl Fn(&T) -> String,
    ) {
        if let Some(expected) = expected.filter(|expected| *expected != got) {
            self.0.push(Difference {
                what: what.to_owned(),
                expected: show(expected),
                got: show(got),
            });
        }
    }

    fn compare_figures(&mut self, of: &str, expected: &Figures, status: &Status) {
        let Figures {
            verdict,
            remaining,
            limit,
            name,
            retry_after,
            reset_after,
        } = expected;
        let key = |what: &str| format!("{of}{what}");
        let shown = status.limit.as_ref();
        let left = OrNone::from(shown.map(|_| status.remaining));
        let shape = OrNone::from(shown.map(Shape::from));
        let named = OrNone::from(shown.map(|limit| limit.name.to_string()));
        let (retry, reset) = (Retry::of(status), OrNone::from(status.reset_after));
        self.compare(&key("verdict"), verdict.as_ref(), &status.verdict, |verdict| {
            word(*verdict).into()
        });
        self.compare(&key("remaining"), remaining.as_ref(), &left, OrNone::to_string);
        self.compare(&key("limit"), limit.as_ref(), &shape, OrNone::to_string);
        self.compare(&key("name"), name.as_ref(), &named, OrNone::to_string);
        self.compare(
            &key("retry_after"),
            retry_after.as_ref(),
            &retry,
            Retry::to_string,
        );
        self.compare(
            &key("reset_after"),
            reset_after.as_ref(),
            &reset,
            |reset| match reset {
                OrNone::None => String::from("none"),
                OrNone::Some(span) => show_span(*span),
            },
        );
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::UnderLimit => "ok",
        Verdict::OverLimit => "over",
    }
}

impl<T> From<Option<T>> for OrNone<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Self::Some)
    }
}

impl Retry {
    fn of(status: &Status) -> Self {
        match (status.retry_after, status.verdict) {
            (Some(wait), _) => Self::After(wait),
            (None, Verdict::OverLimit) => Self::Never,
            (None, Verdict::UnderLimit) => Self::None,
        }
    }
}

impl From<&ShownLimit> for Shape {
    fn from(limit: &ShownLimit) -> Self {
        Self {
            count: limit.count,
            period: Some(limit.period),
        }
    }
}

impl<T: fmt::Display> fmt::Display for OrNone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Some(value) => value.fmt(f),
        }
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Never => f.write_str("never"),
            Self::After(wait) => f.write_str(&show_span(*wait)),
        }
    }
}

impl fmt::Display for Shape {
    /// As a policy writes it: `60/minute`, `100/15m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)?;
        match self.period {
            None => Ok(()),
            Some(Period { unit, multiplier: 1 }) => write!(f, "/{}", unit.name()),
            Some(period) => write!(f, "/{}", show_span(period.length())),
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::domain::limit::Unit;

    fn status(verdict: Verdict, remaining: u32, retry_after: Option<Micros>) -> Status {
        Status {
            verdict,
            limit: Some(ShownLimit {
                name: "client/plan".into(),
                count: 60,
                period: Period::one(Unit::Minute),
            }),
            remaining,
            retry_after,
            reset_after: Some(Micros::MINUTE),
        }
    }

    /// Refused by the second of two descriptors.
    fn refusal() -> Answer {
        Answer {
            verdict: Verdict::OverLimit,
            cause: Cause::OverLimit,
            rule: Some("client/plan".into()),
            deciding: Some(1),
            degraded: false,
            statuses: smallvec![
                Status::UNLIMITED,
                status(Verdict::OverLimit, 0, Some(Micros::new(600_000))),
            ],
            metadata: smallvec![],
            uncounted: smallvec![],
            headers: smallvec![],
            body: None,
        }
    }

    fn check(expected: &Expectation, said: &[&str]) {
        let found: Vec<String> = expected
            .compare(&refusal(), 3)
            .iter()
            .map(Difference::to_string)
            .collect();
        assert_eq!(found, said);
    }

    #[test]
    fn what_is_not_said_may_be_anything() {
        check(&Expectation::default(), &[]);
    }

    #[test]
    fn every_difference_is_told() {
        check(
            &Expectation {
                verdict: Some(Verdict::UnderLimit),
                rule: Some(OrNone::None),
                cause: Some(Cause::Shadow),
                admitted: Some(4),
                figures: Figures {
                    verdict: None,
                    remaining: Some(OrNone::Some(5)),
                    limit: Some(OrNone::Some(Shape {
                        count: 60,
                        period: Some(Period::one(Unit::Hour)),
                    })),
                    name: Some(OrNone::Some("other".into())),
                    retry_after: Some(Retry::Never),
                    reset_after: Some(OrNone::Some(Micros::SECOND)),
                },
                statuses: Some(vec![
                    Figures {
                        remaining: Some(OrNone::Some(1)),
                        ..Figures::default()
                    },
                    Figures {
                        verdict: Some(Verdict::UnderLimit),
                        ..Figures::default()
                    },
                ]),
            },
            &[
                "verdict is over, expected ok",
                "cause is over_limit, expected shadow",
                "admitted is 3, expected 4",
                "rule is client/plan, expected none",
                "remaining is 0, expected 5",
                "limit is 60/minute, expected 60/hour",
                "name is client/plan, expected other",
                "retry_after is 600ms, expected never",
                "reset_after is 1m, expected 1s",
                "statuses[0].remaining is none, expected 1",
                "statuses[1].verdict is over, expected ok",
            ],
        );
    }

    #[test]
    fn a_count_alone_is_any_period() {
        let shape = |count, period| Shape { count, period };
        assert_eq!(shape(60, None), shape(60, Some(Period::one(Unit::Minute))));
        assert_ne!(shape(61, None), shape(60, Some(Period::one(Unit::Minute))));
        let sixty_seconds = Period {
            unit: Unit::Second,
            multiplier: 60,
        };
        assert_eq!(
            shape(60, Some(sixty_seconds)),
            shape(60, Some(Period::one(Unit::Minute)))
        );
    }
}

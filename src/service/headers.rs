//! The response headers that tell a caller about its budget, also while there is room.

use std::sync::Arc;

use smallvec::SmallVec;

use super::answer::Header;
use super::field::{DraftNames, FieldName};
use crate::domain::limit::Limit;
use crate::domain::time::Micros;
use crate::domain::verdict::{Decision, Verdict};

/// At most this many limits are shown: a header must fit what gateways and clients accept.
const MOST_SHOWN: usize = 16;

/// As much as is written of a limit beside its name: usually enough.
const FIGURES: usize = 40;

/// Which headers speak of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum HeaderStyle {
    /// `RateLimit-Policy` and `RateLimit`: draft-ietf-httpapi-ratelimit-headers-11.
    #[default]
    Ietf,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset`: draft-polli-ratelimit-headers-03.
    Draft03,
    /// Both sets.
    Both,
    /// None of them.
    Off,
}

impl HeaderStyle {
    const fn shows_ietf(self) -> bool {
        matches!(self, Self::Ietf | Self::Both)
    }

    const fn shows_draft03(self) -> bool {
        matches!(self, Self::Draft03 | Self::Both)
    }
}

/// One limit that a caller met, and what was decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget<'a> {
    pub(super) limit: &'a Limit,
    pub(super) decision: &'a Decision,
}

/// Adds the headers of `style` about `met`, which holds no limit that is only watched.
pub(super) fn add(
    style: HeaderStyle,
    names: &DraftNames,
    met: &[Budget<'_>],
    headers: &mut SmallVec<[Header; 4]>,
) {
    if style == HeaderStyle::Off {
        return;
    }
    let shown = choose(met);
    if shown.is_empty() {
        return;
    }
    if style.shows_ietf() {
        headers.push(Header {
            name: FieldName::ours("ratelimit-policy"),
            value: list(&shown, write_policy),
        });
        headers.push(Header {
            name: FieldName::ours("ratelimit"),
            value: list(&shown, write_budget),
        });
    }
    if style.shows_draft03() {
        add_draft03(names, &shown, headers);
    }
}

/// Adds the three headers as the reference has them, where they are asked for: about the last limit that shows as
/// refusing, else the one with the least left, the first of these on ties. `met` holds limits that are only watched,
/// too, each beside the verdict that its status shows.
pub(super) fn add_as_reference(
    style: HeaderStyle,
    names: &DraftNames,
    met: &[(Verdict, Budget<'_>)],
    headers: &mut SmallVec<[Header; 4]>,
) {
    let refused = met
        .iter()
        .rev()
        .find(|(verdict, _)| *verdict == Verdict::OverLimit);
    let nearest = || met.iter().min_by_key(|(_, budget)| budget.decision.remaining);
    let Some((_, shown)) = refused.or_else(nearest).filter(|_| style.shows_draft03()) else {
        return;
    };
    let names = Three::new(
        names,
        ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"],
    );
    add_three(names, shown.limit.count().to_string(), shown.decision, headers);
}

/// What is shown: each name once, at its smallest remaining, for a reader finds a policy by its name.
fn choose<'a>(met: &[Budget<'a>]) -> SmallVec<[Budget<'a>; 4]> {
    let mut shown: SmallVec<[Budget<'a>; 4]> = SmallVec::new();
    for budget in met {
        if let Some(other) = shown.iter_mut().find(|other| have_one_name(other, budget)) {
            if nearness(budget) < nearness(other) {
                *other = *budget;
            }
        } else if can_be_quoted(budget.limit.name()) {
            shown.push(*budget);
        }
    }
    if shown.len() > MOST_SHOWN {
        shown.sort_by_key(nearness);
        shown.truncate(MOST_SHOWN);
    }
    shown
}

/// Most often they are of one rule, and their name is the same one.
fn have_one_name(one: &Budget<'_>, other: &Budget<'_>) -> bool {
    let (one, other) = (one.limit.name(), other.limit.name());
    Arc::ptr_eq(one, other) || one == other
}

/// Orders budgets: refused ones first, then by what remains.
fn nearness(budget: &Budget<'_>) -> (bool, u64) {
    (
        budget.decision.verdict == Verdict::UnderLimit,
        budget.decision.remaining,
    )
}

/// A structured field's string holds printable ASCII alone; what is not has no way to be written.
fn can_be_quoted(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

fn list(shown: &[Budget<'_>], write: fn(&mut String, &Budget<'_>)) -> String {
    let names: usize = shown.iter().map(|budget| budget.limit.name().len()).sum();
    let mut value = String::with_capacity(names + FIGURES * shown.len());
    for (place, budget) in shown.iter().enumerate() {
        if place > 0 {
            value.push_str(", ");
        }
        write(&mut value, budget);
    }
    value
}

/// `"client/plan";q=60;w=60`
fn write_policy(value: &mut String, budget: &Budget<'_>) {
    write_quoted(value, budget.limit.name());
    write_figure(value, ";q=", budget.limit.count().into());
    write_figure(value, ";w=", window_secs(budget.limit));
}

/// `"client/plan";r=9;t=1`; without `t` when the budget is whole.
fn write_budget(value: &mut String, budget: &Budget<'_>) {
    write_quoted(value, budget.limit.name());
    write_figure(value, ";r=", budget.decision.remaining);
    if let Some(next) = budget.decision.next_after {
        write_figure(value, ";t=", next.ceil_secs());
    }
}

/// The three headers of the older draft, about the limit that is nearest.
fn add_draft03(names: &DraftNames, shown: &[Budget<'_>], headers: &mut SmallVec<[Header; 4]>) {
    let Some(nearest) = shown.iter().min_by_key(|budget| nearness(budget)) else {
        return;
    };
    let mut limits = nearest.limit.count().to_string();
    for budget in shown {
        write_figure(&mut limits, ", ", budget.limit.count().into());
        write_figure(&mut limits, ";w=", window_secs(budget.limit));
        limits.push_str(";name=");
        write_quoted(&mut limits, budget.limit.name());
    }
    let names = Three::new(
        names,
        ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
    );
    add_three(names, limits, nearest.decision, headers);
}

/// What the three headers are called.
struct Three([FieldName; 3]);

impl Three {
    /// The names that were chosen, else `ours`.
    fn new(chosen: &DraftNames, ours: [&'static str; 3]) -> Self {
        let [limit, remaining, reset] = ours.map(FieldName::ours);
        Self([
            chosen.limit.clone().unwrap_or(limit),
            chosen.remaining.clone().unwrap_or(remaining),
            chosen.reset.clone().unwrap_or(reset),
        ])
    }
}

fn add_three(names: Three, limit: String, decision: &Decision, headers: &mut SmallVec<[Header; 4]>) {
    let remaining = decision.remaining.to_string();
    let reset = until_reset(decision).ceil_secs().to_string();
    let values = [limit, remaining, reset];
    headers.extend(
        names
            .0
            .into_iter()
            .zip(values)
            .map(|(name, value)| Header { name, value }),
    );
}

/// When a call that was refused would pass; when the budget is whole again where it was not, or never would.
pub(super) fn until_reset(decision: &Decision) -> Micros {
    match (decision.verdict, decision.retry_after) {
        (Verdict::OverLimit, Some(wait)) => wait,
        _ => decision.reset_after,
    }
}

fn window_secs(limit: &Limit) -> u64 {
    limit.period().length().ceil_secs()
}

/// A structured field's string: in quotes, `"` and `\` escaped.
fn write_quoted(value: &mut String, text: &str) {
    value.push('"');
    let mut rest = text;
    while let Some(place) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) {
        let (before, special) = rest.split_at(place);
        value.push_str(before);
        value.push('\\');
        value.push_str(&special[..1]);
        rest = &special[1..];
    }
    value.push_str(rest);
    value.push('"');
}

fn write_figure(value: &mut String, before: &str, figure: u64) {
    value.push_str(before);
    value.push_str(itoa::Buffer::new().format(figure));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::limit::{Algorithm, LimitSpec, Period, Unit};
    use crate::domain::verdict::Reason;

    fn limit(name: &str, count: u32, unit: Unit, multiplier: u32) -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from(name),
            named: true,
            count,
            period: Period { unit, multiplier },
            algorithm: Algorithm::SlidingWindow,
            burst: None,
            delay: Micros::ZERO,
            calendar: false,
        })
        .expect("a sound limit")
    }

    fn fits(remaining: u64, next_after: Option<u64>) -> Decision {
        Decision {
            verdict: Verdict::UnderLimit,
            reason: Reason::Fits,
            remaining,
            retry_after: None,
            next_after: next_after.map(Micros::new),
            reset_after: Micros::from_secs(30),
            delay: Micros::ZERO,
        }
    }

    fn spent(retry_after: Option<u64>) -> Decision {
        Decision {
            verdict: Verdict::OverLimit,
            reason: Reason::Spent,
            remaining: 0,
            retry_after: retry_after.map(Micros::new),
            ..fits(0, retry_after)
        }
    }

    /// The headers of `style` as lines.
    fn shown(style: HeaderStyle, met: &[(&Limit, Decision)]) -> Vec<String> {
        let met: Vec<_> = met
            .iter()
            .map(|(limit, decision)| Budget { limit, decision })
            .collect();
        let mut headers = SmallVec::new();
        add(style, &DraftNames::default(), &met, &mut headers);
        headers
            .iter()
            .map(|header| format!("{}: {}", header.name, header.value))
            .collect()
    }

    #[test]
    fn ietf_names_policies_and_budgets_in_the_order_they_were_met() {
        let (minute, day) = (
            limit("client/plan", 60, Unit::Minute, 1),
            limit("daily", 1000, Unit::Day, 1),
        );
        assert_eq!(
            shown(
                HeaderStyle::Ietf,
                &[(&minute, fits(59, Some(500_001))), (&day, fits(1000, None))]
            ),
            [
                r#"ratelimit-policy: "client/plan";q=60;w=60, "daily";q=1000;w=86400"#,
                r#"ratelimit: "client/plan";r=59;t=1, "daily";r=1000"#,
            ]
        );
    }

    #[test]
    fn draft03_leads_with_the_nearest_limit() {
        let (quarter, day) = (limit("a", 100, Unit::Minute, 15), limit("b", 1000, Unit::Day, 1));
        assert_eq!(
            shown(
                HeaderStyle::Draft03,
                &[(&day, fits(3, None)), (&quarter, spent(Some(1_500_000)))]
            ),
            [
                r#"ratelimit-limit: 100, 1000;w=86400;name="b", 100;w=900;name="a""#,
                "ratelimit-remaining: 0",
                "ratelimit-reset: 2",
            ]
        );
    }

    #[test]
    fn the_reference_shows_the_last_that_refuses_and_only_then_the_nearest() {
        let (first, second) = (limit("a", 5, Unit::Minute, 1), limit("b", 7, Unit::Day, 1));
        let (room, over) = (fits(0, None), spent(Some(9)));
        let told = |met: [(Verdict, &Decision); 2]| {
            let limits = [&first, &second];
            let met: Vec<_> = met
                .into_iter()
                .zip(limits)
                .map(|((verdict, decision), limit)| (verdict, Budget { limit, decision }))
                .collect();
            let mut headers = SmallVec::new();
            add_as_reference(HeaderStyle::Draft03, &DraftNames::default(), &met, &mut headers);
            format!("{}: {}", headers[0].name, headers[0].value)
        };
        let (passes, refuses) = (Verdict::UnderLimit, Verdict::OverLimit);
        assert_eq!(told([(refuses, &over), (refuses, &over)]), "RateLimit-Limit: 7");
        assert_eq!(
            told([(refuses, &over), (passes, &over)]),
            "RateLimit-Limit: 5",
            "the other is only watched"
        );
        assert_eq!(
            told([(passes, &room), (passes, &over)]),
            "RateLimit-Limit: 5",
            "the first of a tie"
        );
    }

    #[test]
    fn both_shows_both_and_off_nothing() {
        let limit = limit("a", 1, Unit::Second, 1);
        assert_eq!(shown(HeaderStyle::Both, &[(&limit, fits(1, None))]).len(), 5);
        assert!(shown(HeaderStyle::Off, &[(&limit, fits(1, None))]).is_empty());
        assert!(shown(HeaderStyle::Both, &[]).is_empty());
    }

    #[test]
    fn names_are_escaped_and_what_cannot_be_written_is_left_out() {
        let (odd, foreign) = (
            limit(r#"a"b\c"#, 1, Unit::Second, 1),
            limit("größe", 1, Unit::Second, 1),
        );
        assert_eq!(
            shown(
                HeaderStyle::Ietf,
                &[(&odd, fits(1, None)), (&foreign, fits(1, None))]
            ),
            [
                r#"ratelimit-policy: "a\"b\\c";q=1;w=1"#,
                r#"ratelimit: "a\"b\\c";r=1"#
            ]
        );
    }

    #[test]
    fn one_name_is_shown_once_at_its_smallest_remaining() {
        let limit = limit("client/plan", 10, Unit::Minute, 1);
        let met = [
            (&limit, fits(7, None)),
            (&limit, fits(2, None)),
            (&limit, fits(5, None)),
        ];
        assert_eq!(
            shown(HeaderStyle::Ietf, &met)[1],
            r#"ratelimit: "client/plan";r=2"#
        );
    }

    #[test]
    fn of_very_many_the_nearest_are_shown() {
        let limits: Vec<_> = (0..100)
            .map(|n| limit(&format!("l{n}"), 10, Unit::Minute, 1))
            .collect();
        let met: Vec<_> = limits
            .iter()
            .enumerate()
            .map(|(n, l)| (l, fits(100 - n as u64, None)))
            .collect();
        let lines = shown(HeaderStyle::Ietf, &met);
        assert_eq!(lines[1].matches(";r=").count(), MOST_SHOWN);
        assert!(lines[1].starts_with(r#"ratelimit: "l99";r=1,"#), "{}", lines[1]);
    }
}

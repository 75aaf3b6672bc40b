//! What must hold of every algorithm, searched for over random limits, histories and clocks, beside a slow exact model
//! of each.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // Moments of this century fit either way.

mod charging;
mod codec;
mod compat;
mod edges;
mod undoing;

use std::sync::Arc;

use proptest::prelude::*;

use super::Fit;
use super::group::{Counters, Stored, decide};
use super::sliding_log::Log;
use super::state::{Seen, State};
use crate::domain::check::{Binding, Charge, Check, Group, OnStoreFailure};
use crate::domain::limit::{Algorithm, Grid, Limit, LimitSpec, Period, Unit};
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::{Decision, Decisions, Reason, Verdict};

/// One counter, or as many as a group has checks.
#[derive(Clone, Debug, Default, PartialEq)]
struct Table {
    states: Vec<Option<State>>,
    logs: Vec<Log>,
}

impl Table {
    fn of(counters: usize) -> Self {
        Self {
            states: vec![None; counters],
            logs: vec![Log::default(); counters],
        }
    }
}

impl Counters for Table {
    fn read(&mut self, place: usize, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        if check.limit.algorithm() == Algorithm::SlidingLog {
            let view = self.logs[place].view(check.limit, asked, now);
            return if view.used > 0 {
                Stored::State(State::Log(view))
            } else {
                Stored::Nothing
            };
        }
        self.states[place].map_or(Stored::Nothing, Stored::State)
    }

    fn write(&mut self, place: usize, check: &Check<'_>, seen: &Seen, change: Hits) {
        match (seen.state, change) {
            (State::Log(_), Hits::Take(hits)) => self.logs[place].take(check.limit, hits, seen.now),
            (State::Log(_), Hits::GiveBack(hits)) => self.logs[place].give_back(check.limit, hits, seen.now),
            (State::Log(_), Hits::Undo(hits, taken)) => {
                self.logs[place].undo(check.limit, hits, taken, seen.now);
            }
            (State::Log(_), Hits::LOOK) => self.logs[place].forget(check.limit, seen.now),
            (state, _) => self.states[place] = (!state.is_empty()).then_some(state),
        }
    }
}

fn spec(algorithm: Algorithm, count: u32, period: Period) -> LimitSpec {
    LimitSpec {
        name: Arc::from("limit"),
        named: true,
        count,
        period,
        algorithm,
        burst: None,
        delay: if algorithm == Algorithm::LeakyBucket {
            Micros::SECOND
        } else {
            Micros::ZERO
        },
        calendar: true,
    }
}

fn limit(algorithm: Algorithm, count: u32, unit: Unit) -> Limit {
    Limit::new(spec(algorithm, count, Period::one(unit))).expect("a sound limit")
}

fn check(limit: &Limit, hits: Hits) -> Check<'_> {
    Check {
        key: b"counter",
        limit,
        hits,
        binding: Binding::Always,
        charge: Charge::AllOrNothing,
        on_store_failure: OnStoreFailure::Local,
    }
}

fn one(table: &mut Table, limit: &Limit, hits: Hits, now: Timestamp) -> Decision {
    one_of(table, check(limit, hits), Micros::ZERO, now)
}

fn one_of(table: &mut Table, check: Check<'_>, longest_wait: Micros, now: Timestamp) -> Decision {
    decide(
        &Group {
            checks: &[check],
            longest_wait,
            compat: false,
        },
        now,
        table,
    )
    .checks[0]
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

const START: u64 = 1_790_000_000_000_000;

/// Any magnitude alike, from 1.
fn magnitude(most: u64) -> impl Strategy<Value = u64> {
    let bits = 64 - most.leading_zeros();
    (1..=bits, any::<u64>()).prop_map(move |(bits, number)| (number >> (64 - bits)).clamp(1, most))
}

fn any_period() -> impl Strategy<Value = Period> {
    (
        prop::sample::select(Unit::ALL.to_vec()),
        prop_oneof![Just(1), magnitude(400).prop_map(|many| many as u32)],
    )
        .prop_map(|(unit, multiplier)| Period { unit, multiplier })
}

fn any_count() -> impl Strategy<Value = u32> {
    prop_oneof![
        1_u32..30,
        magnitude(u64::from(u32::MAX)).prop_map(|count| count as u32),
        Just(u32::MAX)
    ]
}

/// Any limit at all that admits something.
fn any_limit() -> impl Strategy<Value = Limit> {
    let delay = prop_oneof![Just(0), magnitude(5_000_000)];
    let burst = prop::option::of(any_count());
    (
        prop::sample::select(Algorithm::ALL.to_vec()),
        any_count(),
        any_period(),
        delay,
        burst,
        any::<bool>(),
    )
        .prop_filter_map("bounds", |(algorithm, count, period, delay, burst, calendar)| {
            let mut spec = spec(algorithm, count, period);
            spec.calendar = calendar;
            if algorithm.is_bucket() {
                spec.delay = Micros::new(delay.max(u64::from(algorithm == Algorithm::LeakyBucket)));
            }
            if algorithm == Algorithm::TokenBucket {
                spec.burst = burst;
            }
            Limit::new(spec).ok()
        })
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    /// A share of the limit's period, in thousandths.
    PassShare(u64),
    Take(u64),
    /// A share of the limit's largest call, in thousandths.
    TakeShare(u64),
    GiveBack(u64),
    Look,
}

fn any_step(give_back: bool) -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => magnitude(10_000_000).prop_map(Step::Pass),
        2 => (0_u64..2_500).prop_map(Step::PassShare),
        5 => (1_u64..4).prop_map(Step::Take),
        3 => (1_u64..1_100).prop_map(Step::TakeShare),
        1 => (1_u64..6).prop_map(move |hits| if give_back { Step::GiveBack(hits) } else { Step::Look }),
        1 => Just(Step::Look),
    ]
}

impl Step {
    fn passed(&self, limit: &Limit) -> u64 {
        match self {
            Self::Pass(micros) => *micros,
            Self::PassShare(share) => {
                (u128::from(limit.period().length().get()) * u128::from(*share) / 1000) as u64
            }
            _ => 0,
        }
    }

    fn hits(&self, limit: &Limit) -> Option<Hits> {
        match self {
            Self::Pass(_) | Self::PassShare(_) => None,
            Self::Take(hits) => Some(Hits::take(*hits)),
            Self::TakeShare(share) => Some(Hits::take((u64::from(limit.largest()) * share).div_ceil(1000))),
            Self::GiveBack(hits) => Some(Hits::give_back(*hits)),
            Self::Look => Some(Hits::LOOK),
        }
    }
}

/// Runs a history and hands each decision to `see`, with the table as it was before.
fn run(limit: &Limit, steps: &[Step], mut see: impl FnMut(Timestamp, Hits, &Decision, &Table, &Table)) {
    let mut now = START;
    let mut table = Table::of(1);
    for step in steps {
        now += step.passed(limit);
        if let Some(hits) = step.hits(limit) {
            let before = table.clone();
            let decision = one_of(&mut table, check(limit, hits), Micros::new(u64::MAX), at(now));
            see(at(now), hits, &decision, &before, &table);
        }
    }
}

/// Slow and exact: what each algorithm says by its definition, from the whole history.
mod model {
    use super::*;

    /// Admitted hits by the moment of the call.
    pub type History = Vec<(u64, u64)>;

    /// The level in parts of a hit, so many that draining is a whole number of them each microsecond.
    pub fn bucket_level(limit: &Limit, history: &History, now: u64) -> u128 {
        let rate = limit.rate();
        let mut level: u128 = 0;
        let mut last = 0;
        for (at, hits) in history.iter().copied().chain([(now, 0)]) {
            level = level.saturating_sub(u128::from(at - last) * u128::from(rate.hits));
            level += u128::from(hits) * u128::from(rate.micros);
            last = at;
        }
        level
    }

    /// How long a call must wait in a bucket.
    pub fn bucket_wait(limit: &Limit, history: &History, hits: u64, now: u64) -> u64 {
        let rate = limit.rate();
        let free = if limit.algorithm() == Algorithm::LeakyBucket {
            0
        } else {
            u64::from(limit.capacity())
        };
        let target = u128::from(free.saturating_sub(hits)) * u128::from(rate.micros);
        let above = bucket_level(limit, history, now).saturating_sub(target);
        above.div_ceil(u128::from(rate.hits)) as u64
    }

    pub fn sliding_fits(limit: &Limit, history: &History, hits: u64, now: u64) -> bool {
        let period = limit.period().length().get();
        let start = now / period * period;
        let of = |from: u64| -> u128 {
            history
                .iter()
                .filter(|(at, _)| (from..from + period).contains(at))
                .map(|(_, hits)| u128::from(*hits))
                .sum()
        };
        let weighted = (of(start - period) * u128::from(period - (now - start))).div_ceil(u128::from(period));
        of(start) + weighted + u128::from(hits) <= u128::from(limit.count())
    }

    pub fn in_last_period(limit: &Limit, history: &History, now: u64) -> u64 {
        let period = limit.period().length().get();
        history
            .iter()
            .filter(|(at, _)| at + period > now)
            .map(|(_, hits)| hits)
            .sum()
    }

    /// The calendar by a library of its own.
    pub fn window_of(limit: &Limit, now: u64) -> (u64, u64) {
        let period = limit.period().length().get();
        let zoned = jiff::Timestamp::from_microsecond(now as i64)
            .expect("a moment of this age")
            .to_zoned_datetime(jiff::tz::TimeZone::UTC);
        match limit.grid() {
            Grid::Epoch => (now / period * period, now / period * period + period),
            Grid::Monday => {
                let first = start_of(jiff::civil::date(1969, 12, 29));
                let start = (now as i64 - first) / period as i64 * period as i64 + first;
                (start as u64, start as u64 + period)
            }
            Grid::Months(months) => {
                let month = (i64::from(zoned.year()) - 1970) * 12 + i64::from(zoned.month()) - 1;
                let start = month / i64::from(months) * i64::from(months);
                (start_of_month(start), start_of_month(start + i64::from(months)))
            }
        }
    }

    fn start_of_month(month: i64) -> u64 {
        let date = jiff::civil::date((1970 + month / 12) as i16, (month % 12 + 1) as i8, 1);
        start_of(date) as u64
    }

    fn start_of(date: jiff::civil::Date) -> i64 {
        let zoned = jiff::tz::TimeZone::UTC
            .to_zoned_datetime(date.at(0, 0, 0, 0))
            .expect("a date");
        zoned.timestamp().as_microsecond()
    }

    /// What the definition says of a call.
    pub fn fits(limit: &Limit, history: &History, hits: u64, now: u64) -> bool {
        if hits > u64::from(limit.largest()) {
            return false;
        }
        match limit.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                bucket_wait(limit, history, hits, now) <= limit.delay().get()
            }
            Algorithm::SlidingWindow => sliding_fits(limit, history, hits, now),
            Algorithm::SlidingLog => in_last_period(limit, history, now) + hits <= u64::from(limit.count()),
            Algorithm::FixedWindow => {
                let (start, end) = window_of(limit, now);
                let used: u64 = history
                    .iter()
                    .filter(|(at, _)| (start..end).contains(at))
                    .map(|(_, hits)| hits)
                    .sum();
                used + hits <= u64::from(limit.count())
            }
        }
    }
}

/// Whether several calls share a mark, so that room comes back a little later than by the definition.
fn is_granular(limit: &Limit) -> bool {
    limit.algorithm() == Algorithm::SlidingLog && super::sliding_log::granule(limit) > 0
}

fn steps(give_back: bool) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(give_back), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn every_call_is_judged_as_the_definition_says(limit in any_limit(), steps in steps(false)) {
        prop_assume!(!is_granular(&limit));
        let mut history = model::History::new();
        run(&limit, &steps, |now, hits, decision, _, _| {
            let now = now.as_micros();
            let fits = model::fits(&limit, &history, hits.asked(), now);
            assert_eq!(decision.verdict == Verdict::UnderLimit, fits, "{hits:?} at {now}");
            if limit.algorithm().is_bucket() && fits && hits != Hits::LOOK {
                assert_eq!(decision.delay.get(), model::bucket_wait(&limit, &history, hits.asked(), now));
            }
            if let (true, Hits::Take(hits)) = (fits, hits) {
                history.push((now, hits));
            }
        });
    }

    #[test]
    fn a_refused_call_passes_exactly_when_it_was_told(limit in any_limit(), steps in steps(true)) {
        run(&limit, &steps, |now, hits, decision, before, after| {
            if decision.verdict == Verdict::UnderLimit {
                assert_eq!(decision.retry_after, None);
                return;
            }
            assert_eq!(before, after, "a refusal changed something");
            assert_eq!(decision.remaining, 0);
            let Some(wait) = decision.retry_after else {
                assert_eq!(decision.reason, Reason::TooManyHits);
                assert!(hits.asked() > u64::from(limit.largest()));
                return;
            };
            let again = |later: u64| {
                let now = at(now.as_micros() + later);
                one_of(&mut after.clone(), check(&limit, hits), Micros::new(u64::MAX), now).verdict
            };
            assert!(wait > Micros::ZERO);
            assert_eq!(again(wait.get() - 1), Verdict::OverLimit, "one microsecond before {wait:?}");
            assert_eq!(again(wait.get()), Verdict::UnderLimit, "after {wait:?}");
        });
    }

    #[test]
    fn figures_say_what_is_left_and_when_more_is(limit in any_limit(), steps in steps(true)) {
        run(&limit, &steps, |now, _, decision, _, after| {
            let look = |later: u64| one_of(
                &mut after.clone(),
                Check { binding: Binding::Never, ..check(&limit, Hits::GiveBack(0)) },
                Micros::new(u64::MAX),
                at(now.as_micros() + later),
            );
            let left = look(0).remaining;
            if decision.verdict == Verdict::UnderLimit {
                assert_eq!(decision.remaining, left);
            }
            let reset = decision.reset_after.get();
            let whole = one(&mut Table::of(1), &limit, Hits::GiveBack(0), now).remaining;
            assert_eq!(look(reset).remaining, whole, "all is back after {reset}");
            assert_eq!(look(reset).reset_after, Micros::ZERO);
            match decision.next_after {
                None => assert_eq!(left, whole),
                Some(next) => {
                    assert!(next <= decision.reset_after);
                    assert!(look(next.get()).remaining > left, "more is left after {next:?}");
                    assert!(next == Micros::ZERO || look(next.get() - 1).remaining <= left, "and not before");
                }
            }
        });
    }

    #[test]
    fn looks_change_nothing_and_refunds_restore(limit in any_limit(), steps in steps(true), hits in 1_u64..5) {
        let mut now = START;
        let mut table = Table::of(1);
        for step in &steps {
            now += step.passed(&limit);
            let before = table.clone();
            one(&mut table, &limit, Hits::LOOK, at(now));
            prop_assert_eq!(&table, &before);
            // Only what is admitted can be given back; the same moment, so nothing drains between.
            let mut tried = table.clone();
            let left = one(&mut table.clone(), &limit, Hits::LOOK, at(now)).reset_after;
            if one(&mut tried, &limit, Hits::take(hits), at(now)).verdict == Verdict::UnderLimit {
                one(&mut tried, &limit, Hits::give_back(hits), at(now));
                let after = one(&mut tried, &limit, Hits::LOOK, at(now));
                let untouched = one(&mut table.clone(), &limit, Hits::LOOK, at(now));
                prop_assert_eq!(after.remaining, untouched.remaining);
                if !is_granular(&limit) {
                    prop_assert_eq!(after.reset_after, left);
                    prop_assert_eq!(after.next_after, untouched.next_after);
                }
            }
            if let Some(hits) = step.hits(&limit) {
                one(&mut table, &limit, hits, at(now));
            }
        }
    }

    #[test]
    fn two_at_once_are_one_and_one(limit in any_limit(), steps in steps(true)) {
        // A leaky bucket releases one call after the other, however small.
        prop_assume!(limit.algorithm() != Algorithm::LeakyBucket);
        run(&limit, &steps, |now, _, _, _, after| {
            let mut together = after.clone();
            let mut apart = after.clone();
            if one(&mut together, &limit, Hits::take(2), now).verdict == Verdict::UnderLimit {
                let first = one(&mut apart, &limit, Hits::take(1), now);
                let second = one(&mut apart, &limit, Hits::take(1), now);
                assert_eq!((first.verdict, second.verdict), (Verdict::UnderLimit, Verdict::UnderLimit));
            }
        });
    }

    #[test]
    fn no_interval_admits_more_than_promised(limit in any_limit(), steps in prop::collection::vec(any_step(false), 1..120)) {
        let mut released: Vec<(u64, u64)> = Vec::new();
        run(&limit, &steps, |now, hits, decision, _, _| {
            if let (Verdict::UnderLimit, Hits::Take(hits)) = (decision.verdict, hits) {
                released.push((now.as_micros() + decision.delay.get(), hits));
            }
        });
        for from in 0..released.len() {
            let mut sum: u128 = 0;
            for to in from..released.len() {
                sum += u128::from(released[to].1);
                let span = released[to].0 - released[from].0;
                prop_assert!(sum <= most_in(&limit, released[from].0, span), "{} in {} us", sum, span);
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_never_gives_more_than_a_budget_a_jump(
        limit in any_limit(),
        jumps in prop::collection::vec((0_u64..4, magnitude(366 * 86_400_000_000)), 1..30),
    ) {
        // Time stands still but for the clock being set about; nothing may be frozen afterwards either.
        let mut table = Table::of(1);
        let mut now = START;
        let mut forward: u128 = 0;
        let mut admitted: u128 = 0;
        for (kind, jump) in jumps {
            let next = match kind {
                0 => now.saturating_sub(jump).max(START / 2),
                1 => now + jump,
                2 => now - 999_999,
                _ => now,
            };
            forward += u128::from(next.saturating_sub(now));
            now = next;
            for _ in 0..3 {
                let hits = u64::from(limit.largest());
                let decision = one(&mut table, &limit, Hits::take(hits), at(now));
                if decision.verdict == Verdict::UnderLimit {
                    admitted += u128::from(hits);
                }
                let longest = 2 * limit.period().length().get()
                    + (u128::from(limit.largest()) * 2 * u128::from(limit.rate().micros)
                        / u128::from(limit.rate().hits)) as u64;
                prop_assert!(decision.reset_after.get() <= longest + 32 * 86_400_000_000, "frozen: {decision:?}");
            }
        }
        // Every microsecond the clock went forward may have drained, and each jump may have opened a window.
        let rate = u128::from(limit.rate().hits) * forward / u128::from(limit.rate().micros);
        let budgets = 31 * 2 * u128::from(limit.largest());
        prop_assert!(admitted <= budgets + rate);
    }

    #[test]
    fn a_refused_group_changes_nothing(
        limits in prop::collection::vec((any_limit(), 1_u64..4), 2..5),
        rounds in prop::collection::vec(magnitude(100_000_000), 1..12),
    ) {
        let checks: Vec<Check<'_>> =
            limits.iter().map(|(limit, hits)| check(limit, Hits::take(*hits))).collect();
        let group = Group { checks: &checks, longest_wait: Micros::ZERO, compat: false };
        let mut table = Table::of(checks.len());
        let mut now = START;
        for pause in rounds {
            for _ in 0..4 {
                let before = table.clone();
                let Decisions { refused, checks: decisions, .. } = decide(&group, at(now), &mut table);
                prop_assert_eq!(refused, decisions.iter().any(|decision| decision.verdict == Verdict::OverLimit));
                if refused {
                    prop_assert_eq!(&table, &before);
                }
            }
            now += pause;
        }
    }
}

/// The most that may be released between two moments so far apart, both included.
fn most_in(limit: &Limit, from: u64, span: u64) -> u128 {
    let promised = u128::from(limit.most_within(Micros::new(span + 1)));
    if limit.algorithm() != Algorithm::FixedWindow {
        return promised;
    }
    // Windows that are known promise more exactly than any.
    let mut windows = 1;
    let (_, mut end) = model::window_of(limit, from);
    while end <= from + span {
        windows += 1;
        end = model::window_of(limit, end).1;
    }
    let met = u128::from(limit.count()) * windows;
    assert!(met <= promised, "{met} in the windows met, {promised} promised");
    met
}

#[test]
fn a_longest_wait_is_the_smaller_of_the_rules_and_the_callers() {
    let mut spec = spec(Algorithm::TokenBucket, 1, Period::one(Unit::Second));
    spec.delay = Micros::new(1_500_000);
    let limit = Limit::new(spec).expect("a sound limit");
    let mut table = Table::of(1);
    let mut call = |wait| {
        one_of(
            &mut table,
            check(&limit, Hits::take(1)),
            Micros::new(wait),
            at(START),
        )
    };
    assert_eq!(call(0).delay, Micros::ZERO);
    let refused = call(999_999);
    assert_eq!(
        (refused.verdict, refused.retry_after),
        (Verdict::OverLimit, Some(Micros::new(1)))
    );
    let reserved = call(1_000_000);
    assert_eq!(
        (reserved.verdict, reserved.delay),
        (Verdict::UnderLimit, Micros::SECOND)
    );
    let refused = call(9_000_000);
    assert_eq!(
        (refused.verdict, refused.retry_after),
        (Verdict::OverLimit, Some(Micros::new(500_000)))
    );
}

#[test]
fn a_share_divides_the_rate_exactly_and_lets_a_whole_call_pass_an_empty_bucket() {
    let whole = limit(Algorithm::SlidingWindow, 10, Unit::Minute);
    let share = whole.share_of(3);
    assert_eq!((share.capacity(), share.largest()), (3, 10));
    let mut table = Table::of(1);
    let large = one(&mut table, &share, Hits::take(10), at(START));
    assert_eq!(large.verdict, Verdict::UnderLimit, "into debt");
    let next = one(&mut table, &share, Hits::take(1), at(START));
    // Ten in, three free, one wanted: eight drain at ten per three minutes.
    assert_eq!(next.retry_after, Some(Micros::from_secs(8 * 18)));
    assert_eq!(
        one(&mut table, &share, Hits::take(11), at(START)).reason,
        Reason::TooManyHits
    );
    assert_eq!(whole.share_of(1000).capacity(), 1);
    assert_eq!(
        limit(Algorithm::SlidingWindow, 0, Unit::Minute)
            .share_of(3)
            .capacity(),
        0
    );
}

#[test]
fn a_fit_says_whether_it_passes() {
    assert!(Fit::Now.passes() && Fit::After(Micros::SECOND).passes());
    assert!(!Fit::Later(Micros::SECOND).passes() && !Fit::Never.passes());
    assert_eq!(Fit::After(Micros::SECOND).verdict(), Verdict::UnderLimit);
    assert_eq!(Fit::Later(Micros::SECOND).verdict(), Verdict::OverLimit);
}

//! What a limit promises in numbers: the most that it ever admits at once and in any interval, on any interleaving.
//!
//! These are bounds for what is charged as it is admitted. What is charged whatever the verdict can be more.

use super::limit::{Algorithm, Grid, Limit};
use super::time::Micros;

/// The days of the months from January on, February the short one.
const MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Limit {
    /// The most hits that are admitted at one moment.
    pub fn most_at_once(&self) -> u64 {
        u64::from(match self.algorithm() {
            // A call above the capacity of a share passes when nothing is in it.
            Algorithm::TokenBucket | Algorithm::LeakyBucket => self.largest(),
            Algorithm::SlidingWindow | Algorithm::SlidingLog | Algorithm::FixedWindow => self.count(),
        })
    }

    /// The most hits that are admitted, or released after their delay, in any interval so long; its end is no part of
    /// it.
    pub fn most_within(&self, span: Micros) -> u64 {
        let at_once = self.most_at_once();
        if span == Micros::ZERO || self.count() == 0 {
            return 0;
        }
        let count = u64::from(self.count());
        let period = self.period().length().get();
        match self.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let drained = self.rate().drained_in(span);
                // A release is rounded to the microsecond, which can carry one more hit into the interval.
                let rounded = u64::from(drained.part > 0 && self.delay() > Micros::ZERO);
                at_once.saturating_add(drained.whole).saturating_add(rounded)
            }
            Algorithm::SlidingWindow => at_once.saturating_add(share(count, span.get(), period)),
            Algorithm::SlidingLog => count.saturating_mul(span.get().div_ceil(period)),
            Algorithm::FixedWindow => count.saturating_mul(windows_met(span, self.shortest_window())),
        }
    }

    /// How long the shortest window is: by the calendar months differ.
    pub fn shortest_window(&self) -> Micros {
        let Grid::Months(months) = self.grid() else {
            return self.period().length();
        };
        // Windows are counted from a January, so these are all the months that one can start with.
        let starts = (0..12).step_by(greatest_common_divisor(months as usize, 12));
        let days = |start: usize| -> u64 {
            let all = MONTHS.iter().cycle().skip(start);
            all.take(months as usize).sum()
        };
        Micros::new(starts.map(days).min().unwrap_or_default() * Micros::DAY.get())
    }
}

/// How many windows an interval can meet: one at each end, and those between that it holds.
const fn windows_met(span: Micros, window: Micros) -> u64 {
    match span.get() {
        0 | 1 => span.get(),
        span => (span - 2) / window.get() + 2,
    }
}

/// `count × span ÷ period`, rounded down.
fn share(count: u64, span: u64, period: u64) -> u64 {
    let share = u128::from(count) * u128::from(span) / u128::from(period);
    u64::try_from(share).unwrap_or(u64::MAX)
}

const fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::limit::{LimitSpec, Period, Unit};

    fn limit(algorithm: Algorithm, count: u32, unit: Unit, burst: Option<u32>, delay: Micros) -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from("limit"),
            named: true,
            count,
            period: Period::one(unit),
            algorithm,
            burst,
            delay,
            calendar: true,
        })
        .expect("a sound limit")
    }

    #[test]
    fn the_worst_cases_are_those_of_the_promises() {
        use Algorithm::{FixedWindow, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket};
        let none = Micros::ZERO;
        let check = |limit: &Limit, at_once: u64, in_a_minute: u64, in_a_day: u64| {
            let name = limit.algorithm().name();
            assert_eq!(limit.most_at_once(), at_once, "{name} at once");
            assert_eq!(
                limit.most_within(Micros::MINUTE),
                in_a_minute,
                "{name} in a minute"
            );
            assert_eq!(limit.most_within(Micros::DAY), in_a_day, "{name} in a day");
            assert_eq!(limit.most_within(Micros::ZERO), 0);
        };
        let minute = |algorithm, burst, delay| limit(algorithm, 100, Unit::Minute, burst, delay);
        check(&minute(TokenBucket, Some(10), none), 10, 110, 144_010);
        check(&minute(TokenBucket, None, Micros::SECOND), 100, 200, 144_100);
        check(&minute(SlidingWindow, None, none), 100, 200, 144_100);
        check(&minute(SlidingLog, None, none), 100, 100, 144_000);
        check(&minute(FixedWindow, None, none), 100, 200, 144_100);
        // 1.67 drain within the delay, so a call has at most one hit.
        check(&minute(LeakyBucket, None, Micros::SECOND), 1, 101, 144_001);
        check(&limit(TokenBucket, 0, Unit::Minute, Some(5), none), 0, 0, 0);
        check(&limit(TokenBucket, 1, Unit::Day, Some(5), none), 5, 5, 6);
    }

    #[test]
    fn months_are_as_short_as_they_come() {
        let days = |unit, multiplier| {
            let limit = Limit::new(LimitSpec {
                name: Arc::from("limit"),
                named: true,
                count: 7,
                period: Period { unit, multiplier },
                algorithm: Algorithm::FixedWindow,
                burst: None,
                delay: Micros::ZERO,
                calendar: true,
            });
            limit.expect("a sound limit").shortest_window().get() / Micros::DAY.get()
        };
        assert_eq!(days(Unit::Month, 1), 28);
        assert_eq!(days(Unit::Month, 2), 59);
        assert_eq!(days(Unit::Month, 3), 90);
        assert_eq!(days(Unit::Month, 5), 150);
        assert_eq!(days(Unit::Year, 1), 365);
        assert_eq!(days(Unit::Week, 2), 14);
        let monthly = limit(Algorithm::FixedWindow, 7, Unit::Month, None, Micros::ZERO);
        let most = |days: u64| monthly.most_within(Micros::new(days * Micros::DAY.get()));
        // The end of January, all of February, the start of March.
        assert_eq!((most(28), most(30)), (14, 21));
    }
}

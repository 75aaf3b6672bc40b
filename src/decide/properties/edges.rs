//! What random histories seldom meet: edges of the calendar, a clock behind by exactly as much as is allowed, edits of a
//! bucket's rate.

use super::*;
use crate::decide::bucket::Bucket;
use crate::decide::fixed_window::{FixedWindow, start_of};
use crate::decide::sliding_window::SlidingWindow;
use crate::domain::limit::Level;

#[test]
fn months_start_where_the_calendar_says_until_the_year_2400() {
    for months in [1, 5, 12] {
        let period = Period {
            unit: Unit::Month,
            multiplier: months,
        };
        let limit = Limit::new(spec(Algorithm::FixedWindow, 1, period)).expect("a sound limit");
        let mut start = 0;
        while start < 13_600_000_000_000_000 {
            let (first, end) = model::window_of(&limit, start);
            assert_eq!(first, start);
            for now in [start, start + 86_400_000_000, end - 1] {
                assert_eq!(start_of(&limit, at(now)), at(start), "{now}");
            }
            let window = FixedWindow {
                start: at(start),
                count: 1,
            };
            assert_eq!(window.reset_after(&limit, at(start)).get(), end - start);
            start = end;
        }
    }
}

#[test]
fn weeks_start_on_mondays_also_the_first_one() {
    let weekly = limit(Algorithm::FixedWindow, 1, Unit::Week);
    let day = Micros::DAY.get();
    assert_eq!(start_of(&weekly, at(0)), at(0), "no clock shows less");
    assert_eq!(start_of(&weekly, at(4 * day - 1)), at(0));
    assert_eq!(start_of(&weekly, at(4 * day)), at(4 * day));
    assert_eq!(start_of(&weekly, at(11 * day)), at(11 * day));
    let first = FixedWindow {
        start: at(0),
        count: 1,
    };
    assert_eq!(first.reset_after(&weekly, at(day)).get(), 3 * day);
}

#[test]
fn a_window_waits_for_a_clock_that_was_overtaken_and_follows_one_that_was_set_back() {
    let minute = limit(Algorithm::FixedWindow, 9, Unit::Minute);
    let start = START / 60_000_000 * 60_000_000;
    let fixed = FixedWindow {
        start: at(start),
        count: 3,
    };
    let limit = limit(Algorithm::SlidingWindow, 9, Unit::Minute);
    let sliding = SlidingWindow {
        start: at(start),
        current: 3,
        previous: 2,
    };
    for behind in [1, 999_999, 1_000_000] {
        let now = at(start - behind);
        assert_eq!(fixed.read(&minute, now), (fixed, at(start)), "{behind}");
        assert_eq!(sliding.read(&limit, now), (sliding, at(start)), "{behind}");
    }
    for behind in [1_000_001, 60_000_000, 90_000_000] {
        let now = at(start - behind);
        let of_now = start_of(&minute, now);
        assert_eq!(
            fixed.read(&minute, now),
            (
                FixedWindow {
                    start: of_now,
                    ..fixed
                },
                now
            ),
            "{behind}"
        );
        assert_eq!(
            sliding.read(&limit, now),
            (
                SlidingWindow {
                    start: of_now,
                    ..sliding
                },
                now
            ),
            "{behind}"
        );
    }
}

#[test]
fn an_empty_bucket_lets_pass_at_once() {
    let limit = limit(Algorithm::TokenBucket, 3, Unit::Second);
    let mut bucket = Bucket::empty(&limit, at(START));
    assert_eq!(bucket.fit(&limit, 3, Micros::ZERO), Fit::Now);
    bucket.take(3, limit.most_owed());
    assert_eq!(bucket.fit(&limit, 3, Micros::SECOND), Fit::After(Micros::SECOND));
    assert_eq!(
        bucket.fit(&limit, 3, Micros::new(999_999)),
        Fit::Later(Micros::new(1))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_of_a_rate_never_lowers_a_level_and_raises_it_by_less_than_a_part(
        limit in any_limit(),
        per in magnitude(315_360_000_000_000),
        part in prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)],
        whole in 0_u64..1_000,
    ) {
        let level = Level { whole, part: if part == u64::MAX { per - 1 } else { part % per } };
        let bucket = Bucket { at: at(START), level, per };
        let unbounded = Level { whole: u64::MAX, part: 0 };
        let edited = bucket.read(&limit, unbounded, at(START));
        prop_assert_eq!(edited.per, limit.rate().micros);
        prop_assert!(edited.level.part < edited.per);
        // Both levels in parts of either rate.
        let parts = |level: Level, per: u64, other: u64| {
            (u128::from(level.whole) * u128::from(per) + u128::from(level.part)) * u128::from(other)
        };
        let (before, after) = (parts(level, per, edited.per), parts(edited.level, edited.per, per));
        prop_assert!(before <= after && after < before + u128::from(per), "{level:?} became {:?}", edited.level);
    }
}

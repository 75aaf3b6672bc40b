//! What is charged, and what is not, by a group's verdict and each check's mode.

use super::*;
use crate::decide::group::{decide_part, refuses};
use crate::decide::sliding_window::SlidingWindow;

/// Counters that all hold the same, and count what is written.
struct Same {
    stored: Stored,
    writes: u32,
}

impl Counters for Same {
    fn read(&mut self, _: usize, _: &Check<'_>, _: u64, _: Timestamp) -> Stored {
        self.stored
    }

    fn write(&mut self, _: usize, _: &Check<'_>, _: &Seen, _: Hits) {
        self.writes += 1;
    }
}

fn group<'a>(checks: &'a [Check<'a>]) -> Group<'a> {
    Group {
        checks,
        longest_wait: Micros::ZERO,
        compat: false,
    }
}

#[test]
fn counters_that_cannot_be_read_are_counted_and_those_that_can_are_not() {
    let limit = limit(Algorithm::SlidingWindow, 3, Unit::Minute);
    let checks = [check(&limit, Hits::take(1)); 3];
    for (stored, unreadable) in [(Stored::Unreadable, 3), (Stored::Nothing, 0)] {
        let mut counters = Same { stored, writes: 0 };
        assert_eq!(
            decide(&group(&checks), at(START), &mut counters).unreadable,
            unreadable
        );
        assert_eq!(counters.writes, 3);
    }
}

#[test]
fn giving_back_to_what_holds_nothing_writes_nothing() {
    for (algorithm, stored, writes) in [
        (Algorithm::SlidingWindow, Stored::Nothing, 0),
        (Algorithm::SlidingLog, Stored::Nothing, 0),
        (Algorithm::SlidingLog, Stored::Unreadable, 0),
        // What cannot be read is replaced.
        (Algorithm::SlidingWindow, Stored::Unreadable, 1),
    ] {
        let limit = limit(algorithm, 3, Unit::Minute);
        for change in [Hits::give_back(1), Hits::Undo(1, at(START))] {
            let mut counters = Same { stored, writes: 0 };
            decide(&group(&[check(&limit, change)]), at(START), &mut counters);
            assert_eq!(counters.writes, writes, "{algorithm:?}, {stored:?}, {change:?}");
        }
    }
}

#[test]
fn what_is_always_charged_is_charged_over_the_limit_and_owed() {
    let limit = limit(Algorithm::FixedWindow, 3, Unit::Minute);
    let mut table = Table::of(1);
    let mut call = |charge| {
        let check = Check {
            charge,
            ..check(&limit, Hits::take(2))
        };
        one_of(&mut table, check, Micros::ZERO, at(START)).verdict
    };
    assert_eq!(call(Charge::Always), Verdict::UnderLimit);
    assert_eq!(call(Charge::Always), Verdict::OverLimit);
    assert_eq!(call(Charge::Each), Verdict::OverLimit);
    let Some(State::Fixed(window)) = table.states[0] else {
        panic!("no window: {table:?}");
    };
    assert_eq!(window.count, 4);
}

#[test]
fn quotas_refuse_when_all_of_them_are_spent() {
    let (three, none) = (
        limit(Algorithm::FixedWindow, 3, Unit::Minute),
        limit(Algorithm::FixedWindow, 0, Unit::Minute),
    );
    let quota = |limit| Check {
        binding: Binding::WithAllQuotas,
        ..check(limit, Hits::take(1))
    };
    let refused =
        |checks: &[Check<'_>]| decide(&group(checks), at(START), &mut Table::of(checks.len())).refused;
    let (open, spent, bound) = (quota(&three), quota(&none), check(&three, Hits::take(1)));
    assert!(!refused(&[open, open, open]));
    assert!(!refused(&[open, spent, spent]));
    assert!(!refused(&[spent, open]));
    assert!(refused(&[spent]));
    assert!(refused(&[spent, bound, spent, spent]));
    assert!(!refused(&[bound, bound]), "no quota is not all of them");
    assert!(refused(&[open, check(&none, Hits::take(1))]));
}

#[test]
fn a_part_is_charged_by_the_verdict_of_its_whole_group() {
    let limit = limit(Algorithm::FixedWindow, 3, Unit::Minute);
    let of = |charge| Check {
        charge,
        ..check(&limit, Hits::take(2))
    };
    for (refused, charge, count) in [
        (false, Charge::AllOrNothing, 2),
        (true, Charge::AllOrNothing, 0),
        (true, Charge::Each, 2),
        (true, Charge::Always, 2),
    ] {
        let mut table = Table::of(1);
        let decided = decide_part(&group(&[of(charge)]), refused, at(START), &mut table);
        assert_eq!(decided.refused, refused);
        assert_eq!(decided.checks[0].verdict, Verdict::UnderLimit);
        assert_eq!(decided.checks[0].remaining, 3 - count, "{refused}, {charge:?}");
        assert_eq!(table.states[0].is_some(), count > 0, "{refused}, {charge:?}");
    }
    // It does not fit, but that refuses nobody when it is said that nothing does.
    let spent = Check {
        binding: Binding::Always,
        ..check(&limit, Hits::take(4))
    };
    let decided = decide_part(&group(&[spent]), false, at(START), &mut Table::of(1));
    assert_eq!(
        (decided.refused, decided.checks[0].verdict),
        (false, Verdict::OverLimit)
    );
}

#[test]
fn what_refuses_a_group_is_told_from_bindings_and_verdicts() {
    use Binding::{Always, Never, WithAllQuotas};
    use Verdict::{OverLimit, UnderLimit};
    let refused = |checks: &[(Binding, Verdict)]| refuses(checks.iter().copied());
    assert!(!refused(&[]));
    assert!(!refused(&[(Always, UnderLimit), (Never, OverLimit)]));
    assert!(refused(&[(Always, UnderLimit), (Always, OverLimit)]));
    assert!(!refused(&[
        (WithAllQuotas, OverLimit),
        (WithAllQuotas, UnderLimit)
    ]));
    assert!(refused(&[
        (WithAllQuotas, OverLimit),
        (Always, UnderLimit),
        (WithAllQuotas, OverLimit)
    ]));
}

#[test]
fn the_previous_window_is_forgotten_at_the_end_of_this_one() {
    let limit = limit(Algorithm::SlidingWindow, 9, Unit::Minute);
    let start = START / 60_000_000 * 60_000_000;
    let mut window = SlidingWindow {
        start: at(start),
        current: 0,
        previous: 3,
    };
    assert_eq!(window.reset_after(&limit, at(start + 1)), Micros::new(59_999_999));
    window.take(1);
    assert_eq!(
        window.reset_after(&limit, at(start + 1)),
        Micros::new(119_999_999)
    );
}

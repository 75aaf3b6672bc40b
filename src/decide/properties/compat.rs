//! What a group that is decided as the reference service does it sees otherwise.

use super::*;

fn compat_of(table: &mut Table, limit: &Limit, hits: Hits, now: Timestamp) -> Decision {
    let group = Group {
        checks: &[check(limit, hits)],
        longest_wait: Micros::ZERO,
        compat: true,
    };
    decide(&group, now, table).checks[0]
}

fn limit_of(algorithm: Algorithm) -> Limit {
    limit(algorithm, 3, Unit::Minute)
}

/// Of the minute that START lies in, 20 seconds are over.
const LEFT: Micros = Micros::new(40_000_000);

#[test]
fn the_reset_of_a_fixed_window_is_its_end_also_when_nothing_is_used() {
    let limit = limit_of(Algorithm::FixedWindow);
    let own = one(&mut Table::of(1), &limit, Hits::LOOK, at(START));
    assert_eq!(own.reset_after, Micros::ZERO);
    let compat = compat_of(&mut Table::of(1), &limit, Hits::LOOK, at(START));
    assert_eq!(compat.reset_after, LEFT);
    assert_eq!((compat.verdict, compat.remaining), (own.verdict, own.remaining));
    let window = limit_of(Algorithm::SlidingWindow);
    let rolling = compat_of(&mut Table::of(1), &window, Hits::LOOK, at(START));
    assert_eq!(
        rolling.reset_after,
        Micros::ZERO,
        "a window that slides has no end"
    );
}

#[test]
fn more_hits_than_a_fixed_window_holds_are_refused_like_any_others() {
    let call = |algorithm, compat| {
        let (limit, mut table) = (limit_of(algorithm), Table::of(1));
        let decide = if compat { compat_of } else { one };
        let decision = decide(&mut table, &limit, Hits::take(4), at(START));
        assert_eq!(decision.verdict, Verdict::OverLimit);
        (decision.reason, decision.retry_after)
    };
    assert_eq!(call(Algorithm::FixedWindow, true), (Reason::Spent, Some(LEFT)));
    assert_eq!(call(Algorithm::FixedWindow, false), (Reason::TooManyHits, None));
    assert_eq!(call(Algorithm::SlidingWindow, true), (Reason::TooManyHits, None));
}

#[test]
fn a_limit_of_zero_blocks_and_has_a_window_for_the_reference() {
    let none = limit(Algorithm::FixedWindow, 0, Unit::Minute);
    let own = one(&mut Table::of(1), &none, Hits::take(1), at(START));
    assert_eq!((own.reason, own.retry_after), (Reason::Blocked, None));
    assert_eq!(own.reset_after, Micros::ZERO);
    let compat = compat_of(&mut Table::of(1), &none, Hits::take(1), at(START));
    assert_eq!(
        (compat.verdict, compat.reason),
        (Verdict::OverLimit, Reason::Spent)
    );
    assert_eq!(compat.reset_after, LEFT);
}

#[test]
fn a_look_at_what_is_exactly_spent_passes_for_the_reference() {
    let limit = limit_of(Algorithm::FixedWindow);
    let mut table = Table::of(1);
    assert_eq!(
        compat_of(&mut table, &limit, Hits::take(3), at(START)).verdict,
        Verdict::UnderLimit
    );
    let mut look = |decide: fn(&mut Table, &Limit, Hits, Timestamp) -> Decision| {
        decide(&mut table, &limit, Hits::LOOK, at(START)).verdict
    };
    assert_eq!(look(compat_of), Verdict::UnderLimit);
    assert_eq!(look(one), Verdict::OverLimit);
}

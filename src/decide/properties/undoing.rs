//! A charge that is taken back as if it had not been made, whatever others did in between.

use super::*;
use crate::decide::sliding_log::granule;
use crate::domain::limit::Level;

const MINUTE: u64 = 60_000_000;

/// The start of a minute.
const EDGE: u64 = START / MINUTE * MINUTE;

/// What is in the counter for who reads it at `now`; of a log the hits that had been admitted by each moment that counts.
#[derive(Debug, PartialEq)]
enum Content {
    State(State),
    Marks(Vec<(Timestamp, u64)>),
}

fn content(table: &Table, limit: &Limit, now: Timestamp) -> Content {
    if limit.algorithm() != Algorithm::SlidingLog {
        return Content::State(Seen::read(&check(limit, Hits::LOOK), table.states[0], now).state);
    }
    let mut log = table.logs[0].clone();
    log.forget(limit, now);
    let base = log.marks().next().expect("a base").total;
    let mut marks: Vec<(Timestamp, u64)> = Vec::new();
    for mark in log.marks().skip(1) {
        marks.retain(|(at, _)| *at != mark.at);
        marks.push((mark.at, mark.total - base));
    }
    Content::Marks(marks)
}

fn level(table: &Table, limit: &Limit, now: Timestamp) -> Level {
    match content(table, limit, now) {
        Content::State(State::Bucket(bucket)) => bucket.level,
        other => panic!("no bucket: {other:?}"),
    }
}

/// Takes, by a check that must fit.
fn take(table: &mut Table, limit: &Limit, hits: u64, now: u64) {
    let decision = one_of(
        table,
        check(limit, Hits::take(hits)),
        Micros::new(u64::MAX),
        at(now),
    );
    assert_eq!(decision.verdict, Verdict::UnderLimit);
}

fn undo(table: &mut Table, limit: &Limit, hits: u64, taken: u64, now: u64) -> Decision {
    one(table, limit, Hits::Undo(hits, at(taken)), at(now))
}

#[test]
fn an_undo_passes_whatever_is_spent_and_shows_what_is_then_left() {
    for algorithm in Algorithm::ALL {
        let limit = limit(algorithm, 3, Unit::Second);
        let mut table = Table::of(1);
        take(&mut table, &limit, u64::from(limit.largest()), START);
        let whole = one(&mut Table::of(1), &limit, Hits::LOOK, at(START)).remaining;
        let undone = undo(&mut table, &limit, u64::from(limit.largest()), START, START);
        assert_eq!((undone.verdict, undone.retry_after), (Verdict::UnderLimit, None));
        assert_eq!(
            (undone.remaining, undone.next_after),
            (whole, None),
            "{algorithm:?}"
        );
        assert_eq!(table.states[0], None, "{algorithm:?}: what is empty is not kept");
        assert!(table.logs[0].is_empty());
    }
}

#[test]
fn nothing_goes_below_empty() {
    for algorithm in Algorithm::ALL {
        let limit = limit(algorithm, 9, Unit::Minute);
        let mut table = Table::of(1);
        take(&mut table, &limit, 1, START);
        undo(&mut table, &limit, 7, START, START);
        assert_eq!(table, Table::of(1), "{algorithm:?}");
        undo(&mut table, &limit, 7, START, START);
        assert_eq!(table, Table::of(1), "{algorithm:?}");
    }
}

#[test]
fn a_fixed_window_gives_up_only_what_was_taken_in_it() {
    let limit = limit(Algorithm::FixedWindow, 9, Unit::Minute);
    let count = |table: &Table| match table.states[0] {
        Some(State::Fixed(window)) => window.count,
        _ => 0,
    };
    let mut table = Table::of(1);
    take(&mut table, &limit, 3, EDGE);
    take(&mut table, &limit, 2, EDGE + 1);
    undo(&mut table, &limit, 3, EDGE, EDGE + MINUTE - 1);
    assert_eq!(count(&table), 2);
    take(&mut table, &limit, 4, EDGE + MINUTE);
    for taken in [EDGE + MINUTE - 1, EDGE + 2 * MINUTE] {
        undo(&mut table, &limit, 3, taken, EDGE + MINUTE);
        assert_eq!(count(&table), 4, "{taken} is in another window");
    }
}

#[test]
fn a_sliding_window_gives_up_what_was_taken_in_each_of_its_two_and_from_that_one_alone() {
    let limit = limit(Algorithm::SlidingWindow, 9, Unit::Minute);
    let counts = |table: &Table| match table.states[0] {
        Some(State::Sliding(window)) => (window.current, window.previous),
        _ => (0, 0),
    };
    let mut before = Table::of(1);
    take(&mut before, &limit, 5, EDGE + MINUTE - 1);
    take(&mut before, &limit, 2, EDGE + MINUTE);
    assert_eq!(counts(&before), (2, 5));
    for (hits, taken, left) in [
        (3, EDGE + MINUTE - 1, (2, 2)),
        (7, EDGE, (2, 0)),
        (1, EDGE + MINUTE, (1, 5)),
        (3, EDGE + 2 * MINUTE - 1, (0, 5)),
        (3, EDGE - 1, (2, 5)),
        (3, EDGE + 2 * MINUTE, (2, 5)),
    ] {
        let mut table = before.clone();
        undo(&mut table, &limit, hits, taken, EDGE + MINUTE);
        assert_eq!(counts(&table), left, "{hits} of {taken}");
    }
}

#[test]
fn a_log_gives_up_its_newest_mark_and_none_that_newer_ones_stand_on() {
    let limit = limit(Algorithm::SlidingLog, 9, Unit::Minute);
    let mut table = Table::of(1);
    take(&mut table, &limit, 2, START);
    take(&mut table, &limit, 3, START + 1);
    let both = table.clone();
    undo(&mut table, &limit, 2, START, START + 1);
    assert_eq!(table, both);
    undo(&mut table, &limit, 3, START + 1, START + 2);
    assert_eq!(
        content(&table, &limit, at(START + 2)),
        Content::Marks(vec![(at(START), 2)])
    );
    undo(&mut table, &limit, 2, START, START + 2);
    assert!(table.logs[0].is_empty());
}

#[test]
fn a_bucket_that_would_have_been_empty_drained_the_charge_instead() {
    let limit = limit(Algorithm::TokenBucket, 60, Unit::Minute);
    let mut table = Table::of(1);
    take(&mut table, &limit, 5, START);
    take(&mut table, &limit, 3, START + 2_000_000);
    undo(&mut table, &limit, 5, START, START + 2_000_000);
    // Three, had the five not been made: the two that drained are others' room now, and no more than those.
    let left = level(&table, &limit, at(START + 2_000_000));
    assert_eq!(left, Level { whole: 1, part: 0 });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// Windows: exactly, near or past. A log: exactly while nothing newer stands on the charge, else not at all; where
    /// calls share a mark, it keeps the charge's time. A bucket: exactly, but for what drained of the charge while
    /// the bucket would have been empty without: a level says how much is in it, not whose it is.
    #[test]
    fn an_undone_charge_leaves_what_would_be_there_without(
        limit in any_limit(),
        history in steps(true),
        hits in prop_oneof![1_u64..4, 1_u64..u64::from(u32::MAX)],
        others in prop::collection::vec(any_step(false), 0..12),
    ) {
        let mut now = START;
        let mut without = Table::of(1);
        for step in &history {
            now += step.passed(&limit);
            if let Some(hits) = step.hits(&limit) {
                one_of(&mut without, check(&limit, hits), Micros::new(u64::MAX), at(now));
            }
        }
        let call = |table: &mut Table, hits, now| {
            one_of(table, check(&limit, hits), Micros::new(u64::MAX), at(now)).verdict
        };
        let (taken, hits) = (now, hits.min(u64::from(limit.largest())));
        let granule = granule(&limit);
        let shared = granule > 0 && without.logs[0].last().as_micros() / granule == taken / granule;
        let mut with = without.clone();
        if call(&mut with, Hits::take(hits), taken) == Verdict::OverLimit {
            return Ok(());
        }
        let (mut newer, mut was_empty) = (false, false);
        let is_empty = |without: &Table, now| {
            limit.algorithm().is_bucket() && level(without, &limit, at(now)) == Level::default()
        };
        for step in &others {
            now += step.passed(&limit);
            was_empty |= is_empty(&without, now);
            if let Some(hits @ Hits::Take(_)) = step.hits(&limit)
                && call(&mut with, hits, now) == Verdict::UnderLimit
            {
                prop_assert_eq!(call(&mut without, hits, now), Verdict::UnderLimit, "admitted for the charge");
                newer |= now > taken;
            }
        }
        was_empty |= is_empty(&without, now);
        let charged = with.clone();
        call(&mut with, Hits::Undo(hits, at(taken)), now);
        if limit.algorithm() == Algorithm::SlidingLog && newer {
            prop_assert_eq!(with, charged, "newer marks stand on it");
        } else if shared {
            let used = |table: &Table| table.logs[0].view(&limit, 1, at(now)).used;
            prop_assert!(used(&with) >= used(&without));
            prop_assert!(used(&with) <= used(&charged));
        } else if was_empty {
            let parts = |table: &Table| {
                let level = level(table, &limit, at(now));
                u128::from(level.whole) * u128::from(limit.rate().micros) + u128::from(level.part)
            };
            let drained = u128::from(now - taken) * u128::from(limit.rate().hits);
            prop_assert!(parts(&with) <= parts(&without));
            prop_assert!(parts(&without) - parts(&with) <= drained);
        } else {
            prop_assert_eq!(content(&with, &limit, at(now)), content(&without, &limit, at(now)));
        }
    }
}

//! In which interval a promise has least room. Pure: times are arguments.

use comporta::domain::time::Micros;

/// Hits at a moment of which only the bounds are known: those of the call that brought them.
#[derive(Clone, Copy, Debug)]
pub struct Hits {
    pub sent: Micros,
    pub answered: Micros,
    pub count: u64,
}

/// What intervals are granted beyond the promise if they meet this span: a budget that was lost, hits given back.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    pub from: Micros,
    pub to: Micros,
    pub hits: u64,
}

/// What was admitted in an interval, and what was promised to be the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub from: Micros,
    pub to: Micros,
    pub hits: u64,
    pub promised: u64,
}

impl Admitted {
    /// How many hits more could have been admitted. Below zero the promise is broken.
    pub fn room(&self) -> i128 {
        i128::from(self.promised) - i128::from(self.hits)
    }
}

/// The interval that has least room, and of those the one with most hits, of all that begin as one of the calls was sent and end as one was answered. Only
/// calls that were both sent and answered in it count, for others may have been decided outside: a slow answer neither
/// excuses nor accuses. None where nothing was admitted.
///
/// `promise` is the most in an interval so long, and never less in a longer one.
pub fn tightest(admitted: &[Hits], grants: &[Grant], promise: impl Fn(Micros) -> u64) -> Option<Admitted> {
    let grants = Grants::new(grants);
    let mut calls = admitted.to_vec();
    calls.sort_unstable_by_key(|call| call.answered);
    let mut tightest: Option<Admitted> = None;
    for first in &calls {
        let from = first.sent;
        let mut interval = Admitted {
            from,
            to: from,
            hits: 0,
            promised: 0,
        };
        // A call that was answered before was not sent after.
        let start = calls.partition_point(|call| call.answered < from);
        for call in calls[start..].iter().filter(|call| call.sent >= from) {
            interval.hits += call.count;
            // What is promised only grows, so most intervals are known to have more room without a look at it.
            if tightest.is_some_and(|tightest| interval.room() > tightest.room()) {
                continue;
            }
            interval.to = call.answered;
            let span = interval.to.saturating_sub(from);
            interval.promised = promise(span) + grants.within(from, interval.to);
            let is_tighter = |than: Admitted| (interval.room(), than.hits) < (than.room(), interval.hits);
            if tightest.is_none_or(is_tighter) {
                tightest = Some(interval);
            }
        }
    }
    tightest
}

/// Grants, so that those of an interval are found without a look at all.
struct Grants {
    /// By their beginnings, with the sum of all up to each.
    begun: Vec<(Micros, u64)>,
    /// By their ends.
    ended: Vec<(Micros, u64)>,
}

impl Grants {
    fn new(grants: &[Grant]) -> Self {
        let summed = |moment: fn(&Grant) -> Micros| {
            let mut all: Vec<_> = grants.iter().map(|grant| (moment(grant), grant.hits)).collect();
            all.sort_unstable();
            let mut sum = 0;
            for (_, hits) in &mut all {
                sum += *hits;
                *hits = sum;
            }
            all
        };
        Self {
            begun: summed(|grant| grant.from),
            ended: summed(|grant| grant.to),
        }
    }

    /// All that meet the interval: those that have begun by its end, less those that were over before it began.
    fn within(&self, from: Micros, to: Micros) -> u64 {
        let sum = |all: &[(Micros, u64)], place: usize| place.checked_sub(1).map_or(0, |last| all[last].1);
        let begun = self.begun.partition_point(|(begun, _)| *begun <= to);
        let ended = self.ended.partition_point(|(ended, _)| *ended < from);
        sum(&self.begun, begun) - sum(&self.ended, ended)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLI: u64 = 1_000;

    fn call(sent: u64, answered: u64, count: u64) -> Hits {
        Hits {
            sent: Micros::new(sent * MILLI),
            answered: Micros::new(answered * MILLI),
            count,
        }
    }

    fn grant(from: u64, to: u64, hits: u64) -> Grant {
        Grant {
            from: Micros::new(from * MILLI),
            to: Micros::new(to * MILLI),
            hits,
        }
    }

    /// Five at once, and one comes back every second.
    fn five(span: Micros) -> u64 {
        5 + span.get() / Micros::SECOND.get()
    }

    #[track_caller]
    fn check(calls: &[Hits], grants: &[Grant], room: i128) {
        let tightest = tightest(calls, grants, five).expect("an interval");
        assert_eq!(tightest.room(), room, "{tightest:?}");
    }

    #[test]
    fn one_hit_more_than_was_promised_is_seen_wherever_it_is() {
        let kept = [call(0, 10, 5), call(995, 1_005, 1), call(2_000, 2_010, 1)];
        check(&kept, &[], 0);
        for more in [call(0, 10, 1), call(996, 1_004, 1), call(2_001, 2_002, 1)] {
            check(&[&kept[..], &[more]].concat(), &[], -1);
        }
        assert_eq!(tightest(&[], &[], five), None);
    }

    #[test]
    fn a_slow_answer_neither_excuses_nor_accuses() {
        // All five may have been admitted as early as at 0 s, and what came back after 1.1 s.
        check(&[call(0, 1_100, 5), call(900, 1_200, 1)], &[], 0);
        // Whatever took them so long, these were admitted within a second.
        check(&[call(100, 900, 5), call(100, 990, 1)], &[], -1);
        // These may have been admitted years apart.
        check(&[call(0, 999, 5), call(500, 9_000, 5)], &[], 0);
    }

    #[test]
    fn what_is_granted_is_granted_to_intervals_that_meet_it() {
        let calls = [call(0, 10, 5), call(500, 510, 5)];
        check(&calls, &[], -5);
        for (loss, room) in [
            (grant(100, 200, 5), 0),
            (grant(510, 600, 5), 0),
            (grant(511, 600, 5), -5),
            (grant(0, 900, 4), -1),
        ] {
            check(&calls, &[loss], room);
        }
        let again = [&calls[..], &[call(700, 710, 5)]].concat();
        check(&again, &[grant(100, 200, 5)], -5);
        check(&again, &[grant(100, 200, 5), grant(600, 600, 5)], 0);
    }

    #[test]
    fn a_hundredth_too_fast_is_seen_in_the_long_run() {
        let steady: Vec<_> = (0..600).map(|at| call(at * 990, at * 990 + 1, 1)).collect();
        assert_eq!(
            tightest(&steady[..300], &[], five).map(|most| most.room() >= 0),
            Some(true)
        );
        check(&steady, &[], -2);
    }

    fn calls() -> impl Strategy<Value = Vec<Hits>> {
        let call = (0..5_000_u64, 0..500_u64, 1..4_u64);
        prop::collection::vec(
            call.prop_map(|(sent, took, count)| call_of(sent, took, count)),
            1..40,
        )
    }

    fn call_of(sent: u64, took: u64, count: u64) -> Hits {
        call(sent, sent + took, count)
    }

    proptest! {
        #[test]
        fn it_is_the_one_that_is_found_by_looking_at_all(
            calls in calls(),
            grants in prop::collection::vec((0..5_000_u64, 0..500_u64, 0..9_u64), 0..5),
        ) {
            let grants: Vec<_> = grants.iter().map(|(from, long, hits)| grant(*from, from + long, *hits)).collect();
            let rooms = calls.iter().flat_map(|first| calls.iter().map(move |last| (first.sent, last.answered)));
            let room = |(from, to): (Micros, Micros)| {
                let inside = |call: &&Hits| call.sent >= from && call.answered <= to;
                let hits: u64 = calls.iter().filter(inside).map(|call| call.count).sum();
                let meets = |grant: &&Grant| grant.from <= to && grant.to >= from;
                let granted: u64 = grants.iter().filter(meets).map(|grant| grant.hits).sum();
                (hits > 0).then(|| i128::from(five(to.saturating_sub(from)) + granted) - i128::from(hits))
            };
            let least = rooms.filter_map(room).min();
            prop_assert_eq!(tightest(&calls, &grants, five).map(|most| most.room()), least);
        }
    }
}

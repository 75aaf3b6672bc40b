//! Whatever lies in a counter: reading it never panics, what is read is written as the same bytes again, and it is safe
//! to decide on. Where arithmetic would overflow, a debug build panics.

use super::*;
use crate::decide::sliding_log::LogView;

/// A counter that holds what was put there, and then what was written.
struct One(Stored);

impl Counters for One {
    fn read(&mut self, _: usize, _: &Check<'_>, _: u64, _: Timestamp) -> Stored {
        self.0
    }

    fn write(&mut self, _: usize, check: &Check<'_>, seen: &Seen, _: Hits) {
        if !matches!(seen.state, State::Log(_)) {
            let encoded = seen.state.encode();
            let state = State::decode(check.limit, encoded.as_bytes());
            assert_eq!(
                state,
                Some(seen.state),
                "what is written can be read, and is the same"
            );
        }
        self.0 = if seen.state.is_empty() {
            Stored::Nothing
        } else {
            Stored::State(seen.state)
        };
    }
}

/// A limit, or what one of many instances that cannot see each other makes of it.
fn any_limit_or_share() -> impl Strategy<Value = Limit> {
    (any_limit(), prop_oneof![3 => Just(0), 1 => magnitude(2_000)]).prop_map(|(limit, instances)| {
        match instances {
            0 => limit,
            many => limit.share_of(many as u32),
        }
    })
}

fn any_limit_of_a_log() -> impl Strategy<Value = Limit> {
    (any_count(), any_period()).prop_filter_map("bounds", |(count, period)| {
        Limit::new(spec(Algorithm::SlidingLog, count, period)).ok()
    })
}

/// A number of seven bytes: near now, at an edge, or any.
fn any_moment() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => START - 3_000_000..START + 3_000_000,
        2 => magnitude((1 << 56) - 1),
        1 => prop::sample::select(vec![0, 1, (1 << 53) - 1, 1 << 53, (1 << 56) - 1]),
    ]
}

/// A number of five bytes.
fn any_count_of_hits() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..100, magnitude(Hits::MOST), Just(Hits::MOST)]
}

/// Bytes of the form that some algorithm writes, or none at all.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let number = |width: usize, number: u64| number.to_be_bytes()[8 - width..].to_vec();
    let form = prop::sample::select(vec![&[7, 5, 7, 7][..], &[7, 5, 5], &[7, 5]]);
    let moments = prop::collection::vec(any_moment(), 4);
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..64),
        4 => (form, moments, any_count_of_hits()).prop_map(move |(form, moments, hits)| {
            form.iter().zip(moments).flat_map(|(width, at)| number(*width, if *width == 5 { hits } else { at })).collect()
        }),
    ]
}

/// State of `limit`, with numbers that are on its grid and below its denominator but otherwise any.
fn bytes_for(limit: &Limit, moments: &[u64], hits: u64) -> Vec<u8> {
    let period = limit.period().length().get();
    let on_grid = moments[0] / period * period;
    let (widths, numbers): (&[usize], Vec<u64>) = match limit.algorithm() {
        Algorithm::FixedWindow if limit.grid() != Grid::Epoch => {
            let start = crate::decide::fixed_window::start_of(limit, at(moments[0]));
            (&[7, 5], vec![start.as_micros(), hits])
        }
        Algorithm::FixedWindow => (&[7, 5], vec![on_grid, hits]),
        Algorithm::SlidingWindow => (&[7, 5, 5], vec![on_grid, hits, moments[1] & Hits::MOST]),
        _ => {
            let per = if moments[2].is_multiple_of(2) {
                limit.rate().micros
            } else {
                moments[2].max(1)
            };
            (&[7, 5, 7, 7], vec![moments[0], hits, moments[1] % per, per])
        }
    };
    let numbers = widths.iter().zip(numbers);
    numbers
        .flat_map(|(width, number)| number.to_be_bytes()[8 - width..].to_vec())
        .collect()
}

fn any_hits() -> impl Strategy<Value = Hits> {
    prop_oneof![
        Just(Hits::LOOK),
        any_count_of_hits().prop_map(Hits::take),
        any_count_of_hits().prop_map(Hits::give_back),
    ]
}

#[derive(Clone, Debug)]
struct Call {
    hits: Hits,
    charge: Charge,
    longest_wait: u64,
    now: u64,
}

fn any_call() -> impl Strategy<Value = Call> {
    let charge = prop::sample::select(vec![Charge::AllOrNothing, Charge::Each, Charge::Always]);
    let wait = prop_oneof![Just(0), magnitude(60_000_000), Just(u64::MAX)];
    // A clock shows anything up to where Lua's numbers end.
    let now = prop_oneof![3 => START - 3_000_000..START + 3_000_000, 1 => 0_u64..1 << 53];
    (any_hits(), charge, wait, now).prop_map(|(hits, charge, longest_wait, now)| Call {
        hits,
        charge,
        longest_wait,
        now,
    })
}

/// Decides every call on what `stored` holds; that it returns is what is asked.
fn decide_on(limit: &Limit, stored: Stored, calls: &[Call]) {
    let mut counter = One(stored);
    for call in calls {
        let mut check = check(limit, call.hits);
        // A log that always charges is refused where limits are loaded.
        if limit.algorithm() != Algorithm::SlidingLog {
            check.charge = call.charge;
        }
        let group = Group {
            checks: &[check],
            longest_wait: Micros::new(call.longest_wait),
            compat: false,
        };
        let decision = decide(&group, at(call.now), &mut counter).checks[0];
        assert!(decision.remaining <= limit.room().whole, "{decision:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_and_decided_on(
        limit in any_limit_or_share(),
        bytes in any_bytes(),
        calls in prop::collection::vec(any_call(), 1..6),
    ) {
        let stored = State::decode(&limit, &bytes).map_or(Stored::Unreadable, Stored::State);
        if let Stored::State(state) = stored {
            let again = state.encode();
            prop_assert_eq!(again.as_bytes(), &bytes[..]);
        }
        decide_on(&limit, stored, &calls);
    }

    #[test]
    fn any_state_is_decided_on(
        limit in any_limit_or_share(),
        moments in prop::collection::vec(any_moment(), 3),
        hits in any_count_of_hits(),
        calls in prop::collection::vec(any_call(), 1..6),
    ) {
        let bytes = bytes_for(&limit, &moments, hits);
        let stored = State::decode(&limit, &bytes).map_or(Stored::Unreadable, Stored::State);
        if let Stored::State(state) = stored {
            let again = state.encode();
            prop_assert_eq!(again.as_bytes(), &bytes[..]);
        }
        decide_on(&limit, stored, &calls);
    }

    #[test]
    fn any_view_of_a_log_is_decided_on(
        limit in any_limit_of_a_log(),
        used in any_count_of_hits(),
        moments in prop::collection::vec(any_moment(), 3),
        calls in prop::collection::vec(any_call(), 1..6),
    ) {
        let view = LogView { used, last: at(moments[0]), next: at(moments[1]), retry: at(moments[2]) };
        decide_on(&limit, Stored::State(State::Log(view)), &calls);
    }
}

#[test]
fn numbers_that_lua_cannot_hold_are_no_state() {
    let limit = limit(Algorithm::FixedWindow, 3, Unit::Second);
    let read = |start: u64| {
        let bytes = [&start.to_be_bytes()[1..], &[0, 0, 0, 0, 1]].concat();
        State::decode(&limit, &bytes)
    };
    // The first second that ends behind 2^53, and then 2^53 itself on a bucket, which has no grid.
    assert!(read(9_007_199_254_000_000).is_some());
    assert!(read(9_007_199_255_000_000).is_none());
    let limit = super::limit(Algorithm::TokenBucket, 1, Unit::Second);
    let state = |at: u64| {
        [
            &at.to_be_bytes()[1..],
            &[0; 11],
            &[1],
            &[0; 4],
            &[0x0f, 0x42, 0x40],
        ]
        .concat()
    };
    assert!(State::decode(&limit, &state((1 << 53) - 1)).is_some());
    assert!(State::decode(&limit, &state(1 << 53)).is_none());
}

#[test]
fn a_state_is_empty_once_all_is_given_back() {
    for algorithm in Algorithm::ALL {
        let limit = limit(algorithm, 3, Unit::Minute);
        let check = check(&limit, Hits::take(1));
        let mut seen = Seen::read(&check, None, at(START));
        assert!(seen.state.is_empty(), "{algorithm:?}");
        seen.take(&check, 1);
        assert!(!seen.state.is_empty(), "{algorithm:?}");
        seen.give_back(2);
        // What is left of a log only its store can say.
        assert_eq!(
            seen.state.is_empty(),
            algorithm != Algorithm::SlidingLog,
            "{algorithm:?}"
        );
    }
}

#[test]
fn a_fraction_of_a_whole_hit_is_no_state() {
    let limit = limit(Algorithm::TokenBucket, 3, Unit::Second);
    let per = limit.rate().micros;
    let read = |part: u64| State::decode(&limit, &bytes_for_bucket(START, 1, part, per));
    assert!(read(per - 1).is_some());
    assert!(read(per).is_none());
}

fn bytes_for_bucket(at: u64, whole: u64, part: u64, per: u64) -> Vec<u8> {
    let numbers = [(7, at), (5, whole), (7, part), (7, per)];
    let bytes = |(width, number): (usize, u64)| number.to_be_bytes()[8 - width..].to_vec();
    numbers.into_iter().flat_map(bytes).collect()
}

#[test]
fn bytes_tell_the_moment_that_their_state_speaks_of() {
    for algorithm in Algorithm::ALL
        .into_iter()
        .filter(|known| *known != Algorithm::SlidingLog)
    {
        let limit = limit(algorithm, 3, Unit::Second);
        let state = State::empty(&limit, at(START + 123_456));
        assert!(state.moment() >= at(START), "{algorithm:?}");
        assert_eq!(state.encode().moment(), state.moment(), "{algorithm:?}");
    }
}

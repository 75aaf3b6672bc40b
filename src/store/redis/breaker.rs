//! Whether the shared store is asked at all: a state machine without a clock. Whoever drives it probes in the background
//! while it is open.

/// So many calls that fail one after another open the breaker.
const FAILURES: u32 = 5;

/// The most calls that are under way at once on one connection: what Redis answers in about the time that a call may take.
pub(super) const MOST_IN_FLIGHT: u32 = 1024;

/// How many are let through at once after a fault; each that succeeds makes room for one more, so that a store that has
/// just come back doubles its load with every round trip instead of meeting all of it at once.
const FIRST_IN_FLIGHT: u32 = 16;

/// What is let through to one server.
#[derive(Debug)]
pub(super) struct Breaker {
    state: State,
    /// How many may be under way.
    window: u32,
    in_flight: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Asked; so many calls have failed in a row.
    Closed { failures: u32 },
    /// Not asked.
    Open,
}

/// Why a call is not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The breaker is open.
    Open,
    /// As many are under way as may be.
    Full,
}

impl Breaker {
    /// Open: nothing has been heard from the store yet.
    pub(super) const fn new() -> Self {
        Self {
            state: State::Open,
            window: MOST_IN_FLIGHT,
            in_flight: 0,
        }
    }

    /// Lets a call through, which then has to end, whatever becomes of it.
    pub(super) fn begin(&mut self) -> Result<(), Kept> {
        if self.state == State::Open {
            return Err(Kept::Open);
        }
        if self.in_flight >= self.window {
            return Err(Kept::Full);
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Ends one: its caller has an answer or has given up.
    pub(super) fn end(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// The store answered `calls` at once.
    pub(super) fn succeed(&mut self, calls: usize) {
        if let State::Closed { failures } = &mut self.state {
            *failures = 0;
            let calls = u32::try_from(calls).unwrap_or(u32::MAX);
            self.window = self.window.saturating_add(calls).min(MOST_IN_FLIGHT);
        }
    }

    /// Calls that went together failed. Tells whether this opened the breaker.
    pub(super) fn fail(&mut self) -> bool {
        let State::Closed { failures } = &mut self.state else {
            return false;
        };
        *failures += 1;
        let opens = *failures >= FAILURES;
        if opens {
            self.open();
        }
        opens
    }

    /// Opens it: the connection is gone, or the store says that it is of no use to ask.
    pub(super) fn open(&mut self) {
        self.state = State::Open;
        self.window = FIRST_IN_FLIGHT;
    }

    /// Closes it: a probe succeeded.
    pub(super) fn close(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    /// Whether calls are let through.
    pub(super) fn is_closed(&self) -> bool {
        self.state != State::Open
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn closed() -> Breaker {
        let mut breaker = Breaker::new();
        breaker.close();
        breaker
    }

    #[test]
    fn five_failures_in_a_row_open_it() {
        let mut breaker = closed();
        for _ in 0..10 {
            assert_eq!((0..4).filter(|_| breaker.fail()).count(), 0);
            breaker.succeed(1);
        }
        assert_eq!((0..4).filter(|_| breaker.fail()).count(), 0);
        assert!(breaker.fail());
        assert_eq!(breaker.begin(), Err(Kept::Open));
        breaker.close();
        assert_eq!(breaker.begin(), Ok(()));
    }

    #[test]
    fn a_caller_that_gives_up_opens_nothing() {
        let mut breaker = closed();
        for _ in 0..100 {
            breaker.begin().expect("let through");
            breaker.end();
        }
        assert!(breaker.is_closed());
    }

    #[test]
    fn what_is_late_from_before_it_opened_says_nothing() {
        let mut breaker = closed();
        assert_eq!((0..8).filter(|_| breaker.fail()).count(), 1);
        breaker.succeed(1);
        assert!(!breaker.is_closed());
    }

    #[test]
    fn at_first_all_are_let_through_and_after_a_fault_ever_more() {
        let mut breaker = closed();
        let round = |breaker: &mut Breaker| {
            let let_through = (0..2_000).take_while(|_| breaker.begin().is_ok()).count();
            assert_eq!(breaker.begin(), Err(Kept::Full));
            breaker.succeed(let_through);
            (0..let_through).for_each(|_| breaker.end());
            let_through
        };
        assert_eq!(round(&mut breaker), 1024);
        breaker.open();
        breaker.close();
        let rounds: Vec<_> = (0..8).map(|_| round(&mut breaker)).collect();
        assert_eq!(rounds, [16, 32, 64, 128, 256, 512, 1024, 1024]);
    }

    proptest! {
        #[test]
        fn no_more_are_under_way_than_may_be(steps in prop::collection::vec(0..7_u8, 0..4_000)) {
            let mut breaker = Breaker::new();
            let mut under_way = 0_u32;
            for step in steps {
                match step {
                    0..=2 => under_way += u32::from(breaker.begin().is_ok()),
                    3 => breaker.close(),
                    4 => breaker.open(),
                    5 => breaker.succeed(3),
                    _ if under_way > 0 => {
                        under_way -= 1;
                        breaker.end();
                    }
                    _ => {
                        breaker.fail();
                    }
                }
                prop_assert!(under_way <= MOST_IN_FLIGHT);
                prop_assert_eq!(breaker.in_flight, under_way);
            }
        }
    }
}

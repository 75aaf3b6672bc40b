//! What a counter holds, and how it is written down: the same bytes as in `lua/`.

use super::Fit;
use super::bucket::Bucket;
use super::fixed_window::{FixedWindow, start_of};
use super::sliding_log::LogView;
use super::sliding_window::SlidingWindow;
use crate::domain::check::{Charge, Check};
use crate::domain::limit::{Algorithm, LONGEST_DRAIN, LONGEST_PERIOD, Level, Limit};
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};

/// What a counter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Of a token or leaky bucket.
    Bucket(Bucket),
    /// Of a sliding window.
    Sliding(SlidingWindow),
    /// Of a fixed window.
    Fixed(FixedWindow),
    /// Of a sliding log, which itself stays in its store.
    Log(LogView),
}

/// A state as of the moment it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Drained or rolled on to that moment.
    pub state: State,
    /// The moment: the clock's, or the state's own where the clock was overtaken.
    pub now: Timestamp,
}

impl Seen {
    /// What `check` sees of `stored` at `now`.
    pub fn read(check: &Check<'_>, stored: Option<State>, now: Timestamp) -> Self {
        let limit = check.limit;
        let empty = || Self {
            state: State::empty(limit, now),
            now,
        };
        match (limit.algorithm(), stored) {
            (Algorithm::TokenBucket | Algorithm::LeakyBucket, Some(State::Bucket(bucket))) => {
                let bucket = bucket.read(limit, most_owed(check), now);
                Self {
                    state: State::Bucket(bucket),
                    now: bucket.at,
                }
            }
            (Algorithm::SlidingWindow, Some(State::Sliding(window))) => {
                let (window, now) = window.read(limit, now);
                Self {
                    state: State::Sliding(window),
                    now,
                }
            }
            (Algorithm::FixedWindow, Some(State::Fixed(window))) => {
                let (window, now) = window.read(limit, now);
                Self {
                    state: State::Fixed(window),
                    now,
                }
            }
            (Algorithm::SlidingLog, Some(State::Log(view))) => Self {
                state: State::Log(view),
                now: view.effective_now(now),
            },
            _ => empty(),
        }
    }

    /// Whether `asked` hits fit within `longest_wait`.
    pub fn fit(&self, limit: &Limit, asked: u64, longest_wait: Micros) -> Fit {
        // The one comparison of a call's size with what the limit can ever hold.
        if asked > u64::from(limit.largest()) {
            return Fit::Never;
        }
        match &self.state {
            State::Bucket(bucket) => bucket.fit(limit, asked, longest_wait),
            State::Sliding(window) => window.fit(limit, asked, self.now),
            State::Fixed(window) => window.fit(limit, asked, self.now),
            State::Log(view) => view.fit(limit, asked, self.now),
        }
    }

    /// Adds `hits`.
    pub fn take(&mut self, check: &Check<'_>, hits: u64) {
        match &mut self.state {
            State::Bucket(bucket) => bucket.take(hits, most_owed(check)),
            State::Sliding(window) => window.take(hits),
            State::Fixed(window) => window.take(hits),
            State::Log(view) => view.take(check.limit, hits, self.now),
        }
    }

    /// Takes `hits` out, never below empty. Of a log only its store can say what is then left.
    pub fn give_back(&mut self, hits: u64) {
        match &mut self.state {
            State::Bucket(bucket) => bucket.give_back(hits),
            State::Sliding(window) => window.give_back(hits),
            State::Fixed(window) => window.give_back(hits),
            State::Log(_) => {}
        }
    }

    /// Takes `hits` out that were taken at `taken`, where that still counts. Of a log only its store can say.
    pub fn undo(&mut self, limit: &Limit, hits: u64, taken: Timestamp) {
        match &mut self.state {
            // What drained meanwhile would have drained of the others' hits as well. Where there were none, it is room that
            // the others now have more.
            State::Bucket(bucket) => bucket.give_back(hits),
            State::Sliding(window) => window.undo(limit, hits, taken),
            State::Fixed(window) => window.undo(limit, hits, taken),
            State::Log(_) => {}
        }
    }

    /// Whole hits that would still be admitted.
    pub fn remaining(&self, limit: &Limit) -> u64 {
        match &self.state {
            State::Bucket(bucket) => bucket.remaining(limit),
            State::Sliding(window) => window.remaining(limit, self.now),
            State::Fixed(window) => window.remaining(limit),
            State::Log(view) => view.remaining(limit),
        }
    }

    /// When one hit more than now would be admitted; none when nothing is used.
    pub fn next_after(&self, limit: &Limit) -> Option<Micros> {
        match &self.state {
            State::Bucket(bucket) => bucket.next_after(limit),
            State::Sliding(window) => window.next_after(limit, self.now),
            State::Fixed(window) => window.next_after(limit, self.now),
            State::Log(view) => view.next_after(limit, self.now),
        }
    }

    /// When a fixed window ends; none of any other state.
    pub fn window_ends_after(&self, limit: &Limit) -> Option<Micros> {
        match &self.state {
            State::Fixed(window) => Some(window.time_left(limit, self.now)),
            State::Bucket(_) | State::Sliding(_) | State::Log(_) => None,
        }
    }

    /// When the whole budget is back: after that the state says no more than none would.
    pub fn reset_after(&self, limit: &Limit) -> Micros {
        match &self.state {
            State::Bucket(bucket) => bucket.reset_after(limit),
            State::Sliding(window) => window.reset_after(limit, self.now),
            State::Fixed(window) => window.reset_after(limit, self.now),
            State::Log(view) => view.reset_after(limit, self.now),
        }
    }
}

/// The highest level a bucket may be said to owe. Nobody owes more than a full one, but for rules that charge whatever
/// the verdict, where it is what drains in 100 years.
pub fn most_owed(check: &Check<'_>) -> Level {
    match check.charge {
        Charge::Always => {
            let in_100_years = check.limit.rate().drained_in(LONGEST_DRAIN).whole;
            Level {
                whole: in_100_years.min(Hits::MOST),
                part: 0,
            }
        }
        Charge::AllOrNothing | Charge::Each => check.limit.most_owed(),
    }
}

/// A state as bytes: all numbers big-endian, their lengths told apart by algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    bytes: [u8; BUCKET],
    length: u8,
}

const BUCKET: usize = 7 + 5 + 7 + 7;
const SLIDING: usize = 7 + 5 + 5;
const FIXED: usize = 7 + 5;

/// Numbers from here on are not exact in Lua's doubles.
const INEXACT: u64 = 1 << 53;

impl Encoded {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The moment that the state speaks of.
    pub fn moment(&self) -> Timestamp {
        Timestamp::from_micros(big_endian(&self.bytes[..7]))
    }

    fn new() -> Self {
        Self {
            bytes: [0; BUCKET],
            length: 0,
        }
    }

    fn with<const WIDTH: usize>(mut self, number: u64) -> Self {
        let start = usize::from(self.length);
        self.bytes[start..start + WIDTH].copy_from_slice(&number.to_be_bytes()[8 - WIDTH..]);
        self.length += WIDTH as u8;
        self
    }
}

impl State {
    /// What a counter of `limit` that holds nothing is at `now`.
    pub fn empty(limit: &Limit, now: Timestamp) -> Self {
        match limit.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Self::Bucket(Bucket::empty(limit, now)),
            Algorithm::SlidingWindow => Self::Sliding(SlidingWindow::empty(limit, now)),
            Algorithm::FixedWindow => Self::Fixed(FixedWindow::empty(limit, now)),
            Algorithm::SlidingLog => Self::Log(LogView::default()),
        }
    }

    /// Whether it says no more than no state would.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Bucket(bucket) => bucket.level == Level::default(),
            Self::Sliding(window) => window.current == 0 && window.previous == 0,
            Self::Fixed(window) => window.count == 0,
            Self::Log(view) => view.used == 0,
        }
    }

    /// The moment it speaks of: a clock that shows an earlier one was overtaken or set back.
    pub const fn moment(&self) -> Timestamp {
        match self {
            Self::Bucket(bucket) => bucket.at,
            Self::Sliding(window) => window.start,
            Self::Fixed(window) => window.start,
            Self::Log(view) => view.last,
        }
    }

    /// The state as bytes; a log's are not one string.
    pub fn encode(&self) -> Encoded {
        let encoded = Encoded::new();
        match self {
            Self::Bucket(Bucket { at, level, per }) => encoded
                .with::<7>(at.as_micros())
                .with::<5>(level.whole)
                .with::<7>(level.part)
                .with::<7>(*per),
            Self::Sliding(SlidingWindow {
                start,
                current,
                previous,
            }) => encoded
                .with::<7>(start.as_micros())
                .with::<5>(*current)
                .with::<5>(*previous),
            Self::Fixed(FixedWindow { start, count }) => {
                encoded.with::<7>(start.as_micros()).with::<5>(*count)
            }
            Self::Log(_) => encoded,
        }
    }

    /// The state that `bytes` are under `limit`; none when nothing that [`encode`](Self::encode) writes looks so.
    pub fn decode(limit: &Limit, bytes: &[u8]) -> Option<Self> {
        match limit.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let bytes: &[u8; BUCKET] = bytes.try_into().ok()?;
                let (at, whole) = (number(&bytes[..7])?, number(&bytes[7..12])?);
                let (part, per) = (number(&bytes[12..19])?, number(&bytes[19..])?);
                // The twin divides exactly up to ten years; only a share of a limit is ever written in more.
                let longest = LONGEST_PERIOD.get().max(limit.rate().micros);
                (part < per && per <= longest).then_some(())?;
                Some(Self::Bucket(Bucket {
                    at: Timestamp::from_micros(at),
                    level: Level { whole, part },
                    per,
                }))
            }
            Algorithm::SlidingWindow => {
                let bytes: &[u8; SLIDING] = bytes.try_into().ok()?;
                let (start, current, previous) = (
                    number(&bytes[..7])?,
                    number(&bytes[7..12])?,
                    number(&bytes[12..])?,
                );
                (start % limit.period().length().get() == 0).then_some(())?;
                Some(Self::Sliding(SlidingWindow {
                    start: Timestamp::from_micros(start),
                    current,
                    previous,
                }))
            }
            Algorithm::FixedWindow => {
                let bytes: &[u8; FIXED] = bytes.try_into().ok()?;
                let start = Timestamp::from_micros(number(&bytes[..7])?);
                (start_of(limit, start) == start).then_some(())?;
                Some(Self::Fixed(FixedWindow {
                    start,
                    count: number(&bytes[7..])?,
                }))
            }
            Algorithm::SlidingLog => None,
        }
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    let number = big_endian(bytes);
    (number < INEXACT).then_some(number)
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

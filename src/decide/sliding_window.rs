//! Sliding window: the count of this window and, weighted by how much of it is still in sight, that of the one before.
//! `lua/sliding_window.lua` is its twin.

use super::Fit;
use super::arith::{mul_div, was_set_back};
use crate::domain::limit::Limit;
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};

/// Two counts on a grid of windows that starts at the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    /// When the current window started: a multiple of the period.
    pub start: Timestamp,
    /// Hits in it.
    pub current: u64,
    /// Hits in the window before.
    pub previous: u64,
}

impl SlidingWindow {
    /// The window of `now`, with nothing in it.
    pub fn empty(limit: &Limit, now: Timestamp) -> Self {
        Self {
            start: window_of(limit, now),
            current: 0,
            previous: 0,
        }
    }

    /// This window as of `now`, and the moment at which it was read.
    #[must_use]
    pub fn read(self, limit: &Limit, now: Timestamp) -> (Self, Timestamp) {
        let start = window_of(limit, now);
        if now < self.start {
            return if was_set_back(self.start, now) {
                (Self { start, ..self }, now)
            } else {
                (self, self.start)
            };
        }
        let window = match start.since(self.start).get() {
            0 => self,
            passed if passed == limit.period().length().get() => Self {
                start,
                current: 0,
                previous: self.current,
            },
            _ => Self {
                start,
                current: 0,
                previous: 0,
            },
        };
        (window, now)
    }

    /// Whether `asked` hits fit beside what was used.
    pub fn fit(&self, limit: &Limit, asked: u64, now: Timestamp) -> Fit {
        if self.estimate(limit, now) + asked <= u64::from(limit.count()) {
            Fit::Now
        } else {
            Fit::Later(self.retry_after(limit, asked, now))
        }
    }

    /// Adds `hits`.
    pub fn take(&mut self, hits: u64) {
        self.current = (self.current + hits).min(Hits::MOST);
    }

    /// Takes `hits` out, newest first, never below empty.
    pub fn give_back(&mut self, hits: u64) {
        let rest = hits.saturating_sub(self.current);
        self.current = self.current.saturating_sub(hits);
        self.previous = self.previous.saturating_sub(rest);
    }

    /// Takes `hits` out of the window that they were taken in at `taken`, while it is in sight.
    pub fn undo(&mut self, limit: &Limit, hits: u64, taken: Timestamp) {
        let window = window_of(limit, taken);
        if window == self.start {
            self.current = self.current.saturating_sub(hits);
        } else if window.plus(limit.period().length()) == self.start {
            self.previous = self.previous.saturating_sub(hits);
        }
    }

    /// Hits that still fit at `now`.
    pub fn remaining(&self, limit: &Limit, now: Timestamp) -> u64 {
        u64::from(limit.count()).saturating_sub(self.estimate(limit, now))
    }

    /// When one hit more than now would fit; none when nothing is used.
    pub fn next_after(&self, limit: &Limit, now: Timestamp) -> Option<Micros> {
        let wanted = self.remaining(limit, now) + 1;
        (wanted <= u64::from(limit.count())).then(|| self.retry_after(limit, wanted, now))
    }

    /// When nothing of it is in sight any more.
    pub fn reset_after(&self, limit: &Limit, now: Timestamp) -> Micros {
        let period = limit.period().length();
        let to_end = period.saturating_sub(now.since(self.start));
        match (self.current, self.previous) {
            (0, 0) => Micros::ZERO,
            (0, _) => to_end,
            _ => Micros::new(to_end.get() + period.get()),
        }
    }

    /// Hits in sight at `now`, rounded up.
    fn estimate(&self, limit: &Limit, now: Timestamp) -> u64 {
        let period = limit.period().length().get();
        let in_sight = period - now.since(self.start).get();
        let (weighted, rest) = mul_div(self.previous, in_sight, period);
        self.current + weighted + u64::from(rest > 0)
    }

    /// When `asked` hits, at most the limit, that do not fit now will: once enough of the previous window is out of
    /// sight, or, where this window alone is too full, enough of this one in the next. The estimate never grows while
    /// nobody calls, so both are tight.
    fn retry_after(&self, limit: &Limit, asked: u64, now: Timestamp) -> Micros {
        let period = limit.period().length().get();
        let count = u64::from(limit.count());
        let elapsed = now.since(self.start).get();
        Micros::new(match count.checked_sub(self.current + asked) {
            Some(room) => period - mul_div(room, period, self.previous).0 - elapsed,
            None => (period - elapsed) + period - mul_div(count - asked, period, self.current).0,
        })
    }
}

fn window_of(limit: &Limit, now: Timestamp) -> Timestamp {
    let period = limit.period().length().get();
    Timestamp::from_micros(now.as_micros() / period * period)
}

//! Fixed window: one count that starts afresh at each edge of the grid, on the calendar or from the epoch.
//! `lua/fixed_window.lua` is its twin.

use super::Fit;
use super::arith::was_set_back;
use crate::domain::limit::{Grid, Limit};
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};

/// A count and the start of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    /// When the window started: on the limit's grid.
    pub start: Timestamp,
    /// Hits in it.
    pub count: u64,
}

impl FixedWindow {
    /// The window of `now`, with nothing in it.
    pub fn empty(limit: &Limit, now: Timestamp) -> Self {
        Self {
            start: start_of(limit, now),
            count: 0,
        }
    }

    /// This window as of `now`, and the moment at which it was read.
    #[must_use]
    pub fn read(self, limit: &Limit, now: Timestamp) -> (Self, Timestamp) {
        if now < self.start {
            return if was_set_back(self.start, now) {
                (
                    Self {
                        start: start_of(limit, now),
                        ..self
                    },
                    now,
                )
            } else {
                (self, self.start)
            };
        }
        let start = start_of(limit, now);
        if start == self.start {
            (self, now)
        } else {
            (Self { start, count: 0 }, now)
        }
    }

    /// Whether `asked` hits fit into this window.
    pub fn fit(&self, limit: &Limit, asked: u64, now: Timestamp) -> Fit {
        if self.count + asked <= u64::from(limit.count()) {
            Fit::Now
        } else {
            Fit::Later(self.time_left(limit, now))
        }
    }

    /// Adds `hits`.
    pub fn take(&mut self, hits: u64) {
        self.count = (self.count + hits).min(Hits::MOST);
    }

    /// Takes `hits` out, never below empty.
    pub fn give_back(&mut self, hits: u64) {
        self.count = self.count.saturating_sub(hits);
    }

    /// Takes `hits` out that were taken at `taken`, if that was in this window.
    pub fn undo(&mut self, limit: &Limit, hits: u64, taken: Timestamp) {
        if start_of(limit, taken) == self.start {
            self.give_back(hits);
        }
    }

    /// Hits that still fit.
    pub fn remaining(&self, limit: &Limit) -> u64 {
        u64::from(limit.count()).saturating_sub(self.count)
    }

    /// When the next window starts; none when nothing is used in this one.
    pub fn next_after(&self, limit: &Limit, now: Timestamp) -> Option<Micros> {
        (self.count > 0).then(|| self.time_left(limit, now))
    }

    /// When nothing of it counts any more.
    pub fn reset_after(&self, limit: &Limit, now: Timestamp) -> Micros {
        if self.count > 0 {
            self.time_left(limit, now)
        } else {
            Micros::ZERO
        }
    }

    /// When it ends.
    pub fn time_left(self, limit: &Limit, now: Timestamp) -> Micros {
        end_of(limit, self.start).since(now)
    }
}

/// The start of the window that `now` falls in.
pub fn start_of(limit: &Limit, now: Timestamp) -> Timestamp {
    let period = limit.period().length().get();
    let now = now.as_micros();
    Timestamp::from_micros(match limit.grid() {
        Grid::Epoch => now / period * period,
        // What lies before the epoch starts with it: no clock shows less.
        Grid::Monday => ((now + MONDAY_TO_EPOCH) / period * period).saturating_sub(MONDAY_TO_EPOCH),
        Grid::Months(months) => {
            let month = month_of(now / Micros::DAY.get());
            first_day_of(month / u64::from(months) * u64::from(months)) * Micros::DAY.get()
        }
    })
}

/// The start of the window after the one that starts at `start`.
fn end_of(limit: &Limit, start: Timestamp) -> Timestamp {
    let period = limit.period().length().get();
    let start = start.as_micros();
    Timestamp::from_micros(match limit.grid() {
        Grid::Epoch => start + period,
        Grid::Monday => (start + MONDAY_TO_EPOCH) / period * period + period - MONDAY_TO_EPOCH,
        Grid::Months(months) => {
            first_day_of(month_of(start / Micros::DAY.get()) + u64::from(months)) * Micros::DAY.get()
        }
    })
}

/// From Monday 1969-12-29 to the epoch, a Thursday.
const MONDAY_TO_EPOCH: u64 = 3 * Micros::DAY.get();

/// Days from 0000-03-01, where the civil calendar's leap days fall at the end of a year, to the epoch.
const MARCH_ZERO_TO_EPOCH: u64 = 719_468;

/// Days in 400 years of the Gregorian calendar.
const ERA: u64 = 146_097;

/// The month, counted from January 1970, that the day `day` after the epoch falls in.
fn month_of(day: u64) -> u64 {
    let day = day + MARCH_ZERO_TO_EPOCH;
    let of_era = day % ERA;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March: 153 days in every five of them.
    let month = (5 * of_year + 2) / 153;
    (day / ERA * 400 + year_of_era) * 12 + month - (1970 * 12 - 2)
}

/// The day after the epoch on which the month `month` after January 1970 starts.
fn first_day_of(month: u64) -> u64 {
    let from_march = month + 1970 * 12 - 2;
    let (year, month) = (from_march / 12, from_march % 12);
    let year_of_era = year % 400;
    let of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + (153 * month + 2) / 5;
    year / 400 * ERA + of_era - MARCH_ZERO_TO_EPOCH
}

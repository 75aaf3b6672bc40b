//! Sliding log: one mark per admitted call, so that no window ever holds more than the limit.
//! `lua/sliding_log.lua` is its twin.
//!
//! A log is an object that stays where it is; a decision needs only the few numbers of [`LogView`]. Marks carry a
//! running total of hits, so what is used is the difference of two of them. Totals count modulo 2^48, and differences
//! stay far below that.

use std::collections::VecDeque;

use super::Fit;
use super::arith::effective_now;
use crate::domain::limit::Limit;
use crate::domain::time::{Micros, Timestamp};

/// Limits up to this one keep a mark for each admitted call; larger ones share marks by granule.
pub const MOST_SINGLE_MARKS: u32 = 10_000;

/// Running totals wrap here.
pub const TOTALS: u64 = 1 << 48;

/// What a decision needs to know of a log, as of the moment it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LogView {
    /// Hits that count.
    pub used: u64,
    /// The time of the newest mark.
    pub last: Timestamp,
    /// The time of the mark whose leaving makes room for one hit more than now.
    pub next: Timestamp,
    /// The time of the mark whose leaving makes room for what was asked; that of `next` where there is room already.
    pub retry: Timestamp,
}

impl LogView {
    /// The moment at which a log with this newest mark is read by a clock that shows `now`.
    pub fn effective_now(&self, now: Timestamp) -> Timestamp {
        if self.used == 0 {
            now
        } else {
            effective_now(self.last, now)
        }
    }

    /// Whether `asked` hits, at most the limit, fit beside what was used.
    pub fn fit(&self, limit: &Limit, asked: u64, now: Timestamp) -> Fit {
        if self.used + asked <= u64::from(limit.count()) {
            Fit::Now
        } else {
            Fit::Later(leaves_after(limit, self.retry, now))
        }
    }

    /// The view once `hits` that fit have been taken at `now`.
    pub fn take(&mut self, limit: &Limit, hits: u64, now: Timestamp) {
        // A mark that is shared moves on to its latest call.
        if self.used == 0 || self.next == self.last && share_a_mark(limit, self.last, now) {
            self.next = now;
        }
        self.used += hits;
        self.last = now;
    }

    /// Hits that still fit.
    pub fn remaining(&self, limit: &Limit) -> u64 {
        u64::from(limit.count()).saturating_sub(self.used)
    }

    /// When one hit more than now would fit; none when nothing is used.
    pub fn next_after(&self, limit: &Limit, now: Timestamp) -> Option<Micros> {
        (self.used > 0).then(|| leaves_after(limit, self.next, now))
    }

    /// When nothing of it counts any more.
    pub fn reset_after(&self, limit: &Limit, now: Timestamp) -> Micros {
        if self.used > 0 {
            leaves_after(limit, self.last, now)
        } else {
            Micros::ZERO
        }
    }
}

/// When a mark no longer counts. One from the future, left by a clock that was set back, counts as made now.
fn leaves_after(limit: &Limit, mark: Timestamp, now: Timestamp) -> Micros {
    mark.min(now).plus(limit.period().length()).since(now)
}

/// One mark: so many hits in all had been admitted by this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When; of the latest call that shares the mark.
    pub at: Timestamp,
    /// Hits up to and with it, modulo [`TOTALS`].
    pub total: u64,
}

/// The marks of a log, oldest first. The first is the base: the last one that no longer counts, or zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    marks: VecDeque<Mark>,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            marks: VecDeque::from([Mark {
                at: Timestamp::default(),
                total: 0,
            }]),
        }
    }
}

impl Log {
    /// What a call that asks for `asked` hits sees at `now`.
    pub fn view(&self, limit: &Limit, asked: u64, now: Timestamp) -> LogView {
        let Some(last) = self.last_live(limit, now) else {
            return LogView::default();
        };
        let now = effective_now(last.at, now);
        let base = self.expired(limit, now);
        let used = self.between(base, self.marks.len() - 1);
        let next = self.first_at_least(base, (used + 1).saturating_sub(u64::from(limit.count())).max(1));
        let retry = self.first_at_least(
            base,
            (used + asked).saturating_sub(u64::from(limit.count())).max(1),
        );
        LogView {
            used,
            last: last.at,
            next: self.marks[next].at,
            retry: self.marks[retry.min(self.marks.len() - 1)].at,
        }
    }

    /// Marks `hits` as admitted at `now`, which is the effective moment of the view.
    pub fn take(&mut self, limit: &Limit, hits: u64, now: Timestamp) {
        self.forget(limit, now);
        let last = self.marks[self.marks.len() - 1];
        let mark = Mark {
            at: now,
            total: (last.total + hits) % TOTALS,
        };
        let shares = self.marks.len() > 1 && share_a_mark(limit, last.at, now);
        if shares {
            self.marks.pop_back();
        }
        self.marks.push_back(mark);
    }

    /// Takes the newest `hits` out, never below empty.
    pub fn give_back(&mut self, limit: &Limit, hits: u64, now: Timestamp) {
        self.forget(limit, now);
        let used = self.between(0, self.marks.len() - 1);
        let Some(left) = used.checked_sub(hits).filter(|left| *left > 0) else {
            *self = Self::default();
            return;
        };
        let newest = self.first_at_least(0, left);
        self.marks.truncate(newest + 1);
        self.marks[newest].total = (self.marks[0].total + left) % TOTALS;
    }

    /// Takes `hits` out that were taken at `taken`, if no newer ones stand on them.
    pub fn undo(&mut self, limit: &Limit, hits: u64, taken: Timestamp, now: Timestamp) {
        if self.last() == taken {
            self.give_back(limit, hits, now);
        }
    }

    /// Whether no mark is left.
    pub fn is_empty(&self) -> bool {
        self.marks.len() == 1
    }

    /// The time of the newest mark, or of the base when there is none.
    pub fn last(&self) -> Timestamp {
        self.marks[self.marks.len() - 1].at
    }

    /// All marks, the base first.
    pub fn marks(&self) -> impl Iterator<Item = Mark> + '_ {
        self.marks.iter().copied()
    }

    /// A log of these marks, the base first; none when there is not at least a base.
    pub fn from_marks(marks: impl IntoIterator<Item = Mark>) -> Option<Self> {
        let marks: VecDeque<Mark> = marks.into_iter().collect();
        (!marks.is_empty()).then_some(Self { marks })
    }

    fn last_live(&self, limit: &Limit, now: Timestamp) -> Option<Mark> {
        let last = *self.marks.back()?;
        (self.marks.len() > 1 && last.at.plus(limit.period().length()) > now).then_some(last)
    }

    /// The place of the last mark that no longer counts.
    fn expired(&self, limit: &Limit, now: Timestamp) -> usize {
        let period = limit.period().length();
        let live = self
            .marks
            .iter()
            .skip(1)
            .position(|mark| mark.at.plus(period) > now);
        live.unwrap_or(self.marks.len() - 1)
    }

    /// Hits after the mark at `from`, up to and with the one at `to`.
    fn between(&self, from: usize, to: usize) -> u64 {
        (self.marks[to].total + TOTALS - self.marks[from].total) % TOTALS
    }

    /// The place of the first mark after `base` by which at least `hits` had been admitted.
    fn first_at_least(&self, base: usize, hits: u64) -> usize {
        let (mut low, mut high) = (base + 1, self.marks.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.between(base, middle) >= hits {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Drops what no longer counts, and makes one mark of now of those that a clock since set back left in the future.
    pub fn forget(&mut self, limit: &Limit, now: Timestamp) {
        let expired = self.expired(limit, now);
        self.marks.drain(..expired);
        if self.marks.len() == 1 {
            *self = Self::default();
            return;
        }
        let last = self.marks[self.marks.len() - 1];
        if last.at > now {
            let first_ahead = self
                .marks
                .iter()
                .skip(1)
                .position(|mark| mark.at > now)
                .unwrap_or_default()
                + 1;
            self.marks.truncate(first_ahead);
            self.marks.push_back(Mark {
                at: now,
                total: last.total,
            });
        }
    }
}

/// The span whose calls share one mark, so that no log has more than some thousand of them; zero where each has its
/// own.
pub const fn granule(limit: &Limit) -> u64 {
    if limit.count() > MOST_SINGLE_MARKS {
        limit.period().length().get().div_ceil(1_000)
    } else {
        0
    }
}

fn share_a_mark(limit: &Limit, one: Timestamp, other: Timestamp) -> bool {
    let granule = granule(limit);
    granule > 0 && one.as_micros() / granule == other.as_micros() / granule
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::limit::{Algorithm, LimitSpec, Period, Unit};

    fn limit(count: u32) -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from("log"),
            named: true,
            count,
            period: Period::one(Unit::Minute),
            algorithm: Algorithm::SlidingLog,
            burst: None,
            delay: Micros::ZERO,
            calendar: false,
        })
        .expect("a sound limit")
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_micros((1_790_000_000 + second) * 1_000_000)
    }

    #[test]
    fn after_a_limit_was_lowered_room_comes_when_enough_has_left() {
        let mut log = Log::default();
        for second in 0..5 {
            log.take(&limit(5), 1, at(second));
        }
        let seen = |asked| log.view(&limit(3), asked, at(5));
        assert_eq!((seen(1).used, seen(1).last), (5, at(4)));
        assert_eq!(
            (seen(1).next, seen(1).retry),
            (at(2), at(2)),
            "two may be left of five"
        );
        assert_eq!((seen(2).next, seen(2).retry), (at(2), at(3)));
        assert_eq!(seen(0).retry, at(1), "a look that asks for nothing more");
    }

    #[test]
    fn a_clock_that_was_overtaken_waits_for_the_newest_mark() {
        let mut log = Log::default();
        log.take(&limit(5), 1, at(10));
        let behind = Timestamp::from_micros(at(10).as_micros() - 500_000);
        assert_eq!(log.view(&limit(5), 1, behind).effective_now(behind), at(10));
        assert_eq!(LogView::default().effective_now(behind), behind);
    }

    #[test]
    fn what_is_empty_is_whole_already_on_the_first_day_there_is() {
        let first = Timestamp::from_micros(5_000_000);
        assert_eq!(LogView::default().reset_after(&limit(5), first), Micros::ZERO);
        assert_eq!(Log::default().view(&limit(5), 1, first), LogView::default());
    }

    #[test]
    fn marks_start_with_a_base_that_no_call_shares() {
        let mut log = Log::default();
        assert!(log.is_empty());
        // The first granule there is holds the base's moment, too.
        let first = Timestamp::from_micros(5);
        log.take(&limit(20_000), 3, first);
        log.take(&limit(20_000), 4, first);
        let marks = [
            Mark {
                at: Timestamp::default(),
                total: 0,
            },
            Mark { at: first, total: 7 },
        ];
        assert!(log.marks().eq(marks));
        assert!(!log.is_empty());
        assert_eq!(log.last(), first);
        assert_eq!(Log::from_marks(log.marks()), Some(log));
        assert_eq!(Log::from_marks([]), None, "not even a base");
    }

    fn log_of(marks: &[(Timestamp, u64)]) -> Log {
        let mark = |(at, total): &(Timestamp, u64)| Mark {
            at: *at,
            total: *total,
        };
        let base = Mark {
            at: Timestamp::default(),
            total: 0,
        };
        Log::from_marks(std::iter::once(base).chain(marks.iter().map(mark))).expect("a base")
    }

    #[test]
    fn no_more_marks_are_kept_than_count_and_a_base() {
        let mut log = Log::default();
        for second in 0..600 {
            log.take(&limit(6), 1, at(10 * second));
            assert!(log.marks().count() <= 7, "{:?}", log.marks().collect::<Vec<_>>());
        }
    }

    #[test]
    fn marks_that_a_clock_since_set_back_left_are_one_of_now() {
        let ahead = [(at(3), 1), (at(5), 2), (at(10), 4), (at(20), 5)];
        let mut log = log_of(&ahead);
        log.forget(&limit(9), at(20));
        assert_eq!(log, log_of(&ahead), "nothing is ahead");
        log.forget(&limit(9), at(5));
        assert_eq!(log, log_of(&[(at(3), 1), (at(5), 2), (at(5), 5)]));
        log.take(&limit(9), 2, at(4));
        assert_eq!(log, log_of(&[(at(3), 1), (at(4), 5), (at(4), 7)]));
    }

    #[test]
    fn marks_are_shared_only_where_a_limit_is_above_10_000() {
        let spans = [10_000, 10_001].map(|count| granule(&limit(count)));
        assert_eq!(spans, [0, Micros::MINUTE.get() / 1_000]);
        for (count, marks) in [(10_000, 3), (10_001, 2)] {
            let mut log = Log::default();
            log.take(&limit(count), 1, at(0));
            log.take(&limit(count), 1, at(0));
            assert_eq!(log.marks().count(), marks, "{count} a minute");
        }
    }

    #[test]
    fn totals_out_of_order_are_searched_in_the_places_that_the_script_looks_at() {
        // Five were admitted by the first mark, one by the second: what no version writes, but the keys are not ours alone.
        let odd = log_of(&[(at(1), 5), (at(2), 1)]);
        assert_eq!(odd.view(&limit(1), 3, at(3)).retry, at(2));
    }
}

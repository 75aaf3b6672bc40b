//! Token and leaky bucket: one level that drains at the limit's rate. It keeps what was used, not what is left, so
//! that an edited limit applies to the next call. `lua/bucket.lua` is its twin.

use super::Fit;
use super::arith::{effective_now, mul_div};
use crate::domain::limit::{Algorithm, Level, Limit, Rate};
use crate::domain::time::{Micros, Timestamp};

/// What is in a bucket: `level.whole + level.part ÷ per` hits at the moment `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// When the level was that.
    pub at: Timestamp,
    /// What has been used and has not drained yet.
    pub level: Level,
    /// The microseconds of the rate that the fraction belongs to.
    pub per: u64,
}

impl Bucket {
    /// An empty bucket.
    pub const fn empty(limit: &Limit, now: Timestamp) -> Self {
        Self {
            at: now,
            level: Level { whole: 0, part: 0 },
            per: limit.rate().micros,
        }
    }

    /// This bucket as of `now`: in the terms of `limit`'s rate, never above `most`, and drained.
    ///
    /// What is above `most`, after an edit downwards, is cut off before it drains: cut off afterwards, a caller that is
    /// refused, and so leaves no trace, would be told the same wait again and again.
    #[must_use]
    pub fn read(self, limit: &Limit, most: Level, now: Timestamp) -> Self {
        let rate = limit.rate();
        let now = effective_now(self.at, now);
        let level = in_terms_of(rate.micros, self.level, self.per).min(most);
        Self {
            at: now,
            level: drained(level, rate, now.since(self.at)),
            per: rate.micros,
        }
    }

    /// Whether `asked` hits fit within `longest_wait`.
    pub fn fit(&self, limit: &Limit, asked: u64, longest_wait: Micros) -> Fit {
        let wait = self.wait_for(limit, asked);
        if wait > longest_wait {
            Fit::Later(wait.saturating_sub(longest_wait))
        } else if wait > Micros::ZERO {
            Fit::After(wait)
        } else {
            Fit::Now
        }
    }

    /// Adds `hits`, at most up to `most`.
    pub fn take(&mut self, hits: u64, most: Level) {
        self.level.whole += hits;
        self.level = self.level.min(most);
    }

    /// Takes `hits` out, never below empty.
    pub fn give_back(&mut self, hits: u64) {
        self.level = if hits > self.level.whole {
            Level::default()
        } else {
            Level {
                whole: self.level.whole - hits,
                ..self.level
            }
        };
    }

    /// Whole hits that would still be admitted, at once or after a wait.
    pub fn remaining(&self, limit: &Limit) -> u64 {
        let room = limit.room();
        room.whole
            .saturating_sub(self.level.whole + u64::from(self.level.part > room.part))
    }

    /// When one hit more than now would be admitted; none when nothing is used.
    pub fn next_after(&self, limit: &Limit) -> Option<Micros> {
        let room = limit.room();
        let wanted = self.remaining(limit) + 1;
        // The level at which that many are left: room less wanted, in whole hits and the room's own fraction.
        let whole = room.whole.checked_sub(wanted)?;
        Some(self.time_to_reach(
            limit.rate(),
            Level {
                whole,
                part: room.part,
            },
        ))
    }

    /// When it is empty.
    pub fn reset_after(&self, limit: &Limit) -> Micros {
        self.time_to_reach(limit.rate(), Level::default())
    }

    /// How long until `asked` hits fit. A token bucket holds them beside what is in it; a leaky bucket, and a call
    /// larger than the bucket, wait until it is empty.
    fn wait_for(&self, limit: &Limit, asked: u64) -> Micros {
        let free = match limit.algorithm() {
            Algorithm::LeakyBucket => 0,
            _ => u64::from(limit.capacity()),
        };
        self.time_to_reach(
            limit.rate(),
            Level {
                whole: free.saturating_sub(asked),
                part: 0,
            },
        )
    }

    /// How long the level takes to drain to `target`, rounded up.
    fn time_to_reach(&self, rate: Rate, target: Level) -> Micros {
        if self.level <= target {
            return Micros::ZERO;
        }
        let mut whole = self.level.whole - target.whole;
        let mut part = self.level.part;
        if part < target.part {
            whole -= 1;
            part += rate.micros;
        }
        part -= target.part;
        let (quotient, remainder) = mul_div(whole, rate.micros, rate.hits);
        Micros::new(quotient + (remainder + part).div_ceil(rate.hits))
    }
}

/// `level` with its fraction over `per` said over `micros`, rounded up: an edit never lowers what was used, and raises
/// it by less than one part.
fn in_terms_of(micros: u64, level: Level, per: u64) -> Level {
    if per == micros {
        return level;
    }
    let (quotient, remainder) = mul_div(level.part, micros, per);
    let part = quotient + u64::from(remainder > 0);
    if part == micros {
        Level {
            whole: level.whole + 1,
            part: 0,
        }
    } else {
        Level {
            whole: level.whole,
            part,
        }
    }
}

/// `level` after `elapsed` of draining.
fn drained(level: Level, rate: Rate, elapsed: Micros) -> Level {
    let rounds = elapsed.get() / rate.micros;
    let (whole, part) = mul_div(elapsed.get() % rate.micros, rate.hits, rate.micros);
    let Some(mut gone) = rounds
        .checked_mul(rate.hits)
        .and_then(|all| all.checked_add(whole))
    else {
        return Level::default();
    };
    let mut left = level.part;
    if left < part {
        gone += 1;
        left += rate.micros;
    }
    match level.whole.checked_sub(gone) {
        Some(whole) => Level {
            whole,
            part: left - part,
        },
        None => Level::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::limit::{LimitSpec, Period, Unit};

    fn bucket_of(count: u32, burst: u32) -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from("bucket"),
            named: true,
            count,
            period: Period::one(Unit::Minute),
            algorithm: Algorithm::TokenBucket,
            burst: Some(burst),
            delay: Micros::ZERO,
            calendar: false,
        })
        .expect("a sound limit")
    }

    #[test]
    fn a_wait_that_is_told_after_a_limit_was_lowered_is_kept() {
        let (raised, lowered) = (bucket_of(600, 90), bucket_of(60, 10));
        let most = lowered.most_owed();
        let start = Timestamp::from_micros(1_790_000_000_000_000);
        let mut bucket = Bucket::empty(&raised, start);
        bucket.take(60, raised.most_owed());
        // Refused calls leave no trace: each reads what lay there.
        let told = bucket.read(&lowered, most, start).fit(&lowered, 1, Micros::ZERO);
        assert_eq!(told, Fit::Later(Micros::SECOND));
        let before = start.plus(Micros::new(999_999));
        let still = bucket.read(&lowered, most, before).fit(&lowered, 1, Micros::ZERO);
        assert_eq!(still, Fit::Later(Micros::new(1)));
        let then = start.plus(Micros::SECOND);
        assert_eq!(
            bucket.read(&lowered, most, then).fit(&lowered, 1, Micros::ZERO),
            Fit::Now
        );
    }
}

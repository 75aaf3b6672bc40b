//! Time as whole microseconds: exact in Rust's integers and, below 2^53, in Lua's doubles.

use std::fmt;
use std::time::Duration;

/// A moment on the wall clock: whole microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// The moment `span` after this one.
    #[must_use]
    pub const fn plus(self, span: Micros) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// A span of time in whole microseconds. Never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(u64);

impl Micros {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// One second.
    pub const SECOND: Self = Self(1_000_000);
    /// One minute.
    pub const MINUTE: Self = Self(60 * Self::SECOND.0);
    /// One hour.
    pub const HOUR: Self = Self(60 * Self::MINUTE.0);
    /// One day of 24 hours.
    pub const DAY: Self = Self(24 * Self::HOUR.0);
    /// One week of seven days.
    pub const WEEK: Self = Self(7 * Self::DAY.0);

    /// A span of `micros` microseconds.
    pub const fn new(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of `seconds` seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// The whole microseconds of this span.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded up: what Redis takes as a TTL.
    pub const fn ceil_millis(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Whole seconds, rounded up: what the wire and the headers carry, so that nobody returns too early.
    pub const fn ceil_secs(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// This span and `other`; at most 2^64 - 1 µs.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This span less `other`; zero when `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Micros {
    /// In one unit, as a policy writes it: `15m`, `150ms`. What is whole in none is seconds or milliseconds with up to
    /// three decimals, rounded up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WHOLE: [(Micros, &str); 4] = [
            (Micros::DAY, "d"),
            (Micros::HOUR, "h"),
            (Micros::MINUTE, "m"),
            (Micros::SECOND, "s"),
        ];
        let whole = WHOLE.into_iter().find(|(unit, _)| self.0.is_multiple_of(unit.0));
        match whole {
            _ if self.0 == 0 => f.write_str("0s"),
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit.0),
            None if *self < Self::SECOND => write_decimal(f, self.0, "ms"),
            None => write_decimal(f, self.ceil_millis(), "s"),
        }
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, thousandths: u64, unit: &str) -> fmt::Result {
    write!(f, "{}", thousandths / 1_000)?;
    let decimals = format!("{:03}", thousandths % 1_000);
    match decimals.trim_end_matches('0') {
        "" => {}
        decimals => write!(f, ".{decimals}")?,
    }
    f.write_str(unit)
}

impl From<Duration> for Micros {
    /// Rounds down; spans beyond 2^64 µs are held at that.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(span.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_one_unit() {
        let check = |micros: u64, shown: &str| assert_eq!(Micros::new(micros).to_string(), shown);
        check(0, "0s");
        check(1, "0.001ms");
        check(150_000, "150ms");
        check(1_500_000, "1.5s");
        check(1_666_667, "1.667s");
        check(1_999_999, "2s");
        check(90_000_000, "90s");
        check(900_000_000, "15m");
        check(Micros::WEEK.get(), "7d");
    }
}

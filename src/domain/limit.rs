//! The configured ceiling: so many hits per period, under one of the algorithms.

use std::sync::Arc;

use super::time::Micros;

/// The longest period a limit may have: ten years of 365 days.
pub const LONGEST_PERIOD: Micros = Micros::new(10 * 365 * Micros::DAY.get());

/// The longest a full bucket may take to drain, its longest delay included: 100 years of 365.25 days.
pub const LONGEST_DRAIN: Micros = Micros::new(3_155_760_000_000_000);

/// The most instances that share a limit. A full bucket then drains within what 64 bits of microseconds hold.
pub const MOST_INSTANCES: u32 = 1024;

/// The most microseconds that a rate may have: numbers from 2^53 on are not exact everywhere, and no state holds them.
const MOST_MICROS: u64 = (1 << 53) - 1;

/// How a limit counts. The promises are those over *any* interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// At most burst + rate × t: bursts on purpose.
    TokenBucket,
    /// At most limit × (1 + t ÷ window): never two budgets at once.
    SlidingWindow,
    /// Never more than the limit in any window.
    SlidingLog,
    /// Up to twice the limit across an edge: quotas on the calendar.
    FixedWindow,
    /// Output evenly spaced, by delaying.
    LeakyBucket,
}

impl Algorithm {
    /// Every algorithm, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::TokenBucket,
        Self::SlidingWindow,
        Self::SlidingLog,
        Self::FixedWindow,
        Self::LeakyBucket,
    ];

    /// The name used in policies and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::SlidingWindow => "sliding_window",
            Self::SlidingLog => "sliding_log",
            Self::FixedWindow => "fixed_window",
            Self::LeakyBucket => "leaky_bucket",
        }
    }

    /// Whether the state is a level that drains, rather than counts in windows.
    pub const fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket)
    }
}

/// A unit of time as the wire and the policy name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// 1 s.
    Second,
    /// 60 s.
    Minute,
    /// 3600 s.
    Hour,
    /// 24 h.
    Day,
    /// 7 days; as a calendar window from Monday.
    Week,
    /// 30 days; as a calendar window a month of UTC.
    Month,
    /// 365 days; as a calendar window a year of UTC.
    Year,
}

impl Unit {
    /// Every unit, shortest first.
    pub const ALL: [Self; 7] = [
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Year,
    ];

    /// The unit's length; a month is 30 days and a year 365.
    pub const fn length(self) -> Micros {
        match self {
            Self::Second => Micros::SECOND,
            Self::Minute => Micros::MINUTE,
            Self::Hour => Micros::HOUR,
            Self::Day => Micros::DAY,
            Self::Week => Micros::WEEK,
            Self::Month => Micros::new(30 * Micros::DAY.get()),
            Self::Year => Micros::new(365 * Micros::DAY.get()),
        }
    }

    /// The lower-case word: `minute`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// A period as it was written: a unit, so many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Period {
    /// The unit it is given in.
    pub unit: Unit,
    /// How many of them; at least 1.
    pub multiplier: u32,
}

impl Period {
    /// One `unit`.
    pub const fn one(unit: Unit) -> Self {
        Self { unit, multiplier: 1 }
    }

    /// So many times `unit`; none when that is longer than a limit's period may be, or nothing.
    pub fn new(unit: Unit, multiplier: u32) -> Option<Self> {
        let period = Self { unit, multiplier };
        (multiplier > 0 && period.length() <= LONGEST_PERIOD).then_some(period)
    }

    /// Its length, months of 30 and years of 365 days.
    pub const fn length(self) -> Micros {
        Micros::new(self.unit.length().get().saturating_mul(self.multiplier as u64))
    }
}

impl std::fmt::Display for Period {
    /// As a policy writes it: `minute`, `15 minutes`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.multiplier {
            1 => f.write_str(self.unit.name()),
            many => write!(f, "{many} {}s", self.unit.name()),
        }
    }
}

/// Where the windows of a fixed window start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grid {
    /// At whole multiples of the length since the epoch.
    Epoch,
    /// At whole multiples of the length since Monday 1969-12-29, so that weeks start on Mondays.
    Monday,
    /// At the first of every so many months, counted from January 1970, in UTC.
    Months(u32),
}

impl Grid {
    fn of(period: Period, calendar: bool) -> Self {
        match period.unit {
            Unit::Week if calendar => Self::Monday,
            Unit::Month if calendar => Self::Months(period.multiplier),
            Unit::Year if calendar => Self::Months(12 * period.multiplier),
            _ => Self::Epoch,
        }
    }
}

/// So many hits drain per so many microseconds, in lowest terms: exact for any count and period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Hits, at most 4294967295.
    pub hits: u64,
    /// Microseconds, at least 1 and at most ten years.
    pub micros: u64,
}

impl Rate {
    fn new(count: u32, period: Micros) -> Self {
        let divisor = gcd(u64::from(count), period.get());
        Self {
            hits: u64::from(count) / divisor,
            micros: period.get() / divisor,
        }
    }
}

impl Rate {
    /// This rate divided; down, where its parts would be too small to be counted.
    fn divided_by(self, parts: u32) -> Self {
        let micros = u128::from(self.micros) * u128::from(parts);
        match u64::try_from(micros) {
            Ok(micros) if micros <= MOST_MICROS => Self { micros, ..self },
            _ => Self {
                hits: u64::try_from(u128::from(self.hits) * u128::from(MOST_MICROS) / micros)
                    .unwrap_or(u64::MAX)
                    .max(1),
                micros: MOST_MICROS,
            },
        }
    }

    /// What drains in `span`.
    pub fn drained_in(self, span: Micros) -> Level {
        let product = u128::from(span.get()) * u128::from(self.hits);
        let micros = u128::from(self.micros);
        Level {
            whole: u64::try_from(product / micros).unwrap_or(u64::MAX),
            part: u64::try_from(product % micros).unwrap_or_default(),
        }
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What a policy says about one limit, before it is known to be sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSpec {
    /// The name shown in answers and used in the counter's key.
    pub name: Arc<str>,
    /// Whether the name was given, rather than made from the path.
    pub named: bool,
    /// Hits per period; zero refuses everything.
    pub count: u32,
    /// The period as written.
    pub period: Period,
    /// How it counts.
    pub algorithm: Algorithm,
    /// Capacity of a token bucket, at least 1; the count when absent.
    pub burst: Option<u32>,
    /// The longest a call may be delayed under this limit; zero refuses what does not fit at once.
    pub delay: Micros,
    /// Fixed windows on the calendar; else all windows are counted from the epoch.
    pub calendar: bool,
}

/// Why a limit is not one that can be held exactly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Shorter than a second or longer than ten years.
    #[error("a period of {0} is out of range: it must be between 1 second and 10 years")]
    Period(Period),
    /// `burst` only means something for a token bucket.
    #[error("`burst` is the capacity of a token_bucket; {} has none", .0.name())]
    Burst(Algorithm),
    /// The bucket would take longer than 100 years to drain.
    #[error(
        "a bucket of {capacity} hits that drains {count} per {period} would take over 100 years to empty: raise the \
         rate or lower the burst"
    )]
    Drain {
        /// The burst asked for.
        capacity: u32,
        /// Hits per period.
        count: u32,
        /// The period.
        period: Period,
    },
    /// Only levels that drain know a slot in the future.
    #[error("a delay needs token_bucket or leaky_bucket; {} knows no slot in the future", .0.name())]
    Delay(Algorithm),
    /// A leaky bucket's queue is what drains within its delay.
    #[error("leaky_bucket needs `on_excess: {{ delay: … }}`: its queue is what drains within the delay")]
    NoQueue,
}

/// An amount of hits: `whole + part ÷ p`, where `p` is the microseconds of the rate it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Level {
    /// Whole hits.
    pub whole: u64,
    /// The fraction's numerator, below the rate's microseconds.
    pub part: u64,
}

/// A limit that can be held exactly: everything about it is in range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    name: Arc<str>,
    named: bool,
    count: u32,
    period: Period,
    algorithm: Algorithm,
    capacity: u32,
    largest: u32,
    delay: Micros,
    rate: Rate,
    queue: Level,
    grid: Grid,
}

impl Limit {
    /// A limit from what was written about it.
    ///
    /// # Errors
    /// When a number is out of the range within which every algorithm counts exactly, or two settings exclude
    /// each other.
    pub fn new(spec: LimitSpec) -> Result<Self, LimitError> {
        let LimitSpec {
            name,
            named,
            count,
            period,
            algorithm,
            burst,
            delay,
            calendar,
        } = spec;
        if period.multiplier == 0 || period.length() > LONGEST_PERIOD {
            return Err(LimitError::Period(period));
        }
        if burst.is_some() && algorithm != Algorithm::TokenBucket {
            return Err(LimitError::Burst(algorithm));
        }
        if delay > Micros::ZERO && !algorithm.is_bucket() {
            return Err(LimitError::Delay(algorithm));
        }
        if algorithm == Algorithm::LeakyBucket && delay == Micros::ZERO {
            return Err(LimitError::NoQueue);
        }
        let rate = Rate::new(count, period.length());
        let queue = rate.drained_in(delay);
        let capacity = match algorithm {
            // The hit that is being released stands in front of the queue.
            Algorithm::LeakyBucket => 1,
            _ => burst.unwrap_or(count),
        };
        let largest = match algorithm {
            Algorithm::LeakyBucket => u32::try_from(queue.whole.max(1)).unwrap_or(u32::MAX),
            _ => capacity,
        };
        let (held, largest, grid) = if count == 0 {
            // Nothing ever drains, so nothing may ever be let in, whatever the burst.
            (0, 0, Grid::Epoch)
        } else {
            (capacity, largest, Grid::of(period, calendar))
        };
        let limit = Self {
            name,
            named,
            count,
            period,
            algorithm,
            capacity: held,
            largest,
            delay,
            rate,
            queue,
            grid,
        };
        if algorithm.is_bucket()
            && count > 0
            && limit.most_owed().whole >= rate.drained_in(LONGEST_DRAIN).whole
        {
            return Err(LimitError::Drain {
                capacity,
                count,
                period,
            });
        }
        Ok(limit)
    }

    /// The name in answers and in the counter's key.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the policy gave the name, rather than the path making one.
    pub const fn is_named(&self) -> bool {
        self.named
    }

    /// Hits per period; zero refuses everything.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The period as written.
    pub const fn period(&self) -> Period {
        self.period
    }

    /// How it counts.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The most hits that pass at once; 1 for a leaky bucket.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The most hits one call can ever have, however long it waits.
    pub const fn largest(&self) -> u32 {
        self.largest
    }

    /// The longest a call may be delayed under this limit.
    pub const fn delay(&self) -> Micros {
        self.delay
    }

    /// How fast a bucket drains.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Where windows start.
    pub const fn grid(&self) -> Grid {
        self.grid
    }

    /// What a bucket admits from empty, at once or after a wait: its capacity and what drains within the delay.
    pub const fn room(&self) -> Level {
        Level {
            whole: self.capacity as u64 + self.queue.whole,
            part: self.queue.part,
        }
    }

    /// The highest level a bucket can reach by admitting: the queue as full as it gets, then the largest call.
    pub const fn most_owed(&self) -> Level {
        let front = if self.capacity > self.largest {
            self.capacity
        } else {
            self.largest
        };
        Level {
            whole: front as u64 + self.queue.whole,
            part: self.queue.part,
        }
    }

    /// This limit, but that nothing is ever let in.
    #[must_use]
    pub fn closed(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            count: 0,
            capacity: 0,
            largest: 0,
            ..*self
        }
    }

    /// This limit shared evenly by `instances`, at most [`MOST_INSTANCES`], that cannot see each other, as a bucket: the
    /// rate divided exactly, or down where that is slower than can be counted, but to one hit in 285 years at least; the
    /// capacity divided down but at least one, and a call that only the whole limit can hold passes an empty bucket
    /// into debt.
    #[must_use]
    pub fn share_of(&self, instances: u32) -> Self {
        let instances = instances.clamp(1, MOST_INSTANCES);
        let whole = match self.algorithm {
            Algorithm::LeakyBucket => self.largest,
            _ => self.capacity,
        };
        Self {
            name: Arc::clone(&self.name),
            algorithm: Algorithm::TokenBucket,
            capacity: (whole / instances).max(u32::from(whole > 0)),
            largest: whole,
            delay: Micros::ZERO,
            rate: self.rate.divided_by(instances),
            queue: Level::default(),
            grid: Grid::Epoch,
            ..*self
        }
    }
}

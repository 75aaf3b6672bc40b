//! Which callers are asked about.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::spread::as_float;
use crate::service::random::Random;

/// More callers than any limiter of one process holds.
const MOST: u64 = 10_000_000;

/// How callers are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Always the same one.
    Hot,
    /// One of so many, each as often as any other.
    Uniform(u64),
    /// One of so many, the n-th of them 1/n as often as the first.
    Zipf(u64),
}

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| {
            let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
            number.ok_or_else(|| format!("`{text}` is no whole number from 1 to {MOST}"))
        };
        match text.split_once(':') {
            None if text == "hot" => Ok(Self::Hot),
            Some(("uniform", keys)) => number(keys).map(Self::Uniform),
            Some(("zipf", keys)) => number(keys).map(Self::Zipf),
            _ => Err(String::from("expected hot, uniform:N or zipf:N")),
        }
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hot => f.write_str("hot"),
            Self::Uniform(keys) => write!(f, "uniform:{keys}"),
            Self::Zipf(keys) => write!(f, "zipf:{keys}"),
        }
    }
}

/// Draws callers, from 0 on.
pub(super) enum Picker {
    Uniform(u64),
    /// What the callers up to and with each weigh together.
    Weighted(Vec<f64>),
    /// Each once: the next, and how many there are.
    InTurn(AtomicU64, u64),
}

impl Picker {
    pub(super) fn new(keys: Keys) -> Self {
        match keys {
            Keys::Hot => Self::Uniform(1),
            Keys::Uniform(keys) => Self::Uniform(keys),
            Keys::Zipf(keys) => {
                let mut weight = 0.0;
                let add = |rank| {
                    weight += 1.0 / as_float(rank);
                    weight
                };
                Self::Weighted((1..=keys).map(add).collect())
            }
        }
    }

    pub(super) const fn in_turn(keys: u64) -> Self {
        Self::InTurn(AtomicU64::new(0), keys)
    }

    /// The next caller; none when each has had its turn.
    pub(super) fn pick(&self, random: &Random) -> Option<u64> {
        match self {
            Self::Uniform(keys) => Some(random.up_to(keys - 1)),
            Self::Weighted(weights) => {
                const PARTS: u64 = 1 << 52;
                let all = weights.last().copied().unwrap_or_default();
                let drawn = all * as_float(random.up_to(PARTS - 1)) / as_float(PARTS);
                Some(weights.partition_point(|weight| *weight <= drawn) as u64)
            }
            Self::InTurn(next, keys) => {
                let key = next.fetch_add(1, Ordering::Relaxed);
                (key < *keys).then_some(key)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in ["hot", "uniform:100000", "zipf:1"] {
            assert_eq!(text.parse::<Keys>().expect("keys").to_string(), text);
        }
        for text in ["", "cold", "uniform", "uniform:0", "zipf:10000001", "hot:3"] {
            assert!(text.parse::<Keys>().is_err(), "{text}");
        }
    }

    /// How often each of so many callers is drawn of 100 000 times.
    fn drawn(keys: Keys, callers: usize) -> Vec<u32> {
        let (picker, random) = (Picker::new(keys), Random::new(1));
        let mut times = vec![0; callers];
        for _ in 0..100_000 {
            let key = picker.pick(&random).expect("one more");
            times[usize::try_from(key).expect("small")] += 1;
        }
        times
    }

    #[test]
    fn callers_are_as_frequent_as_they_should_be() {
        assert_eq!(drawn(Keys::Hot, 1), [100_000]);
        let close = |times: u32, expected: u32| times.abs_diff(expected) < 1000;
        assert!(
            drawn(Keys::Uniform(10), 10)
                .iter()
                .all(|times| close(*times, 10_000))
        );
        // 1 + 1/2 + 1/3 + 1/4 = 25/12
        let zipf = drawn(Keys::Zipf(4), 4);
        let expected = [48_000, 24_000, 16_000, 12_000];
        assert!(
            zipf.iter()
                .zip(expected)
                .all(|(times, expected)| close(*times, expected)),
            "{zipf:?}"
        );
    }

    #[test]
    fn in_turn_everybody_comes_once() {
        let (picker, random) = (Picker::in_turn(3), Random::new(1));
        let picked: Vec<_> = std::iter::from_fn(|| picker.pick(&random)).collect();
        assert_eq!(picked, [0, 1, 2]);
    }
}

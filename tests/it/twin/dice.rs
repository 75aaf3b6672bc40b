//! Random limits, hits and garbage, from a seed.

use std::sync::Arc;

use comporta::domain::check::{Binding, Charge};
use comporta::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// A seeded source of choices that like the edges of their range.
pub struct Dice(TestRng);

impl Dice {
    pub fn seeded(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// 1 to `most`, of any magnitude alike.
    pub fn magnitude(&mut self, most: u64) -> u64 {
        let bits = self.below(64 - u64::from(most.leading_zeros())) + 1;
        (self.0.next_u64() >> (64 - bits)).clamp(1, most)
    }

    /// Bytes that are zero half of the time.
    pub fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length)
            .map(|_| if self.one_in(2) { 0 } else { self.below(256) as u8 })
            .collect()
    }

    /// A sound limit of this algorithm, anywhere in the range.
    pub fn limit(&mut self, algorithm: Algorithm, name: &str) -> Limit {
        loop {
            let count = match self.below(12) {
                0 => 0,
                1 => u32::MAX,
                // About where marks of a log begin to be shared.
                2 => 9_999 + self.below(3) as u32,
                _ => self.magnitude(u64::from(u32::MAX)) as u32,
            };
            let unit = self.pick(&Unit::ALL);
            let multiplier = if self.one_in(2) {
                1
            } else {
                self.magnitude(315_360_000) as u32
            };
            let delay = match algorithm {
                Algorithm::LeakyBucket => Micros::new(self.magnitude(10_000_000)),
                Algorithm::TokenBucket if self.one_in(3) => Micros::new(self.magnitude(10_000_000)),
                _ => Micros::ZERO,
            };
            let burst = (algorithm == Algorithm::TokenBucket && self.one_in(2))
                .then(|| (self.magnitude(1 << 32) as u32).max(1));
            let limit = Limit::new(LimitSpec {
                name: Arc::from(name),
                named: true,
                count: if self.one_in(2) { count.min(20) } else { count },
                period: Period { unit, multiplier },
                algorithm,
                burst,
                delay,
                calendar: self.one_in(2),
            });
            if let Ok(limit) = limit {
                return limit;
            }
        }
    }

    /// Hits of any kind; an undo is of one of the moments `taken`, or of one a period before.
    pub fn hits(&mut self, limit: &Limit, taken: [u64; 2]) -> Hits {
        let most = u64::from(limit.largest().max(1));
        match self.below(11) {
            10 => {
                let taken = self.pick(&taken);
                let period = limit.period().length().get();
                let taken = taken.saturating_sub(self.below(3) / 2 * period);
                Hits::Undo(1 + self.magnitude(most), Timestamp::from_micros(taken))
            }
            0 if self.one_in(2) => Hits::LOOK,
            0 => Hits::Look(self.magnitude(2 * most)),
            1 => Hits::give_back(self.magnitude(2 * most)),
            2 => Hits::take(most),
            3 => Hits::take(self.magnitude(u64::MAX)),
            4 | 5 => Hits::take(self.magnitude(most)),
            _ => Hits::take(1 + self.below(3)),
        }
    }

    pub fn charge(&mut self, algorithm: Algorithm) -> Charge {
        use Charge::{AllOrNothing, Always, Each};
        match algorithm {
            // A log that always charges is refused where limits are loaded.
            Algorithm::SlidingLog => self.pick(&[AllOrNothing, Each]),
            _ => self.pick(&[AllOrNothing, AllOrNothing, Each, Always]),
        }
    }

    pub fn binding(&mut self) -> Binding {
        use Binding::{Always, Never, WithAllQuotas};
        self.pick(&[Always, Always, Never, WithAllQuotas])
    }
}

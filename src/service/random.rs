//! Numbers to spread things with; nothing secret depends on them.

use std::sync::atomic::{AtomicU64, Ordering};

/// SplitMix64: one step of a counter and some mixing. Any two threads that share it still draw different numbers.
pub(crate) struct Random(AtomicU64);

impl Random {
    /// The numbers that follow from `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A number from 0 to `most`, each about as often as any other.
    pub(crate) fn up_to(&self, most: u64) -> u64 {
        match most.checked_add(1) {
            Some(numbers) => self.draw() % numbers,
            None => self.draw(),
        }
    }

    fn draw(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

//! How many instances share the counters, so that each knows its part of a budget while it decides alone.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::domain::limit::MOST_INSTANCES;

/// The number that a budget is divided by. Clones are one number.
#[derive(Clone, Debug)]
pub struct Instances {
    count: Arc<AtomicU32>,
    fixed: bool,
}

impl Instances {
    /// Always `count`, at most [`MOST_INSTANCES`], whatever is heard.
    pub fn fixed(count: NonZeroU32) -> Self {
        Self {
            count: Arc::new(AtomicU32::new(count.get().min(MOST_INSTANCES))),
            fixed: true,
        }
    }

    /// Notes that `count` instances are alive, this one included. What is out of bounds counts as the nearest that is in
    /// them: 1 to [`MOST_INSTANCES`].
    pub fn heard(&self, count: u32) {
        if !self.fixed {
            self.count
                .store(count.clamp(1, MOST_INSTANCES), Ordering::Relaxed);
        }
    }

    /// Whether the number was given, and nothing that is heard changes it.
    pub const fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// How many there are: what was fixed, else what was heard last.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Default for Instances {
    /// One, until others are heard.
    fn default() -> Self {
        Self {
            count: Arc::new(AtomicU32::new(1)),
            fixed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_holds_within_bounds_for_all_who_ask() {
        let instances = Instances::default();
        let asked = instances.clone();
        assert_eq!(asked.count(), 1);
        for (heard, count) in [(3, 3), (0, 1), (1024, 1024), (u32::MAX, 1024)] {
            instances.heard(heard);
            assert_eq!(asked.count(), count, "{heard}");
        }
    }

    #[test]
    fn what_is_fixed_stays() {
        let fixed = |count| Instances::fixed(NonZeroU32::new(count).expect("some"));
        let instances = fixed(2);
        instances.heard(7);
        assert_eq!(instances.count(), 2);
        assert_eq!(fixed(u32::MAX).count(), 1024);
    }
}

//! Says a thing at most so often.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::time::{Micros, Timestamp};

/// Lets one of all who ask within a span say something.
#[derive(Debug)]
pub(super) struct Throttle {
    span: Micros,
    /// Microseconds; zero is never.
    last: AtomicU64,
}

impl Throttle {
    /// One in every `span`.
    pub(super) const fn every(span: Micros) -> Self {
        Self {
            span,
            last: AtomicU64::new(0),
        }
    }

    /// Whether it is this caller's turn. A clock that was set back does not silence it.
    pub(super) fn permits(&self, now: Timestamp) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        let said = Timestamp::from_micros(last);
        let quiet = last != 0 && now >= said && now.since(said) < self.span;
        // Of several that find it due, the one whose exchange succeeds speaks.
        !quiet
            && self
                .last
                .compare_exchange(last, now.as_micros(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speaks_once_in_a_span_and_after_a_clock_went_back() {
        let at = |seconds| Timestamp::from_micros(0).plus(Micros::from_secs(seconds));
        let throttle = Throttle::every(Micros::MINUTE);
        assert!(throttle.permits(at(1000)));
        assert!(!throttle.permits(at(1059)));
        assert!(throttle.permits(at(1060)));
        assert!(throttle.permits(at(500)));
        assert!(!throttle.permits(at(501)));
    }
}

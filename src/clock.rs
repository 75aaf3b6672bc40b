//! The one place that reads the time of day.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::time::{Micros, Timestamp};

/// A source of moments. Everything below the service layer takes a [`Timestamp`] instead.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's wall clock: libc's `CLOCK_REALTIME`, so that tools which shift a process's clock are heeded.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is a valid, writable timespec for the length of the call.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
        // A clock before 1970 is a clock that was never set.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Timestamp::from_micros(seconds * 1_000_000 + nanos / 1_000)
    }
}

/// A clock that moves when told to; clones share one moment.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_micros())))
    }

    /// Moves the clock to `now`, forwards or back.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Moves the clock forwards.
    pub fn advance(&self, span: Micros) {
        self.0.fetch_add(span.get(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

//! What Comporta exists for: pure functions of (limit, state, hits, now), the same as in `lua/`, bit for bit.
//!
//! A group is decided in two steps: every check is weighed against what its counter holds, then those are charged that
//! the group's verdict and their own mode allow. So a group can look at all of its counters before it takes from any.

mod arith;
pub mod bucket;
pub mod fixed_window;
pub mod group;
#[cfg(test)]
mod properties;
pub mod sliding_log;
pub mod sliding_window;
pub mod state;

use crate::domain::time::Micros;
use crate::domain::verdict::Verdict;

/// How a number of hits fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// At once.
    Now,
    /// After this wait, which the caller can stand: its slot is reserved.
    After(Micros),
    /// Not in time; a call made this much later would pass.
    Later(Micros),
    /// More hits than the limit ever holds.
    Never,
}

impl Fit {
    /// Whether the hits are admitted.
    pub const fn passes(self) -> bool {
        matches!(self, Self::Now | Self::After(_))
    }

    /// The same, as a verdict.
    pub const fn verdict(self) -> Verdict {
        if self.passes() {
            Verdict::UnderLimit
        } else {
            Verdict::OverLimit
        }
    }
}

//! What is decided about a check and about a group.

use smallvec::SmallVec;

use super::time::Micros;

/// The binary answer about one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It fits, at once or after [`Decision::delay`].
    UnderLimit,
    /// It does not fit.
    OverLimit,
}

/// Why a check got its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There is room.
    Fits,
    /// The budget is spent; it comes back.
    Spent,
    /// More hits than the limit can ever hold: waiting does not help.
    TooManyHits,
    /// The limit is zero.
    Blocked,
    /// The shared store cannot decide, and the rule says what holds then. Nobody knows how much is used.
    StoreFailed,
    /// The shared store cannot decide, and this process admits no more for now by itself. The waits are those until it
    /// does.
    Ceiling,
    /// Its counter was not looked at, for another check of the group is known to refuse it.
    NotAsked,
}

impl Reason {
    /// Whether the figures beside it are those of the limit.
    pub const fn has_figures(self) -> bool {
        !matches!(self, Self::StoreFailed | Self::Ceiling | Self::NotAsked)
    }
}

/// What is decided about one check. Durations are rounded up, so that nobody who waits them returns too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it fits.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// Hits that would still be admitted, at once or after a wait; zero when over the limit.
    pub remaining: u64,
    /// When this call would pass; absent when it fits and when it never can.
    pub retry_after: Option<Micros>,
    /// When one hit more than now would fit; absent when the budget is whole.
    pub next_after: Option<Micros>,
    /// When the whole budget is back.
    pub reset_after: Micros,
    /// How long to hold the answer; zero unless the limit delays.
    pub delay: Micros,
}

impl Decision {
    /// About a check that was not looked at.
    pub const NOT_ASKED: Self = Self {
        verdict: Verdict::UnderLimit,
        reason: Reason::NotAsked,
        remaining: 0,
        retry_after: None,
        next_after: None,
        reset_after: Micros::ZERO,
        delay: Micros::ZERO,
    };
}

/// What is decided about a group: one decision per check, in order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Decisions {
    /// In the order of the group's checks.
    pub checks: SmallVec<[Decision; 2]>,
    /// Whether a binding check did not fit. What was not charged whatever the verdict was then not charged.
    pub refused: bool,
    /// Decided without the shared store: why, in a short, fixed word.
    pub degraded: Option<&'static str>,
    /// How many counters held something that no version of this service writes; they were taken as empty.
    pub unreadable: u32,
}

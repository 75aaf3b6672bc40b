//! How much a call takes, asks for or gives back.

use super::time::Timestamp;

/// What one descriptor adds to its counters.
///
/// "Unset means one" is decided where the wire is read, not here: a `Take` of zero does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hits {
    /// Take this many, 1 to [`Hits::MOST`].
    Take(u64),
    /// Ask whether this many would pass, and change nothing.
    Look(u64),
    /// Give this many back, never beyond empty.
    GiveBack(u64),
    /// Take back a charge of so many that was made at that moment, as if it had not been made. Where that is past (its
    /// window is out of sight, or newer marks stand on it) nothing changes.
    Undo(u64, Timestamp),
}

impl Hits {
    /// The most hits that are told apart: 2^40 - 1, five bytes. No capacity is above 2^32 - 1, so whatever is larger
    /// can never fit either, and the state of a rule that charges always stops here.
    pub const MOST: u64 = (1 << 40) - 1;

    /// A look as a gateway asks for it: whether one hit would pass.
    pub const LOOK: Self = Self::Look(1);

    /// Takes `hits`, or looks when it is zero.
    pub const fn take(hits: u64) -> Self {
        match hits {
            0 => Self::LOOK,
            hits if hits > Self::MOST => Self::Take(Self::MOST),
            hits => Self::Take(hits),
        }
    }

    /// Gives `hits` back; zero is a look.
    pub const fn give_back(hits: u64) -> Self {
        match hits {
            0 => Self::LOOK,
            hits if hits > Self::MOST => Self::GiveBack(Self::MOST),
            hits => Self::GiveBack(hits),
        }
    }

    /// The hits that must fit for the call to pass; none where hits come back.
    pub const fn asked(self) -> u64 {
        match self {
            Self::Take(hits) | Self::Look(hits) => hits,
            Self::GiveBack(_) | Self::Undo(..) => 0,
        }
    }

    /// Whether hits come back.
    pub const fn gives_back(self) -> bool {
        matches!(self, Self::GiveBack(_) | Self::Undo(..))
    }

    /// These hits, each counted `cost` times.
    #[must_use]
    pub const fn times(self, cost: u32) -> Self {
        match self {
            Self::Take(hits) => Self::take(hits.saturating_mul(cost as u64)),
            Self::Look(hits) => match Self::take(hits.saturating_mul(cost as u64)) {
                Self::Take(hits) => Self::Look(hits),
                other => other,
            },
            Self::GiveBack(hits) => Self::give_back(hits.saturating_mul(cost as u64)),
            // Of hits that were multiplied when they were taken.
            Self::Undo(..) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_a_look_and_the_largest_numbers_stay_in_range() {
        assert_eq!(Hits::take(0), Hits::LOOK);
        assert_eq!(Hits::give_back(0), Hits::LOOK);
        assert_eq!(Hits::take(u64::MAX), Hits::Take(Hits::MOST));
        assert_eq!(Hits::take(u64::MAX).times(u32::MAX), Hits::Take(Hits::MOST));
        assert_eq!(Hits::give_back(3).times(4), Hits::GiveBack(12));
        assert_eq!(Hits::LOOK.times(7), Hits::Look(7));
        assert_eq!(Hits::LOOK.times(1), Hits::LOOK);
    }
}

//! What one decision says about the calls that follow, and what they are told.

use crate::domain::check::Check;
use crate::domain::limit::{Algorithm, Limit};
use crate::domain::time::Micros;
use crate::domain::verdict::{Decision, Reason, Verdict};

const NEVER: Micros = Micros::new(u64::MAX);

/// So many hits or more do not fit for a while. Moments are spans since one beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Stands for the limit's numbers: another limit says nothing about this one.
    numbers: u64,
    hits: u32,
    /// Refused before this moment, unless the call can wait: counted from when the question was sent.
    until: Micros,
    /// When so many hits will fit without a wait. This and what follows is counted from when the answer was there.
    fits: Micros,
    /// When one hit more than was left will fit; [`NEVER`] where that is no more than ever do.
    next: Micros,
    /// When the whole budget is back.
    whole: Micros,
}

impl Refusal {
    /// Nothing is refused.
    pub(super) const NONE: Self = Self {
        numbers: 0,
        hits: 0,
        until: Micros::ZERO,
        fits: Micros::ZERO,
        next: Micros::ZERO,
        whole: Micros::ZERO,
    };

    /// What `decision` about `check`, which was `sent` and `answered` then, says about later calls; none when they may
    /// pass. `numbers` stands for the limit's, and `longest_wait` is the group's.
    pub(super) fn of(
        check: &Check<'_>,
        decision: &Decision,
        numbers: impl FnOnce() -> u64,
        longest_wait: Micros,
        sent: Micros,
        answered: Micros,
    ) -> Option<Self> {
        // A wait is until the call fits when it waits as long as it can: without that, so much longer.
        let (hits, wait) = match decision.verdict {
            Verdict::OverLimit => (
                check.hits.asked(),
                decision
                    .retry_after?
                    .saturating_add(check.longest_wait(longest_wait)),
            ),
            Verdict::UnderLimit if decision.remaining == 0 => {
                (1, decision.next_after?.saturating_add(check.limit.delay()))
            }
            Verdict::UnderLimit => return None,
        };
        Some(Self {
            numbers: numbers(),
            hits: u32::try_from(hits).ok()?,
            until: sent.saturating_add(wait),
            fits: answered.saturating_add(wait),
            next: decision
                .next_after
                .map_or(NEVER, |next| answered.saturating_add(next)),
            whole: answered.saturating_add(decision.reset_after),
        })
    }

    /// This one, forgotten at `moment` at the latest.
    #[must_use]
    pub(super) fn held_until(self, moment: Micros) -> Self {
        Self {
            until: self.until.min(moment),
            ..self
        }
    }

    /// When nothing is refused any more.
    pub(super) const fn ends(&self) -> Micros {
        self.until
    }

    /// The decision about `check` of a group that can wait `longest_wait`; none when the call might pass, or how long it
    /// has to wait is not known. `numbers` stands for the limit's.
    pub(super) fn decide(
        &self,
        check: &Check<'_>,
        numbers: u64,
        longest_wait: Micros,
        now: Micros,
    ) -> Option<Decision> {
        let asked = check.hits.asked();
        let can_wait = check.longest_wait(longest_wait);
        let is_refused = self.numbers == numbers
            && asked >= u64::from(self.hits)
            && now.saturating_add(can_wait) < self.until;
        // What can never fit has a reason of its own, and no wait.
        if !is_refused || asked > u64::from(check.limit.largest()) {
            return None;
        }
        let retry = self
            .fits_for(check.limit, asked)?
            .saturating_sub(can_wait)
            .saturating_sub(now);
        Some(Decision {
            verdict: Verdict::OverLimit,
            reason: Reason::Spent,
            remaining: 0,
            retry_after: Some(retry),
            next_after: match self.next {
                NEVER => None,
                next if next > now => Some(next.saturating_sub(now)),
                // How many hits have come since is not known. They are fewer than these, or these would fit; unless
                // what is left counts hits that are to wait.
                _ if check.limit.delay() == Micros::ZERO => Some(retry),
                _ => return None,
            },
            reset_after: self.whole.saturating_sub(now),
            delay: Micros::ZERO,
        })
    }

    /// When `asked` hits, at least as many as were refused, will fit without a wait.
    fn fits_for(&self, limit: &Limit, asked: u64) -> Option<Micros> {
        match limit.algorithm() {
            _ if asked == u64::from(self.hits) => Some(self.fits),
            // The next window has room for any.
            Algorithm::FixedWindow => Some(self.fits),
            // A level drains evenly: so long before it is empty.
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let left = u64::from(limit.capacity()).saturating_sub(asked);
                let rate = limit.rate();
                let drains_in = u128::from(left) * u128::from(rate.micros) / u128::from(rate.hits);
                let drains_in = Micros::new(u64::try_from(drains_in).unwrap_or(u64::MAX));
                Some(self.whole.saturating_sub(drains_in))
            }
            Algorithm::SlidingWindow | Algorithm::SlidingLog => None,
        }
    }
}

//! What decides in place of the shared store: one for all cores of a process.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use super::outage::Outage;
use crate::domain::check::{Binding, Charge, Check, Group, OnStoreFailure};
use crate::domain::limit::Limit;
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::{Decision, Decisions, Reason, Verdict};
use crate::store::instances::Instances;
use crate::store::memory::Memory;
use crate::store::{StoreError, StoreObserver};

/// The counter of the ceiling. Counters of policies have a prefix and a version in front.
const CEILING: &[u8] = b"ceiling";

/// Decides groups that the shared store could not, each check as its rule says. Its counters stay from one outage to the
/// next, and nothing of them is ever sent anywhere.
pub struct Standby {
    local: Memory,
    instances: Instances,
    ceiling: Option<Limit>,
    pub(super) outage: Outage,
}

/// What is decided in place of a check.
enum StandIn {
    /// It, by this share of its limit.
    Local(Limit),
    /// It, by this limit that lets nothing in.
    Deny(Limit),
    /// Nothing: it fits.
    Allow,
}

impl Standby {
    /// Counts in `local`, each limit divided by the number of `instances`. Requests that a check could refuse are let
    /// through up to `ceiling`, a bucket, all of them together. `observer` is told when the shared store fails, and when
    /// it decides again.
    pub fn new(
        local: Memory,
        instances: Instances,
        ceiling: Option<Limit>,
        observer: Arc<dyn StoreObserver>,
    ) -> Self {
        Self {
            local,
            instances,
            ceiling,
            outage: Outage::none(Instant::now(), observer),
        }
    }

    /// Notes that the shared store answered somebody. It ends what its failures began also where no call is left to notice:
    /// none comes, or all that come are refused from memory.
    pub fn store_answered(&self) {
        self.outage.answered(Instant::now);
    }

    /// Decides `group`, which the shared store failed with `error`.
    ///
    /// # Errors
    /// That error, where a rule asks for it.
    pub(super) fn decide(
        &self,
        group: &Group<'_>,
        now: Timestamp,
        error: StoreError,
    ) -> Result<Decisions, StoreError> {
        let stand_ins = self.stand_ins(group);
        let decided = stand_ins.is_some();
        if !matches!(error, StoreError::Impatient { .. }) {
            self.outage.failed(&error, decided, Instant::now());
        }
        match stand_ins {
            Some(stand_ins) => Ok(Decisions {
                degraded: Some(error.kind()),
                ..self.decide_by(&stand_ins, group, now)
            }),
            None => Err(error),
        }
    }

    /// One for each check; none at all where the group is an error.
    fn stand_ins(&self, group: &Group<'_>) -> Option<SmallVec<[StandIn; 2]>> {
        let instances = self.instances.count();
        let stand_in = |check: &Check<'_>| match check.on_store_failure {
            // Nothing is ever in its counter, so no store is needed to decide it.
            _ if check.limit.count() == 0 => Some(StandIn::Local(check.limit.closed())),
            OnStoreFailure::Local => Some(StandIn::Local(check.limit.share_of(instances))),
            OnStoreFailure::Allow => Some(StandIn::Allow),
            OnStoreFailure::Deny => Some(StandIn::Deny(check.limit.closed())),
            OnStoreFailure::Error => None,
        };
        group.checks.iter().map(stand_in).collect()
    }

    /// The local store decides all that does not simply fit as one group, so that what a denied check refuses charges
    /// nothing else, and what is above the ceiling neither.
    fn decide_by(&self, stand_ins: &[StandIn], group: &Group<'_>, now: Timestamp) -> Decisions {
        // A quota that fits keeps all others from refusing.
        let has_room = group
            .checks
            .iter()
            .zip(stand_ins)
            .any(|(check, by)| matches!(by, StandIn::Allow) && check.binding == Binding::WithAllQuotas);
        let mut checks: SmallVec<[Check<'_>; 2]> = SmallVec::new();
        for (check, by) in group.checks.iter().zip(stand_ins) {
            let (StandIn::Local(limit) | StandIn::Deny(limit)) = by else {
                continue;
            };
            checks.push(Check {
                limit,
                binding: match check.binding {
                    Binding::WithAllQuotas if has_room => Binding::Never,
                    binding => binding,
                },
                ..*check
            });
        }
        let ceiling = self.ceiling.as_ref().zip(request(group)).map(ceiling);
        checks.extend(ceiling);
        let decisions = self.local.decide_now(
            &Group {
                checks: &checks,
                ..*group
            },
            now,
        );
        let mut decided = decisions.checks;
        let above = ceiling
            .and_then(|_| decided.pop())
            .filter(|ceiling| ceiling.verdict == Verdict::OverLimit);
        let mut decided = decided.into_iter();
        let decide = |(check, by): (&Check<'_>, &StandIn)| {
            let decision = match by {
                StandIn::Local(_) => decided.next(),
                StandIn::Deny(_) => decided.next().map(|decision| unknown(decision.verdict)),
                StandIn::Allow => None,
            };
            let decision = decision.unwrap_or(unknown(Verdict::UnderLimit));
            match above {
                Some(above) if decision.verdict == Verdict::UnderLimit && can_refuse(check) => Decision {
                    reason: Reason::Ceiling,
                    ..above
                },
                _ => decision,
            }
        };
        Decisions {
            checks: group.checks.iter().zip(stand_ins).map(decide).collect(),
            ..decisions
        }
    }
}

/// What is decided about a check that was not looked at: no figures but zeros.
const fn unknown(verdict: Verdict) -> Decision {
    Decision {
        verdict,
        reason: Reason::StoreFailed,
        remaining: 0,
        retry_after: None,
        next_after: None,
        reset_after: Micros::ZERO,
        delay: Micros::ZERO,
    }
}

fn ceiling((limit, hits): (&Limit, Hits)) -> Check<'_> {
    Check {
        key: CEILING,
        limit,
        hits,
        binding: Binding::Always,
        charge: Charge::AllOrNothing,
        on_store_failure: OnStoreFailure::Local,
    }
}

/// What a group is under the ceiling: one request, or a look at whether one would pass. Nothing where no check could
/// refuse it.
fn request(group: &Group<'_>) -> Option<Hits> {
    let refusing = group.checks.iter().filter(|check| can_refuse(check));
    refusing
        .map(|check| match check.hits {
            Hits::Take(_) => Hits::take(1),
            Hits::Look(_) | Hits::GiveBack(_) | Hits::Undo(..) => Hits::LOOK,
        })
        .max_by_key(|hits| matches!(hits, Hits::Take(_)))
}

/// Whether a check asks for something and could be refused it.
const fn can_refuse(check: &Check<'_>) -> bool {
    !matches!(check.binding, Binding::Never) && !check.hits.gives_back()
}

mod ceiling;
mod shares;

use std::future::ready;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::*;
use crate::domain::check::{Binding, Charge, Check, OnStoreFailure};
use crate::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;
use crate::domain::verdict::{Decision, Reason, Verdict};
use crate::store::StoreObserver;
use crate::store::instances::Instances;
use crate::store::memory::Memory;

const START: u64 = 1_790_000_000_000_000;
const NOW: Timestamp = Timestamp::from_micros(START);

/// The key of a check, and its hits.
type Asked = (Vec<u8>, Hits);

/// A shared store that works or fails as it is told, and keeps what it was asked.
#[derive(Clone, Default)]
struct Scripted {
    works: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Store for Scripted {
    fn decide(
        &self,
        group: &Group<'_>,
        _: Timestamp,
        _: Instant,
    ) -> impl Future<Output = Result<Decisions, StoreError>> + Send {
        let asked = group.checks.iter().map(|check| (check.key.to_vec(), check.hits));
        self.asked.lock().extend(asked);
        ready(if self.works.load(Ordering::Relaxed) {
            Ok(Decisions::default())
        } else {
            Err(StoreError::Refused {
                reason: String::from("no room"),
            })
        })
    }
}

/// Counts changes into degraded mode and back.
#[derive(Default)]
struct Changes {
    began: AtomicU32,
    ended: AtomicU32,
}

impl StoreObserver for Changes {
    fn degraded(&self, change: &Degradation<'_>) {
        match change {
            Degradation::Began { .. } => &self.began,
            Degradation::Ended { .. } => &self.ended,
        }
        .fetch_add(1, Ordering::Relaxed);
    }
}

/// An instance whose shared store fails.
struct Bench {
    fallback: Fallback<Scripted>,
    shared: Scripted,
    local: Memory,
    changes: Arc<Changes>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Instances::default(), None)
    }

    fn of(instances: u32) -> Self {
        Self::with(Instances::fixed(NonZeroU32::new(instances).expect("some")), None)
    }

    fn with(instances: Instances, ceiling: Option<Limit>) -> Self {
        let changes = Arc::new(Changes::default());
        let observer = || Arc::clone(&changes) as Arc<dyn StoreObserver>;
        let local = Memory::new(1_000_000, observer());
        let standby = Standby::new(local.clone(), instances, ceiling, observer());
        let shared = Scripted::default();
        Self {
            fallback: Fallback::new(shared.clone(), Arc::new(standby)),
            shared,
            local,
            changes,
        }
    }

    fn decide_at(&self, checks: &[Check<'_>], now: Timestamp) -> Result<Decisions, StoreError> {
        let group = Group {
            checks,
            longest_wait: Micros::ZERO,
            compat: false,
        };
        let decide = pin!(self.fallback.decide(&group, now, Instant::now()));
        match decide.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(decisions) => decisions,
            Poll::Pending => panic!("nothing to wait for"),
        }
    }

    fn decide(&self, checks: &[Check<'_>]) -> Decisions {
        self.decide_at(checks, NOW).expect("decisions")
    }

    /// What is used, by the local counter of `key`, of [`ten`].
    fn used(&self, key: &[u8]) -> u64 {
        let share = ten().share_of(1);
        let look = Check {
            hits: Hits::LOOK,
            // Else what is owed above the capacity is not seen.
            charge: Charge::Always,
            ..check(key, &share)
        };
        let decisions = self.local.decide_now(
            &Group {
                checks: &[look],
                longest_wait: Micros::ZERO,
                compat: false,
            },
            NOW,
        );
        // One comes back every six seconds.
        decisions.checks[0].reset_after.ceil_secs() / 6
    }
}

fn limit(algorithm: Algorithm, count: u32, unit: Unit) -> Limit {
    Limit::new(LimitSpec {
        name: Arc::from("limit"),
        named: true,
        count,
        period: Period::one(unit),
        algorithm,
        burst: None,
        delay: Micros::ZERO,
        calendar: false,
    })
    .expect("a sound limit")
}

fn ten() -> Limit {
    limit(Algorithm::SlidingWindow, 10, Unit::Minute)
}

fn check<'a>(key: &'a [u8], limit: &'a Limit) -> Check<'a> {
    Check {
        key,
        limit,
        hits: Hits::take(1),
        binding: Binding::Always,
        charge: Charge::AllOrNothing,
        on_store_failure: OnStoreFailure::Local,
    }
}

fn over(decision: &Decision) -> bool {
    decision.verdict == Verdict::OverLimit
}

/// A check as a table of them has it, and whether its local counter has room.
#[derive(Clone, Copy, Debug)]
struct Case {
    choice: OnStoreFailure,
    binding: Binding,
    charge: Charge,
    room: bool,
}

impl Case {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for choice in OnStoreFailure::ALL {
            for binding in [Binding::Always, Binding::Never, Binding::WithAllQuotas] {
                for charge in [Charge::AllOrNothing, Charge::Each, Charge::Always] {
                    let case = |room| Self {
                        choice,
                        binding,
                        charge,
                        room,
                    };
                    all.extend([case(true), case(false)]);
                }
            }
        }
        all
    }

    fn fits(self) -> bool {
        match self.choice {
            OnStoreFailure::Local => self.room,
            OnStoreFailure::Allow => true,
            OnStoreFailure::Deny | OnStoreFailure::Error => false,
        }
    }

    fn used_before(self) -> u64 {
        if self.room { 3 } else { 10 }
    }

    fn used_after(self, refused: bool) -> u64 {
        let charged = self.choice == OnStoreFailure::Local
            && match self.charge {
                Charge::AllOrNothing => self.room && !refused,
                Charge::Each => self.room,
                Charge::Always => true,
            };
        self.used_before() + u64::from(charged)
    }

    fn reason(self) -> Reason {
        match (self.choice, self.room) {
            (OnStoreFailure::Local, true) => Reason::Fits,
            (OnStoreFailure::Local, false) => Reason::Spent,
            _ => Reason::StoreFailed,
        }
    }
}

/// Of groups of two, every one there is.
#[test]
fn each_check_goes_its_own_way_and_the_group_has_one_verdict() {
    let ten = ten();
    for one in Case::all() {
        for other in Case::all() {
            let bench = Bench::new();
            let cases = [(one, &b"one"[..]), (other, b"other")];
            for (case, key) in cases {
                bench.decide(&[Check {
                    hits: Hits::take(case.used_before()),
                    ..check(key, &ten)
                }]);
            }
            let checks = cases.map(|(case, key)| Check {
                binding: case.binding,
                charge: case.charge,
                on_store_failure: case.choice,
                ..check(key, &ten)
            });
            let decided = bench.decide_at(&checks, NOW);
            let error = cases.iter().any(|(case, _)| case.choice == OnStoreFailure::Error);
            assert_eq!(decided.is_err(), error, "{cases:?}");
            let Ok(decided) = decided else {
                for (case, key) in cases {
                    assert_eq!(bench.used(key), case.used_before(), "{cases:?}");
                }
                continue;
            };
            let quotas = || {
                cases
                    .iter()
                    .filter(|(case, _)| case.binding == Binding::WithAllQuotas)
            };
            let refused = cases
                .iter()
                .any(|(case, _)| case.binding == Binding::Always && !case.fits())
                || quotas().count() > 0 && quotas().all(|(case, _)| !case.fits());
            assert_eq!(decided.refused, refused, "{cases:?}");
            assert_eq!(decided.degraded, Some("refused"));
            for ((case, key), decision) in cases.into_iter().zip(&decided.checks) {
                assert_eq!(over(decision), !case.fits(), "{cases:?}");
                assert_eq!(decision.reason, case.reason(), "{cases:?}");
                assert_eq!(bench.used(key), case.used_after(refused), "{cases:?}");
            }
        }
    }
}

#[test]
fn what_nobody_knows_has_no_figures_and_no_wait() {
    let (bench, ten) = (Bench::new(), ten());
    for choice in [OnStoreFailure::Allow, OnStoreFailure::Deny] {
        let decided = bench.decide(&[Check {
            on_store_failure: choice,
            ..check(b"a", &ten)
        }]);
        assert_eq!(
            decided.checks[0],
            Decision {
                verdict: if choice == OnStoreFailure::Deny {
                    Verdict::OverLimit
                } else {
                    Verdict::UnderLimit
                },
                reason: Reason::StoreFailed,
                remaining: 0,
                retry_after: None,
                next_after: None,
                reset_after: Micros::ZERO,
                delay: Micros::ZERO,
            }
        );
    }
    assert!(!Reason::StoreFailed.has_figures());
    assert!(bench.local.is_empty());
}

#[test]
fn what_is_given_back_is_refused_by_nothing() {
    let (bench, ten) = (Bench::new(), ten());
    for choice in [OnStoreFailure::Local, OnStoreFailure::Allow, OnStoreFailure::Deny] {
        let decided = bench.decide(&[Check {
            hits: Hits::give_back(1),
            on_store_failure: choice,
            ..check(b"a", &ten)
        }]);
        assert!(!decided.refused && !over(&decided.checks[0]), "{choice:?}");
    }
}

#[test]
fn a_limit_of_zero_refuses_whatever_its_choice() {
    let (bench, nothing) = (Bench::new(), limit(Algorithm::FixedWindow, 0, Unit::Day));
    for choice in OnStoreFailure::ALL {
        let decided = bench.decide(&[Check {
            on_store_failure: choice,
            ..check(b"a", &nothing)
        }]);
        assert!(decided.refused, "{choice:?}");
        assert_eq!(decided.checks[0].reason, Reason::Blocked, "{choice:?}");
    }
}

#[test]
fn the_share_follows_how_many_instances_are_heard() {
    let instances = Instances::default();
    let bench = Bench::with(instances.clone(), None);
    let ten = ten();
    let remaining = || {
        let look = Check {
            hits: Hits::LOOK,
            ..check(b"a", &ten)
        };
        bench.decide(&[look]).checks[0].remaining
    };
    assert_eq!(remaining(), 10);
    instances.heard(2);
    assert_eq!(remaining(), 5);
    instances.heard(3);
    assert_eq!(remaining(), 3);
}

#[test]
fn a_call_that_failed_is_asked_once_and_what_was_used_meanwhile_stays_here() {
    let (bench, ten) = (Bench::new(), ten());
    let ask = |key: &[u8]| bench.decide(&[check(key, &ten)]);
    ask(b"a");
    ask(b"b");
    bench.shared.works.store(true, Ordering::Relaxed);
    assert_eq!(ask(b"a").degraded, None);
    let asked = bench.shared.asked.lock();
    let keys: Vec<_> = asked.iter().map(|(key, hits)| (&key[..], *hits)).collect();
    let one = Hits::take(1);
    assert_eq!(keys, [(&b"a"[..], one), (b"b", one), (b"a", one)]);
    assert_eq!((bench.used(b"a"), bench.used(b"b")), (1, 1));
}

#[test]
fn a_group_that_is_an_error_is_a_change_into_degraded_mode_as_well() {
    let (bench, ten) = (Bench::new(), ten());
    let ask = |choice| {
        let check = Check {
            on_store_failure: choice,
            ..check(b"a", &ten)
        };
        bench.decide_at(&[check], NOW)
    };
    assert_eq!(
        ask(OnStoreFailure::Error),
        Err(StoreError::Refused {
            reason: String::from("no room")
        })
    );
    ask(OnStoreFailure::Deny).expect("a decision");
    let changes = || {
        let (began, ended) = (&bench.changes.began, &bench.changes.ended);
        (began.load(Ordering::Relaxed), ended.load(Ordering::Relaxed))
    };
    assert_eq!(changes(), (1, 0));
    bench.shared.works.store(true, Ordering::Relaxed);
    ask(OnStoreFailure::Error).expect("a decision");
    assert_eq!(changes(), (1, 0), "not calm for long enough");
}

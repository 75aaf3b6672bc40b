//! Histories with and without what is remembered.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::fixtures::{AT_ONCE, Instance, ONE, agrees, check, edited, group, limit, memory, wall};
use super::refusals::LONGEST_WITH_GIVE_BACKS;
use crate::domain::check::{Binding, Charge, Check, Group, OnStoreFailure};
use crate::domain::limit::{Algorithm, Limit};
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;
use crate::domain::verdict::Decision;

/// A counter and what it is held to by turns, as one client is by its plans.
#[derive(Clone, Debug)]
struct Counter {
    key: Vec<u8>,
    plans: Vec<Plan>,
}

#[derive(Clone, Debug)]
struct Plan {
    limit: Limit,
    charge: Charge,
    binding: Binding,
}

#[derive(Clone, Debug)]
struct Step {
    passes: u64,
    /// Place of the counter, plan, hits.
    asks: Vec<(usize, usize, Hits)>,
    longest_wait: u64,
}

fn any_counter() -> impl Strategy<Value = Counter> {
    let bucket = |algorithm| {
        let plan = (
            1_u32..20,
            prop_oneof![Just(None), (1_u32..12).prop_map(Some)],
            0_u64..3,
        );
        prop::collection::vec(plan, 1..3).prop_map(move |plans| {
            let plan = |(count, burst, delay): (u32, Option<u32>, u64)| {
                edited(algorithm, count, |spec| {
                    spec.burst = burst.filter(|_| algorithm == Algorithm::TokenBucket);
                    spec.delay = Micros::from_secs(delay + u64::from(algorithm == Algorithm::LeakyBucket));
                })
            };
            plans.into_iter().map(plan).collect::<Vec<_>>()
        })
    };
    let window = |algorithm| {
        prop::collection::vec(1_u32..12, 1..3)
            .prop_map(move |counts| counts.into_iter().map(|count| limit(algorithm, count)).collect())
    };
    let plans = prop_oneof![
        bucket(Algorithm::TokenBucket),
        bucket(Algorithm::LeakyBucket),
        window(Algorithm::SlidingWindow),
        window(Algorithm::FixedWindow),
        window(Algorithm::SlidingLog),
    ];
    let charge = prop_oneof![
        8 => Just(Charge::AllOrNothing),
        1 => Just(Charge::Each),
        1 => Just(Charge::Always),
    ];
    let binding = prop_oneof![
        8 => Just(Binding::Always),
        1 => Just(Binding::Never),
        1 => Just(Binding::WithAllQuotas),
    ];
    let modes = prop::collection::vec((charge, binding), 2);
    (plans, modes).prop_map(|(limits, modes)| Counter {
        key: Vec::new(),
        plans: limits
            .into_iter()
            .zip(modes)
            .map(|(limit, (charge, binding))| Plan {
                limit,
                charge,
                binding,
            })
            .collect(),
    })
}

fn any_counters() -> impl Strategy<Value = Vec<Counter>> {
    prop::collection::vec(any_counter(), 3).prop_map(|mut counters| {
        for (place, counter) in counters.iter_mut().enumerate() {
            counter.key = format!("test:1:{{4:edge6:client1:{place}}}5:limitx").into_bytes();
        }
        counters
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let passes = prop_oneof![
        3 => 0_u64..1_000,
        3 => 0_u64..1_000_000,
        2 => 0_u64..10_000_000,
        1 => 0_u64..100_000_000,
    ];
    let hits = prop_oneof![
        4 => Just(ONE),
        2 => (1_u64..7).prop_map(Hits::Take),
        1 => (1_u64..7).prop_map(Hits::Look),
    ];
    let asks = prop::collection::vec((0_usize..3, 0_usize..2, hits), 1..4);
    let longest_wait = prop_oneof![2 => Just(0_u64), 1 => 0_u64..3_000_000];
    (passes, asks, longest_wait).prop_map(|(passes, mut asks, longest_wait)| {
        asks.sort_by_key(|ask| ask.0);
        asks.dedup_by_key(|ask| ask.0);
        Step {
            passes,
            asks,
            longest_wait,
        }
    })
}

#[test]
fn a_lone_instance_decides_as_the_store_alone_would() {
    let (calls, answered) = (Cell::new(0_u64), Cell::new(0_u64));
    let mut runner = TestRunner::new(Config {
        cases: 1_000,
        failure_persistence: None,
        ..Config::default()
    });
    let histories = (any_counters(), prop::collection::vec(any_step(), 1..60));
    let result = runner.run(&histories, |(counters, steps)| {
        let (plain, instance) = (memory(), Instance::over(memory()));
        let mut now = Micros::ZERO;
        for step in steps {
            now = now.saturating_add(Micros::new(step.passes));
            let checks: Vec<_> = step
                .asks
                .iter()
                .map(|(place, plan, hits)| {
                    let counter = &counters[*place];
                    let plan = &counter.plans[plan % counter.plans.len()];
                    Check {
                        key: &counter.key,
                        limit: &plan.limit,
                        hits: *hits,
                        binding: plan.binding,
                        charge: plan.charge,
                        on_store_failure: OnStoreFailure::default(),
                    }
                })
                .collect();
            let group = Group {
                longest_wait: Micros::new(step.longest_wait),
                ..group(&checks)
            };
            let (expected, decided) = (plain.decide_now(&group, wall(now)), instance.decide(&group, now));
            prop_assert_eq!(decided.refused, expected.refused, "{:?} at {:?}", group, now);
            for ((check, decision), expected) in checks.iter().zip(&decided.checks).zip(&expected.checks) {
                if *decision != Decision::NOT_ASKED {
                    agrees(*decision, *expected).map_err(|why| {
                        TestCaseError::fail(format!(
                            "{why}: {decision:?}, {expected:?}: {check:?} at {now:?}"
                        ))
                    })?;
                }
            }
            calls.set(calls.get() + 1);
        }
        answered.set(answered.get() + instance.answered());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let share = answered.get() * 100 / calls.get();
    assert!(
        share >= 5,
        "{share} % were answered from memory: too few to prove much"
    );
}

#[derive(Clone, Debug)]
enum Turn {
    Here(Hits),
    Elsewhere(Hits),
}

fn any_turns() -> impl Strategy<Value = Vec<(u64, Turn)>> {
    let hits = || prop_oneof![3 => Just(ONE), 1 => (1_u64..7).prop_map(Hits::Take)];
    let turn = prop_oneof![
        4 => hits().prop_map(Turn::Here),
        1 => hits().prop_map(Turn::Elsewhere),
        1 => (1_u64..7).prop_map(|hits| Turn::Elsewhere(Hits::GiveBack(hits))),
    ];
    prop::collection::vec((0_u64..700_000, turn), 1..80)
}

proptest! {
    #![proptest_config(Config { cases: 1_000, ..Config::default() })]

    /// And it never admits what the store would not, since only the store admits.
    #[test]
    fn what_others_give_back_on_a_rule_that_sees_it_is_there_after_a_second(
        algorithm in prop::sample::select(AT_ONCE.to_vec()),
        count in 1_u32..12,
        turns in any_turns(),
    ) {
        let shared = memory();
        let here = Instance::over(shared.clone());
        let limit = limit(algorithm, count);
        let ask = |hits| [check(b"client", &limit, hits)];
        let mut now = Micros::SECOND;
        here.refused.refusals.give_back_seen_at(b"client", now);
        let mut given_back = Micros::ZERO;
        for (passes, turn) in turns {
            now = now.saturating_add(Micros::new(passes));
            match turn {
                Turn::Here(hits) => {
                    let look = shared.decide_now(&group(&ask(Hits::Look(hits.asked()))), wall(now));
                    let decided = here.decide(&group(&ask(hits)), now);
                    let is_late = now < given_back.saturating_add(LONGEST_WITH_GIVE_BACKS);
                    prop_assert!(decided.refused || !look.refused);
                    prop_assert!(look.refused || !decided.refused || is_late);
                }
                Turn::Elsewhere(hits) => {
                    shared.decide_now(&group(&ask(hits)), wall(now));
                    if hits.gives_back() {
                        given_back = now;
                    }
                }
            }
        }
    }
}

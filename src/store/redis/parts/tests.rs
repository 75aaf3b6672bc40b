//! Parts that are asked one by one, as a cluster is, beside the group that they are of: decided at once, where it is one
//! store's, or charged by a verdict that is known beforehand.

mod kept;

use std::sync::Arc;

use proptest::prelude::*;

use self::kept::Kept;
use super::*;
use crate::decide::group::{decide, decide_part};
use crate::domain::check::OnStoreFailure;
use crate::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use crate::domain::time::Micros;

/// Asks all parts, each by the clock of its slot, and takes back what is to be taken back so much later.
fn ask_apart(
    kept: &mut Kept,
    group: &Group<'_>,
    clock: impl Fn(u16) -> Timestamp,
    later: Micros,
) -> Decisions {
    let parts = of(group);
    let mut replies: Vec<Option<Reply>> = parts
        .iter()
        .map(|part| {
            let checks = part.asked();
            let asked = Group {
                checks: &checks,
                ..*group
            };
            Some(kept.ask(&asked, clock(part.slot)))
        })
        .collect();
    let Settled { decisions, undone } = settle(group, &parts, &mut replies);
    for undo in undone {
        let back = Group {
            checks: &undo.checks,
            ..*group
        };
        kept.ask(&back, clock(undo.slot).plus(later));
    }
    decisions.expect("what all parts say is known")
}

fn limit(algorithm: Algorithm, count: u32, unit: Unit) -> Limit {
    let delay = match algorithm {
        Algorithm::LeakyBucket => Micros::SECOND,
        _ => Micros::ZERO,
    };
    Limit::new(LimitSpec {
        name: Arc::from("limit"),
        named: true,
        count,
        period: Period::one(unit),
        algorithm,
        burst: None,
        delay,
        calendar: true,
    })
    .expect("a sound limit")
}

/// A counter of one rule.
#[derive(Clone, Debug)]
struct Counter {
    key: Vec<u8>,
    limit: Limit,
    charge: Charge,
}

/// The slots lie between the first braces of a key.
const TAGS: [&str; 4] = ["a", "b", "c", "d"];

fn any_counters() -> impl Strategy<Value = Vec<Counter>> {
    let algorithm = prop::sample::select(Algorithm::ALL.to_vec());
    let unit = prop::sample::select(vec![Unit::Second, Unit::Minute]);
    let charge = prop::sample::select(vec![
        Charge::AllOrNothing,
        Charge::AllOrNothing,
        Charge::Each,
        Charge::Always,
    ]);
    let tag = prop::sample::select(TAGS.to_vec());
    let counter =
        (tag, algorithm, 0_u32..7, unit, charge).prop_map(|(tag, algorithm, count, unit, charge)| Counter {
            key: format!("{{{tag}}}").into_bytes(),
            limit: limit(algorithm, count, unit),
            // A log that always charges is refused where limits are loaded.
            charge: match algorithm {
                Algorithm::SlidingLog if charge == Charge::Always => Charge::Each,
                _ => charge,
            },
        });
    prop::collection::vec(counter, 2..6).prop_map(|mut counters| {
        for (place, counter) in counters.iter_mut().enumerate() {
            counter.key.extend(place.to_string().bytes());
        }
        counters
    })
}

/// What is asked of one counter.
#[derive(Clone, Debug)]
struct Wanted {
    counter: prop::sample::Index,
    hits: Hits,
    binding: Binding,
    /// What comes before it in the same group.
    before: Option<Hits>,
}

/// A group some time after the one before it, by a clock that may go back, and how long it takes to settle.
#[derive(Clone, Debug)]
struct Call {
    passed: i64,
    wanted: Vec<Wanted>,
    longest_wait: u64,
    compat: bool,
    later: u64,
}

fn any_call() -> impl Strategy<Value = Call> {
    let hits = prop_oneof![
        6 => (1_u64..5).prop_map(Hits::take),
        1 => (1_u64..5).prop_map(Hits::Look),
        1 => (1_u64..5).prop_map(Hits::give_back),
    ];
    let binding = prop::sample::select(vec![
        Binding::Always,
        Binding::Never,
        Binding::WithAllQuotas,
        Binding::WithAllQuotas,
    ]);
    let before = prop::option::weighted(0.2, (1_u64..3).prop_map(Hits::give_back));
    let wanted =
        (any::<prop::sample::Index>(), hits, binding, before).prop_map(|(counter, hits, binding, before)| {
            Wanted {
                counter,
                hits,
                binding,
                before,
            }
        });
    (
        prop_oneof![6 => 0_i64..2_000_000, 2 => -900_000_i64..0, 1 => -5_000_000_i64..70_000_000],
        prop::collection::vec(wanted, 1..6),
        prop_oneof![Just(0), 0_u64..1_500_000],
        prop::bool::weighted(0.2),
        prop_oneof![Just(0), 0_u64..900_000],
    )
        .prop_map(|(passed, wanted, longest_wait, compat, later)| Call {
            passed,
            wanted,
            longest_wait,
            compat,
            later,
        })
}

/// The checks of `call`: a counter is named again only for charges whatever the verdict, and behind its give-backs.
fn checks<'a>(counters: &'a [Counter], call: &Call) -> Vec<Check<'a>> {
    let mut checks: Vec<Check<'a>> = Vec::new();
    for wanted in &call.wanted {
        let counter = wanted.counter.get(counters);
        let named = checks.iter().any(|other| other.key == counter.key);
        let check = Check {
            hits: wanted.hits,
            binding: wanted.binding,
            ..counter.look()
        };
        if let (false, Some(hits)) = (named, wanted.before) {
            checks.push(Check { hits, ..check });
        }
        if !named || counter.charge == Charge::Always {
            checks.push(check);
        }
    }
    checks
}

impl Counter {
    fn look(&self) -> Check<'_> {
        Check {
            key: &self.key,
            limit: &self.limit,
            hits: Hits::LOOK,
            binding: Binding::Never,
            charge: self.charge,
            on_store_failure: OnStoreFailure::Local,
        }
    }
}

fn group<'a>(checks: &'a [Check<'a>], call: &Call) -> Group<'a> {
    Group {
        checks,
        longest_wait: Micros::new(call.longest_wait),
        compat: call.compat,
    }
}

const START: i64 = 1_790_000_000_000_000;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros.unsigned_abs())
}

/// Nothing, but for what cannot be read in the counters so marked.
fn kept(counters: &[Counter], unreadable: &[bool]) -> Kept {
    let marked = counters
        .iter()
        .zip(unreadable)
        .filter(|(_, unreadable)| **unreadable);
    Kept {
        unreadable: marked.map(|(counter, _)| counter.key.clone()).collect(),
        ..Kept::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn parts_decide_and_leave_what_the_group_at_once_would(
        counters in any_counters(),
        unreadable in prop::collection::vec(prop::bool::weighted(0.1), 6),
        calls in prop::collection::vec(any_call(), 1..20),
    ) {
        let mut whole = kept(&counters, &unreadable);
        let mut apart = whole.clone();
        let mut now = START;
        for call in &calls {
            // What was taken and taken back was read, and has drained, up to then: a clock that goes back tells it apart.
            now += call.passed.abs();
            let checks = checks(&counters, call);
            let group = group(&checks, call);
            let decided = decide(&group, at(now), &mut whole);
            let settled = ask_apart(&mut apart, &group, |_| at(now), Micros::ZERO);
            prop_assert_eq!(settled.refused, decided.refused);
            prop_assert_eq!(settled.checks, decided.checks, "{:?}", checks);
            // What was taken and taken back has replaced what could not be read.
            prop_assert!(settled.unreadable <= decided.unreadable);
            for counter in &counters {
                let check = counter.look();
                prop_assert_eq!(apart.content(&check, at(now)), whole.content(&check, at(now)), "{:?}", check);
            }
        }
    }

    #[test]
    fn whatever_the_clocks_show_a_refused_group_leaves_no_charge_that_its_verdict_forbids(
        counters in any_counters(),
        ahead in prop::collection::vec(0_i64..20, TAGS.len()),
        calls in prop::collection::vec(any_call(), 1..20),
    ) {
        let slots = TAGS.map(|tag| slot_of(tag.as_bytes()));
        let mut kept = Kept::default();
        let mut now = START;
        for call in &calls {
            now += call.passed;
            let clock = |slot: u16| {
                let place = slots.iter().position(|known| *known == slot).expect("a slot of these");
                at(now + ahead[place])
            };
            let checks = checks(&counters, call);
            let group = group(&checks, call);
            let later = Micros::new(call.later);
            let mut spared = kept.clone();
            let settled = ask_apart(&mut kept, &group, clock, later);
            for part in of(&group) {
                let known = Group { checks: &part.checks, ..group };
                decide_part(&known, settled.refused, clock(part.slot), &mut spared);
            }
            for counter in &counters {
                let (check, then) = (counter.look(), clock(slot_of(&counter.key)).plus(later));
                prop_assert_eq!(kept.content(&check, then), spared.content(&check, then), "{:?}", check);
            }
        }
    }
}

#[test]
fn what_a_part_took_for_a_group_that_another_refuses_is_taken_back_by_its_own_clock() {
    let (three, none) = (
        limit(Algorithm::FixedWindow, 3, Unit::Minute),
        limit(Algorithm::FixedWindow, 0, Unit::Minute),
    );
    let check = |key, limit, charge| Check {
        key,
        limit,
        hits: Hits::take(2),
        binding: Binding::Always,
        charge,
        on_store_failure: OnStoreFailure::Local,
    };
    let checks = [
        check(b"{a}whole", &three, Charge::AllOrNothing),
        check(b"{b}zero", &none, Charge::AllOrNothing),
        check(b"{a}each", &three, Charge::Each),
        check(b"{a}always", &three, Charge::Always),
    ];
    let group = Group {
        checks: &checks,
        longest_wait: Micros::ZERO,
        compat: false,
    };
    let parts = of(&group);
    assert_eq!(
        parts.iter().map(|part| &part.places[..]).collect::<Vec<_>>(),
        [&[0, 2, 3][..], &[1]]
    );
    let mut replies = [at(START), at(START + 9)].map(|now| Some(Reply::nothing(now)));
    let Settled { decisions, undone } = settle(&group, &parts, &mut replies);
    let decisions = decisions.expect("what all parts say is known");
    assert!(decisions.refused);
    assert_eq!(
        decisions
            .checks
            .iter()
            .map(|decision| decision.remaining)
            .collect::<Vec<_>>(),
        [3, 0, 1, 1]
    );
    let undone: Vec<_> = undone
        .iter()
        .map(|undo| {
            (
                undo.slot,
                undo.checks.iter().map(|check| (check.key, check.hits)).collect(),
            )
        })
        .collect();
    let back: Vec<(&[u8], Hits)> = vec![(b"{a}whole", Hits::Undo(2, at(START)))];
    assert_eq!(undone, [(slot_of(b"a"), back)]);
}

#[test]
fn quotas_of_several_slots_refuse_only_when_all_of_them_are_spent() {
    let (open, spent) = (
        limit(Algorithm::FixedWindow, 3, Unit::Minute),
        limit(Algorithm::FixedWindow, 0, Unit::Minute),
    );
    let quota = |key, limit| Check {
        key,
        limit,
        hits: Hits::take(1),
        binding: Binding::WithAllQuotas,
        charge: Charge::AllOrNothing,
        on_store_failure: OnStoreFailure::Local,
    };
    let free = Check {
        binding: Binding::Always,
        ..quota(b"{c}free", &open)
    };
    for (second, refused) in [(&open, false), (&spent, true)] {
        let checks = [quota(b"{a}", &spent), quota(b"{b}", second), free];
        let group = Group {
            checks: &checks,
            longest_wait: Micros::ZERO,
            compat: false,
        };
        let mut kept = Kept::default();
        let settled = ask_apart(&mut kept, &group, |_| at(START), Micros::ZERO);
        assert_eq!(settled.refused, refused);
        assert_eq!(kept.states.contains_key(&b"{c}free"[..]), !refused);
    }
}

#[test]
fn counters_that_cannot_be_read_are_counted_once() {
    let limit = limit(Algorithm::SlidingWindow, 3, Unit::Minute);
    let counters = ["{a}", "{b}", "{c}"].map(|key| Counter {
        key: key.into(),
        limit: limit.clone(),
        charge: Charge::AllOrNothing,
    });
    let checks = counters.each_ref().map(Counter::look);
    let group = Group {
        checks: &checks,
        longest_wait: Micros::ZERO,
        compat: false,
    };
    let mut kept = kept(&counters, &[true, false, true]);
    let settled = ask_apart(&mut kept, &group, |_| at(START), Micros::ZERO);
    assert_eq!(settled.unreadable, 2);
}

/// Three parts, of which the first has room, the second none, and the third quotas.
fn of_three(binding: Binding, failed: usize) -> (Option<Decisions>, Vec<u16>) {
    let three = limit(Algorithm::FixedWindow, 3, Unit::Minute);
    let none = limit(Algorithm::FixedWindow, 0, Unit::Minute);
    let check = |key, limit, binding| Check {
        key,
        limit,
        hits: Hits::Take(1),
        binding,
        charge: Charge::AllOrNothing,
        on_store_failure: OnStoreFailure::Local,
    };
    let checks = [
        check(b"{a}room", &three, Binding::Always),
        check(b"{b}none", &none, binding),
        check(b"{c}room", &three, Binding::Always),
    ];
    let group = Group {
        checks: &checks,
        longest_wait: Micros::ZERO,
        compat: false,
    };
    let parts = of(&group);
    let reply = |place| (place != failed).then(|| Reply::nothing(at(START)));
    let mut replies: Vec<_> = (0..parts.len()).map(reply).collect();
    let Settled { decisions, undone } = settle(&group, &parts, &mut replies);
    (decisions, undone.iter().map(|undo| undo.slot).collect())
}

#[test]
fn one_that_refuses_speaks_for_a_group_of_which_another_failed() {
    let (decisions, undone) = of_three(Binding::Always, 2);
    let decisions = decisions.expect("it is refused, whatever the third would say");
    assert!(decisions.refused);
    assert_eq!(decisions.checks[2], Decision::NOT_ASKED);
    assert_eq!(undone, [slot_of(b"{a}room")]);
}

#[test]
fn what_others_took_is_taken_back_where_one_failed_that_might_have_refused() {
    for binding in [Binding::Always, Binding::Never, Binding::WithAllQuotas] {
        let (decisions, undone) = of_three(binding, 1);
        assert_eq!(decisions, None, "{binding:?}");
        assert_eq!(undone, [slot_of(b"{a}room"), slot_of(b"{c}room")], "{binding:?}");
    }
    // Quotas that are spent refuse only all together, and the third might have one.
    let (decisions, undone) = of_three(Binding::WithAllQuotas, 2);
    assert_eq!(decisions, None);
    assert_eq!(undone, [slot_of(b"{a}room")]);
}

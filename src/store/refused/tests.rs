use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use super::fixtures::{AT_ONCE, Instance, ONE, agrees, check, edited, group, limit, memory, millis, wall};
use super::refusals::{LONGEST_WITH_GIVE_BACKS, SHARDS};
use super::shard::{SETS, WAYS};
use super::*;
use crate::domain::check::{Binding, Charge, Check};
use crate::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use crate::domain::quantity::Hits;
use crate::domain::verdict::{Decision, Reason, Verdict};

#[test]
fn what_is_refused_costs_the_store_one_call_for_each_hit_that_is_admitted() {
    for algorithm in AT_ONCE {
        let instance = Instance::over(memory());
        let limit = limit(algorithm, 10);
        let mut admitted = 0;
        // A hundred times what is granted, for half an hour.
        for call in 0..30_000 {
            let decision = instance.one(check(b"abuser", &limit, ONE), millis(60 * call));
            admitted += u64::from(decision.verdict == Verdict::UnderLimit);
        }
        assert!((270..=310).contains(&admitted), "{algorithm:?}: {admitted}");
        let asked = 30_000 - instance.answered();
        assert_eq!(asked, admitted, "{algorithm:?}");
    }
}

#[test]
fn a_larger_call_is_refused_with_a_wait_of_its_own() {
    for (algorithm, from_memory) in [
        (Algorithm::TokenBucket, 3),
        (Algorithm::FixedWindow, 3),
        (Algorithm::SlidingWindow, 1),
        (Algorithm::SlidingLog, 1),
    ] {
        let (plain, instance) = (memory(), Instance::over(memory()));
        let limit = limit(algorithm, 10);
        for hits in [Hits::Take(10), ONE, Hits::Take(4), Hits::Look(7)] {
            let check = check(b"client", &limit, hits);
            let expected = plain.decide_now(&group(&[check]), wall(millis(5))).checks[0];
            assert_eq!(
                agrees(instance.one(check, millis(5)), expected),
                Ok(()),
                "{check:?}"
            );
        }
        assert_eq!(instance.answered(), from_memory, "{algorithm:?}");
    }
}

#[test]
fn a_call_that_cannot_wait_is_told_the_same_of_a_limit_that_delays() {
    let (plain, instance) = (memory(), Instance::over(memory()));
    let queue = edited(Algorithm::LeakyBucket, 10, |spec| {
        spec.delay = Micros::from_secs(3);
    });
    let check = check(b"client", &queue, ONE);
    let (admitted, next_comes, empty) = (1, 3_001, 6_001);
    for (moment, answered) in [
        (admitted, 0),
        (2, 1),
        (3_000, 2),
        // From now on one would fit that can wait, and what more would is another question.
        (next_comes, 2),
        (3_002, 3),
        (6_000, 4),
        (empty, 4),
        (6_002, 5),
    ] {
        let expected = plain.decide_now(&group(&[check]), wall(millis(moment))).checks[0];
        let decision = instance.one(check, millis(moment));
        assert_eq!(agrees(decision, expected), Ok(()), "{decision:?}, {expected:?}");
        assert_eq!(instance.answered(), answered, "at {moment} ms");
    }
}

#[test]
fn more_than_a_limit_ever_holds_is_told_so() {
    let instance = Instance::over(memory());
    let limit = limit(Algorithm::TokenBucket, 5);
    instance.one(check(b"client", &limit, Hits::Take(5)), millis(1));
    let decision = instance.one(check(b"client", &limit, Hits::Take(6)), millis(2));
    assert_eq!(
        (decision.reason, decision.retry_after),
        (Reason::TooManyHits, None)
    );
}

#[test]
fn what_was_not_looked_at_says_so() {
    let instance = Instance::over(memory());
    let (small, large) = (
        limit(Algorithm::TokenBucket, 1),
        limit(Algorithm::TokenBucket, 10),
    );
    let user = check(b"user", &small, ONE);
    instance.one(user, millis(1));
    let refused = instance.decide(&group(&[check(b"site", &large, ONE), user]), millis(2));
    assert!(refused.refused && refused.degraded.is_none());
    assert_eq!(refused.checks[0], Decision::NOT_ASKED);
    assert_eq!(refused.checks[1].retry_after, Some(millis(59_999)));
    assert_eq!(instance.answered(), 1);
    // Nothing was taken there, and what is refused is not asked about twice.
    assert_eq!(instance.one(check(b"site", &large, ONE), millis(2)).remaining, 9);
}

#[test]
fn an_edit_of_any_number_is_decided_by_the_store() {
    let bucket = |edit: fn(&mut LimitSpec)| edited(Algorithm::TokenBucket, 10, edit);
    let weekly = |calendar| {
        edited(Algorithm::FixedWindow, 10, |spec| {
            spec.period = Period::one(Unit::Week);
            spec.calendar = calendar;
        })
    };
    let answered = |spent: &Limit, edit: &Limit| {
        let instance = Instance::over(memory());
        instance.one(check(b"client", spent, Hits::Take(10)), millis(1));
        instance.one(check(b"client", edit, ONE), millis(2));
        instance.answered()
    };
    let spent = bucket(|_| {});
    let edits = [
        bucket(|spec| spec.count = 11),
        bucket(|spec| spec.burst = Some(11)),
        bucket(|spec| spec.delay = Micros::from_secs(6)),
        bucket(|spec| spec.period.multiplier = 2),
        edited(Algorithm::LeakyBucket, 10, |_| {}),
        edited(Algorithm::FixedWindow, 10, |_| {}),
    ];
    for edit in &edits {
        assert_eq!(answered(&spent, edit), 0, "{edit:?}");
    }
    assert_eq!(
        answered(&weekly(true), &weekly(false)),
        0,
        "from Monday or Thursday"
    );
    assert_eq!(
        answered(&spent, &bucket(|spec| spec.named = false)),
        1,
        "what it is called does not matter"
    );
}

#[test]
fn an_upgrade_is_admitted_at_once_and_so_is_what_it_drains_for_the_plan_before() {
    let instance = Instance::over(memory());
    let (free, pro) = (
        limit(Algorithm::TokenBucket, 10),
        limit(Algorithm::TokenBucket, 600),
    );
    let ask = |limit, now| instance.one(check(b"client", limit, ONE), now).verdict;
    instance.one(check(b"client", &free, Hits::Take(10)), millis(1));
    assert_eq!(ask(&free, millis(2)), Verdict::OverLimit);
    assert_eq!(ask(&pro, millis(2_000)), Verdict::UnderLimit);
    assert_eq!(ask(&free, millis(2_000)), Verdict::UnderLimit);
}

#[test]
fn groups_that_charge_what_they_refuse_and_checks_that_refuse_nobody_are_left_to_the_store() {
    let limit = limit(Algorithm::TokenBucket, 1);
    let ordinary = check(b"client", &limit, ONE);
    let others = [
        Check {
            charge: Charge::Each,
            ..check(b"other", &limit, ONE)
        },
        Check {
            charge: Charge::Always,
            ..check(b"other", &limit, ONE)
        },
        check(b"other", &limit, Hits::GiveBack(1)),
    ];
    for other in others {
        let instance = Instance::over(memory());
        instance.one(ordinary, millis(1));
        let refused = instance.decide(&group(&[other, ordinary]), millis(2));
        assert!(
            refused.refused && refused.checks[0] != Decision::NOT_ASKED,
            "{other:?}"
        );
        assert_eq!(instance.answered(), 0);
    }
    for binding in [Binding::Never, Binding::WithAllQuotas] {
        let instance = Instance::over(memory());
        let soft = Check { binding, ..ordinary };
        for moment in 1..5 {
            instance.one(soft, millis(moment));
        }
        assert_eq!(instance.answered(), 0, "{binding:?} is not remembered");
        instance.one(ordinary, millis(5));
        instance.one(soft, millis(6));
        assert_eq!(instance.answered(), 0, "{binding:?} does not refuse");
        instance.one(ordinary, millis(7));
        assert_eq!(instance.answered(), 1);
    }
    let instance = Instance::over(memory());
    let checks = [ordinary];
    let compat = Group {
        compat: true,
        ..group(&checks)
    };
    instance.decide(&compat, millis(1));
    instance.one(ordinary, millis(2));
    assert_eq!(instance.answered(), 0, "compat is not remembered");
    instance.decide(&compat, millis(3));
    assert_eq!(instance.answered(), 0, "compat is not refused");
}

#[test]
fn hits_given_back_here_count_at_once() {
    let instance = Instance::over(memory());
    let limit = limit(Algorithm::SlidingWindow, 2);
    let ask = |hits, now| instance.one(check(b"client", &limit, hits), now).verdict;
    ask(Hits::Take(2), millis(1));
    assert_eq!(ask(ONE, millis(2)), Verdict::OverLimit);
    assert_eq!(instance.answered(), 1);
    ask(Hits::GiveBack(1), millis(3));
    assert_eq!(ask(ONE, millis(4)), Verdict::UnderLimit);
    assert_eq!(ask(ONE, millis(5)), Verdict::OverLimit);
}

#[test]
fn a_rule_that_sees_give_backs_is_refused_from_memory_for_a_second() {
    let shared = memory();
    let (here, elsewhere) = (Instance::over(shared.clone()), Instance::over(shared));
    let limit = limit(Algorithm::SlidingWindow, 2);
    let key = |client: &str| format!("test:1:{{4:edge6:client1:{client}}}5:limitw60").into_bytes();
    let (ana, ben) = (key("a"), key("b"));
    let ask = |instance: &Instance<_>, hits, now| instance.one(check(&ana, &limit, hits), now).verdict;
    ask(&here, Hits::Take(2), millis(1));
    // Of nobody it was heard that hits are given back, so it is believed for as long as it is true.
    ask(&elsewhere, Hits::GiveBack(2), millis(10));
    assert_eq!(ask(&here, ONE, millis(30_000)), Verdict::OverLimit);
    // Somebody else of the rule gives back: what was remembered of it goes, too.
    here.refused.refusals.give_back_seen_at(&ben, millis(30_001));
    assert_eq!(ask(&here, ONE, millis(30_002)), Verdict::UnderLimit);
    assert_eq!(ask(&here, ONE, millis(30_003)), Verdict::UnderLimit);
    ask(&elsewhere, Hits::GiveBack(2), millis(30_004));
    let held = millis(30_003).saturating_add(LONGEST_WITH_GIVE_BACKS);
    let before = here.answered();
    let last = here.one(check(&ana, &limit, ONE), held.saturating_sub(Micros::new(1)));
    assert_eq!(last.verdict, Verdict::OverLimit);
    // It is held for a second, but what it says is still the whole truth.
    assert!(last.retry_after > Some(Micros::from_secs(20)), "{last:?}");
    assert_eq!(ask(&here, ONE, held), Verdict::UnderLimit);
    assert_eq!(here.answered(), before + 1);
    // Every further word of it counts, too.
    assert_eq!(ask(&here, ONE, held), Verdict::UnderLimit);
    ask(&elsewhere, Hits::GiveBack(1), held);
    here.refused.refusals.give_back_seen_at(&ana, held);
    let later = held.saturating_add(millis(1));
    assert_eq!(ask(&here, ONE, later), Verdict::UnderLimit);
    // Another rule is held as before.
    let other = b"test:1:{4:edge6:client1:a}5:otherw60";
    here.one(check(other, &limit, Hits::Take(2)), millis(40_000));
    here.one(check(other, &limit, ONE), millis(49_000));
    assert_eq!(here.answered(), before + 2);
}

#[test]
fn what_is_told_from_outside_counts_by_the_clock_of_its_own() {
    let refusals = Refusals::new();
    let limit = limit(Algorithm::SlidingWindow, 1);
    let checks = [check(b"client", &limit, ONE)];
    let group = group(&checks);
    for tell in [
        Refusals::forget,
        Refusals::give_back_seen,
        Refusals::give_back_seen,
    ] {
        let before = refusals.now();
        while refusals.now() == before {}
        let sent = refusals.now();
        refusals.learn(&group, &spent(3600), sent, sent, false);
        assert!(matches!(refusals.ask(&group, sent), Known::Refused(_)));
        tell(&refusals, b"client");
        assert!(matches!(refusals.ask(&group, sent), Known::Open { .. }));
        refusals.learn(&group, &spent(3600), sent, sent, false);
        assert!(matches!(refusals.ask(&group, sent), Known::Open { .. }));
    }
}

#[test]
fn no_refusal_by_a_cluster_is_held_for_longer_than_a_second() {
    let refusals = Refusals::of_cluster();
    let limit = limit(Algorithm::SlidingWindow, 1);
    let checks = [check(b"client", &limit, ONE)];
    let group = group(&checks);
    refusals.learn(&group, &spent(60), millis(1), millis(2), false);
    assert!(matches!(refusals.ask(&group, millis(1_000)), Known::Refused(_)));
    assert!(matches!(refusals.ask(&group, millis(1_001)), Known::Open { .. }));
}

#[test]
fn a_refusal_on_its_way_is_not_remembered_once_hits_were_given_back() {
    let refusals = Refusals::new();
    let limit = limit(Algorithm::SlidingWindow, 1);
    let checks = [check(b"client", &limit, ONE)];
    let group = group(&checks);
    let store = memory();
    store.decide_now(&group, wall(millis(0)));
    let refused = store.decide_now(&group, wall(millis(1)));
    let is_known = |now| matches!(refusals.ask(&group, now), Known::Refused(_));
    refusals.give_back_seen_at(b"client", millis(3));
    refusals.learn(&group, &refused, millis(2), millis(4), false);
    assert!(
        !is_known(millis(5)),
        "the first give-back that is seen of the rule"
    );
    refusals.forget_at(b"client", millis(6));
    refusals.learn(&group, &refused, millis(6), millis(7), false);
    assert!(!is_known(millis(8)), "any further one");
    refusals.learn(&group, &refused, millis(9), millis(10), false);
    assert!(is_known(millis(11)));
}

/// Answers with what it is told to, and not until then.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Option<Result<Decisions, StoreError>>>>);

impl Fake {
    fn will(&self, answer: Option<Result<Decisions, StoreError>>) {
        *self.0.lock() = answer;
    }
}

impl Store for Fake {
    async fn decide(&self, _: &Group<'_>, _: Timestamp, _: Instant) -> Result<Decisions, StoreError> {
        poll_fn(|_| match &*self.0.lock() {
            Some(answer) => Poll::Ready(answer.clone()),
            None => Poll::Pending,
        })
        .await
    }
}

fn spent(seconds: u64) -> Decisions {
    let wait = Micros::from_secs(seconds);
    let decision = Decision {
        verdict: Verdict::OverLimit,
        reason: Reason::Spent,
        retry_after: Some(wait),
        next_after: Some(wait),
        reset_after: wait,
        ..Decision::NOT_ASKED
    };
    Decisions {
        checks: [decision].into_iter().collect(),
        refused: true,
        ..Decisions::default()
    }
}

#[test]
fn a_give_back_whose_outcome_nobody_knows_counts_as_one() {
    let limit = limit(Algorithm::SlidingWindow, 1);
    let (one, back) = (
        [check(b"client", &limit, ONE)],
        [check(b"client", &limit, Hits::GiveBack(1))],
    );
    let timeout = StoreError::Timeout {
        budget: Duration::ZERO,
    };
    for ends_with in [Some(Err(timeout)), Some(Ok(Decisions::default())), None] {
        let store = Fake::default();
        let instance = Instance::over(store.clone());
        let refuse = |moment| {
            store.will(Some(Ok(spent(60))));
            instance.decide(&group(&one), millis(moment));
            instance.answered()
        };
        assert_eq!((refuse(1), refuse(2)), (0, 1));
        let (back, moment) = (group(&back), AtomicU64::new(3));
        let clock = || millis(moment.load(Ordering::Relaxed));
        {
            let call = instance
                .refused
                .decide_by(clock, &back, wall(millis(3)), Instant::now());
            let mut call = pin!(call);
            store.will(None);
            let mut poll = || call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll().is_pending());
            // The store may decide this before the give-back arrives.
            assert_eq!((refuse(4), refuse(5)), (1, 2));
            moment.store(6, Ordering::Relaxed);
            store.will(ends_with.clone());
            assert_eq!(poll().is_ready(), ends_with.is_some());
        }
        assert_eq!(refuse(7), 2, "it went to the store: {ends_with:?}");
    }
}

#[test]
fn a_decision_without_the_shared_store_is_not_remembered_and_what_was_before_is_answered() {
    let store = Fake::default();
    let instance = Instance::over(store.clone());
    let limit = limit(Algorithm::SlidingWindow, 1);
    let checks = [check(b"client", &limit, ONE)];
    let group = group(&checks);
    store.will(Some(Ok(Decisions {
        degraded: Some("timeout"),
        ..spent(60)
    })));
    for moment in 0..5 {
        assert!(instance.decide(&group, millis(moment)).degraded.is_some());
    }
    assert_eq!(instance.answered(), 0);
    store.will(Some(Ok(spent(60))));
    instance.decide(&group, millis(10));
    let error = StoreError::Timeout {
        budget: Duration::ZERO,
    };
    store.will(Some(Err(error.clone())));
    assert!(instance.decide(&group, millis(59_000)).refused);
    assert_eq!(instance.try_decide(&group, millis(60_010)), Err(error));
}

#[test]
fn a_refusal_ends_as_if_it_was_made_when_it_was_asked_for_and_its_wait_as_if_when_it_came() {
    let refusals = Refusals::new();
    let limit = limit(Algorithm::SlidingWindow, 1);
    let checks = [check(b"client", &limit, ONE)];
    let group = group(&checks);
    refusals.learn(&group, &spent(60), millis(10), millis(15), false);
    let known = |now| match refusals.ask(&group, now) {
        Known::Refused(decisions) => decisions.checks[0].retry_after,
        Known::Open { .. } => None,
    };
    assert_eq!(known(millis(15)), Some(millis(60_000)));
    assert_eq!(known(millis(60_009)), Some(millis(6)));
    assert_eq!(known(millis(60_010)), None);
}

#[test]
fn no_more_is_remembered_than_there_is_room_for() {
    const ROOM: usize = SHARDS * SETS * WAYS;
    let refusals = Refusals::new();
    let limit = limit(Algorithm::SlidingWindow, 1);
    let learn = |client: usize, seconds, now| {
        let key = format!("test:1:{{4:edge6:client{client}}}5:limitw60").into_bytes();
        let checks = [check(&key, &limit, ONE)];
        refusals.learn(&group(&checks), &spent(seconds), now, now, false);
        matches!(refusals.ask(&group(&checks), now), Known::Refused(_))
    };
    for client in 0..2 * ROOM {
        assert!(learn(client, 60, millis(1)), "the newest is always remembered");
    }
    let held = refusals.count(millis(1));
    assert!(held <= ROOM && held > ROOM * 9 / 10, "{held} of {ROOM}");
    // Those that are over make room before any other.
    let over = millis(60_001);
    assert_eq!(refusals.count(over), 0);
    for client in 0..ROOM / 4 {
        learn(client, 60, over);
    }
    let held = refusals.count(over);
    assert!(held > ROOM / 4 * 99 / 100, "{held} of {}", ROOM / 4);
}

//! Histories that keep the promises, and such that do not.

use super::*;
use crate::history::record::Span;
use crate::history::rules::Question;
use crate::redis_faults::load::Outcome;

/// Three instances, and nothing yet.
fn history() -> History {
    History {
        instances: 3,
        epoch: [100_000, 100_004].map(|milli| Timestamp::from_micros(milli * 1_000)),
        ..History::default()
    }
}

fn question(whose: &str, key: &str) -> &'static Question {
    let about = |question: &&Question| question.whose == whose && question.of[0] == key;
    QUESTIONS.iter().find(about).expect("a question")
}

impl History {
    /// With so many calls of a greedy caller that are admitted within a millisecond.
    fn admits(mut self, count: usize, key: &str, instance: usize, degraded: bool, millis: u64) -> Self {
        let call = Call {
            instance,
            connection: 0,
            question: question("greedy", key),
            due: Micros::new(1_000 * millis),
            sent: Micros::new(1_000 * millis),
            answered: Micros::new(1_000 * millis + 999),
            outcome: Outcome::Answered {
                admitted: true,
                degraded,
            },
        };
        self.calls.extend(std::iter::repeat_n(call, count));
        self
    }

    fn loses(mut self, from: u64, to: u64) -> Self {
        self.losses.push(Span {
            from: Micros::new(1_000 * from),
            to: Micros::new(1_000 * to),
        });
        self
    }

    /// The modes whose promises are broken.
    fn broken(&self) -> Vec<Mode> {
        let kept = kept(self);
        assert!(!kept.is_empty(), "nothing is looked at");
        let broken = kept.iter().filter(|kept| kept.admitted.room() < 0);
        broken.map(|kept| kept.mode).collect()
    }
}

#[test]
fn all_instances_together_have_one_budget_in_redis() {
    for rule in &RULES {
        let count = rule.count as usize;
        let kept = history()
            .admits(count - 2, rule.key, 0, false, 0)
            .admits(1, rule.key, 1, false, 5)
            .admits(1, rule.key, 2, false, 5);
        assert_eq!(kept.broken(), [], "{rule:?}");
        // A fixed window may have begun afresh in between.
        let windows = if rule.algorithm.name() == "fixed_window" {
            2
        } else {
            1
        };
        let broken = kept.admits((windows - 1) * count + 1, rule.key, 1, false, 10);
        let both = [Mode::Exact, Mode::Whole];
        assert_eq!(
            broken.broken(),
            both[..1 + usize::from(rule.is_slow())],
            "{rule:?}"
        );
    }
}

#[test]
fn what_comes_back_comes_back_at_the_rate() {
    let spent = || history().admits(9, "bucket", 0, false, 0);
    assert_eq!(spent().admits(9, "bucket", 0, false, 1_000).broken(), []);
    assert_eq!(spent().admits(5, "bucket", 0, false, 498).broken(), [Mode::Exact]);
    let spent = || history().admits(18, "log", 0, false, 0);
    assert_eq!(spent().admits(18, "log", 0, false, 2_000).broken(), []);
    assert_eq!(spent().admits(1, "log", 0, false, 1_990).broken(), [Mode::Exact]);
}

#[test]
fn a_fixed_window_begins_afresh_at_its_edge() {
    let spent = |millis| history().admits(18, "fixed", 0, false, millis);
    for (after, broken) in [
        (1_900, &[Mode::Exact][..]),
        // On either side of the edge, for all that is known.
        (1_997, &[]),
        (2_005, &[]),
    ] {
        assert_eq!(
            spent(10).admits(18, "fixed", 0, false, after).broken(),
            broken,
            "{after}"
        );
    }
    let twice = || spent(1_900).admits(18, "fixed", 0, false, 2_100);
    assert_eq!(twice().broken(), []);
    assert_eq!(
        twice().admits(1, "fixed", 0, false, 2_200).broken(),
        [Mode::Exact]
    );
    assert_eq!(
        twice().admits(1, "fixed", 0, false, 1_998).broken(),
        [Mode::Exact]
    );
    assert_eq!(twice().admits(18, "fixed", 0, false, 4_100).broken(), []);
}

#[test]
fn a_loss_is_worth_a_budget_to_intervals_that_meet_it() {
    let twice = || {
        history()
            .admits(60, "log-a-year", 0, false, 0)
            .admits(60, "log-a-year", 1, false, 100)
    };
    assert_eq!(twice().broken(), [Mode::Exact, Mode::Whole]);
    assert_eq!(twice().loses(50, 90).broken(), []);
    assert_eq!(twice().loses(200, 300).broken(), [Mode::Exact, Mode::Whole]);
    let again = twice().loses(50, 90).admits(1, "log-a-year", 2, false, 150);
    assert_eq!(again.broken(), [Mode::Exact, Mode::Whole]);
}

#[test]
fn an_instance_by_itself_has_its_share() {
    let shares = |of: [usize; 3]| {
        let all = of.into_iter().zip(0..);
        all.fold(history(), |history, (count, instance)| {
            history.admits(count, "window-a-year", instance, true, 0)
        })
    };
    assert_eq!(shares([20, 20, 20]).broken(), []);
    assert_eq!(shares([21, 20, 19]).broken(), [Mode::Degraded]);
    assert_eq!(shares([0, 0, 61]).broken(), [Mode::Degraded]);
    // The one budget in Redis is there as well.
    let with_redis = |count| shares([20, 20, 20]).admits(count, "window-a-year", 0, false, 50);
    assert_eq!(with_redis(60).broken(), []);
    assert_eq!(with_redis(61).broken(), [Mode::Exact, Mode::Whole]);
}

#[test]
fn failures_within_a_minute_are_one_change() {
    let twice = |later| {
        history()
            .admits(20, "log-a-year", 1, true, 0)
            .admits(20, "log-a-year", 1, true, later)
            .admits(60, "log-a-year", 0, false, later)
    };
    assert_eq!(twice(59_000).broken(), [Mode::Degraded, Mode::Whole]);
    // Two changes; but what an instance gave by itself it never forgets.
    assert_eq!(twice(61_000).broken(), [Mode::Degraded]);
}

#[test]
fn what_is_given_back_may_be_admitted_again() {
    let mut history = history();
    let call = |key: &str, hits: rules::Hits, count| {
        let about = |question: &&Question| question.hits == hits && question.of.contains(&key);
        let call = Call {
            question: QUESTIONS.iter().find(about).expect("a question"),
            ..history.clone().admits(1, "log", 0, false, 0).calls[0].clone()
        };
        std::iter::repeat_n(call, count)
    };
    let takes: Vec<_> = call("fixed", rules::Hits::Take(2), 5).collect();
    let returns: Vec<_> = call("fixed", rules::Hits::GiveBack(1), 1).collect();
    history.calls = takes;
    // Of the bucket and the window, which hold nine.
    assert_eq!(history.broken(), [Mode::Exact; 2]);
    history.calls.extend(returns);
    assert_eq!(history.broken(), []);
}

#[test]
fn a_call_that_is_larger_than_a_share_is_one_call_more() {
    let with = |large, small| {
        let mut history = history();
        for (key, count) in [("bucket", large), ("bucket-a-year", small)] {
            // Seven of the first, three of both.
            let about = |question: &&Question| {
                question.whose == "parts" && question.of.contains(&"bucket-a-year") == (key != "bucket")
            };
            let call = Call {
                question: QUESTIONS.iter().find(about).expect("a question"),
                ..self::history().admits(1, "log", 2, true, 0).calls[0].clone()
            };
            history.calls.extend(std::iter::repeat_n(call, count));
        }
        history.broken()
    };
    assert_eq!(with(1, 0), []);
    assert_eq!(with(1, 1), [Mode::Degraded]);
    assert_eq!(with(0, 1), []);
    assert_eq!(with(0, 2), [Mode::Degraded]);
}

#[test]
fn calls_without_an_answer_admit_nothing() {
    let mut history = history().admits(61, "log-a-year", 0, false, 0);
    history.calls[60].outcome = Outcome::Failed(tonic::Status::deadline_exceeded("too late"));
    assert_eq!(history.broken(), []);
}

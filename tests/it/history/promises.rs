//! Holds a history against what each mode promises. Pure.
//!
//! - *exact*: what Redis decided is within the limit's promise, over any interval and all instances together. A loss of
//!   its memory is a budget more.
//! - *degraded*: what one instance decided without it is within the promise of its share: a bucket, and one call that is
//!   larger than that.
//! - *whole*: both together are within the promise, a budget more for each loss, and the shares of the instances that
//!   changed into degraded mode for each such change. Of limits alone of which next to nothing comes back: while an
//!   instance decides by itself, what comes back comes back to its share and to the counter in Redis.
//!
//! All are net of what was given back.

use std::collections::BTreeMap;
use std::fmt;

use comporta::domain::limit::{Algorithm, Limit};
use comporta::domain::time::{Micros, Timestamp};

use super::interval::{Admitted, Grant, Hits as AdmittedHits, tightest};
use super::record::{Call, History};
use super::rules::{self, QUESTIONS, RULES, Rule};

/// Failures of an instance's store so soon after another are the same change into degraded mode.
const SAME: Micros = Micros::MINUTE;

/// Clocks that are put right run so many times slower or faster than others: by a thousandth.
const DRIFT: u64 = 1_000;

/// What a promise is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    Exact,
    Degraded,
    Whole,
}

/// How near a promise came to its end, or how far beyond.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    pub mode: Mode,
    pub rule: &'static Rule,
    /// Whose counter.
    pub whose: &'static str,
    /// In the interval that had least room.
    pub admitted: Admitted,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mode,
            rule,
            whose,
            admitted,
        } = self;
        let Admitted {
            from,
            to,
            hits,
            promised,
        } = admitted;
        let key = rule.key;
        write!(
            f,
            "{mode:?}: {hits} of {promised} hits of {key}={whose} from {from} to {to}"
        )
    }
}

/// Of each promise to each counter, how well it was kept; those with nothing admitted are left out.
pub fn kept(history: &History) -> Vec<Kept> {
    let mut kept = Vec::new();
    for rule in &RULES {
        let mut whose: Vec<_> = QUESTIONS
            .iter()
            .filter(|question| question.of.contains(&rule.key))
            .collect();
        whose.sort_unstable_by_key(|question| question.whose);
        whose.dedup_by_key(|question| question.whose);
        for question in whose {
            let counter = Counter::new(history, rule, question.whose);
            let modes = [
                (Mode::Exact, counter.exact()),
                (Mode::Degraded, counter.degraded()),
                (Mode::Whole, counter.whole()),
            ];
            kept.extend(modes.into_iter().filter_map(|(mode, admitted)| {
                Some(Kept {
                    mode,
                    rule,
                    whose: question.whose,
                    admitted: admitted?,
                })
            }));
        }
    }
    kept
}

/// What a history says of one counter.
struct Counter<'h> {
    history: &'h History,
    rule: &'static Rule,
    limit: Limit,
    admitted: Vec<(&'h Call, AdmittedHits)>,
    returned: Vec<Grant>,
}

impl<'h> Counter<'h> {
    fn new(history: &'h History, rule: &'static Rule, whose: &str) -> Self {
        let mut counter = Self {
            history,
            rule,
            limit: rule.limit(),
            admitted: Vec::new(),
            returned: Vec::new(),
        };
        let about = |call: &&Call| call.question.whose == whose && call.question.of.contains(&rule.key);
        for call in history.calls.iter().filter(about) {
            match call.question.hits {
                // Whether it was answered or not, it may have been heard.
                rules::Hits::GiveBack(hits) => counter.returned.push(Grant {
                    from: call.sent,
                    to: call.answered,
                    hits: u64::from(hits),
                }),
                rules::Hits::Take(hits) if call.is_admitted() => {
                    let hits = AdmittedHits {
                        sent: call.sent,
                        answered: call.answered,
                        count: u64::from(hits),
                    };
                    counter.admitted.push((call, hits));
                }
                rules::Hits::Take(_) => {}
            }
        }
        counter
    }

    fn exact(&self) -> Option<Admitted> {
        let grants = [&self.losses()[..], &self.returned].concat();
        self.by_the_limit(&self.admitted(Call::is_decided), &grants)
    }

    fn degraded(&self) -> Option<Admitted> {
        let share = self.limit.share_of(self.history.instances);
        let of = |instance: usize| {
            let admitted = self.admitted(|call| call.instance == instance && call.is_degraded());
            let largest = admitted.iter().map(|call| call.count).max()?;
            let at_once = largest.max(u64::from(share.capacity()));
            tightest(&admitted, &self.returned, |span| {
                at_once + share.rate().drained_in(longest(span)).whole
            })
        };
        (0..self.history.instances as usize)
            .filter_map(of)
            .min_by_key(Admitted::room)
    }

    fn whole(&self) -> Option<Admitted> {
        if !self.rule.is_slow() {
            return None;
        }
        let grants = [&self.losses()[..], &self.changes(), &self.returned].concat();
        self.by_the_limit(&self.admitted(|_| true), &grants)
    }

    /// By what the limit promises: over any interval and, of a fixed window, from one edge to the next.
    fn by_the_limit(&self, admitted: &[AdmittedHits], grants: &[Grant]) -> Option<Admitted> {
        let anywhere = tightest(admitted, grants, |span| self.limit.most_within(longest(span)));
        let mut windows: BTreeMap<u64, Vec<AdmittedHits>> = BTreeMap::new();
        if self.limit.algorithm() == Algorithm::FixedWindow {
            for hits in admitted {
                if let Some(window) = self.window_of(hits) {
                    windows.entry(window).or_default().push(*hits);
                }
            }
        }
        let in_one =
            |admitted: &Vec<AdmittedHits>| tightest(admitted, grants, |_| u64::from(self.rule.count));
        let in_windows = windows.values().filter_map(in_one);
        in_windows.chain(anywhere).min_by_key(Admitted::room)
    }

    /// Which window they certainly fell into; none near an edge.
    fn window_of(&self, hits: &AdmittedHits) -> Option<u64> {
        let [earliest, latest] = self.history.epoch;
        let window = |epoch: Timestamp, since: u64| {
            epoch.as_micros().strict_add(since) / self.limit.period().length().get()
        };
        let (sent, answered) = (hits.sent.get(), hits.answered.get());
        let first = window(earliest, sent - sent / DRIFT);
        (first == window(latest, answered + answered / DRIFT)).then_some(first)
    }

    fn admitted(&self, which: impl Fn(&Call) -> bool) -> Vec<AdmittedHits> {
        let which = self.admitted.iter().filter(|(call, _)| which(call));
        which.map(|(_, hits)| *hits).collect()
    }

    /// A budget for each time that Redis lost its memory.
    fn losses(&self) -> Vec<Grant> {
        let loss = |span: &super::record::Span| Grant {
            from: span.from,
            to: span.to,
            hits: self.limit.most_at_once(),
        };
        self.history.losses.iter().map(loss).collect()
    }

    /// An instance's share of a budget for each time that it changed into degraded mode, whoever was asked about then.
    fn changes(&self) -> Vec<Grant> {
        let share = u64::from(self.limit.share_of(self.history.instances).capacity());
        let mut changes = Vec::new();
        for instance in 0..self.history.instances as usize {
            let degraded = |call: &&Call| call.instance == instance && call.is_degraded();
            let mut degraded: Vec<&Call> = self.history.calls.iter().filter(degraded).collect();
            degraded.sort_unstable_by_key(|call| call.sent);
            let mut of_instance: Vec<Grant> = Vec::new();
            for call in degraded {
                match of_instance.last_mut() {
                    Some(change) if call.sent.saturating_sub(change.to) < SAME => {
                        change.to = change.to.max(call.answered);
                    }
                    _ => of_instance.push(Grant {
                        from: call.sent,
                        to: call.answered,
                        hits: share,
                    }),
                }
            }
            changes.extend(of_instance);
        }
        changes
    }
}

/// How long an interval may have been by another clock, its end included.
fn longest(span: Micros) -> Micros {
    Micros::new(span.get() + span.get() / DRIFT + 1)
}

#[cfg(test)]
mod tests {
    use super::super::record::{Outcome, Span};
    use super::super::rules::Question;
    use super::*;

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
        history.calls[60].outcome = Outcome::Failed("too late".to_owned());
        assert_eq!(history.broken(), []);
    }
}

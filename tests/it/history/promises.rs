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

#[cfg(test)]
mod tests;

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

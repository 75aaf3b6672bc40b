//! How a descriptor finds its rule, told level by level: for explaining, not for deciding.

use std::borrow::Cow;

use crate::domain::descriptor::Entry;

use super::leads::{Lead, Level, Levels};
use super::matcher::Tree;
use super::normalize;
use super::secret::SECRET;
use super::{Found, Policy};

/// The way of a descriptor through a domain's tree.
#[derive(Debug)]
pub struct Trace<'p, 'd> {
    /// The levels it went down, one an entry.
    pub steps: Vec<Step<'d>>,
    /// Where that ended.
    pub end: End<'p, 'd>,
}

/// One entry that led one level down.
#[derive(Debug)]
pub struct Step<'d> {
    /// Its key.
    pub key: &'d [u8],
    /// Its value as it was sent.
    pub sent: &'d [u8],
    /// Its value as it was matched: normalised.
    pub read: Cow<'d, [u8]>,
    /// What led it on; of networks only the one it is in.
    pub lead: Lead,
    /// What it is to the counter.
    pub counts: Counts<'d>,
}

/// What an entry is to the counter of the rule that it helped to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counts<'d> {
    /// A part of its key, by this value.
    As(Cow<'d, [u8]>),
    /// No part of it: it names the row of a table of plans.
    NamesThePlan,
    /// No part of it.
    NotAtAll,
}

/// Where the way of a descriptor ended.
#[derive(Debug)]
pub enum End<'p, 'd> {
    /// At a rule.
    Rule(Box<Found<'p, 'd>>),
    /// At a node without a limit, with no entry left.
    NoLimit {
        /// What would have led on.
        onward: Vec<Level>,
    },
    /// Above the entry behind the last step: it led nowhere.
    Stopped {
        /// What would have led on.
        onward: Vec<Level>,
    },
}

impl Policy {
    /// As [`find`](Self::find), with everything on the way.
    pub fn trace<'d>(&self, entries: &[Entry<'d>]) -> Trace<'_, 'd> {
        let levels = Levels::new(&self.tree);
        let mut at = Tree::ROOT;
        let mut steps = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some((next, value)) = self.tree.step(at, entry) else {
                break;
            };
            let read = self.tree.read(at, entry);
            let lead = match levels.level(next).lead {
                Lead::Networks(all) => {
                    let network = self.tree.network(at, entry.key, &read);
                    Lead::Networks(network.map_or(all, |network| vec![normalize::shown(network)]))
                }
                lead => lead,
            };
            steps.push(if self.is_secret(entry.key) {
                Step {
                    key: entry.key,
                    sent: SECRET.as_bytes(),
                    read: Cow::Borrowed(SECRET.as_bytes()),
                    lead: lead.hidden(),
                    counts: Counts::As(Cow::Borrowed(SECRET.as_bytes())),
                }
            } else {
                Step {
                    key: entry.key,
                    sent: entry.value,
                    read,
                    lead,
                    counts: Counts::As(value),
                }
            });
            at = next;
        }
        let onward = || {
            let below = self.tree.nodes().filter(|node| self.tree.parent(*node) == at);
            below.map(|node| self.shown(levels.level(node))).collect()
        };
        let end = match self.find(entries) {
            _ if steps.len() < entries.len() => End::Stopped { onward: onward() },
            None => End::NoLimit { onward: onward() },
            Some(found) => {
                for (entry, step) in steps.iter_mut().enumerate() {
                    if found.rule.budget.plan_entry() == Some(entry) {
                        step.counts = Counts::NamesThePlan;
                    } else if found.rule.uncounted >> entry & 1 == 1 {
                        step.counts = Counts::NotAtAll;
                    }
                }
                End::Rule(Box::new(found))
            }
        };
        Trace { steps, end }
    }

    /// `level` as it may be shown: of a secret key, none of the values that the policy has.
    pub(super) fn shown(&self, level: Level) -> Level {
        if self.is_secret(&level.key) {
            Level {
                lead: level.lead.hidden(),
                ..level
            }
        } else {
            level
        }
    }
}

//! The rules that a descriptor misses by little, and by what.

use crate::domain::descriptor::Entry;

use super::leads::{Level, Levels};
use super::matcher::NodeId;
use super::spelling;
use super::{Policy, Rule};

/// A rule that a descriptor does not reach.
#[derive(Debug)]
pub struct Near<'p> {
    /// The rule.
    pub rule: &'p Rule,
    /// The levels that lead to it.
    pub levels: Vec<Level>,
    /// What keeps the descriptor from it, in the order of the levels.
    pub differences: Vec<Difference>,
}

/// One thing about a descriptor that keeps it from a rule. Entries and levels are told by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The entries are all there, in another order.
    Order,
    /// No entry is there for this level.
    Missing(usize),
    /// This entry is one too many.
    Extra(usize),
    /// The entry's key is spelt differently.
    Key {
        /// The entry.
        entry: usize,
        /// The level it was probably meant for.
        level: usize,
    },
    /// The entry's value does not lead there.
    Value {
        /// The entry.
        entry: usize,
        /// The level of its key.
        level: usize,
    },
    /// The entry's value would lead there, but leads to a more exact node, from which there is no way back.
    Hidden {
        /// The entry.
        entry: usize,
        /// The level that it would lead to.
        level: usize,
    },
}

impl Difference {
    /// How far apart it sets a descriptor and a rule.
    const fn cost(self) -> usize {
        match self {
            Self::Order | Self::Hidden { .. } => 1,
            Self::Key { .. } | Self::Value { .. } => 2,
            Self::Missing(_) | Self::Extra(_) => 3,
        }
    }
}

/// Rules further away than the nearest by more than this are of no help.
const SLACK: usize = 2;

impl Policy {
    /// The rules nearest to `entries`, which reach none; at most so many, the nearest first.
    pub fn nearest(&self, entries: &[Entry<'_>], most: usize) -> Vec<Near<'_>> {
        let levels = Levels::new(&self.tree);
        let mut near = Vec::new();
        for node in self.tree.nodes() {
            let Some(rule) = self.tree.rule(node) else {
                continue;
            };
            let comparison = Comparison {
                policy: self,
                entries,
                way: levels.way_to(node),
                levels: &levels,
            };
            if let Some(differences) = comparison.differences() {
                let cost: usize = differences.iter().map(|difference| difference.cost()).sum();
                let order = (cost, comparison.unlike_values(&differences), rule);
                near.push((order, node, differences));
            }
        }
        near.sort_by_key(|(order, ..)| *order);
        let nearest = near.first().map_or(0, |((cost, ..), ..)| *cost);
        near.into_iter()
            .take(most)
            .take_while(|((cost, ..), ..)| *cost <= nearest + SLACK)
            .map(|((_, _, rule), node, differences)| Near {
                rule: &self.rules[rule],
                levels: levels
                    .way_to(node)
                    .into_iter()
                    .map(|node| self.shown(levels.level(node)))
                    .collect(),
                differences,
            })
            .collect()
    }
}

/// A descriptor beside the way to a rule.
struct Comparison<'c> {
    policy: &'c Policy,
    entries: &'c [Entry<'c>],
    way: Vec<NodeId>,
    levels: &'c Levels<'c>,
}

impl Comparison<'_> {
    /// The fewest differences; none at all where the two have nothing in common.
    fn differences(&self) -> Option<Vec<Difference>> {
        if self.is_reordered() {
            return Some(vec![Difference::Order]);
        }
        self.aligned()
    }

    /// Whether each entry would lead to one of the levels, if only it stood there.
    fn is_reordered(&self) -> bool {
        let mut left: Vec<usize> = (0..self.entries.len()).collect();
        let all_placed = (0..self.way.len()).all(|level| {
            let place = left
                .iter()
                .position(|entry| self.leads(&self.entries[*entry], level));
            place.map(|place| left.remove(place)).is_some()
        });
        let in_order = || {
            (0..self.way.len().min(self.entries.len())).all(|place| self.leads(&self.entries[place], place))
        };
        all_placed && left.is_empty() && !in_order()
    }

    /// Entries and levels side by side in their orders, at the least cost: the shortest way through a table of all
    /// beginnings of the one and all beginnings of the other. Of equals the one whose extra entries stand last.
    fn aligned(&self) -> Option<Vec<Difference>> {
        let (entries, levels) = (self.entries.len(), self.way.len());
        let mut best: Vec<Vec<Alignment>> = vec![vec![Alignment::default(); levels + 1]; entries + 1];
        for entry in 0..=entries {
            for level in 0..=levels {
                let mut candidates = Vec::with_capacity(3);
                if entry > 0 {
                    candidates.push(best[entry - 1][level].with(Difference::Extra(entry - 1)));
                }
                if level > 0 {
                    candidates.push(best[entry][level - 1].with(Difference::Missing(level - 1)));
                }
                if entry > 0
                    && level > 0
                    && let Some(pair) = self.pair(entry - 1, level - 1)
                {
                    candidates.push(best[entry - 1][level - 1].with_pair(&pair));
                }
                if let Some(cheapest) = candidates.into_iter().min_by_key(|candidate| candidate.cost) {
                    best[entry][level] = cheapest;
                }
            }
        }
        let whole = best.pop()?.pop()?;
        (whole.pairs > 0).then_some(whole.differences)
    }

    /// The differences between an entry and a level; none at all where they have nothing to do with each other.
    fn pair(&self, entry: usize, level: usize) -> Option<Vec<Difference>> {
        let sent = &self.entries[entry];
        let key = self.policy.tree.key(self.way[level]);
        if sent.key == key {
            return Some(self.value_difference(sent, entry, level).into_iter().collect());
        }
        let (written, meant) = (
            std::str::from_utf8(sent.key).ok()?,
            std::str::from_utf8(key).ok()?,
        );
        spelling::nearest(written, [meant])?;
        let respelt = Entry { key, ..*sent };
        let mut differences = vec![Difference::Key { entry, level }];
        differences.extend(self.value_difference(&respelt, entry, level));
        Some(differences)
    }

    fn value_difference(&self, sent: &Entry<'_>, entry: usize, level: usize) -> Option<Difference> {
        if self.leads(sent, level) {
            return None;
        }
        let node = self.way[level];
        let read = self.policy.tree.read(self.policy.tree.parent(node), sent);
        Some(if self.levels.level(node).lead.fits(&read) {
            Difference::Hidden { entry, level }
        } else {
            Difference::Value { entry, level }
        })
    }

    /// How many values differ from the one that the rule has by more than a slip.
    fn unlike_values(&self, differences: &[Difference]) -> usize {
        let is_unlike = |difference: &&Difference| {
            let Difference::Value { entry, level } = **difference else {
                return false;
            };
            let exact = self.policy.tree.value(self.way[level]);
            let words = (
                std::str::from_utf8(self.entries[entry].value),
                exact.map(|exact| std::str::from_utf8(exact)),
            );
            !matches!(words, (Ok(sent), Some(Ok(exact))) if spelling::nearest(sent, [exact]).is_some())
        };
        differences.iter().filter(is_unlike).count()
    }

    /// Whether `entry` leads to this level from the one above it.
    fn leads(&self, entry: &Entry<'_>, level: usize) -> bool {
        let node = self.way[level];
        let next = self.policy.tree.step(self.policy.tree.parent(node), entry);
        next.is_some_and(|(next, _)| next == node)
    }
}

/// Some entries beside some levels.
#[derive(Clone, Default)]
struct Alignment {
    cost: usize,
    /// How many entries stand beside a level.
    pairs: usize,
    differences: Vec<Difference>,
}

impl Alignment {
    fn with(&self, difference: Difference) -> Self {
        let mut next = self.clone();
        next.cost += difference.cost();
        next.differences.push(difference);
        next
    }

    fn with_pair(&self, differences: &[Difference]) -> Self {
        let mut next = self.clone();
        next.pairs += 1;
        next.cost += differences
            .iter()
            .map(|difference| difference.cost())
            .sum::<usize>();
        next.differences.extend_from_slice(differences);
        next
    }
}

//! The rules of which give-backs were seen.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// So many rules are told apart; a policy has far fewer that give back.
const PLACES: usize = 1024;

/// How far from its own place a rule may lie.
const LONGEST_WALK: usize = 16;

/// A set of rules, each by a hash. It only grows; when a rule finds no place any more, it holds all there are.
pub(super) struct Rules {
    /// Zero where nothing is.
    places: [AtomicU64; PLACES],
    /// Whether anything was ever added: most processes never see a give-back.
    any: AtomicBool,
    all: AtomicBool,
}

impl Rules {
    pub(super) const fn new() -> Self {
        Self {
            places: [const { AtomicU64::new(0) }; PLACES],
            any: AtomicBool::new(false),
            all: AtomicBool::new(false),
        }
    }

    /// The set of all rules.
    pub(super) const fn all() -> Self {
        Self {
            any: AtomicBool::new(true),
            all: AtomicBool::new(true),
            ..Self::new()
        }
    }

    /// Adds a rule. Says whether the set did not hold it before.
    pub(super) fn add(&self, rule: u64) -> bool {
        self.any.store(true, Ordering::SeqCst);
        let rule = rule.max(1);
        for place in self.walk(rule) {
            match place.compare_exchange(0, rule, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return !self.all.load(Ordering::SeqCst),
                Err(there) if there == rule => return false,
                Err(_) => {}
            }
        }
        !self.all.swap(true, Ordering::SeqCst)
    }

    /// Whether the set holds the rule, which is only made where it matters.
    pub(super) fn holds(&self, rule: impl FnOnce() -> u64) -> bool {
        if !self.any.load(Ordering::SeqCst) {
            return false;
        }
        if self.all.load(Ordering::SeqCst) {
            return true;
        }
        let rule = rule().max(1);
        self.walk(rule)
            .map(|place| place.load(Ordering::SeqCst))
            .take_while(|there| *there != 0)
            .any(|there| there == rule)
    }

    /// Where a rule may lie, its own place first.
    fn walk(&self, rule: u64) -> impl Iterator<Item = &AtomicU64> {
        let own = rule as usize % PLACES;
        (own..own + LONGEST_WALK).map(|place| &self.places[place % PLACES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_added_and_all_once_it_is_full() {
        let rules = Rules::new();
        assert!(!rules.holds(|| unreachable!("nobody has given back")));
        assert!(rules.add(7));
        assert!(!rules.add(7), "held already");
        assert!(rules.holds(|| 7));
        assert!(!rules.holds(|| 8));
        // All of them lie in the same place.
        let others: Vec<u64> = (1..).map(|n| 7 + n * PLACES as u64).take(LONGEST_WALK).collect();
        let (last, others) = others.split_last().expect("some");
        for rule in others {
            assert!(rules.add(*rule));
        }
        assert!(others.iter().all(|rule| rules.holds(|| *rule)));
        assert!(!rules.holds(|| *last));
        assert!(rules.add(*last), "no place, so all are held from now on");
        assert!(rules.holds(|| *last) && rules.holds(|| 8));
        assert!(!rules.add(8) && !rules.add(9), "held like all of them");
        assert!(Rules::all().holds(|| 7) && !Rules::all().add(7));
    }

    #[test]
    fn a_hash_of_zero_is_a_rule_like_any_other() {
        let rules = Rules::new();
        assert!(rules.add(0));
        assert!(rules.holds(|| 0));
    }
}

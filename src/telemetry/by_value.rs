//! Decisions by the values of callers, for rules whose policy asks for that (`value_to_metric`, `detailed_metric`). The
//! values are callers' to choose, so there is an end to how many are told apart and to how long they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::verdict::Verdict;

/// So many are told apart in one domain by each core; what comes later is counted together.
const MOST: usize = 1_000;

/// A longer path is counted with what is too much.
const LONGEST: usize = 200;

/// What is too much. No path is written like this.
const MORE: &str = "(more)";

/// By domain and path: how many passed and how many were refused.
pub(super) type ByValue = BTreeMap<Arc<str>, BTreeMap<Box<str>, [u64; 2]>>;

/// The decisions of one core since the process started, so that a series never goes back. Only calls of such rules take
/// the lock, and nobody but a scrape contends for it.
#[derive(Debug, Default)]
pub(super) struct Values(Mutex<ByValue>);

impl Values {
    /// Counts one decision.
    pub(super) fn add(&self, domain: &Arc<str>, path: &str, verdict: Verdict) {
        let mut by_domain = self.0.lock();
        let paths = by_domain.entry(Arc::clone(domain)).or_default();
        let is_told_apart = paths.contains_key(path) || paths.len() < MOST && path.len() <= LONGEST;
        let counted = paths
            .entry(Box::from(if is_told_apart { path } else { MORE }))
            .or_default();
        counted[usize::from(verdict == Verdict::OverLimit)] += 1;
    }

    /// Adds what this core counted to `totals`.
    pub(super) fn add_to(&self, totals: &mut ByValue) {
        for (domain, paths) in &*self.0.lock() {
            let sums = totals.entry(Arc::clone(domain)).or_default();
            for (path, counted) in paths {
                let sum = sums.entry(path.clone()).or_default();
                sum[0] += counted[0];
                sum[1] += counted[1];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_end_to_how_many_are_told_apart_and_nothing_is_lost() {
        let (domain, cores) = (Arc::from("edge"), [Values::default(), Values::default()]);
        for (core, values) in cores.iter().enumerate() {
            for client in 0..1_500 {
                values.add(&domain, &format!("client=c{core}-{client}"), Verdict::UnderLimit);
            }
            values.add(&domain, "client=c0-0", Verdict::OverLimit);
            values.add(&domain, &"x".repeat(LONGEST + 1), Verdict::UnderLimit);
        }
        let mut totals = ByValue::new();
        for core in &cores {
            core.add_to(&mut totals);
        }
        let paths = &totals["edge"];
        assert!(paths.len() <= cores.len() * MOST + 1);
        assert_eq!(paths["client=c0-0"][0], 1);
        assert!(paths.keys().all(|path| path.len() <= LONGEST));
        let sum = paths
            .values()
            .fold([0, 0], |sum, counted| [sum[0] + counted[0], sum[1] + counted[1]]);
        assert_eq!(sum, [3_002, 2]);
    }
}

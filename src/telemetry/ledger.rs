//! What became of calls, counted per core under the policies in force, and summed up over all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::by_value::{ByValue, Values};
use super::cells::Cells;
use crate::domain::verdict::Verdict;
use crate::policy::Policy;
use crate::service::answer::Cause;
use crate::service::observer::Tally;

/// The label of all domains that no policy is about: what a gateway asks for must not make series.
const UNKNOWN: &str = "unknown";

const CAUSES: usize = Cause::ALL.len();

/// Cells of a rule: passed, refused, refused if it were enforced, asked for more than it can hold.
const PER_RULE: usize = 4;

/// All that was counted, since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// By domain: one number per cause, in the order of [`Cause::ALL`].
    pub(super) calls: BTreeMap<Arc<str>, [u64; CAUSES]>,
    /// By domain and rule.
    pub(super) rules: BTreeMap<(Arc<str>, Arc<str>), RuleTotals>,
    /// By domain and path with callers' values.
    pub(super) by_value: ByValue,
}

/// What was counted of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleTotals {
    pub(super) passed: u64,
    pub(super) refused: u64,
    pub(super) shadow_refused: u64,
    pub(super) refused_for_size: u64,
}

/// Opens a page of tallies for each set of policies and keeps the sums of those that ended.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    /// Of policies that no call can be under any more.
    settled: Totals,
    /// Of the policies in force, last, and of those that some call may still be under.
    open: Vec<Page>,
    /// By callers' values, of each core.
    values: Vec<Arc<Values>>,
}

#[derive(Debug)]
struct Page {
    layout: Arc<Layout>,
    tallies: Vec<Arc<CoreTally>>,
}

impl Ledger {
    /// Starts to count under `policies`: one tally for each of `cores`.
    pub(super) fn open(&self, policies: &[&Policy], cores: usize) -> Vec<Arc<dyn Tally>> {
        let mut book = self.0.lock();
        let known = book.values.len();
        book.values.resize_with(cores.max(known), Arc::default);
        let layout = Arc::new(Layout::new(policies));
        let tallies: Vec<_> = (0..cores)
            .map(|core| {
                Arc::new(CoreTally {
                    cells: Cells::new(layout.cells),
                    layout: Arc::clone(&layout),
                    values: Arc::clone(&book.values[core]),
                })
            })
            .collect();
        let handed_out = tallies
            .iter()
            .map(|tally| Arc::clone(tally) as Arc<dyn Tally>)
            .collect();
        book.settle();
        book.open.push(Page { layout, tallies });
        handed_out
    }

    /// The sums of all pages.
    pub(super) fn totals(&self) -> Totals {
        let mut book = self.0.lock();
        book.settle();
        let mut totals = book.settled.clone();
        book.open.iter().for_each(|page| page.add_to(&mut totals));
        book.values
            .iter()
            .for_each(|values| values.add_to(&mut totals.by_value));
        totals
    }
}

impl Book {
    /// Adds up and forgets the pages that nobody can write on any more. A call under old policies may last longer
    /// than they are in force, so a page ends with its last holder and not with the next page.
    fn settle(&mut self) {
        let settled = &mut self.settled;
        self.open.retain(|page| {
            let held = page.tallies.iter().any(|tally| Arc::strong_count(tally) > 1);
            if !held {
                page.add_to(settled);
            }
            held
        });
    }
}

impl Page {
    fn add_to(&self, totals: &mut Totals) {
        let sum = |cell| {
            self.tallies
                .iter()
                .map(|tally| tally.cells.get(cell))
                .sum::<u64>()
        };
        add_calls(totals, &Arc::from(UNKNOWN), 0, sum);
        for domain in &self.layout.domains {
            add_calls(totals, &domain.name, domain.first, sum);
            for (place, path) in domain.rules.iter().enumerate() {
                let first = domain.first + CAUSES + place * PER_RULE;
                let counted = RuleTotals {
                    passed: sum(first),
                    refused: sum(first + 1),
                    shadow_refused: sum(first + 2),
                    refused_for_size: sum(first + 3),
                };
                if counted != RuleTotals::default() {
                    let rule = totals
                        .rules
                        .entry((Arc::clone(&domain.name), Arc::clone(path)))
                        .or_default();
                    rule.passed += counted.passed;
                    rule.refused += counted.refused;
                    rule.shadow_refused += counted.shadow_refused;
                    rule.refused_for_size += counted.refused_for_size;
                }
            }
        }
    }
}

fn add_calls(totals: &mut Totals, domain: &Arc<str>, first: usize, sum: impl Fn(usize) -> u64) {
    let calls = totals.calls.entry(Arc::clone(domain)).or_default();
    for (place, calls) in calls.iter_mut().enumerate() {
        *calls += sum(first + place);
    }
}

/// Which cell counts what: the causes of unknown domains, then of each domain the causes and its rules.
#[derive(Debug)]
struct Layout {
    domains: Vec<DomainLayout>,
    cells: usize,
}

#[derive(Debug)]
struct DomainLayout {
    name: Arc<str>,
    rules: Vec<Arc<str>>,
    first: usize,
}

impl Layout {
    fn new(policies: &[&Policy]) -> Self {
        let mut cells = CAUSES;
        let mut domains = Vec::with_capacity(policies.len());
        for policy in policies {
            let rules = policy.rules().iter().chain([policy.overrides()]);
            let rules: Vec<_> = rules.map(|rule| Arc::clone(&rule.path)).collect();
            let name = Arc::from(String::from_utf8_lossy(policy.domain()).as_ref());
            let first = cells;
            cells += CAUSES + rules.len() * PER_RULE;
            domains.push(DomainLayout { name, rules, first });
        }
        Self { domains, cells }
    }

    fn cause(&self, domain: Option<usize>, cause: Cause) -> usize {
        // The cells of unknown domains come first.
        let first = domain
            .and_then(|domain| self.domains.get(domain))
            .map_or(0, |domain| domain.first);
        first + cause as usize
    }

    fn rule(&self, domain: usize, rule: usize) -> Option<usize> {
        let domain = self.domains.get(domain)?;
        (rule < domain.rules.len()).then(|| domain.first + CAUSES + rule * PER_RULE)
    }
}

/// The numbers of one core on one page.
#[derive(Debug)]
struct CoreTally {
    layout: Arc<Layout>,
    cells: Cells,
    values: Arc<Values>,
}

impl Tally for CoreTally {
    fn called(&self, domain: Option<usize>, cause: Cause) {
        self.cells.add(self.layout.cause(domain, cause), 1);
    }

    fn decided(&self, domain: usize, rule: usize, verdict: Verdict) {
        if let Some(first) = self.layout.rule(domain, rule) {
            self.cells
                .add(first + usize::from(verdict == Verdict::OverLimit), 1);
        }
    }

    fn decided_by_value(&self, domain: usize, path: &str, verdict: Verdict) {
        if let Some(domain) = self.layout.domains.get(domain) {
            self.values.add(&domain.name, path, verdict);
        }
    }

    fn shadow_refused(&self, domain: usize, rule: usize) {
        if let Some(first) = self.layout.rule(domain, rule) {
            self.cells.add(first + 2, 1);
        }
    }

    fn refused_for_size(&self, domain: usize, rule: usize) {
        if let Some(first) = self.layout.rule(domain, rule) {
            self.cells.add(first + 3, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_cause_is_its_place_among_all() {
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, place, "{cause:?}");
        }
    }

    #[test]
    fn totals_survive_policies_and_what_old_calls_still_count() {
        let ledger = Ledger::default();
        let old = ledger.open(&[], 2);
        old[0].called(None, Cause::Invalid);
        old[1].called(None, Cause::Invalid);
        let new = ledger.open(&[], 2);
        new[0].called(None, Cause::Invalid);
        // A call that began under the old policies ends.
        old[1].called(None, Cause::UnknownDomain);
        let expected = |totals: &Totals| {
            let calls = totals.calls[UNKNOWN];
            (
                calls[Cause::Invalid as usize],
                calls[Cause::UnknownDomain as usize],
            )
        };
        assert_eq!(expected(&ledger.totals()), (3, 1));
        drop(old);
        assert_eq!(expected(&ledger.totals()), (3, 1));
        assert_eq!(ledger.0.lock().open.len(), 1);
    }
}

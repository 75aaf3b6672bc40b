//! What a store is asked to decide: a group of checks, all or nothing.

use super::limit::Limit;
use super::quantity::Hits;
use super::time::Micros;

/// Whether a check that does not fit refuses its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Binding {
    /// It does.
    #[default]
    Always,
    /// It does not: shadow mode and its kin.
    Never,
    /// Only together with every other such check of the group.
    WithAllQuotas,
}

/// When a check's hits are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Charge {
    /// If it fits and the group passes.
    #[default]
    AllOrNothing,
    /// If it fits.
    Each,
    /// Whatever the verdict; the next call meets the debt.
    Always,
}

/// What becomes of a check while the shared store cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OnStoreFailure {
    /// It is decided in this process, by its share of the limit.
    #[default]
    Local,
    /// It fits, and nothing is counted.
    Allow,
    /// It does not fit.
    Deny,
    /// Its whole group is an error.
    Error,
}

impl OnStoreFailure {
    /// Every choice, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Local, Self::Allow, Self::Deny, Self::Error];

    /// The word in policies and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Error => "error",
        }
    }
}

/// One counter, the limit it is held to, and what is asked of it.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// The counter's key, see `store::key`.
    pub key: &'a [u8],
    /// The limit it is held to.
    pub limit: &'a Limit,
    /// What is taken, asked or given back.
    pub hits: Hits,
    /// Whether it can refuse the group.
    pub binding: Binding,
    /// When it is charged.
    pub charge: Charge,
    /// What becomes of it while the shared store cannot decide.
    pub on_store_failure: OnStoreFailure,
}

impl Check<'_> {
    /// The longest a call that can wait `longest_wait` may be delayed under this check's limit.
    pub fn longest_wait(&self, longest_wait: Micros) -> Micros {
        self.limit.delay().min(longest_wait)
    }
}

/// All checks of one request. They are decided together, at one moment, and have one verdict.
///
/// No counter is named twice, but for checks that are charged whatever the verdict and for give-backs in front of a
/// take.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// In the order they are decided.
    pub checks: &'a [Check<'a>],
    /// The longest the caller can wait for its answer to be held; zero when it cannot.
    pub longest_wait: Micros,
    /// Decides as the reference service does where that differs: a look asks for nothing beyond what is used, hits
    /// above the limit of a fixed window are refused like any others, and such a window's reset is always its end.
    pub compat: bool,
}

impl Group<'_> {
    /// The hits that must fit for `hits` to pass.
    pub const fn asked(&self, hits: Hits) -> u64 {
        match hits {
            Hits::Look(_) if self.compat => 0,
            _ => hits.asked(),
        }
    }
}

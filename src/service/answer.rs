//! What is answered, in our own words: `encode` puts it on the wire.

use std::sync::Arc;

use smallvec::SmallVec;

use super::field::FieldName;
use crate::domain::limit::Period;
use crate::domain::time::Micros;
use crate::domain::verdict::Verdict;
use crate::policy::metadata::Metadata;

/// What a status shows as remaining where nothing limits.
pub const UNLIMITED: u32 = u32::MAX;

/// Why a request got its verdict: the one word that every call is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Refused: an enforced limit is spent.
    OverLimit,
    /// Refused: the store could not decide, and what refuses is a rule that says to refuse then.
    StoreFailedClosed,
    /// Refused: the store could not decide, and this process admits no more for now by itself.
    Ceiling,
    /// Passed: the store could not decide, and a rule that it met says to let pass then.
    StoreFailedOpen,
    /// Passed: every limit it met has room.
    UnderLimit,
    /// Passed: it was over a limit that is only watched.
    Shadow,
    /// Passed: the only rules it met say `unlimited`.
    Unlimited,
    /// Passed: no descriptor reached a rule.
    NoRule,
    /// Passed: no descriptor held an entry to match.
    NoEntries,
    /// Passed: no policy is about its domain.
    UnknownDomain,
    /// No verdict, an error: the question was not one that can be answered.
    Invalid,
    /// No verdict, an error: the store could not decide and nothing decides in its place.
    StoreFailed,
}

impl Cause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::OverLimit,
        Self::StoreFailedClosed,
        Self::Ceiling,
        Self::StoreFailedOpen,
        Self::UnderLimit,
        Self::Shadow,
        Self::Unlimited,
        Self::NoRule,
        Self::NoEntries,
        Self::UnknownDomain,
        Self::Invalid,
        Self::StoreFailed,
    ];

    /// The word in metrics and in answers' metadata.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OverLimit => "over_limit",
            Self::StoreFailedClosed => "store_failed_closed",
            Self::Ceiling => "ceiling",
            Self::StoreFailedOpen => "store_failed_open",
            Self::UnderLimit => "under_limit",
            Self::Shadow => "shadow",
            Self::Unlimited => "unlimited",
            Self::NoRule => "no_rule",
            Self::NoEntries => "no_entries",
            Self::UnknownDomain => "unknown_domain",
            Self::Invalid => "invalid",
            Self::StoreFailed => "store_failed",
        }
    }
}

/// The answer about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it may pass.
    pub verdict: Verdict,
    /// Why.
    pub cause: Cause,
    /// The path of the rule that decided: the one that refuses, else the one nearest its limit.
    pub rule: Option<Arc<str>>,
    /// Which of the statuses is about that rule.
    pub deciding: Option<usize>,
    /// Decided without the shared store.
    pub degraded: bool,
    /// What the rules that let pass say, in the order of the request; of two that say the same, the first holds.
    pub metadata: SmallVec<[Arc<Metadata>; 1]>,
    /// Entries that led to a rule and are counted nowhere. Callers chose their values.
    pub uncounted: SmallVec<[ShownEntry; 1]>,
    /// One per descriptor, in the order of the request.
    pub statuses: SmallVec<[Status; 2]>,
    /// For the caller, whatever the verdict.
    pub headers: SmallVec<[Header; 4]>,
    /// What a refused caller reads.
    pub body: Option<String>,
}

impl Answer {
    /// An answer that lets `descriptors` pass because no policy is about them.
    pub fn untouched(cause: Cause, descriptors: usize) -> Self {
        Self {
            verdict: Verdict::UnderLimit,
            cause,
            rule: None,
            deciding: None,
            degraded: false,
            metadata: SmallVec::new(),
            uncounted: SmallVec::new(),
            statuses: SmallVec::from_elem(Status::UNTOUCHED, descriptors),
            headers: SmallVec::new(),
            body: None,
        }
    }
}

/// An entry that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownEntry {
    /// Its key.
    pub key: Box<[u8]>,
    /// Its value, normalised.
    pub value: Box<[u8]>,
}

/// What is said about one descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What the gateway is told; a rule that is only watched shows under its limit.
    pub verdict: Verdict,
    /// The limit that matters most here; absent where nothing limits, and where a request was refused without looking
    /// here: a gateway shows no budget then.
    pub limit: Option<ShownLimit>,
    /// Hits that would still pass; zero when over the limit.
    pub remaining: u32,
    /// When this call would pass; absent where it did, and where it never can.
    pub retry_after: Option<Micros>,
    /// When the budget is whole again; absent where nothing limits.
    pub reset_after: Option<Micros>,
}

impl Status {
    /// No rule is about this descriptor.
    pub const UNTOUCHED: Self = Self {
        verdict: Verdict::UnderLimit,
        limit: None,
        remaining: 0,
        retry_after: None,
        reset_after: None,
    };

    /// A rule says that nothing limits this descriptor.
    pub const UNLIMITED: Self = Self {
        verdict: Verdict::UnderLimit,
        limit: None,
        remaining: UNLIMITED,
        retry_after: None,
        reset_after: None,
    };

    /// Whole seconds, rounded up, until this call would pass or, where it did, until the budget is whole again.
    pub fn reset_secs(&self) -> Option<u64> {
        self.retry_after.or(self.reset_after).map(Micros::ceil_secs)
    }
}

/// A limit as answers show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownLimit {
    /// Its name; empty where it is shown without one.
    pub name: Arc<str>,
    /// Hits per period.
    pub count: u32,
    /// The period as the policy writes it.
    pub period: Period,
}

/// A response header of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Lower case, as HTTP/2 wants it, but for names that were chosen and those of the reference.
    pub name: FieldName,
    /// Printable ASCII.
    pub value: String,
}

//! Every metric, in one place.

use prometheus_client::metrics::MetricType;

/// In front of every name.
pub const PREFIX: &str = "comporta";

/// A metric: what it is called and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Calls, by domain and cause.
    Calls,
    /// Descriptors that reached a rule, by domain, rule and verdict.
    Decisions,
    /// The same by callers' values, where a policy asks for it.
    DecisionsByValue,
    /// What watched rules would have refused, by domain and rule.
    ShadowRefusals,
    /// Calls that were larger than their limit, by domain and rule.
    RefusedForSize,
    /// How long the shared store takes.
    StoreSeconds,
    /// Calls that the shared store failed, by kind.
    StoreErrors,
    /// Whether decisions are made without the shared store, by the reason.
    StoreDegraded,
    /// How often decisions began to be made without the shared store.
    Degradations,
    /// How many instances share each budget.
    Instances,
    /// Calls that were refused without asking the shared store.
    RefusedFromMemory,
    /// Counters that could not be read.
    UnreadableCounters,
    /// New counters that went to their rule's overflow counter.
    OverflowedCounters,
    /// Limits that requests brought along and that were not heeded.
    OverridesIgnored,
    /// Which load of the policies is in force.
    PolicyGeneration,
    /// Which policies are in force, by the hash of their files.
    PolicyInfo,
    /// When the policies in force were loaded.
    PolicyLoaded,
    /// Attempts to reload the policies, by outcome.
    PolicyReloads,
    /// Whether the policies that are there now were rejected.
    PolicyReloadFailed,
}

impl Metric {
    /// Every metric, in the order of a scrape.
    pub const ALL: [Self; 19] = [
        Self::Calls,
        Self::Decisions,
        Self::DecisionsByValue,
        Self::ShadowRefusals,
        Self::RefusedForSize,
        Self::StoreSeconds,
        Self::StoreErrors,
        Self::StoreDegraded,
        Self::Degradations,
        Self::Instances,
        Self::RefusedFromMemory,
        Self::UnreadableCounters,
        Self::OverflowedCounters,
        Self::OverridesIgnored,
        Self::PolicyGeneration,
        Self::PolicyInfo,
        Self::PolicyLoaded,
        Self::PolicyReloads,
        Self::PolicyReloadFailed,
    ];

    /// The name without the prefix and, for counters, without the `_total` that a scrape shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Decisions => "decisions",
            Self::DecisionsByValue => "decisions_by_value",
            Self::ShadowRefusals => "shadow_refusals",
            Self::RefusedForSize => "refused_for_size",
            Self::StoreSeconds => "store_seconds",
            Self::StoreErrors => "store_errors",
            Self::StoreDegraded => "store_degraded",
            Self::Degradations => "degradations",
            Self::Instances => "instances",
            Self::RefusedFromMemory => "refused_from_memory",
            Self::UnreadableCounters => "unreadable_counters",
            Self::OverflowedCounters => "overflowed_counters",
            Self::OverridesIgnored => "overrides_ignored",
            Self::PolicyGeneration => "policy_generation",
            Self::PolicyInfo => "policy_info",
            Self::PolicyLoaded => "policy_loaded_timestamp_seconds",
            Self::PolicyReloads => "policy_reloads",
            Self::PolicyReloadFailed => "policy_reload_failed",
        }
    }

    /// What it counts or measures.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Calls => {
                "Calls answered, by domain and cause; domains that no policy is about are one, unknown."
            }
            Self::Decisions => {
                "Descriptors that reached a rule and were looked at, by the verdict shown. Watched rules show ok."
            }
            Self::DecisionsByValue => {
                "Decisions of rules with value_to_metric or detailed_metric, by callers' values: 1000 in a domain for \
                 each core, the rest as (more)."
            }
            Self::ShadowRefusals => {
                "Checks of rules that are only watched (`shadow_mode`, `--shadow`) and would have refused."
            }
            Self::RefusedForSize => {
                "Checks that asked for more hits than their limit can ever hold. Late charges never count so; see \
                 `charge: always`."
            }
            Self::StoreSeconds => "Seconds until the shared store answered or failed.",
            Self::StoreErrors => {
                "Calls that the shared store did not decide, by kind: timeout, unreachable, refused."
            }
            Self::StoreDegraded => {
                "1 while decisions are made without the shared store, by the kind of error that this began with."
            }
            Self::Degradations => {
                "How often decisions began to be made without the shared store; again within a minute is the same time."
            }
            Self::Instances => {
                "The instances that each budget is divided by while the shared store cannot decide."
            }
            Self::RefusedFromMemory => {
                "Calls refused without asking the shared store: it had said until when they are."
            }
            Self::UnreadableCounters => "Counters that held something unreadable and were taken as empty.",
            Self::OverflowedCounters => {
                "New counters that shared their rule's overflow counter: the store was full."
            }
            Self::OverridesIgnored => "Descriptors that brought a limit of their own, which was not heeded.",
            Self::PolicyGeneration => "Which load of the policies is in force, counted from 1.",
            Self::PolicyInfo => {
                "1, with the hash of the policies in force: instances that show the same go by the same files."
            }
            Self::PolicyLoaded => "When the policies in force were loaded, in seconds since 1970.",
            Self::PolicyReloads => {
                "Attempts to reload the policies, by outcome: accepted, rejected, unchanged (asked for in vain, or \
                 mended by going back)."
            }
            Self::PolicyReloadFailed => {
                "1 from the moment that changed policies were rejected until they are mended; those of before stay \
                 in force."
            }
        }
    }

    /// What kind of metric it is.
    pub const fn kind(self) -> MetricType {
        match self {
            Self::StoreSeconds => MetricType::Histogram,
            Self::StoreDegraded
            | Self::Instances
            | Self::PolicyGeneration
            | Self::PolicyInfo
            | Self::PolicyLoaded
            | Self::PolicyReloadFailed => MetricType::Gauge,
            _ => MetricType::Counter,
        }
    }

    /// Its labels. Their values come from policies and from fixed lists, never from a caller.
    pub const fn labels(self) -> &'static [&'static str] {
        match self {
            Self::Calls => &["domain", "cause"],
            Self::Decisions | Self::DecisionsByValue => &["domain", "rule", "verdict"],
            Self::ShadowRefusals | Self::RefusedForSize => &["domain", "rule"],
            Self::StoreErrors => &["kind"],
            Self::StoreDegraded => &["reason"],
            Self::PolicyInfo => &["hash"],
            Self::PolicyReloads => &["outcome"],
            _ => &[],
        }
    }
}

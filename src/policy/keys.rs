//! Which keys may stand where, and what to say about one that may not.

use super::node::{Place, shown};
use super::problem::Report;
use super::spelling::nearest;

/// A kind of map in a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// A document.
    File,
    /// What stands under `defaults`.
    Defaults,
    /// An item of `descriptors`.
    Node,
    /// What stands under `rate_limit`.
    Limit,
    /// An item of `rate_limits`.
    Item,
    /// A row of a table of `plans`, or an item of one.
    Row,
    /// What stands under `normalize`.
    Normalize,
    /// What stands under `forwarded_for`.
    ForwardedFor,
    /// An item of `replaces`.
    Replaces,
    /// What stands under `on_excess`.
    OnExcess,
    /// What stands under `accuracy`.
    Accuracy,
    /// What stands under `lease`.
    Lease,
}

impl Level {
    /// Every level, the one a key most likely belongs to first.
    pub(super) const ALL: [Self; 12] = [
        Self::Limit,
        Self::Node,
        Self::File,
        Self::Normalize,
        Self::ForwardedFor,
        Self::OnExcess,
        Self::Accuracy,
        Self::Lease,
        Self::Row,
        Self::Item,
        Self::Replaces,
        Self::Defaults,
    ];

    /// The keys that may stand there.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::File => &["domain", "descriptors", "plans", "defaults", "compat", "shard_by"],
            Self::Defaults => &[
                "shadow_mode",
                "quota_mode",
                "detailed_metric",
                "value_to_metric",
                "share_threshold",
                "metadata",
                "cost",
                "advice",
                "charge",
                "algorithm",
                "enforce",
                "on_excess",
                "on_store_failure",
                "accuracy",
            ],
            Self::Node => &[
                "key",
                "value",
                "cidrs",
                "descriptors",
                "rate_limit",
                "rate_limits",
                "shadow_mode",
                "quota_mode",
                "detailed_metric",
                "value_to_metric",
                "share_threshold",
                "metadata",
                "counted",
                "secret",
                "normalize",
                "cost",
                "advice",
                "charge",
                "enforce",
                "on_excess",
                "on_store_failure",
                "accuracy",
            ],
            Self::Limit => &[
                "rate",
                "unit",
                "requests_per_unit",
                "unit_multiplier",
                "burst",
                "algorithm",
                "name",
                "unlimited",
                "replaces",
                "plan",
                "plan_entry",
            ],
            Self::Item => &[
                "rate",
                "unit",
                "requests_per_unit",
                "unit_multiplier",
                "burst",
                "algorithm",
                "name",
                "replaces",
                "plan",
                "plan_entry",
                "shadow_mode",
                "on_excess",
            ],
            Self::Row => &[
                "rate",
                "unit",
                "requests_per_unit",
                "unit_multiplier",
                "burst",
                "algorithm",
                "name",
                "unlimited",
            ],
            Self::Normalize => &["ipv4_prefix", "ipv6_prefix", "case", "forwarded_for"],
            Self::ForwardedFor => &["trusted_hops"],
            Self::Replaces => &["name"],
            Self::OnExcess => &["delay"],
            Self::Accuracy => &["lease"],
            Self::Lease => &["share", "ttl"],
        }
    }

    const fn home(self) -> &'static str {
        match self {
            Self::File => "at the top of the file",
            Self::Defaults => "under `defaults`",
            Self::Node => "in the descriptor, beside `key`",
            Self::Limit => "under `rate_limit`",
            Self::Item => "in an item of `rate_limits`",
            Self::Row => "in a row of `plans`",
            Self::Normalize => "under `normalize`",
            Self::ForwardedFor => "under `forwarded_for`",
            Self::Replaces => "in an item of `replaces`",
            Self::OnExcess => "under `on_excess`",
            Self::Accuracy => "under `accuracy`",
            Self::Lease => "under `lease`",
        }
    }

    /// Whether `name` may stand here; where not, says why.
    pub(super) fn check(self, name: &str, place: Place, report: &mut Report) -> bool {
        if self.keys().contains(&name) {
            return true;
        }
        if let Some(home) = Self::ALL.into_iter().find(|level| level.keys().contains(&name)) {
            report.error(place, format!("`{name}` belongs {}", home.home()));
        } else {
            let hint = if report.is_full() { None } else { self.meant(name) };
            report
                .error(place, format!("unknown key `{}`", shown(name)))
                .maybe_hint(hint);
        }
        false
    }

    /// The key that was probably meant, here or on another level.
    fn meant(self, name: &str) -> Option<String> {
        if let Some(near) = nearest(name, self.keys().iter().copied()) {
            return Some(format!("did you mean `{near}`?"));
        }
        Self::ALL.into_iter().find_map(|level| {
            let near = nearest(name, level.keys().iter().copied())?;
            Some(format!("did you mean `{near}`, which belongs {}?", level.home()))
        })
    }
}

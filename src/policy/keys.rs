//! Which keys may stand where, and what to say about one that may not.

use super::problem::Report;
use super::spelling::nearest;
use super::tree::{Place, shown};

/// A kind of map in a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// A document.
    File,
    /// An item of `descriptors`.
    Node,
    /// What stands under `rate_limit`.
    Limit,
    /// A row of a table of `plans`.
    Row,
    /// What stands under `normalize`.
    Normalize,
}

/// The keys of a level.
struct Keys {
    known: &'static [&'static str],
    /// What this version does not do yet. Refused rather than ignored.
    later: &'static [&'static str],
}

impl Level {
    /// Every level, the one a key most likely belongs to first.
    const ALL: [Self; 5] = [Self::Limit, Self::Node, Self::File, Self::Normalize, Self::Row];

    const fn keys(self) -> Keys {
        match self {
            Self::File => Keys {
                known: &["domain", "descriptors", "plans"],
                later: &["defaults", "shard_by", "compat"],
            },
            Self::Node => Keys {
                known: &[
                    "key",
                    "value",
                    "descriptors",
                    "rate_limit",
                    "shadow_mode",
                    "normalize",
                ],
                later: &[
                    "cidrs",
                    "rate_limits",
                    "quota_mode",
                    "detailed_metric",
                    "value_to_metric",
                    "share_threshold",
                    "metadata",
                    "counted",
                    "secret",
                    "cost",
                    "advice",
                    "enforce",
                    "on_excess",
                    "on_store_failure",
                    "accuracy",
                    "charge",
                ],
            },
            Self::Limit => Keys {
                known: &[
                    "rate",
                    "unit",
                    "requests_per_unit",
                    "unit_multiplier",
                    "burst",
                    "algorithm",
                    "name",
                    "unlimited",
                    "plan",
                ],
                later: &["plan_entry", "replaces"],
            },
            Self::Row => Keys {
                known: &[
                    "rate",
                    "unit",
                    "requests_per_unit",
                    "unit_multiplier",
                    "burst",
                    "algorithm",
                    "name",
                    "unlimited",
                ],
                later: &[],
            },
            Self::Normalize => Keys {
                known: &["ipv4_prefix", "ipv6_prefix"],
                later: &["case", "forwarded_for"],
            },
        }
    }

    const fn home(self) -> &'static str {
        match self {
            Self::File => "at the top of the file",
            Self::Node => "in the descriptor, beside `key`",
            Self::Limit => "under `rate_limit`",
            Self::Row => "in a row of `plans`",
            Self::Normalize => "under `normalize`",
        }
    }

    fn words(self) -> impl Iterator<Item = &'static str> {
        let Keys { known, later } = self.keys();
        known.iter().chain(later).copied()
    }

    /// Whether `name` may stand here; where not, says why.
    pub(super) fn check(self, name: &str, place: Place, report: &mut Report) -> bool {
        if self.keys().known.contains(&name) {
            return true;
        }
        if self.keys().later.contains(&name) {
            report.error(place, format!("`{name}` is not supported by this version"));
        } else if let Some(home) = Self::ALL
            .into_iter()
            .find(|level| level.words().any(|word| word == name))
        {
            report.error(place, format!("`{name}` belongs {}", home.home()));
        } else {
            let hint = self.meant(name);
            report
                .error(place, format!("unknown key `{}`", shown(name)))
                .maybe_hint(hint);
        }
        false
    }

    /// The key that was probably meant, here or on another level.
    fn meant(self, name: &str) -> Option<String> {
        if let Some(near) = nearest(name, self.words()) {
            return Some(format!("did you mean `{near}`?"));
        }
        Self::ALL.into_iter().find_map(|level| {
            let near = nearest(name, level.words())?;
            Some(format!("did you mean `{near}`, which belongs {}?", level.home()))
        })
    }
}

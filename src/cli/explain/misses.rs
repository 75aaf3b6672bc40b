//! What keeps a descriptor from a rule, in words.

use crate::domain::descriptor::Entry;
use crate::policy::Policy;
use crate::policy::leads::{Lead, Level};
use crate::policy::nearest::{Difference, Near};

use super::{readable, value_of};

/// `client=acme`, `client`, `ip in 10.0.0.0/8`: a level as a reader of the policy knows it.
pub(super) fn level(level: &Level) -> String {
    let key = readable(&level.key);
    match &level.lead {
        Lead::Any => key,
        Lead::Exact(value) => format!("{key}={}", readable(value)),
        Lead::Pattern(pattern) => format!("{key}={}", readable(pattern.as_bytes())),
        Lead::Networks(networks) => format!("{key} in {}", some_of(networks)),
    }
}

/// At most eight of them, and how many more there are.
pub(super) fn some_of(all: &[String]) -> String {
    const MOST: usize = 8;
    let shown = all[..all.len().min(MOST)].join(", ");
    match all.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// What to change about `entries`, for each thing that keeps them from a rule.
pub(super) fn differences(near: &Near<'_>, entries: &[Entry<'_>], policy: &Policy) -> Vec<String> {
    let key = |entry: usize| readable(entries[entry].key);
    let value = |entry: usize| value_of(&entries[entry], policy);
    let of = |place: usize| &near.levels[place];
    let difference = |difference: &Difference| match *difference {
        Difference::Order => {
            let keys: Vec<_> = near.levels.iter().map(|level| readable(&level.key)).collect();
            format!("order: send ({})", keys.join(", "))
        }
        Difference::Missing(place) => format!("depth: {} is not sent", level(of(place))),
        Difference::Extra(entry) => format!("depth: {}={} is one too many", key(entry), value(entry)),
        Difference::Key { entry, level } => {
            format!(
                "key: `{}` is sent, the rule has `{}`",
                key(entry),
                readable(&of(level).key)
            )
        }
        Difference::Value { entry, level: place } => match &of(place).lead {
            Lead::Exact(exact) => {
                format!(
                    "value: {} is `{}`, not `{}`",
                    key(entry),
                    value(entry),
                    readable(exact)
                )
            }
            Lead::Pattern(pattern) => {
                format!(
                    "value: {} is `{}`, which does not fit `{pattern}`",
                    key(entry),
                    value(entry)
                )
            }
            Lead::Networks(networks) => {
                format!(
                    "value: {} is `{}`, not in {}",
                    key(entry),
                    value(entry),
                    some_of(networks)
                )
            }
            Lead::Any => format!("value: `{}` does not lead there", value(entry)),
        },
        Difference::Hidden { entry, .. } => format!(
            "value: `{}` of {} has a node of its own, from which there is no way back",
            value(entry),
            key(entry)
        ),
    };
    near.differences.iter().map(difference).collect()
}

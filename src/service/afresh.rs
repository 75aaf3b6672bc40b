//! Which counters an edit of the policies starts afresh: those whose key it changes.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;

use crate::domain::limit::{Algorithm, Limit};
use crate::policy::{Limits, Policy, PolicySet, Rule};
use crate::store::key::{Keys, Realm};

/// A limit that counts afresh because it was edited.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Note {
    domain: String,
    rule: String,
    /// Where only the callers of one plan are meant.
    plan: Option<String>,
    why: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.domain, self.rule)?;
        if let Some(plan) = &self.plan {
            write!(f, " (plan {plan})")?;
        }
        write!(f, ": {}", self.why)
    }
}

/// The limits of `new` that were in `old` as well and do not go on with what they counted there. Rules and limits that
/// are new, and those that are gone, are no news.
pub(super) fn compare(old: &PolicySet, new: &PolicySet) -> Vec<Note> {
    let mut notes = Vec::new();
    for policy in new.policies() {
        if let Some(before) = old.policy(policy.domain()) {
            compare_domain(before, policy, &mut notes);
        }
    }
    notes.sort_unstable();
    // What is hidden may be all that sets them apart.
    notes.dedup();
    notes
}

fn compare_domain(old: &Policy, new: &Policy, notes: &mut Vec<Note>) {
    let before: HashMap<_, _> = numbered(old).collect();
    let shards = (old.shard_by() != new.shard_by()).then(|| (shards(old), shards(new)));
    for (called, rule) in numbered(new) {
        let Some(&before) = before.get(&called) else {
            continue;
        };
        let hides_plans = before.hides_plans() || rule.hides_plans();
        let mut say = |plan: Option<&Bytes>, why: String| {
            notes.push(Note {
                domain: new.domain().escape_ascii().to_string(),
                rule: rule.path.to_string(),
                plan: plan.map(|plan| {
                    if hides_plans {
                        String::from("(secret)")
                    } else {
                        plan.escape_ascii().to_string()
                    }
                }),
                why,
            });
        };
        let hidden = |rule: &Rule| rule.secret() & !rule.uncounted();
        let why = if before.uncounted() != rule.uncounted() {
            Some("other entries are counted than before")
        } else if hidden(before) != hidden(rule) {
            Some("other values are secret than before")
        } else if shards
            .as_ref()
            .is_some_and(|(old, new)| old[before.index] != new[rule.index])
        {
            Some("another entry is what its counters are sharded by")
        } else {
            None
        };
        let counts = |rule: &Rule| rule.all_limits().any(|limits| !held(limits).is_empty());
        if let Some(why) = why.filter(|_| counts(before) && counts(rule)) {
            say(None, why.to_owned());
            continue;
        }
        let default = compare_limits((before.limits_of(None), old), (rule.limits_of(None), new));
        let mut plans: Vec<&Bytes> = before.plans().chain(rule.plans()).collect();
        plans.sort_unstable();
        plans.dedup();
        for plan in plans {
            let changes = compare_limits(
                (before.limits_of(Some(plan)), old),
                (rule.limits_of(Some(plan)), new),
            );
            // What holds for everybody is said once.
            changes
                .into_iter()
                .filter(|change| !default.contains(change))
                .for_each(|change| say(Some(plan), change));
        }
        for change in default {
            say(None, change);
        }
    }
}

/// The rules, each with its path and how many before it have the same: those that only secret values set apart.
fn numbered(policy: &Policy) -> impl Iterator<Item = ((&str, usize), &Rule)> {
    let mut met: HashMap<&str, usize> = HashMap::new();
    policy.rules().iter().map(move |rule| {
        let times = met.entry(&rule.path).or_default();
        *times += 1;
        ((&*rule.path, *times), rule)
    })
}

/// Of each rule the place of the entry that stands alone between the braces of its counters' keys, among those that are
/// counted; none where all stand there.
fn shards(policy: &Policy) -> Vec<Option<usize>> {
    let shard = |(rule, keys): (&Rule, Vec<&[u8]>)| {
        let counted = (0..)
            .zip(keys)
            .filter(|(entry, _)| rule.uncounted() >> *entry & 1 == 0);
        let counted: Vec<_> = counted.map(|(_, key): (u32, _)| Some(key)).collect();
        let place = counted.iter().position(|key| *key == policy.shard_by());
        place.filter(|_| counted.len() > 1)
    };
    policy
        .rules()
        .iter()
        .zip(policy.keys_of_rules())
        .map(shard)
        .collect()
}

/// Limits, and the policy that they are in.
type Side<'p> = (&'p Limits, &'p Policy);

/// Why the limits of one caller lose their counters: an entry for each that does.
fn compare_limits(old: Side<'_>, new: Side<'_>) -> Vec<String> {
    let (before, after) = (counters(old), counters(new));
    let other = |ones: &[Counter<'_>], others: &[Counter<'_>]| -> Vec<usize> {
        (0..ones.len())
            .filter(|place| others.iter().all(|other| other.key != ones[*place].key))
            .collect()
    };
    let mut lost = other(&before, &after);
    let mut changes = Vec::new();
    for place in other(&after, &before) {
        let after = &after[place];
        // The one that it was: of the same name, or else the first that has lost its counter.
        let named = lost
            .iter()
            .position(|lost| before[*lost].limit.name() == after.limit.name());
        let Some(at) = named.or_else(|| (!lost.is_empty()).then_some(0)) else {
            continue;
        };
        changes.push(change(&before[lost.remove(at)], after));
    }
    changes
}

fn held(limits: &Limits) -> &[Limit] {
    match limits {
        Limits::Unlimited => &[],
        Limits::Held(limits) => limits,
    }
}

/// The domain and the entries are the same on both sides, so none are written.
const NOWHERE: Realm<'static> = Realm {
    domain: b"",
    shard_by: None,
};

/// A limit, and what its counter's key says of it.
struct Counter<'p> {
    limit: &'p Limit,
    nameless: bool,
    key: Vec<u8>,
}

fn counters((limits, policy): Side<'_>) -> Vec<Counter<'_>> {
    let keys = Keys::new("");
    let limits = held(limits);
    let nameless = policy.is_nameless(limits);
    let counter = |limit| {
        let mut key = Vec::new();
        if nameless {
            keys.write_nameless(&mut key, NOWHERE, std::iter::empty(), limit);
        } else {
            keys.write(&mut key, NOWHERE, std::iter::empty(), limit);
        }
        Counter { limit, nameless, key }
    };
    // A limit of zero counts nothing.
    limits
        .iter()
        .filter(|limit| limit.count() > 0)
        .map(counter)
        .collect()
}

/// What makes the keys of two counters differ.
fn change(before: &Counter<'_>, after: &Counter<'_>) -> String {
    let (old, new) = (before.limit, after.limit);
    let mut parts = Vec::new();
    if !before.nameless && !after.nameless && old.name() != new.name() {
        parts.push(format!("it is named {} instead of {}", new.name(), old.name()));
    }
    if old.algorithm() != new.algorithm() {
        parts.push(format!(
            "it is a {} instead of a {}",
            new.algorithm().name(),
            old.algorithm().name()
        ));
    } else if in_windows(new) && old.period().length() != new.period().length() {
        parts.push(format!(
            "it counts per {} instead of per {}",
            new.period(),
            old.period()
        ));
    }
    if parts.is_empty() {
        parts.push(String::from("its counter is another one under this `compat`"));
    }
    parts.join(", and ")
}

const fn in_windows(limit: &Limit) -> bool {
    matches!(
        limit.algorithm(),
        Algorithm::SlidingWindow | Algorithm::SlidingLog | Algorithm::FixedWindow
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> PolicySet {
        PolicySet::parse(&[("policy.yaml", text)]).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn notes(old: &str, new: &str) -> Vec<String> {
        compare(&set(old), &set(new))
            .iter()
            .map(Note::to_string)
            .collect()
    }

    /// A domain with one rule, `client`, whose settings are these.
    fn rule(settings: &str) -> String {
        format!("domain: edge\ndescriptors:\n  - key: client\n    {settings}\n")
    }

    fn limit(limit: &str) -> String {
        rule(&format!("rate_limit: {{ {limit} }}"))
    }

    #[test]
    fn numbers_change_nothing() {
        for (old, new) in [
            ("rate: 10/minute", "rate: 20/minute"),
            ("rate: 10/minute", "rate: 10/60s"),
            ("rate: 10/minute, burst: 5", "rate: 7/hour, burst: 9"),
            ("rate: 10/minute", "unlimited: true"),
            ("unlimited: true", "rate: 10/minute"),
            ("rate: 0/minute", "rate: 10/minute, burst: 5"),
        ] {
            assert_eq!(notes(&limit(old), &limit(new)), [""; 0], "{old} → {new}");
        }
        let list = |items: &str| rule(&format!("rate_limits: [{items}]"));
        let (one, two) = ("{ rate: 10/second }", "{ rate: 10/second }, { rate: 1000/day }");
        assert_eq!(notes(&list(one), &list(two)), [""; 0]);
        assert_eq!(notes(&list(two), &list(one)), [""; 0]);
    }

    #[test]
    fn what_the_key_names_starts_afresh() {
        for (old, new, why) in [
            (
                "rate: 10/minute",
                "rate: 10/minute, burst: 5",
                "it is a token_bucket instead of a sliding_window",
            ),
            (
                "rate: 10/minute",
                "rate: 10/15m",
                "it counts per 15 minutes instead of per minute",
            ),
            (
                "rate: 10/minute, name: a",
                "rate: 10/minute, name: b",
                "it is named b instead of a",
            ),
            (
                "rate: 10/minute",
                "rate: 10/hour, algorithm: fixed_window, name: b",
                "it is named b instead of client, and it is a fixed_window instead of a sliding_window",
            ),
        ] {
            assert_eq!(notes(&limit(old), &limit(new)), [format!("edge: client: {why}")]);
        }
    }

    #[test]
    fn the_reference_names_no_limits_and_counts_otherwise() {
        let compat = |text: &str| format!("compat: reference\n{}", limit(text));
        assert_eq!(
            notes(
                &compat("rate: 10/minute, name: a"),
                &compat("rate: 10/minute, name: b")
            ),
            [""; 0]
        );
        assert_eq!(
            notes(
                &limit("rate: 10/minute, algorithm: fixed_window"),
                &compat("rate: 10/minute")
            ),
            ["edge: client: its counter is another one under this `compat`"]
        );
    }

    #[test]
    fn each_plan_is_looked_at() {
        let plans = |free: &str, pro: &str| {
            format!(
                "domain: edge
plans: {{ api: {{ free: {free}, pro: {pro}, default: free }} }}
descriptors:
  - key: client
    descriptors: [{{ key: plan, rate_limit: {{ plan: api }} }}]
"
            )
        };
        let (window, bucket) = ("{ rate: 10/minute }", "{ rate: 10/minute, burst: 3 }");
        assert_eq!(
            notes(&plans(window, window), &plans(window, bucket)),
            ["edge: client/plan (plan pro): it is a token_bucket instead of a sliding_window"]
        );
        // Those without a listed plan and those of `free` are held to the same.
        assert_eq!(
            notes(&plans(window, bucket), &plans(bucket, bucket)),
            ["edge: client/plan: it is a token_bucket instead of a sliding_window"]
        );
    }

    #[test]
    fn other_entries_make_other_counters() {
        let label = |more: &str| {
            format!(
                "domain: edge
descriptors:
  - key: client
    descriptors: [{{ key: api_key, rate_limit: {{ rate: 10/minute }}{more} }}]
"
            )
        };
        assert_eq!(
            notes(&label(""), &label(", counted: false")),
            ["edge: client/api_key: other entries are counted than before"]
        );
    }

    #[test]
    fn what_is_made_secret_starts_afresh_and_stays_secret() {
        let secret = |more: &str| {
            format!(
                "domain: edge
plans: {{ api: {{ s3cr3t: {{ rate: 10/minute{more} }}, default: {{ rate: 10/minute }} }} }}
descriptors:
  - key: tier
    descriptors: [{{ key: api_key, secret: true, rate_limit: {{ plan: api }} }}]
  - key: api_key
    value: s3cr3t-1
    rate_limit: {{ rate: 10/minute }}
  - key: api_key
    value: s3cr3t-2
    rate_limit: {{ rate: 10/minute{more} }}
"
            )
        };
        assert_eq!(
            notes(&secret(""), &secret(", burst: 3")),
            [
                "edge: api_key=(secret): it is a token_bucket instead of a sliding_window",
                "edge: tier/api_key (plan (secret)): it is a token_bucket instead of a sliding_window",
            ]
        );
        assert_eq!(
            notes(
                &rule("rate_limit: { rate: 1/day }"),
                &rule("secret: true\n    rate_limit: { rate: 1/day }")
            ),
            ["edge: client: other values are secret than before"]
        );
    }

    #[test]
    fn another_shard_starts_afresh_where_it_makes_a_difference() {
        let sharded = |by: &str| {
            format!(
                "domain: edge
{by}
descriptors:
  - key: client
    rate_limit: {{ rate: 1/day }}
    descriptors: [{{ key: route, rate_limit: {{ rate: 1/day }} }}]
  - key: route
    descriptors: [{{ key: client, counted: false, rate_limit: {{ rate: 1/day }} }}]
"
            )
        };
        assert_eq!(
            notes(&sharded(""), &sharded("shard_by: client")),
            ["edge: client/route: another entry is what its counters are sharded by"]
        );
        assert_eq!(notes(&sharded(""), &sharded("shard_by: verb")), [""; 0]);
    }

    #[test]
    fn rules_and_domains_that_come_and_go_are_no_news() {
        let other = "domain: other\ndescriptors:\n  - key: user\n    rate_limit: { rate: 1/day }\n";
        assert_eq!(notes(&limit("rate: 10/minute"), other), [""; 0]);
        let renamed = limit("rate: 10/hour").replace("client", "user");
        assert_eq!(notes(&limit("rate: 10/minute"), &renamed), [""; 0]);
    }
}

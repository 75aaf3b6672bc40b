//! What is probably not what was meant: warnings, never errors.

use std::collections::{BTreeSet, HashMap};

use crate::domain::check::OnStoreFailure;
use crate::domain::limit::Limit;
use crate::domain::time::Micros;

use super::budget::{Budget, Share};
use super::forms::{NodeForm, Settings, ValuesForm, is_set};
use super::merge::{Leads, Merged, Normalizers, Written};
use super::node::{Located, Place, shown};
use super::path::shown_values;
use super::pattern::Pattern;
use super::problem::Report;
use super::secret;

/// A descriptor has at most so many entries.
const MOST_ENTRIES: usize = 32;

/// More patterns of one key on one level than these are not compared with one another.
const MOST_PATTERNS: usize = 1_000;

/// How long Envoy waits for an answer where nothing else is said. Then it lets the request pass.
const DEFAULT_WAIT: Micros = Micros::new(20_000);

/// Looks at the nodes of a level, which stand below `depth` others.
pub(super) fn level(nodes: &[Merged<'_>], normalizers: &Normalizers, depth: usize, report: &mut Report) {
    hidden_patterns(nodes, report);
    hidden_subtrees(nodes, report);
    for node in nodes {
        without_effect(node.settings, report);
        limit_on_child(node, report);
        raw_forwarded_for(node.settings, normalizers, report);
        if depth >= MOST_ENTRIES && node.settings.limits.is_some() {
            let message = format!("no descriptor reaches this rule: it may have {MOST_ENTRIES} entries");
            report.warning(node.settings.key.place, message);
        }
    }
}

/// A pattern that can never be the first to match.
fn hidden_patterns(nodes: &[Merged<'_>], report: &mut Report) {
    let mut by_key: HashMap<&str, Vec<(&str, Pattern, Place)>> = HashMap::new();
    for node in nodes {
        let ValuesForm::Text(text) = &node.settings.values else {
            continue;
        };
        let Some(pattern) = Pattern::new(&text.value) else {
            continue;
        };
        let earlier = by_key.entry(&node.settings.key.value).or_default();
        // A star of the later pattern that the earlier one takes as a byte like any other stands for whatever it may.
        let hidden_by = earlier
            .iter()
            .find(|(_, earlier, _)| earlier.matches(text.value.as_bytes()));
        if let Some((first, _, place)) = hidden_by {
            let [hidden, first] = [&*text.value, *first].map(|value| secret::shown(node.settings, value));
            let message =
                format!("`{hidden}` never matches: `{first}` stands before it and matches all of it");
            report
                .warning(text.place, message)
                .hint("put the narrower pattern first")
                .also(*place, "the earlier");
        }
        if earlier.len() < MOST_PATTERNS {
            earlier.push((&text.value, pattern, text.place));
        }
    }
}

/// A value that leads into a subtree with fewer rules than the node without a value beside it has: there is no way back
/// from it.
fn hidden_subtrees(nodes: &[Merged<'_>], report: &mut Report) {
    let mut usual: HashMap<&str, BTreeSet<String>> = HashMap::new();
    for node in nodes
        .iter()
        .filter(|node| node.leads == Leads::Any && !node.children.is_empty())
    {
        let rules = usual.entry(&node.settings.key.value).or_default();
        rules_below(&node.children, "", rules);
    }
    for node in nodes.iter().filter(|node| node.leads != Leads::Any) {
        let Some(usual) = usual.get(&*node.settings.key.value) else {
            continue;
        };
        let mut own = BTreeSet::new();
        rules_below(&node.children, "", &mut own);
        let Some(first) = usual.difference(&own).next() else {
            continue;
        };
        let key = shown(&node.settings.key.value);
        let value = shown_values(node.settings).unwrap_or_default();
        let message = format!(
            "{key} = {} has no rule for {first}, which any other {key} has",
            shown(&value)
        );
        report
            .warning(node.settings.key.place, message)
            .hint("there is no way back from a value: repeat here what shall hold for it as well");
    }
}

/// The keys that lead to rules, values left out.
fn rules_below(written: &[Written<'_>], above: &str, rules: &mut BTreeSet<String>) {
    for Written { form, .. } in written {
        note_rules(form, above, rules);
    }
}

fn note_rules(form: &NodeForm, above: &str, rules: &mut BTreeSet<String>) {
    let path = if above.is_empty() {
        shown(&form.key.value)
    } else {
        format!("{above}/{}", shown(&form.key.value))
    };
    for child in &form.children {
        note_rules(child, &path, rules);
    }
    if form.limits.is_some() {
        rules.insert(path);
    }
}

/// Keys that say something about a limit on a node that has none. Generators write them, and they do no harm.
fn without_effect(form: &NodeForm, report: &mut Report) {
    if form.limits.is_some() {
        return;
    }
    let settings = &form.settings;
    let set = |flag: Option<Located<bool>>| flag.filter(|flag| flag.value).map(|flag| flag.place);
    let places = [
        ("shadow_mode", set(settings.shadow_mode)),
        ("quota_mode", set(settings.quota_mode)),
        ("detailed_metric", set(settings.detailed_metric)),
        (
            "metadata",
            settings.metadata.as_ref().map(|metadata| metadata.place),
        ),
        ("cost", settings.cost.map(|cost| cost.place)),
        ("advice", settings.advice.as_ref().map(|advice| advice.place)),
        ("charge", settings.charge.map(|charge| charge.place)),
        ("on_excess", settings.on_excess.map(|excess| excess.place)),
        (
            "on_store_failure",
            settings.on_store_failure.map(|choice| choice.place),
        ),
    ];
    for (key, place) in places {
        if let Some(place) = place {
            report.warning(place, format!("`{key}` has no effect on a node without a limit"));
        }
    }
}

/// Looks at a limit under which calls may be delayed, as it is said at `place`.
pub(super) fn delay(limit: &Limit, place: Place, report: &mut Report) {
    let delay = limit.delay();
    if delay > DEFAULT_WAIT {
        let message = format!(
            "a delay of {delay} is longer than the {DEFAULT_WAIT} that Envoy waits by default, and then lets the \
             request pass"
        );
        report
            .warning(place, message)
            .hint("set `timeout` of Envoy's rate limit filter above it, with some 10ms to spare");
    }
    if limit.count() == 0 {
        return;
    }
    let interval = Micros::new(limit.period().length().get().div_ceil(u64::from(limit.count())));
    if delay < interval {
        let message = format!(
            "a delay of {delay} is shorter than the {interval} that one hit of {}/{} takes to drain, so most of what \
             does not fit is refused all the same",
            limit.count(),
            limit.period()
        );
        report
            .warning(place, message)
            .hint("raise the delay or the rate, or write `on_excess: reject`");
    }
}

fn limit_on_child(node: &Merged<'_>, report: &mut Report) {
    if node.settings.limits.is_none() {
        return;
    }
    let child = node.children.iter().find(|child| child.form.limits.is_some());
    if let Some(Written { form, .. }) = child {
        let key = shown(&node.settings.key.value);
        let child = shown(&form.key.value);
        report
            .warning(
                form.key.place,
                format!("`{key}` has a limit, and so has `{child}` below it"),
            )
            .hint(format!(
                "a descriptor meets the rule at its end only; for both send ({key}) and ({key}, {child})"
            ));
    }
}

/// The whole list is the caller's to write, so that each made-up address would be a new budget.
fn raw_forwarded_for(form: &NodeForm, normalizers: &Normalizers, report: &mut Report) {
    let key = form.key.value.to_ascii_lowercase().replace('_', "-");
    let trusted = normalizers
        .get(&form.key.value)
        .is_some_and(|read| read.value.trusted_hops.is_some());
    if !trusted && matches!(key.as_str(), "x-forwarded-for" | "forwarded-for" | "xff") {
        report
            .warning(
                form.key.place,
                format!(
                    "callers write `{}` as they like, and so choose their budget",
                    shown(&form.key.value)
                ),
            )
            .hint(
                "use the gateway's `remote_address`, or `normalize: { forwarded_for: { trusted_hops: N } }`",
            );
    }
}

/// Looks at what a rule, whose limits are at `place`, and its node or `defaults` say of a store that fails.
pub(super) fn store_failure(
    place: Place,
    node: Option<&&NodeForm>,
    settings: &Settings,
    budget: &Budget,
    report: &mut Report,
) {
    let own = node.and_then(|node| node.settings.on_store_failure);
    if budget.shares().flat_map(Share::held).next().is_none() {
        if let Some(choice) = own {
            let message = "`on_store_failure` has no effect on a rule that is `unlimited`";
            report.warning(choice.place, message);
        }
        return;
    }
    let error = settings
        .on_store_failure
        .filter(|choice| choice.value == OnStoreFailure::Error && is_set(settings.shadow_mode));
    if let Some(choice) = error {
        let message = "this rule is only watched, but while Redis is gone each of its requests is an error";
        report
            .warning(place, message)
            .hint("write `on_store_failure: allow` beside `shadow_mode`")
            .also(choice.place, "by what is said here");
    }
}

/// Warns of a cost that some caller's limit can never hold: every call of such a caller is refused.
pub(super) fn cost(cost: Located<u32>, budget: &Budget, report: &mut Report) {
    let mut limits = budget.shares().flat_map(Share::held);
    if let Some(limit) = limits.find(|limit| limit.count() > 0 && limit.largest() < cost.value) {
        let message = format!(
            "one hit costs {}, and the limit `{}` holds {} at most: it refuses every call",
            cost.value,
            limit.name(),
            limit.largest()
        );
        report.warning(cost.place, message);
    }
}

//! Limits that set others of the same request aside.

use std::collections::{HashMap, HashSet};

use super::Rule;
use super::budget::Share;
use super::forms::Text;
use super::node::shown;
use super::problem::Report;

/// Notes limits that replace themselves, one another in a ring (then none would be left), or nothing at all.
/// `replacing` tells which of the `rules` replaces which name.
pub(super) fn check(rules: &[Rule], replacing: &[(usize, Text)], report: &mut Report) {
    if replacing.is_empty() {
        return;
    }
    let mut known = HashSet::new();
    let mut replaced_by: HashMap<&str, Vec<&str>> = HashMap::new();
    for limit in rules.iter().flat_map(limits_of) {
        known.insert(limit);
    }
    for (rule, name) in replacing {
        for own in limits_of(&rules[*rule]) {
            replaced_by.entry(own).or_default().push(&name.value);
        }
    }
    for (rule, name) in replacing {
        let text = &*name.value;
        if limits_of(&rules[*rule]).any(|own| own == text) {
            report.error(name.place, format!("`{}` replaces itself", shown(text)));
        } else if limits_of(&rules[*rule]).any(|own| leads_to(text, own, &replaced_by)) {
            report
                .error(
                    name.place,
                    format!(
                        "`{}` also replaces this limit, so that none would be left",
                        shown(text)
                    ),
                )
                .hint("remove one of the two");
        } else if !known.contains(text) && report.is_whole() {
            let near = super::spelling::nearest(text, known.iter().copied());
            report
                .warning(name.place, format!("no limit is named `{}`", shown(text)))
                .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
        }
    }
}

fn limits_of(rule: &Rule) -> impl Iterator<Item = &str> {
    rule.budget
        .shares()
        .flat_map(Share::held)
        .map(|limit| &**limit.name())
}

/// Whether `from` replaces `to`, directly or through others.
fn leads_to(from: &str, to: &str, replaced_by: &HashMap<&str, Vec<&str>>) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name) {
            open.extend(replaced_by.get(name).into_iter().flatten());
        }
    }
    false
}

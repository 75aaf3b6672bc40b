//! How rules are called: by the keys and values that lead to them.

use std::collections::HashSet;
use std::sync::Arc;

use crate::domain::limit::{Period, Unit};

use super::forms::{NodeForm, ValuesForm, is_set};
use super::normalize;
use super::secret::SECRET;

/// The paths of one domain that two rules would share, if slashes in values were not escaped. They seldom are: values
/// often hold slashes, and paths are read by people.
#[derive(Default)]
pub(super) struct Ambiguous {
    once: HashSet<String>,
    more: HashSet<String>,
}

impl Ambiguous {
    /// Notes the paths of all rules in `nodes`, which stand below `above`.
    pub(super) fn note<'f>(&mut self, above: &mut Vec<&'f NodeForm>, nodes: &'f [NodeForm]) {
        for node in nodes {
            above.push(node);
            if node.limits.is_some() {
                let path = written(above, b"");
                if !self.once.insert(path.clone()) {
                    self.more.insert(path);
                }
            }
            self.note(above, &node.children);
            above.pop();
        }
    }

    /// The path of the last of `nodes`, which no other rule of the domain has: keys joined by `/`, with `=value` where
    /// the node has one.
    pub(super) fn path(&self, nodes: &[&NodeForm]) -> Arc<str> {
        let path = written(nodes, b"");
        if self.more.contains(&path) {
            written(nodes, b"/").into()
        } else {
            path.into()
        }
    }
}

fn written(nodes: &[&NodeForm], also_escaped_in_values: &[u8]) -> String {
    let mut path = String::new();
    for (depth, node) in nodes.iter().enumerate() {
        if depth > 0 {
            path.push('/');
        }
        escape_into(&mut path, node.key.value.as_bytes(), b"/=");
        if let Some(values) = shown_values(node) {
            path.push('=');
            escape_into(&mut path, values.as_bytes(), also_escaped_in_values);
        }
    }
    path
}

/// The node's value or pattern; of networks the first, and how many more there are.
pub(super) fn values(node: &NodeForm) -> Option<String> {
    match &node.values {
        ValuesForm::Any => None,
        ValuesForm::Text(text) => Some(text.value.to_string()),
        ValuesForm::Networks(networks) => {
            let first = networks.first().map(|network| normalize::shown(network.value))?;
            Some(if networks.len() == 1 {
                first
            } else {
                format!("{first}+{}", networks.len() - 1)
            })
        }
    }
}

/// The same as anybody may see it.
pub(super) fn shown_values(node: &NodeForm) -> Option<String> {
    let values = values(node)?;
    Some(if is_set(node.secret) {
        SECRET.to_owned()
    } else {
        values
    })
}

/// Writes `text` in what a quoted header value may hold: printable ASCII without quotes and backslashes.
pub(super) fn escape_into(path: &mut String, text: &[u8], also: &[u8]) {
    for &byte in text {
        if matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'%') && !also.contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push('%');
            path.extend(
                [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])),
            );
        }
    }
}

/// What sets the limits of a list apart: `minute`, `15m`, `3month`.
pub(super) fn period_suffix(period: Period) -> String {
    let name = period.unit.name();
    match (period.multiplier, period.unit) {
        (1, _) => name.to_owned(),
        (many, Unit::Month | Unit::Year) => format!("{many}{name}"),
        (many, _) => format!("{many}{}", &name[..1]),
    }
}

//! Metrics that are kept apart by the values of callers, where a policy asks for that.

use std::sync::Arc;

use crate::domain::descriptor::Entry;

use super::forms::{NodeForm, Settings, ValuesForm, is_set};
use super::path::{escape_into, shown_values};

/// One level of a rule's path.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    key: Arc<str>,
    /// As the policy writes it.
    value: Option<Box<str>>,
    /// The caller's value is shown instead.
    shows_value: bool,
}

/// The parts of the path that `nodes` are; `None` where none shows a caller's value. Values that share a threshold are
/// shown as what they share it by.
pub(super) fn parts(nodes: &[&NodeForm], defaults: &Settings, detailed: bool) -> Option<Box<[Part]>> {
    let part = |node: &&NodeForm| {
        let settings = node.settings.or(defaults);
        let shares = is_set(settings.share_threshold) && !matches!(node.values, ValuesForm::Any);
        Part {
            key: Arc::clone(&node.key.value),
            value: shown_values(node).map(Into::into),
            shows_value: !shares && (detailed || is_set(settings.value_to_metric)),
        }
    };
    let parts: Box<[Part]> = nodes.iter().map(part).collect();
    parts.iter().any(|part| part.shows_value).then_some(parts)
}

/// The path with the values of `entries` where they are asked for.
pub(super) fn path(parts: &[Part], entries: &[Entry<'_>]) -> String {
    let mut path = String::new();
    for (depth, (part, entry)) in parts.iter().zip(entries).enumerate() {
        if depth > 0 {
            path.push('/');
        }
        escape_into(&mut path, part.key.as_bytes(), b"/=");
        let value = if part.shows_value {
            Some(entry.value)
        } else {
            part.value.as_deref().map(str::as_bytes)
        };
        if let Some(value) = value {
            path.push('=');
            escape_into(&mut path, value, b"");
        }
    }
    path
}

//! How rules are called: by the keys and values that lead to them.

use std::collections::HashSet;
use std::sync::Arc;

use super::forms::NodeForm;

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
            if node.limit.is_some() {
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
        escape_into(&mut path, &node.key.value, b"/=");
        if let Some(value) = &node.value {
            path.push('=');
            escape_into(&mut path, &value.value, also_escaped_in_values);
        }
    }
    path
}

/// Writes `text` in what a quoted header value may hold: printable ASCII without quotes and backslashes.
fn escape_into(path: &mut String, text: &str, also: &[u8]) {
    for byte in text.bytes() {
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

//! Keys whose values are shown nowhere: said by one node, and then so in all of the domain.
//!
//! A value that is secret on one path is no less so on another, and a counter, a metric or a message that shows it there
//! has told it. What the policy itself says of such values is matched as it is written, and left out of names as well.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::forms::{DocumentForm, NodeForm, Settings, ValuesForm, is_set};
use super::node::{self, Located, Place};
use super::problem::Report;

/// Stands for a secret value wherever a person would see it.
pub(super) const SECRET: &str = "(secret)";

/// Where the keys of one domain are first said to be secret.
type Secrets = HashMap<Arc<str>, Place>;

/// Makes secret all nodes of every key that one node of the domain says is.
pub(super) fn spread(documents: &mut [DocumentForm], report: &mut Report) {
    let mut by_domain: HashMap<Arc<str>, Secrets> = HashMap::new();
    for document in &*documents {
        let mut found = Secrets::new();
        collect(&document.nodes, &mut found);
        if !found.is_empty() {
            let secrets = by_domain.entry(Arc::clone(&document.domain.value)).or_default();
            for (key, place) in found {
                secrets.entry(key).or_insert(place);
            }
        }
    }
    for document in documents {
        if let Some(secrets) = by_domain.get(&document.domain.value) {
            mark(&mut document.nodes, secrets, report);
        }
    }
}

fn collect(nodes: &[NodeForm], secrets: &mut Secrets) {
    for node in nodes {
        if let Some(said) = node.secret.filter(|said| said.value) {
            secrets.entry(Arc::clone(&node.key.value)).or_insert(said.place);
        }
        collect(&node.children, secrets);
    }
}

fn mark(nodes: &mut [NodeForm], secrets: &Secrets, report: &mut Report) {
    for node in nodes {
        if let Some(&place) = secrets.get(&node.key.value) {
            if let Some(said) = node.secret.filter(|said| !said.value) {
                let message = format!(
                    "`{}` is secret elsewhere in the domain, and so everywhere",
                    node::shown(&node.key.value)
                );
                report.error(said.place, message).also(place, "secret at");
            }
            node.secret.get_or_insert(Located { place, value: true });
        }
        mark(&mut node.children, secrets, report);
    }
}

/// The keys of a domain whose values are secret, in order.
pub(super) fn keys(documents: &[&DocumentForm]) -> Box<[Bytes]> {
    let mut secrets = Secrets::new();
    for document in documents {
        collect(&document.nodes, &mut secrets);
    }
    let mut keys: Vec<Bytes> = secrets
        .into_keys()
        .map(|key| Bytes::copy_from_slice(key.as_bytes()))
        .collect();
    keys.sort_unstable();
    keys.into()
}

/// `text`, a value that `form` is about, as it may stand in a message.
pub(super) fn shown<'t>(form: &NodeForm, text: &'t str) -> Cow<'t, str> {
    if is_set(form.secret) {
        Cow::Borrowed(SECRET)
    } else {
        Cow::Owned(node::shown(text))
    }
}

/// Notes that metrics by value were to show what is secret on the way that `nodes` are.
pub(super) fn not_in_metrics(nodes: &[&NodeForm], defaults: &Settings, report: &mut Report) {
    let last = nodes.last().map(|node| node.settings.or(defaults));
    let detailed = last.and_then(|settings| settings.detailed_metric);
    for node in nodes {
        let Some(secret) = node.secret.filter(|secret| secret.value) else {
            continue;
        };
        let settings = node.settings.or(defaults);
        let shares = is_set(settings.share_threshold) && !matches!(node.values, ValuesForm::Any);
        let flags = [
            ("detailed_metric", detailed),
            ("value_to_metric", settings.value_to_metric),
        ];
        for (key, flag) in flags {
            if let Some(flag) = flag.filter(|flag| flag.value && !shares) {
                let message = format!(
                    "`{key}` would show values of `{}`, which is secret",
                    node::shown(&node.key.value)
                );
                report
                    .error(flag.place, message)
                    .hint(format!(
                        "remove it; where `defaults` say it, say `{key}: false` in the descriptor"
                    ))
                    .also(secret.place, "secret at");
            }
        }
    }
}

//! `shard_by`: the entry by which the counters of a domain share a cluster slot.

use bytes::Bytes;

use super::forms::{DocumentForm, NodeForm, Text};
use super::node::shown;
use super::problem::Report;

/// The key that the documents of one domain agree on.
pub(super) fn key(documents: &[&DocumentForm], report: &mut Report) -> Option<Bytes> {
    let mut said = documents.iter().filter_map(|document| document.shard_by.as_ref());
    let first = said.next()?;
    for other in said.filter(|other| other.value != first.value) {
        report
            .error(
                other.place,
                "`shard_by` of one domain is said in two different ways",
            )
            .hint(format!("write `shard_by: {}` here, too", shown(&first.value)))
            .also(first.place, "first at");
    }
    if report.is_whole() && !documents.iter().any(|document| names(&document.nodes, first)) {
        let message = format!(
            "no descriptor has the key `{}`, so `shard_by` has no effect",
            shown(&first.value)
        );
        report.warning(first.place, message);
    }
    Some(Bytes::copy_from_slice(first.value.as_bytes()))
}

fn names(nodes: &[NodeForm], key: &Text) -> bool {
    nodes
        .iter()
        .any(|node| node.key.value == key.value || names(&node.children, key))
}

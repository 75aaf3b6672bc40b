//! One level of a domain's tree, put together from every document that writes it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use bytes::Bytes;
use ipnet::IpNet;

use super::forms::{NodeForm, ValuesForm};
use super::node::{Located, Place, shown};
use super::normalize::{self, Normalizer};
use super::pattern::Pattern;
use super::problem::Report;

/// A node as a document writes it.
#[derive(Clone, Copy)]
pub(super) struct Written<'f> {
    /// Which of the domain's documents.
    pub document: usize,
    pub form: &'f NodeForm,
}

/// One node, put together from every document that writes it.
pub(super) struct Merged<'f> {
    first: Written<'f>,
    /// The one that says something about the node itself.
    pub settings: &'f NodeForm,
    pub leads: Leads,
    pub children: Vec<Written<'f>>,
}

/// Which values of its key lead to a node, normalised.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Leads {
    Any,
    /// An exact value, or a pattern.
    Value(Bytes),
    Networks(Vec<IpNet>),
}

/// How the values of each key of a level are read.
pub(super) type Normalizers = HashMap<Arc<str>, Located<Normalizer>>;

/// How the values of each key are read: said by any node of that key, for all of them.
pub(super) fn normalizers(written: &[Written<'_>], report: &mut Report) -> Normalizers {
    let mut normalizers = Normalizers::new();
    for Written { form, .. } in written {
        let Some(normalize) = form.normalize else { continue };
        let first = normalizers
            .entry(Arc::clone(&form.key.value))
            .or_insert(normalize);
        if first.value != normalize.value {
            let message = format!(
                "`{}` is normalised differently on the same level",
                shown(&form.key.value)
            );
            report
                .error(normalize.place, message)
                .hint("say `normalize` once for a key on its level")
                .also(first.place, "first at");
        }
    }
    normalizers
}

/// Nodes of the same key and value are one, if at most one of them says more than where its children are, and if they
/// stand in different documents.
pub(super) fn merged<'f>(
    written: &[Written<'f>],
    normalizers: &Normalizers,
    report: &mut Report,
) -> Vec<Merged<'f>> {
    let mut merged: Vec<Merged<'f>> = Vec::with_capacity(written.len());
    let mut known = HashMap::with_capacity(written.len());
    let mut networks = HashMap::new();
    for written in written {
        let form = written.form;
        let normalizer = normalizers
            .get(&form.key.value)
            .map(|normalizer| normalizer.value);
        let leads = leads(form, normalizer, report);
        let children = form.children.iter().map(|form| Written {
            document: written.document,
            form,
        });
        match known.entry((Arc::clone(&form.key.value), leads.clone())) {
            Slot::Vacant(free) => {
                free.insert(merged.len());
                networks_once(form, normalizer, &mut networks, report);
                merged.push(Merged {
                    first: *written,
                    settings: form,
                    leads,
                    children: children.collect(),
                });
            }
            Slot::Occupied(found) => {
                let node = &mut merged[*found.get()];
                let same_document = node.first.document == written.document;
                if same_document || (node.settings.has_settings() && form.has_settings()) {
                    let first = if same_document {
                        node.first.form
                    } else {
                        node.settings
                    };
                    same_rule_twice(form, first, report);
                } else if form.has_settings() {
                    node.settings = form;
                }
                node.children.extend(children);
            }
        }
    }
    merged
}

fn leads(form: &NodeForm, normalizer: Option<Normalizer>, report: &mut Report) -> Leads {
    match &form.values {
        ValuesForm::Any => Leads::Any,
        ValuesForm::Networks(networks) => Leads::Networks(
            networks
                .iter()
                .map(|network| masked(network.value, normalizer))
                .collect(),
        ),
        ValuesForm::Text(text) => {
            let value = text.value.as_bytes();
            let Some(normalizer) = normalizer.filter(|_| Pattern::new(&text.value).is_none()) else {
                return Leads::Value(Bytes::copy_from_slice(value));
            };
            if normalizer.prefixes.is_some() && normalize::network(&text.value).is_none() {
                let message = format!(
                    "`{}` is not an address, but `normalize` makes every value one",
                    shown(&text.value)
                );
                report.error(text.place, message);
            }
            Leads::Value(Bytes::copy_from_slice(&normalizer.apply_to_written(value)))
        }
    }
}

/// The network that the addresses of `network` are in once normalised.
fn masked(network: IpNet, normalizer: Option<Normalizer>) -> IpNet {
    normalizer
        .and_then(|normalizer| normalizer.prefixes)
        .map_or(network, |prefixes| prefixes.mask(network))
}

/// Notes networks of a key that are given twice on a level, and those that normalising makes wider.
fn networks_once<'f>(
    form: &'f NodeForm,
    normalizer: Option<Normalizer>,
    known: &mut HashMap<(&'f str, IpNet), Place>,
    report: &mut Report,
) {
    let ValuesForm::Networks(networks) = &form.values else {
        return;
    };
    for network in networks {
        let masked = masked(network.value, normalizer);
        if let Some(first) = known.insert((&form.key.value, masked), network.place) {
            report
                .error(
                    network.place,
                    format!("the network {} is given twice", normalize::shown(masked)),
                )
                .also(first, "first at");
        } else if masked != network.value {
            report
                .warning(
                    network.place,
                    format!("`normalize` makes {masked} of {}", network.value),
                )
                .hint("write a longer prefix there, or this network here");
        }
    }
}

fn same_rule_twice(form: &NodeForm, first: &NodeForm, report: &mut Report) {
    let key = shown(&form.key.value);
    let what = match (&form.values, &first.values) {
        (ValuesForm::Text(value), ValuesForm::Text(other)) if value.value == other.value => {
            format!("the rule for {key} = {}", shown(&value.value))
        }
        (ValuesForm::Text(value), ValuesForm::Text(other)) => {
            format!(
                "the rule for {key} = {}, which is {} once normalised,",
                shown(&value.value),
                shown(&other.value)
            )
        }
        (ValuesForm::Networks(_), _) => format!("the rule for these networks of {key}"),
        _ => format!("the rule for any {key}"),
    };
    report
        .error(form.key.place, format!("{what} is given twice"))
        .also(first.key.place, "first at");
}

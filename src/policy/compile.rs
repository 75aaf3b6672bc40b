//! From typed forms to trees that can be walked: documents merged by domain, rules named and numbered.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use bytes::Bytes;

use crate::domain::check::{Binding, Charge};

use super::budget::{Budget, Tables, tables};
use super::forms::{DocumentForm, NodeForm};
use super::matcher::{Match, NodeId, Tree};
use super::normalize::Normalizer;
use super::path::Ambiguous;
use super::pattern::Pattern;
use super::problem::Report;
use super::tree::{Located, shown};
use super::{Policy, Rule};

/// One policy per domain, in the order of their names. Documents of one domain are merged in the order they are given.
pub(super) fn policies(documents: &[DocumentForm], report: &mut Report) -> Vec<Policy> {
    let mut domains: Vec<&Arc<str>> = documents.iter().map(|document| &document.domain.value).collect();
    domains.sort();
    domains.dedup();
    domains
        .into_iter()
        .map(|domain| policy(domain, documents, report))
        .collect()
}

fn policy(domain: &Arc<str>, documents: &[DocumentForm], report: &mut Report) -> Policy {
    let of_domain = || {
        documents
            .iter()
            .filter(|document| document.domain.value == *domain)
    };
    let tables = tables(of_domain().flat_map(|document| &document.tables), report);
    let nodes: Vec<Written<'_>> = of_domain()
        .enumerate()
        .flat_map(|(document, form)| form.nodes.iter().map(move |form| Written { document, form }))
        .collect();
    let mut paths = Ambiguous::default();
    of_domain().for_each(|document| paths.note(&mut Vec::new(), &document.nodes));
    let mut compiler = Compiler {
        tables: &tables,
        tree: Tree::new(),
        rules: Vec::new(),
        paths,
        report,
    };
    compiler.level(Tree::ROOT, &mut Vec::new(), &nodes);
    let Compiler { tree, rules, .. } = compiler;
    Policy {
        domain: Bytes::copy_from_slice(domain.as_bytes()),
        overrides: overrides(rules.len()),
        rules,
        tree,
    }
}

/// The rule of limits that come with a request and have no other.
fn overrides(index: usize) -> Rule {
    Rule {
        index,
        path: Arc::from("override"),
        shadow_mode: false,
        binding: Binding::Always,
        charge: Charge::default(),
        cost: 1,
        advice: None,
        budget: Budget::Flat(super::Limits::Unlimited),
    }
}

/// A node as a document writes it.
#[derive(Clone, Copy)]
struct Written<'f> {
    /// Which of the domain's documents.
    document: usize,
    form: &'f NodeForm,
}

/// What makes two nodes on one level the same.
#[derive(PartialEq, Eq, Hash)]
struct Identity {
    key: Arc<str>,
    value: Option<Bytes>,
}

/// One node, put together from every document that writes it.
struct Merged<'f> {
    first: Written<'f>,
    /// The one that says something about the node itself.
    settings: &'f NodeForm,
    value: Option<Bytes>,
    children: Vec<Written<'f>>,
}

struct Compiler<'c> {
    tables: &'c Tables<'c>,
    tree: Tree,
    rules: Vec<Rule>,
    paths: Ambiguous,
    report: &'c mut Report,
}

impl Compiler<'_> {
    /// Adds the nodes of a level to the tree; `above` are the nodes it is below.
    fn level<'f>(&mut self, parent: NodeId, above: &mut Vec<&'f NodeForm>, written: &[Written<'f>]) {
        let normalizers = self.normalizers(written);
        for (key, normalizer) in &normalizers {
            self.tree.normalize(parent, &bytes(key), normalizer.value);
        }
        for node in self.merged(written, &normalizers) {
            self.node(parent, above, node);
        }
    }

    /// How the values of each key are read: said by any node of that key, for all of them.
    fn normalizers(&mut self, written: &[Written<'_>]) -> HashMap<Arc<str>, Located<Normalizer>> {
        let mut normalizers = HashMap::new();
        for Written { form, .. } in written {
            let Some(normalize) = form.normalize else { continue };
            let first: &mut Located<Normalizer> = normalizers
                .entry(Arc::clone(&form.key.value))
                .or_insert(normalize);
            if first.value != normalize.value {
                let message = format!(
                    "`{}` is normalised differently on the same level",
                    shown(&form.key.value)
                );
                self.report
                    .error(normalize.place, message)
                    .hint("say `normalize` once for a key on its level")
                    .also(first.place, "first at");
            }
        }
        normalizers
    }

    /// Nodes of the same key and value are one, if at most one of them says more than where its children are, and if
    /// they stand in different documents.
    fn merged<'f>(
        &mut self,
        written: &[Written<'f>],
        normalizers: &HashMap<Arc<str>, Located<Normalizer>>,
    ) -> Vec<Merged<'f>> {
        let mut merged: Vec<Merged<'f>> = Vec::with_capacity(written.len());
        let mut known = HashMap::with_capacity(written.len());
        for written in written {
            let form = written.form;
            let normalizer = normalizers
                .get(&form.key.value)
                .map(|normalizer| normalizer.value);
            let value = self.value(form, normalizer);
            let children = form.children.iter().map(|form| Written {
                document: written.document,
                form,
            });
            match known.entry(Identity {
                key: Arc::clone(&form.key.value),
                value: value.clone(),
            }) {
                Slot::Vacant(free) => {
                    free.insert(merged.len());
                    let children = children.collect();
                    merged.push(Merged {
                        first: *written,
                        settings: form,
                        value,
                        children,
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
                        self.same_rule_twice(form, first);
                    } else if form.has_settings() {
                        node.settings = form;
                    }
                    node.children.extend(children);
                }
            }
        }
        merged
    }

    fn same_rule_twice(&mut self, form: &NodeForm, first: &NodeForm) {
        let key = shown(&form.key.value);
        let what = match (&form.value, &first.value) {
            (Some(value), Some(other)) if value.value == other.value => {
                format!("the rule for {key} = {}", shown(&value.value))
            }
            (Some(value), Some(other)) => {
                format!(
                    "the rule for {key} = {}, which is {} once normalised,",
                    shown(&value.value),
                    shown(&other.value)
                )
            }
            _ => format!("the rule for any {key}"),
        };
        self.report
            .error(form.key.place, format!("{what} is given twice"))
            .also(first.key.place, "first at");
    }

    /// The node's value; normalised, where it is an exact one and its key's values are.
    fn value(&mut self, form: &NodeForm, normalizer: Option<Normalizer>) -> Option<Bytes> {
        let value = form.value.as_ref()?;
        let Some(normalizer) = normalizer.filter(|_| Pattern::new(&value.value).is_none()) else {
            return Some(bytes(&value.value));
        };
        if !Normalizer::knows(&value.value) {
            let message = format!(
                "`{}` is not an address, but `normalize` makes every value one",
                shown(&value.value)
            );
            self.report.error(value.place, message);
        }
        Some(Bytes::copy_from_slice(&normalizer.apply(value.value.as_bytes())))
    }

    fn node<'f>(&mut self, parent: NodeId, above: &mut Vec<&'f NodeForm>, node: Merged<'f>) {
        let form = node.settings;
        above.push(form);
        let rule = self.rule(form, above);
        let leads = match (node.value, &form.value) {
            (Some(exact), Some(text)) => {
                Pattern::new(&text.value).map_or(Match::Exact(exact), Match::Pattern)
            }
            _ => Match::Any,
        };
        let id = self.tree.add(parent, &bytes(&form.key.value), leads, rule);
        self.level(id, above, &node.children);
        above.pop();
    }

    /// Adds the rule that `form` is, if it has a limit; `nodes` lead to it, and it is the last of them.
    fn rule(&mut self, form: &NodeForm, nodes: &[&NodeForm]) -> Option<usize> {
        let limit = form.limit.as_ref()?;
        let path = self.paths.path(nodes);
        let budget = Budget::new(limit, nodes.len() - 1, &path, self.tables, self.report)?;
        let shadow_mode = form.shadow_mode.is_some_and(|shadow| shadow.value);
        let index = self.rules.len();
        self.rules.push(Rule {
            index,
            path,
            shadow_mode,
            binding: if shadow_mode {
                Binding::Never
            } else {
                Binding::Always
            },
            charge: Charge::default(),
            cost: 1,
            advice: None,
            budget,
        });
        Some(index)
    }
}

fn bytes(text: &Arc<str>) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

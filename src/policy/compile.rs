//! From typed forms to trees that can be walked: documents merged by domain, rules named and numbered.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::domain::check::{Binding, Charge, OnStoreFailure};
use crate::domain::limit::Algorithm;

use super::budget::{Budget, Manner, Share, Site};
use super::forms::{DocumentForm, LimitsForm, NodeForm, Settings, Text, ValuesForm, is_set};
use super::lint;
use super::matcher::{Match, NodeId, Tree};
use super::merge::{Leads, Merged, Written, merged, normalizers};
use super::metric;
use super::path::{self, Ambiguous};
use super::pattern::Pattern;
use super::problem::Report;
use super::replaces;
use super::secret;
use super::shard;
use super::table::Tables;
use super::{Assumed, Policy, Rare, Rule};

/// The most shares that the plans of a set may come to: rules times rows. Each holds limits of its own, and a set
/// must not take all memory.
const MOST_SHARES: usize = 1_000_000;

/// One policy per domain, in the order of their names. Documents of one domain are merged in the order they are given.
pub(super) fn policies(documents: &[DocumentForm], assumed: Assumed, report: &mut Report) -> Vec<Policy> {
    let mut domains: BTreeMap<&Arc<str>, Vec<&DocumentForm>> = BTreeMap::new();
    for document in documents {
        domains.entry(&document.domain.value).or_default().push(document);
    }
    let mut shares = 0;
    let policy = |(domain, of_domain): (_, Vec<_>)| policy(domain, &of_domain, assumed, &mut shares, report);
    domains.into_iter().map(policy).collect()
}

fn policy(
    domain: &Arc<str>,
    documents: &[&DocumentForm],
    assumed: Assumed,
    shares: &mut usize,
    report: &mut Report,
) -> Policy {
    let of_domain = || documents.iter().copied();
    let defaults = defaults(of_domain(), report);
    let manner = Manner {
        compat: assumed.compat || of_domain().any(|document| document.compat.is_some()),
        algorithm: defaults.algorithm.map(|algorithm| algorithm.value),
    };
    let tables = Tables::new(of_domain().flat_map(|document| &document.tables), manner, report);
    let nodes: Vec<Written<'_>> = of_domain()
        .enumerate()
        .flat_map(|(document, form)| form.nodes.iter().map(move |form| Written { document, form }))
        .collect();
    let mut paths = Ambiguous::default();
    of_domain().for_each(|document| paths.note(&mut Vec::new(), &document.nodes));
    let usual = if manner.compat {
        Charge::Always
    } else {
        Charge::AllOrNothing
    };
    let charge = assumed.charge.unwrap_or(usual);
    let on_store_failure = defaults.on_store_failure.map(|choice| choice.value);
    let shard_by = shard::key(documents, report);
    let mut compiler = Compiler {
        tables: &tables,
        manner,
        defaults,
        charge,
        tree: Tree::new(),
        rules: Vec::new(),
        replacing: Vec::new(),
        paths,
        shares,
        report,
    };
    compiler.level(Tree::ROOT, &mut Vec::new(), &nodes);
    let Compiler {
        tree,
        rules,
        replacing,
        report,
        ..
    } = compiler;
    replaces::check(&rules, &replacing, report);
    Policy {
        domain: Bytes::copy_from_slice(domain.as_bytes()),
        compat: manner.compat,
        overrides: overrides(rules.len(), charge, on_store_failure),
        shard_by,
        secret_keys: secret::keys(documents),
        rules,
        tree,
    }
}

/// The rule of limits that come with a request and have no other.
fn overrides(index: usize, charge: Charge, on_store_failure: Option<OnStoreFailure>) -> Rule {
    Rule {
        index,
        path: Arc::from("override"),
        origin: None,
        shadow_mode: false,
        quota_mode: false,
        binding: Binding::Always,
        charge,
        on_store_failure,
        cost: 1,
        rare: None,
        uncounted: 0,
        secret: 0,
        budget: Budget::unlimited(),
    }
}

/// What `defaults` say, in the one document that has them.
fn defaults<'f>(documents: impl Iterator<Item = &'f DocumentForm>, report: &mut Report) -> Settings {
    let mut all = documents.filter_map(|document| document.defaults.as_ref());
    let Some(first) = all.next() else {
        return Settings::default();
    };
    for again in all {
        report
            .error(again.place, "`defaults` of one domain are given twice")
            .also(first.place, "first at");
    }
    first.value.clone()
}

struct Compiler<'c> {
    tables: &'c Tables<'c>,
    manner: Manner,
    defaults: Settings,
    /// Of rules that do not say.
    charge: Charge,
    tree: Tree,
    rules: Vec<Rule>,
    /// Which rule replaces which limits.
    replacing: Vec<(usize, Text)>,
    paths: Ambiguous,
    /// How many shares there are so far.
    shares: &'c mut usize,
    report: &'c mut Report,
}

impl Compiler<'_> {
    /// Adds the nodes of a level to the tree; `above` are the nodes it is below.
    fn level<'f>(&mut self, parent: NodeId, above: &mut Vec<&'f NodeForm>, written: &[Written<'f>]) {
        let normalizers = normalizers(written, self.report);
        for (key, normalizer) in &normalizers {
            self.tree.normalize(parent, &bytes(key), normalizer.value);
        }
        let nodes = merged(written, &normalizers, self.report);
        lint::level(&nodes, &normalizers, above.len(), self.report);
        for node in nodes {
            self.node(parent, above, node);
        }
    }

    fn node<'f>(&mut self, parent: NodeId, above: &mut Vec<&'f NodeForm>, node: Merged<'f>) {
        let form = node.settings;
        above.push(form);
        let settings = form.settings.or(&self.defaults);
        let rule = form
            .limits
            .as_ref()
            .and_then(|limits| self.rule(limits, &settings, above));
        let leads = match node.leads {
            Leads::Any => Match::Any,
            Leads::Networks(networks) => Match::Networks(networks),
            Leads::Value(value) => match &form.values {
                ValuesForm::Text(text) => {
                    Pattern::new(&text.value).map_or(Match::Exact(value), Match::Pattern)
                }
                _ => Match::Exact(value),
            },
        };
        let many = matches!(leads, Match::Pattern(_) | Match::Networks(_));
        let id = self.tree.add(parent, &bytes(&form.key.value), leads, rule);
        if let Some(values) = path::values(form).filter(|_| many && is_set(settings.share_threshold)) {
            self.tree.share(id, &values);
        }
        self.level(id, above, &node.children);
        above.pop();
    }

    /// Adds the rule that the last of `nodes` is, which lead to it.
    fn rule(&mut self, limits: &LimitsForm, settings: &Settings, nodes: &[&NodeForm]) -> Option<usize> {
        let path = self.paths.path(nodes);
        let site = Site {
            path: &path,
            nodes,
            tables: self.tables,
            manner: self.manner,
            excess: settings.on_excess,
        };
        if *self.shares > MOST_SHARES {
            return None;
        }
        let budget = Budget::new(limits, &site, self.report)?;
        *self.shares += budget.shares().count();
        if *self.shares > MOST_SHARES {
            let message =
                format!("the rules up to here, each with all its plans, come to over {MOST_SHARES} limits");
            self.report
                .error(limits.place, message)
                .hint("let one rule without a value serve all callers of a plan");
        }
        let charge = settings.charge.map_or(self.charge, |charge| charge.value);
        if charge == Charge::Always && holds_a_log(&budget) {
            let place = settings.charge.map_or(limits.place, |charge| charge.place);
            self.report
                .error(
                    place,
                    "`charge: always` and sliding_log do not go together: marks would have no end",
                )
                .hint("write `charge: each`, or another algorithm");
        }
        if let Some(cost) = settings.cost {
            lint::cost(cost, &budget, self.report);
        }
        lint::store_failure(limits.place, nodes.last(), settings, &budget, self.report);
        let uncounted = uncounted(nodes, &budget);
        if uncounted.count_ones() as usize == nodes.len() {
            self.report
                .warning(
                    limits.place,
                    "no entry that leads here is counted, so all callers share one budget",
                )
                .hint("send who is calling as an entry in front, say (client, plan)");
        }
        secret::not_in_metrics(nodes, &self.defaults, self.report);
        let index = self.rules.len();
        let replaces = limits.items.iter().flat_map(|item| &item.replaces);
        self.replacing
            .extend(replaces.clone().map(|name| (index, name.clone())));
        let shadow_mode = is_set(settings.shadow_mode);
        let quota_mode = is_set(settings.quota_mode);
        let binding = match (shadow_mode, quota_mode) {
            (true, _) => Binding::Never,
            (false, true) => Binding::WithAllQuotas,
            (false, false) => Binding::Always,
        };
        let rare = Rare {
            advice: settings.advice.as_ref().map(|advice| Arc::clone(&advice.value)),
            metadata: settings
                .metadata
                .as_ref()
                .map(|metadata| Arc::clone(&metadata.value)),
            replaces: replaces.map(|name| Arc::clone(&name.value)).collect(),
            metric: metric::parts(nodes, &self.defaults, is_set(settings.detailed_metric)),
        };
        self.rules.push(Rule {
            index,
            path,
            origin: nodes
                .last()
                .map(|node| Box::new(self.report.origin(node.key.place))),
            shadow_mode,
            quota_mode,
            binding,
            charge,
            on_store_failure: settings.on_store_failure.map(|choice| choice.value),
            cost: settings.cost.map_or(1, |cost| cost.value),
            rare: rare.boxed(),
            uncounted,
            secret: entries(nodes, |_, node| is_set(node.secret)),
            budget,
        });
        Some(index)
    }
}

fn holds_a_log(budget: &Budget) -> bool {
    let mut limits = budget.shares().flat_map(Share::held);
    limits.any(|limit| limit.algorithm() == Algorithm::SlidingLog)
}

/// A bit for each entry, by its place, that is no part of the counter's key.
fn uncounted(nodes: &[&NodeForm], budget: &Budget) -> u64 {
    let plan = budget.plan_entry();
    entries(nodes, |entry, node| {
        plan == Some(entry) || node.settings.counted.is_some_and(|counted| !counted.value)
    })
}

/// A bit for each entry, by its place, of which `is` holds.
fn entries(nodes: &[&NodeForm], is: impl Fn(usize, &NodeForm) -> bool) -> u64 {
    let places = nodes.iter().enumerate().filter(|(entry, node)| is(*entry, node));
    places.fold(0, |bits, (entry, _)| bits | 1 << entry)
}

fn bytes(text: &Arc<str>) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

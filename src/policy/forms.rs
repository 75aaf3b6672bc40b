//! A policy file as it was written: typed, and everything still with its place.

use std::sync::Arc;

use ipnet::IpNet;

use crate::domain::check::{Charge, OnStoreFailure};
use crate::domain::limit::{Algorithm, Period};
use crate::domain::time::Micros;

use super::metadata::Metadata;
use super::node::{Located, Place};
use super::normalize::Normalizer;

/// Text that was written somewhere.
pub(super) type Text = Located<Arc<str>>;

/// One document.
pub(super) struct DocumentForm {
    pub domain: Text,
    /// Where it says `compat: reference`.
    pub compat: Option<Place>,
    /// The key of the entry by which counters share a cluster slot.
    pub shard_by: Option<Text>,
    pub defaults: Option<Located<Settings>>,
    pub tables: Vec<TableForm>,
    pub nodes: Vec<NodeForm>,
}

/// A table of `plans`.
pub(super) struct TableForm {
    pub name: Text,
    pub rows: Vec<(Text, LimitsForm)>,
    pub default: Option<DefaultForm>,
}

/// What a table holds for plans that are not listed.
pub(super) enum DefaultForm {
    /// What it holds for this one.
    LikeRow(Text),
    /// A row of its own.
    Own(LimitsForm),
}

/// An item of `descriptors`.
pub(super) struct NodeForm {
    pub key: Text,
    pub values: ValuesForm,
    pub children: Vec<NodeForm>,
    pub limits: Option<LimitsForm>,
    pub settings: Settings,
    pub normalize: Option<Located<Normalizer>>,
    /// Whether its values are shown nowhere; the same for all nodes of the key, once
    /// [`secret::spread`](super::secret::spread) has seen them.
    pub secret: Option<Located<bool>>,
}

/// Which values of its key lead to a node.
pub(super) enum ValuesForm {
    /// Those that lead nowhere else.
    Any,
    /// This one, or those of this pattern.
    Text(Text),
    /// Addresses in one of these networks; at least one.
    Networks(Vec<Located<IpNet>>),
}

impl NodeForm {
    /// Whether it says anything but where its children are and how its key is read.
    pub(super) fn has_settings(&self) -> bool {
        self.limits.is_some() || self.settings != Settings::default()
    }
}

/// What is said about a node, or about all nodes of a domain by `defaults`.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Settings {
    pub shadow_mode: Option<Located<bool>>,
    pub quota_mode: Option<Located<bool>>,
    pub detailed_metric: Option<Located<bool>>,
    pub value_to_metric: Option<Located<bool>>,
    pub share_threshold: Option<Located<bool>>,
    pub counted: Option<Located<bool>>,
    pub metadata: Option<Located<Arc<Metadata>>>,
    pub cost: Option<Located<u32>>,
    pub advice: Option<Text>,
    pub charge: Option<Located<Charge>>,
    /// The longest delay; zero refuses at once.
    pub on_excess: Option<Located<Micros>>,
    pub on_store_failure: Option<Located<OnStoreFailure>>,
    /// Only in `defaults`.
    pub algorithm: Option<Located<Algorithm>>,
}

impl Settings {
    /// These, and what they do not say as `defaults` say it.
    pub(super) fn or(&self, defaults: &Self) -> Self {
        Self {
            shadow_mode: self.shadow_mode.or(defaults.shadow_mode),
            quota_mode: self.quota_mode.or(defaults.quota_mode),
            detailed_metric: self.detailed_metric.or(defaults.detailed_metric),
            value_to_metric: self.value_to_metric.or(defaults.value_to_metric),
            share_threshold: self.share_threshold.or(defaults.share_threshold),
            counted: self.counted,
            metadata: self.metadata.clone().or_else(|| defaults.metadata.clone()),
            cost: self.cost.or(defaults.cost),
            advice: self.advice.clone().or_else(|| defaults.advice.clone()),
            charge: self.charge.or(defaults.charge),
            on_excess: self.on_excess.or(defaults.on_excess),
            on_store_failure: self.on_store_failure.or(defaults.on_store_failure),
            algorithm: defaults.algorithm,
        }
    }
}

/// Whether a flag is given and true.
pub(super) fn is_set(flag: Option<Located<bool>>) -> bool {
    flag.is_some_and(|flag| flag.value)
}

/// What a node or a row of a table says about its limits.
#[derive(Clone)]
pub(super) struct LimitsForm {
    pub place: Place,
    /// Whether they were written as a list, even of one.
    pub is_list: bool,
    pub items: Vec<LimitForm>,
}

impl LimitsForm {
    /// One of which nothing could be read.
    pub(super) fn broken(place: Place) -> Self {
        Self {
            place,
            is_list: false,
            items: vec![LimitForm::empty(place, false)],
        }
    }

    /// Whether all of it could be read.
    pub(super) fn is_sound(&self) -> bool {
        self.items.iter().all(|item| item.sound)
    }
}

/// What is said about one limit.
#[derive(Clone)]
pub(super) struct LimitForm {
    pub place: Place,
    /// Whether all of it could be read; if not, that has been reported, and nothing more is to be said.
    pub sound: bool,
    pub count: Option<Located<u32>>,
    pub period: Option<Located<Period>>,
    pub burst: Option<Located<u32>>,
    pub algorithm: Option<Located<Algorithm>>,
    pub name: Option<Text>,
    pub unlimited: bool,
    pub replaces: Vec<Text>,
    pub plan: Option<PlanForm>,
    /// Only in a list.
    pub shadow_mode: bool,
    /// Only in a list; see [`Settings::on_excess`].
    pub on_excess: Option<Located<Micros>>,
}

/// Which table of `plans` a limit comes from.
#[derive(Clone)]
pub(super) struct PlanForm {
    pub table: Text,
    /// The key of the entry that names the row; the node's own when absent.
    pub entry: Option<Text>,
}

impl LimitForm {
    /// One that says nothing.
    pub(super) const fn empty(place: Place, sound: bool) -> Self {
        Self {
            place,
            sound,
            count: None,
            period: None,
            burst: None,
            algorithm: None,
            name: None,
            unlimited: false,
            replaces: Vec::new(),
            plan: None,
            shadow_mode: false,
            on_excess: None,
        }
    }

    /// This row, with what `over` says instead.
    pub(super) fn overridden_by(&self, over: &Self) -> Self {
        Self {
            place: self.place,
            sound: self.sound && over.sound,
            count: over.count.or(self.count),
            period: over.period.or(self.period),
            burst: over.burst.or(self.burst),
            algorithm: over.algorithm.or(self.algorithm),
            name: over.name.clone().or_else(|| self.name.clone()),
            unlimited: self.unlimited,
            replaces: Vec::new(),
            plan: None,
            shadow_mode: over.shadow_mode,
            on_excess: over.on_excess,
        }
    }
}

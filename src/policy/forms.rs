//! A policy file as it was written: typed, and everything still with its place.

use std::sync::Arc;

use crate::domain::limit::{Algorithm, Period};

use super::normalize::Normalizer;
use super::tree::{Located, Place};

/// Text that was written somewhere.
pub(super) type Text = Located<Arc<str>>;

/// One document.
pub(super) struct DocumentForm {
    pub domain: Text,
    pub tables: Vec<TableForm>,
    pub nodes: Vec<NodeForm>,
}

/// A table of `plans`.
pub(super) struct TableForm {
    pub name: Text,
    pub rows: Vec<(Text, LimitForm)>,
    pub default: Option<DefaultForm>,
}

/// What a table holds for plans that are not listed.
pub(super) enum DefaultForm {
    /// What it holds for this one.
    LikeRow(Text),
    /// A row of its own.
    Own(LimitForm),
}

/// An item of `descriptors`.
pub(super) struct NodeForm {
    pub key: Text,
    pub value: Option<Text>,
    pub children: Vec<NodeForm>,
    pub limit: Option<LimitForm>,
    pub shadow_mode: Option<Located<bool>>,
    pub normalize: Option<Located<Normalizer>>,
}

impl NodeForm {
    /// Whether it says anything but where its children are.
    pub(super) const fn has_settings(&self) -> bool {
        self.limit.is_some() || self.shadow_mode.is_some()
    }
}

/// What is said about a limit: by a `rate_limit` or by a row of a table.
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
    pub plan: Option<Text>,
}

impl LimitForm {
    /// One of which nothing could be read.
    pub(super) const fn broken(place: Place) -> Self {
        Self {
            place,
            sound: false,
            count: None,
            period: None,
            burst: None,
            algorithm: None,
            name: None,
            unlimited: false,
            plan: None,
        }
    }

    /// This row, with what `over` says instead.
    pub(super) fn overridden_by(&self, over: &Self) -> Self {
        Self {
            place: over.place,
            sound: self.sound && over.sound,
            count: over.count.or(self.count),
            period: over.period.or(self.period),
            burst: over.burst.or(self.burst),
            algorithm: over.algorithm.or(self.algorithm),
            name: over.name.clone().or_else(|| self.name.clone()),
            unlimited: self.unlimited,
            plan: None,
        }
    }
}

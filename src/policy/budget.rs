//! From what is written about limits to limits that can be held.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::domain::limit::{Algorithm, Limit, LimitError, LimitSpec};
use crate::domain::time::Micros;

use super::Limits;
use super::forms::{DefaultForm, LimitForm, TableForm, Text};
use super::problem::Report;
use super::spelling::nearest;
use super::tree::{Place, shown};

/// What a rule holds its callers to.
#[derive(Debug)]
pub(super) enum Budget {
    /// The same for all.
    Flat(Limits),
    /// By the caller's plan.
    ByPlan {
        /// The entry, counted from 0, whose value names the row.
        entry: usize,
        rows: HashMap<Bytes, Limits>,
        /// For a plan that is not listed.
        default: Limits,
    },
}

/// The tables of `plans` of one domain, by name.
pub(super) type Tables<'f> = HashMap<Arc<str>, Table<'f>>;

/// A table, and whether every row of it is a limit by itself.
pub(super) struct Table<'f> {
    form: &'f TableForm,
    sound: bool,
}

/// The tables of a domain out of all its documents; what is wrong with one is noted here, and not again wherever it is
/// used.
pub(super) fn tables<'f>(forms: impl Iterator<Item = &'f TableForm>, report: &mut Report) -> Tables<'f> {
    let mut tables = Tables::new();
    for form in forms {
        let name = &form.name.value;
        if let Some(first) = tables.get(name) {
            report
                .error(
                    form.name.place,
                    format!("the table `{}` is given twice", shown(name)),
                )
                .also(first.form.name.place, "first at");
            continue;
        }
        let errors = report.errors();
        for (_, row) in &form.rows {
            limits(row, name, report);
        }
        match &form.default {
            Some(DefaultForm::Own(row)) => drop(limits(row, name, report)),
            Some(DefaultForm::LikeRow(row)) => no_such_row(form, row, report),
            None => {}
        }
        let sound = form.default.is_some() && report.errors() == errors;
        tables.insert(Arc::clone(name), Table { form, sound });
    }
    tables
}

fn no_such_row(table: &TableForm, row: &Text, report: &mut Report) {
    let mut rows = table.rows.iter().map(|(name, _)| &*name.value);
    if rows.clone().any(|name| name == &*row.value) {
        return;
    }
    let hint = match nearest(&row.value, rows.clone()).or_else(|| rows.next()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "the table has none".to_owned(),
    };
    let message = format!(
        "`default` names the row `{}`, which `{}` does not have",
        row.value, table.name.value
    );
    report.error(row.place, message).hint(hint);
}

impl Budget {
    /// The budget of a rule at depth `depth`, the first level being 0, whose limits are named `path` unless they have a
    /// name of their own.
    pub(super) fn new(
        form: &LimitForm,
        depth: usize,
        path: &Arc<str>,
        tables: &Tables<'_>,
        report: &mut Report,
    ) -> Option<Self> {
        let Some(plan) = &form.plan else {
            return limits(form, path, report).map(Self::Flat);
        };
        let Some(table) = tables.get(&plan.value) else {
            if report.is_whole() {
                let near = nearest(&plan.value, tables.keys().map(|name| &**name));
                report
                    .error(
                        plan.place,
                        format!("`plans` has no table `{}`", shown(&plan.value)),
                    )
                    .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
            }
            return None;
        };
        if !table.sound || !form.sound {
            return None;
        }
        let over = |row: &LimitForm, report: &mut Report| overridden(row, form, path, report);
        let mut rows = HashMap::with_capacity(table.form.rows.len());
        for (name, row) in &table.form.rows {
            rows.insert(Bytes::copy_from_slice(name.value.as_bytes()), over(row, report)?);
        }
        let default = match table.form.default.as_ref()? {
            DefaultForm::Own(row) => row,
            DefaultForm::LikeRow(like) => {
                &table
                    .form
                    .rows
                    .iter()
                    .find(|(name, _)| name.value == like.value)?
                    .1
            }
        };
        Some(Self::ByPlan {
            entry: depth,
            rows,
            default: over(default, report)?,
        })
    }

    /// The entry that names the caller's plan.
    pub(super) const fn plan_entry(&self) -> Option<usize> {
        match self {
            Self::Flat(_) => None,
            Self::ByPlan { entry, .. } => Some(*entry),
        }
    }

    /// The limits of a caller whose plan is `plan`.
    pub(super) fn of(&self, plan: Option<&[u8]>) -> &Limits {
        match self {
            Self::Flat(limits) => limits,
            Self::ByPlan { rows, default, .. } => plan.and_then(|plan| rows.get(plan)).unwrap_or(default),
        }
    }
}

/// A row, which is sound by itself, with what the rule says instead.
fn overridden(row: &LimitForm, by: &LimitForm, path: &Arc<str>, report: &mut Report) -> Option<Limits> {
    let form = row.overridden_by(by);
    if form.unlimited {
        return Some(Limits::Unlimited);
    }
    let limit = match spec(&form, path).map(Limit::new)? {
        Ok(limit) => limit,
        Err(error) => {
            let message = format!("a row of the table does not go with what is said here: {error}");
            report.error(by.place, message).also(row.place, "the row");
            return None;
        }
    };
    Some(Limits::Held(Box::new([limit])))
}

fn limits(form: &LimitForm, path: &Arc<str>, report: &mut Report) -> Option<Limits> {
    if !form.sound {
        return None;
    }
    if form.unlimited {
        return Some(Limits::Unlimited);
    }
    let Some(spec) = spec(form, path) else {
        incomplete(form, report);
        return None;
    };
    match Limit::new(spec) {
        Ok(limit) => Some(Limits::Held(Box::new([limit]))),
        Err(error) => {
            report.error(place_of(&error, form), error.to_string());
            None
        }
    }
}

fn spec(form: &LimitForm, path: &Arc<str>) -> Option<LimitSpec> {
    let usual = if form.burst.is_some() {
        Algorithm::TokenBucket
    } else {
        Algorithm::SlidingWindow
    };
    Some(LimitSpec {
        name: form
            .name
            .as_ref()
            .map_or_else(|| Arc::clone(path), |name| Arc::clone(&name.value)),
        named: form.name.is_some(),
        count: form.count?.value,
        period: form.period?.value,
        algorithm: form.algorithm.map_or(usual, |algorithm| algorithm.value),
        burst: form.burst.map(|burst| burst.value),
        delay: Micros::ZERO,
        calendar: true,
    })
}

fn incomplete(form: &LimitForm, report: &mut Report) {
    let hint = match (form.count, form.period) {
        (Some(count), None) => {
            report.error(count.place, "`requests_per_unit` needs a `unit`");
            return;
        }
        (None, Some(period)) => {
            report.error(period.place, "`unit` needs `requests_per_unit`");
            return;
        }
        _ => "write, say, `rate: 100/minute`, or `unlimited: true`",
    };
    report.error(form.place, "a limit needs a `rate`").hint(hint);
}

/// The part of the form that an error is about.
fn place_of(error: &LimitError, form: &LimitForm) -> Place {
    let burst = form.burst.map(|burst| burst.place);
    let algorithm = form.algorithm.map(|algorithm| algorithm.place);
    let period = form.period.map(|period| period.place);
    match error {
        LimitError::Burst(_) | LimitError::Drain { .. } => burst.or(period),
        LimitError::Delay(_) | LimitError::NoQueue => algorithm,
        LimitError::Period(_) => period,
    }
    .unwrap_or(form.place)
}

//! The tables of `plans` of one domain, out of all its documents.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::limit::{Algorithm, Limit};

use super::budget::{Excess, Manner, Piece, share};
use super::forms::{DefaultForm, LimitsForm, PlanForm, TableForm, Text};
use super::node::shown;
use super::problem::Report;
use super::spelling::nearest;

/// The tables by name, those that are sound.
pub(super) struct Tables<'f> {
    tables: HashMap<&'f str, Table<'f>>,
    /// Of which something has been reported already.
    broken: Vec<&'f str>,
}

/// A table, and its rows by name.
struct Table<'f> {
    form: &'f TableForm,
    rows: HashMap<&'f str, &'f LimitsForm>,
}

impl<'f> Tables<'f> {
    /// What is wrong with a table is noted here, and not again wherever it is used.
    pub(super) fn new(
        forms: impl Iterator<Item = &'f TableForm>,
        manner: Manner,
        report: &mut Report,
    ) -> Self {
        let mut tables: HashMap<&str, Table<'_>> = HashMap::new();
        let mut broken = Vec::new();
        for form in forms {
            let name = &*form.name.value;
            if let Some(first) = tables.get(name) {
                report
                    .error(
                        form.name.place,
                        format!("the table `{}` is given twice", shown(name)),
                    )
                    .also(first.form.name.place, "first at");
                continue;
            }
            let rows = form.rows.iter().map(|(name, row)| (&*name.value, row)).collect();
            tables.insert(name, Table { form, rows });
            if !check(form, manner, report) {
                broken.push(name);
            }
        }
        Self { tables, broken }
    }

    /// The table that `plan` names, if it is sound; that it does not exist is noted.
    pub(super) fn find(&self, plan: &PlanForm, report: &mut Report) -> Option<&'f TableForm> {
        let name = &*plan.table.value;
        if self.broken.contains(&name) {
            return None;
        }
        let table = self.tables.get(name).map(|table| table.form);
        if table.is_none() && report.is_whole() {
            let near = nearest(name, self.tables.keys().copied());
            report
                .error(
                    plan.table.place,
                    format!("`plans` has no table `{}`", shown(name)),
                )
                .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
        }
        table
    }

    /// The row for the callers of `plan`, or of plans that are not listed.
    pub(super) fn row(&self, form: &PlanForm, plan: Option<&str>) -> Option<&'f LimitsForm> {
        let table = self.tables.get(&*form.table.value)?;
        let listed = |name: &str| table.rows.get(name).copied();
        plan.and_then(listed)
            .or_else(|| match table.form.default.as_ref()? {
                DefaultForm::LikeRow(like) => listed(&like.value),
                DefaultForm::Own(row) => Some(row),
            })
    }
}

/// Whether every row is sound by itself, and the default is one.
fn check(table: &TableForm, manner: Manner, report: &mut Report) -> bool {
    let errors = report.errors();
    let own = match &table.default {
        Some(DefaultForm::Own(row)) => Some((&table.name, row)),
        Some(DefaultForm::LikeRow(like)) => {
            no_such_row(table, like, report);
            None
        }
        None => None,
    };
    let mut sound = table.default.is_some();
    let mut first: Option<(&Text, Algorithm)> = None;
    for (name, row) in table.rows.iter().map(|(name, row)| (name, row)).chain(own) {
        sound &= row.is_sound();
        let Some(algorithm) = algorithm(row, &table.name.value, manner, report) else {
            continue;
        };
        let (like, usual) = *first.get_or_insert((name, algorithm));
        if usual != algorithm {
            let message = format!(
                "`{}` is a {}, unlike `{}`",
                name.value,
                algorithm.name(),
                like.value
            );
            report
                .warning(name.place, message)
                .hint("a caller whose plan changes starts afresh; give the rows one algorithm")
                .also(like.place, "the other");
        }
    }
    sound && report.errors() == errors
}

/// The algorithm of a row's first limit.
fn algorithm(row: &LimitsForm, table: &Arc<str>, manner: Manner, report: &mut Report) -> Option<Algorithm> {
    let piece = |form: &super::forms::LimitForm| Piece {
        form: form.clone(),
        is_listed: row.is_list,
        row_of: None,
        excess: Excess::Open,
    };
    let pieces: Vec<Piece> = row.items.iter().map(piece).collect();
    share(&pieces, table, manner, report)?
        .held()
        .first()
        .map(Limit::algorithm)
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

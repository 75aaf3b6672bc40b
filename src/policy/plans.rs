//! Reading the tables of `plans`.

use super::forms::{DefaultForm, LimitsForm, TableForm};
use super::limits;
use super::node::{Located, Node, Value, shown};
use super::problem::Report;

/// All tables of a document.
pub(super) fn tables(node: &Node, report: &mut Report) -> Vec<TableForm> {
    let Some(tables) = report.map("`plans`", node) else {
        return Vec::new();
    };
    tables
        .iter()
        .filter_map(|(name, rows)| table(name, rows, report))
        .collect()
}

fn table(name: &Located<String>, node: &Node, report: &mut Report) -> Option<TableForm> {
    let errors = report.errors();
    let pairs = report.map(&format!("the table `{}` of `plans`", shown(&name.value)), node)?;
    let mut rows = Vec::new();
    let mut default = None;
    for (key, value) in pairs {
        if key.value != "default" {
            rows.push((
                Located {
                    place: key.place,
                    value: key.value.as_str().into(),
                },
                row(&key.value, value, report),
            ));
        } else if let Value::Scalar(_) = value.value
            && !value.is_null()
        {
            default = report.text("default", value).map(DefaultForm::LikeRow);
        } else {
            default = Some(DefaultForm::Own(row("default", value, report)));
        }
    }
    if default.is_none() && report.errors() == errors {
        let hint = match rows.first() {
            Some((first, _)) => format!(
                "say what a plan that is not listed gets, say `default: {}`",
                first.value
            ),
            None => "say what a plan that is not listed gets".to_owned(),
        };
        report
            .error(
                name.place,
                format!("the table `{}` has no `default`", shown(&name.value)),
            )
            .hint(hint);
    }
    Some(TableForm {
        name: Located {
            place: name.place,
            value: name.value.as_str().into(),
        },
        rows,
        default,
    })
}

fn row(name: &str, node: &Node, report: &mut Report) -> LimitsForm {
    limits::of_row(&format!("the row `{}`", shown(name)), node, report)
}

//! Reading what is said about limits.

use std::rc::Rc;

use crate::domain::limit::{Algorithm, Period};

use super::excess::on_excess;
use super::forms::{LimitForm, LimitsForm, PlanForm, Text, is_set};
use super::keys::Level;
use super::node::{Located, Node, Value, shown};
use super::number::Fault;
use super::problem::Report;
use super::rate::{period_of, rate, unit};
use super::section::{Section, complain, text};
use super::spelling::nearest;

/// The most limits that one rule may have.
pub(super) const MOST: usize = 8;

/// What `rate_limit` or `rate_limits` of a node says, if there is either.
pub(super) fn of_node(section: &Section<'_>, report: &mut Report) -> Option<LimitsForm> {
    let one = section.get("rate_limit");
    let Some(node) = section.get("rate_limits") else {
        return one.map(|node| single("`rate_limit`", node, Level::Limit, report));
    };
    if let Some(place) = section.place_of("rate_limit") {
        report
            .error(place, "`rate_limits` stands beside it")
            .hint("make `rate_limit` an item of `rate_limits`");
    }
    let items = report.list("rate_limits", node);
    Some(items.map_or_else(
        || LimitsForm::broken(node.place),
        |items| list("an item of `rate_limits`", node, items, Level::Item, report),
    ))
}

/// What a row of a table says: one limit, or a list of them.
pub(super) fn of_row(what: &str, node: &Node, report: &mut Report) -> LimitsForm {
    match &node.value {
        Value::List(items) => list(&format!("an item of {what}"), node, items, Level::Row, report),
        _ => single(what, node, Level::Row, report),
    }
}

fn single(what: &str, node: &Node, level: Level, report: &mut Report) -> LimitsForm {
    let item = limit(what, node, level, report);
    LimitsForm {
        place: node.place,
        is_list: false,
        items: vec![item],
    }
}

fn list(what: &str, node: &Node, items: &[Rc<Node>], level: Level, report: &mut Report) -> LimitsForm {
    let errors = report.errors();
    let items: Vec<LimitForm> = items
        .iter()
        .map(|item| limit(what, item, level, report))
        .collect();
    if items.is_empty() && report.errors() == errors {
        report.error(node.place, "a list of limits needs at least one");
    }
    if items.is_empty() {
        return LimitsForm::broken(node.place);
    }
    LimitsForm {
        place: node.place,
        is_list: true,
        items,
    }
}

fn limit(what: &str, node: &Node, level: Level, report: &mut Report) -> LimitForm {
    let errors = report.errors();
    let Some(section) = report.section(what, node, level) else {
        return LimitForm::empty(node.place, false);
    };
    let (count, period) = count_and_period(&section, report);
    let form = LimitForm {
        count,
        period,
        burst: section.get("burst").and_then(|node| burst(node, report)),
        algorithm: section.get("algorithm").and_then(|node| algorithm(node, report)),
        name: name(&section, report),
        unlimited: is_set(
            section
                .get("unlimited")
                .and_then(|node| report.flag("unlimited", node)),
        ),
        replaces: section
            .get("replaces")
            .map(|node| replaces(node, report))
            .unwrap_or_default(),
        plan: plan(&section, report),
        shadow_mode: is_set(
            section
                .get("shadow_mode")
                .and_then(|node| report.flag("shadow_mode", node)),
        ),
        on_excess: on_excess(&section, report),
        ..LimitForm::empty(node.place, true)
    };
    if form.unlimited {
        nothing_beside_unlimited(&section, report);
    }
    LimitForm {
        sound: report.errors() == errors,
        ..form
    }
}

fn count_and_period(
    section: &Section<'_>,
    report: &mut Report,
) -> (Option<Located<u32>>, Option<Located<Period>>) {
    if let Some(node) = section.get("rate") {
        for key in ["unit", "requests_per_unit", "unit_multiplier"] {
            if let Some(place) = section.place_of(key) {
                report
                    .error(place, format!("`rate` says what `{key}` would"))
                    .hint(format!("remove `{key}`"));
            }
        }
        let rate = report.parse("rate", node, rate);
        let place = node.place;
        let count = rate.as_ref().map(|rate| Located {
            place,
            value: rate.value.0,
        });
        return (
            count,
            rate.map(|rate| Located {
                place,
                value: rate.value.1,
            }),
        );
    }
    let count = section
        .get("requests_per_unit")
        .and_then(|node| report.whole("requests_per_unit", node));
    (count, period(section, report))
}

fn period(section: &Section<'_>, report: &mut Report) -> Option<Located<Period>> {
    let multiplier = section
        .get("unit_multiplier")
        .map(|node| report.whole("unit_multiplier", node));
    let Some(node) = section.get("unit") else {
        if let Some(place) = section.place_of("unit_multiplier") {
            report.error(place, "`unit_multiplier` multiplies a `unit`, and there is none");
        }
        return None;
    };
    let unit = report.parse("unit", node, unit)?;
    let multiplier = match multiplier {
        Some(read) => read?,
        None => Located {
            place: unit.place,
            value: 1,
        },
    };
    match period_of(unit.value, multiplier.value) {
        Ok(period) => Some(Located {
            place: unit.place,
            value: period,
        }),
        Err(fault) => {
            report.error(multiplier.place, fault.message);
            None
        }
    }
}

fn burst(node: &Node, report: &mut Report) -> Option<Located<u32>> {
    let burst = report.whole("burst", node)?;
    if burst.value == 0 {
        let hint = "to refuse everything write a rate of 0; without `burst` the whole count may pass at once";
        report.error(burst.place, "`burst` must be at least 1").hint(hint);
        return None;
    }
    Some(burst)
}

/// The algorithm that `node` names.
pub(super) fn algorithm(node: &Node, report: &mut Report) -> Option<Located<Algorithm>> {
    report.parse("algorithm", node, algorithm_named)
}

fn algorithm_named(text: &str) -> Result<Algorithm, Fault> {
    let known = Algorithm::ALL
        .into_iter()
        .find(|algorithm| algorithm.name() == text);
    known.ok_or_else(|| {
        let names = Algorithm::ALL.map(Algorithm::name);
        let hint = match nearest(text, names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("write one of {}", names.join(", ")),
        };
        Fault::new(format!("has no `{}`", shown(text))).hint(hint)
    })
}

/// A name, if one is given. It goes into headers, so it is what a quoted header value may hold unescaped.
fn name(section: &Section<'_>, report: &mut Report) -> Option<Text> {
    let name = text(section, "name", report)?;
    let odd = name
        .value
        .chars()
        .find(|char| !matches!(char, ' '..='~') || matches!(char, '"' | '\\'));
    if let Some(odd) = odd {
        let fault = Fault::new(format!(
            "goes into headers, which cannot hold `{}`",
            shown(&odd.to_string())
        ))
        .hint("use printable ASCII without quotes and backslashes");
        complain(report, "name", name.place, fault);
        return None;
    }
    Some(name)
}

fn replaces(node: &Node, report: &mut Report) -> Vec<Text> {
    let items: &[Rc<Node>] = report.list("replaces", node).unwrap_or_default();
    items.iter().filter_map(|item| replaced(item, report)).collect()
}

fn replaced(node: &Node, report: &mut Report) -> Option<Text> {
    let errors = report.errors();
    let section = report.section("an item of `replaces`", node, Level::Replaces)?;
    let name = text(&section, "name", report);
    if name.is_none() && report.errors() == errors {
        report.error(node.place, "an item of `replaces` needs the `name` of a limit");
    }
    name
}

fn plan(section: &Section<'_>, report: &mut Report) -> Option<PlanForm> {
    let entry = text(section, "plan_entry", report);
    let Some(node) = section.get("plan") else {
        if let Some(place) = section.place_of("plan_entry") {
            report.error(
                place,
                "`plan_entry` names the entry for a `plan`, and there is none",
            );
        }
        return None;
    };
    Some(PlanForm {
        table: report.text("plan", node)?,
        entry,
    })
}

/// `requests_per_unit` does no harm there, and the reference accepts it; it earns a warning.
fn nothing_beside_unlimited(section: &Section<'_>, report: &mut Report) {
    for key in ["rate", "unit", "unit_multiplier", "burst", "algorithm", "plan"] {
        if let Some(place) = section.place_of(key) {
            report
                .error(place, format!("`{key}` has no meaning beside `unlimited: true`"))
                .hint(format!("remove `{key}` or `unlimited`"));
        }
    }
    if let Some(place) = section.place_of("requests_per_unit") {
        report.warning(
            place,
            "`requests_per_unit` has no effect beside `unlimited: true`",
        );
    }
}

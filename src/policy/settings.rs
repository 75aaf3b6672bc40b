//! Reading what is said about a node besides its limits, or about all nodes by `defaults`.

use std::sync::Arc;

use crate::domain::check::{Charge, OnStoreFailure};

use super::excess::on_excess;
use super::forms::Settings;
use super::keys::Level;
use super::later;
use super::limits::algorithm;
use super::metadata::{DEEPEST, Metadata, json, too_deep};
use super::node::{Located, Node, shown};
use super::number::Fault;
use super::problem::Report;
use super::section::{Section, text};
use super::spelling::nearest;

const CHARGES: [(&str, Charge); 3] = [
    ("all_or_nothing", Charge::AllOrNothing),
    ("each", Charge::Each),
    ("always", Charge::Always),
];

/// What `defaults` say.
pub(super) fn defaults(node: &Node, report: &mut Report) -> Option<Located<Settings>> {
    let section = report.section("`defaults`", node, Level::Defaults)?;
    let algorithm = section.get("algorithm").and_then(|node| algorithm(node, report));
    Some(Located {
        place: node.place,
        value: Settings {
            algorithm,
            ..of(&section, report)
        },
    })
}

/// What a node, or `defaults`, says.
pub(super) fn of(section: &Section<'_>, report: &mut Report) -> Settings {
    later::refuse(section, report);
    let on_excess = on_excess(section, report);
    let mut flag = |key: &str| section.get(key).and_then(|node| report.flag(key, node));
    Settings {
        shadow_mode: flag("shadow_mode"),
        quota_mode: flag("quota_mode"),
        detailed_metric: flag("detailed_metric"),
        value_to_metric: flag("value_to_metric"),
        share_threshold: flag("share_threshold"),
        counted: flag("counted"),
        metadata: section.get("metadata").and_then(|node| metadata(node, report)),
        cost: section.get("cost").and_then(|node| cost(node, report)),
        advice: text(section, "advice", report),
        charge: section
            .get("charge")
            .and_then(|node| report.parse("charge", node, |text| one_of(text, &CHARGES))),
        on_excess,
        on_store_failure: section
            .get("on_store_failure")
            .and_then(|node| report.parse("on_store_failure", node, on_store_failure)),
        algorithm: None,
    }
}

fn on_store_failure(text: &str) -> Result<OnStoreFailure, Fault> {
    one_of(text, &OnStoreFailure::ALL.map(|choice| (choice.name(), choice)))
}

fn metadata(node: &Node, report: &mut Report) -> Option<Located<Arc<Metadata>>> {
    report.map("`metadata`", node)?;
    if let Some(place) = too_deep(node) {
        report
            .error(
                place,
                format!("`metadata` holds at most {DEEPEST} maps and lists in each other"),
            )
            .hint("a gateway could not read an answer with more");
        return None;
    }
    match json(node) {
        serde_json::Value::Object(map) => Some(Located {
            place: node.place,
            value: Arc::new(map),
        }),
        _ => None,
    }
}

fn cost(node: &Node, report: &mut Report) -> Option<Located<u32>> {
    let cost = report.whole("cost", node)?;
    if cost.value == 0 {
        let hint = "for a rule that never refuses write `unlimited: true`";
        report.error(cost.place, "`cost` must be at least 1").hint(hint);
        return None;
    }
    Some(cost)
}

/// The value of the word that `text` is.
pub(super) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Fault> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let hint = match nearest(text, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write one of {}", names.join(", ")),
    };
    Err(Fault::new(format!("is not known as `{}`", shown(text))).hint(hint))
}

//! Keys whose engines are not here yet. They are read and checked like all others, and refused: a policy that asks for
//! more than it would get is an error, never silently less.

use super::excess::duration;
use super::keys::Level;
use super::node::{Node, Value, shown};
use super::number::{Fault, whole};
use super::problem::Report;
use super::section::Section;
use super::settings::one_of;

/// Refuses what a node, or `defaults`, asks for in vain. What is done anyway may be asked for.
pub(super) fn refuse(section: &Section<'_>, report: &mut Report) {
    enforce(section, report);
    accuracy(section, report);
}

fn enforce(section: &Section<'_>, report: &mut Report) {
    let share = section
        .get("enforce")
        .and_then(|node| report.parse("enforce", node, percent));
    if share.is_some_and(|share| share.value < 100)
        && let Some(place) = section.place_of("enforce")
    {
        report.error(place, "`enforce` is not supported by this version");
    }
}

fn accuracy(section: &Section<'_>, report: &mut Report) {
    let Some(node) = section.get("accuracy") else {
        return;
    };
    let errors = report.errors();
    if let Value::Map(_) = node.value {
        let lease = report.section("`accuracy`", node, Level::Accuracy);
        match lease.as_ref().and_then(|section| section.get("lease")) {
            Some(node) => lease_of(node, report),
            None if report.errors() == errors => {
                report.error(node.place, "`accuracy` is `exact` or a `lease`");
            }
            None => {}
        }
    } else if report
        .parse("accuracy", node, |text| one_of(text, &[("exact", ())]))
        .is_some()
    {
        return;
    }
    if report.errors() == errors {
        report.error(
            node.place,
            "`accuracy` other than `exact` is not supported by this version",
        );
    }
}

fn lease_of(node: &Node, report: &mut Report) {
    let Some(section) = report.section("`lease`", node, Level::Lease) else {
        return;
    };
    if let Some(node) = section.get("share") {
        report.parse("share", node, percent);
    }
    if let Some(node) = section.get("ttl") {
        report.parse("ttl", node, duration);
    }
}

fn percent(text: &str) -> Result<u32, Fault> {
    let fault = || {
        Fault::new(format!(
            "must be a share from 0% to 100%, found `{}`",
            shown(text)
        ))
    };
    let number = text
        .strip_suffix('%')
        .ok_or_else(|| fault().hint("write, say, `25%`"))?;
    whole(number).ok().filter(|share| *share <= 100).ok_or_else(fault)
}

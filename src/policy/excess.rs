//! `on_excess`: what happens to what does not fit.

use crate::domain::time::Micros;

use super::keys::Level;
use super::node::{Located, Node, Value, shown};
use super::number::{Fault, whole};
use super::problem::Report;
use super::section::{Section, complain};
use super::settings::one_of;

/// The words that `on_excess` may be, and whether they are supported.
const WORDS: [(&str, bool); 4] = [
    ("reject", true),
    ("stale", false),
    ("degrade", false),
    ("async", false),
];

/// The longest that calls may be delayed; zero where they are refused at once, and none where nothing is said.
pub(super) fn on_excess(section: &Section<'_>, report: &mut Report) -> Option<Located<Micros>> {
    let node = section.get("on_excess")?;
    let value = match node.value {
        Value::Map(_) => delay(node, report)?,
        _ => word(node, report)?,
    };
    Some(Located {
        place: node.place,
        value,
    })
}

fn delay(node: &Node, report: &mut Report) -> Option<Micros> {
    let errors = report.errors();
    let section = report.section("`on_excess`", node, Level::OnExcess)?;
    let Some(node) = section.get("delay") else {
        if report.errors() == errors {
            report
                .error(node.place, "`on_excess` must say what to do")
                .hint("write, say, `on_excess: { delay: 150ms }`");
        }
        return None;
    };
    let delay = report.parse("delay", node, duration)?;
    if delay.value == Micros::ZERO {
        report
            .error(delay.place, "`delay` must be longer than nothing")
            .hint("to refuse at once what does not fit write `on_excess: reject`");
        return None;
    }
    Some(delay.value)
}

fn word(node: &Node, report: &mut Report) -> Option<Micros> {
    if let Value::Scalar(scalar) = &node.value
        && scalar.text == "delay"
    {
        let fault = Fault::new("must say how long a call may be delayed");
        complain(
            report,
            "on_excess",
            node.place,
            fault.hint("write, say, `on_excess: { delay: 150ms }`"),
        );
        return None;
    }
    let supported = report.parse("on_excess", node, |text| one_of(text, &WORDS))?;
    if !supported.value {
        report.error(
            node.place,
            "`on_excess` other than `reject` and `delay` is not supported by this version",
        );
        return None;
    }
    Some(Micros::ZERO)
}

/// `150ms` or `2s`.
pub(super) fn duration(text: &str) -> Result<Micros, Fault> {
    let fault = || {
        Fault::new(format!("must be a duration, found `{}`", shown(text))).hint("write, say, `150ms` or `2s`")
    };
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1_000),
        None => (text.strip_suffix('s').ok_or_else(fault)?, 1_000_000),
    };
    let number = whole(number).map_err(|_| fault())?;
    Ok(Micros::new(u64::from(number) * unit))
}

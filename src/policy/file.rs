//! From the tree to typed forms: every key known, every value of its type and in its range.

use std::rc::Rc;

use crate::domain::limit::{Algorithm, Period};

use super::forms::{DefaultForm, DocumentForm, LimitForm, NodeForm, TableForm, Text};
use super::keys::Level;
use super::normalize::Normalizer;
use super::number::Fault;
use super::problem::Report;
use super::rate::{period_of, rate, unit};
use super::section::{Section, complain};
use super::spelling::nearest;
use super::tree::{Located, Node, shown};

/// What `root` says, if it is clear for which domain; what is wrong with it is noted.
pub(super) fn document(root: &Node, report: &mut Report) -> Option<DocumentForm> {
    let errors = report.errors();
    let section = report.section("a policy file", root, Level::File)?;
    let known = report.errors() == errors;
    let domain = section.get("domain").map(|node| report.text("domain", node));
    let tables = section
        .get("plans")
        .map(|node| plans(node, report))
        .unwrap_or_default();
    let nodes = section
        .get("descriptors")
        .map(|node| descriptors(node, report))
        .unwrap_or_default();
    match domain {
        Some(Some(domain)) if !domain.value.is_empty() => {
            return Some(DocumentForm {
                domain,
                tables,
                nodes,
            });
        }
        Some(Some(Located { place, .. })) => {
            report.error(place, "`domain` must not be empty");
        }
        None if known => {
            report
                .error(root.place, "there is no `domain`")
                .hint("add `domain: NAME`, as the gateway sends it");
        }
        _ => {}
    }
    report.is_partial();
    None
}

fn descriptors(node: &Node, report: &mut Report) -> Vec<NodeForm> {
    let items: &[Rc<Node>] = report.list("descriptors", node).unwrap_or_default();
    items.iter().filter_map(|item| descriptor(item, report)).collect()
}

fn descriptor(node: &Node, report: &mut Report) -> Option<NodeForm> {
    let errors = report.errors();
    let section = report.section("an item of `descriptors`", node, Level::Node)?;
    if section.get("key").is_none() && report.errors() == errors {
        report.error(node.place, "a descriptor needs a `key`");
    }
    let key = section.get("key").and_then(|node| report.text("key", node));
    let key = key.filter(|key| {
        if key.value.is_empty() {
            report.error(key.place, "`key` must not be empty");
        }
        !key.value.is_empty()
    });
    let form = NodeForm {
        value: text(&section, "value", report),
        children: section
            .get("descriptors")
            .map(|node| descriptors(node, report))
            .unwrap_or_default(),
        limit: section
            .get("rate_limit")
            .and_then(|node| limit("`rate_limit`", node, Level::Limit, report)),
        shadow_mode: section
            .get("shadow_mode")
            .and_then(|node| report.flag("shadow_mode", node)),
        normalize: section.get("normalize").and_then(|node| normalize(node, report)),
        key: key?,
    };
    Some(form)
}

/// Text that is there and not empty: generators write `value: ""` for none.
fn text(section: &Section<'_>, key: &str, report: &mut Report) -> Option<Text> {
    report
        .text(key, section.get(key)?)
        .filter(|text| !text.value.is_empty())
}

fn limit(what: &str, node: &Node, level: Level, report: &mut Report) -> Option<LimitForm> {
    let errors = report.errors();
    let section = report.section(what, node, level)?;
    let (count, period) = count_and_period(&section, report);
    let unlimited = section
        .get("unlimited")
        .and_then(|node| report.flag("unlimited", node));
    let mut form = LimitForm {
        place: node.place,
        sound: true,
        count,
        period,
        burst: section.get("burst").and_then(|node| burst(node, report)),
        algorithm: section
            .get("algorithm")
            .and_then(|node| report.parse("algorithm", node, algorithm)),
        name: name(&section, report),
        unlimited: unlimited.is_some_and(|unlimited| unlimited.value),
        plan: section.get("plan").and_then(|node| report.text("plan", node)),
    };
    if form.unlimited {
        nothing_beside_unlimited(&section, report);
    }
    form.sound = report.errors() == errors;
    Some(form)
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

fn algorithm(text: &str) -> Result<Algorithm, Fault> {
    let known = Algorithm::ALL
        .into_iter()
        .find(|algorithm| algorithm.name() == text);
    match known {
        Some(Algorithm::LeakyBucket) => Err(Fault::new("cannot be `leaky_bucket` in this version")
            .hint("it needs `on_excess: delay`, which is not supported yet")),
        Some(algorithm) => Ok(algorithm),
        None => {
            let names = Algorithm::ALL.map(Algorithm::name);
            let hint = match nearest(text, names) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("write one of {}", names.join(", ")),
            };
            Err(Fault::new(format!("has no `{}`", shown(text))).hint(hint))
        }
    }
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

fn nothing_beside_unlimited(section: &Section<'_>, report: &mut Report) {
    for key in [
        "rate",
        "unit",
        "requests_per_unit",
        "unit_multiplier",
        "burst",
        "algorithm",
        "plan",
    ] {
        if let Some(place) = section.place_of(key) {
            report
                .error(place, format!("`{key}` has no meaning beside `unlimited: true`"))
                .hint(format!("remove `{key}` or `unlimited`"));
        }
    }
}

fn plans(node: &Node, report: &mut Report) -> Vec<TableForm> {
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
        let text = Located {
            place: key.place,
            value: key.value.as_str().into(),
        };
        if key.value != "default" {
            let row = row(&key.value, value, report).unwrap_or_else(|| LimitForm::broken(value.place));
            rows.push((text, row));
        } else if let super::tree::Value::Scalar(_) = value.value
            && !value.is_null()
        {
            default = report.text("default", value).map(DefaultForm::LikeRow);
        } else {
            default = row("default", value, report).map(DefaultForm::Own);
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

fn row(name: &str, node: &Node, report: &mut Report) -> Option<LimitForm> {
    limit(&format!("the row `{}`", shown(name)), node, Level::Row, report)
}

fn normalize(node: &Node, report: &mut Report) -> Option<Located<Normalizer>> {
    let section = report.section("`normalize`", node, Level::Normalize)?;
    let ipv4_prefix = prefix(&section, "ipv4_prefix", 32, Normalizer::IPV4_PREFIX, report);
    let ipv6_prefix = prefix(&section, "ipv6_prefix", 128, Normalizer::IPV6_PREFIX, report);
    Some(Located {
        place: node.place,
        value: Normalizer {
            ipv4_prefix: ipv4_prefix?,
            ipv6_prefix: ipv6_prefix?,
        },
    })
}

fn prefix(section: &Section<'_>, key: &str, longest: u8, usual: u8, report: &mut Report) -> Option<u8> {
    let Some(node) = section.get(key) else {
        return Some(usual);
    };
    let prefix = report.whole(key, node)?;
    match u8::try_from(prefix.value)
        .ok()
        .filter(|prefix| *prefix <= longest)
    {
        Some(prefix) => Some(prefix),
        None => {
            let fault = Fault::new(format!("is at most {longest}, found {}", prefix.value));
            complain(report, key, prefix.place, fault);
            None
        }
    }
}

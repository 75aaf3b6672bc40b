//! From the tree to typed forms: every key known, every value of its type and in its range.

use std::rc::Rc;

use ipnet::IpNet;

use super::forms::{DocumentForm, NodeForm, ValuesForm};
use super::keys::Level;
use super::later;
use super::limits;
use super::node::{Located, Node, Place, shown};
use super::normalize::{self, Normalizer, Prefixes};
use super::number::Fault;
use super::pattern::Pattern;
use super::plans;
use super::problem::Report;
use super::section::{Section, complain, text};
use super::settings;

/// What `root` says, if it is clear for which domain; what is wrong with it is noted.
pub(super) fn document(root: &Node, report: &mut Report) -> Option<DocumentForm> {
    let errors = report.errors();
    let section = report.section("a policy file", root, Level::File)?;
    let known = report.errors() == errors;
    let domain = section.get("domain").map(|node| report.text("domain", node));
    let tables = section
        .get("plans")
        .map(|node| plans::tables(node, report))
        .unwrap_or_default();
    let nodes = section
        .get("descriptors")
        .map(|node| descriptors(node, report))
        .unwrap_or_default();
    let compat = compat(&section, report);
    let defaults = section
        .get("defaults")
        .and_then(|node| settings::defaults(node, report));
    later::shard_by(&section, report);
    match domain {
        Some(Some(domain)) if !domain.value.is_empty() => {
            return Some(DocumentForm {
                domain,
                compat,
                defaults,
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
    report.mark_partial();
    None
}

/// Where a document asks for the choices of the reference as a whole.
fn compat(section: &Section<'_>, report: &mut Report) -> Option<Place> {
    let word = report.parse("compat", section.get("compat")?, |text| match text {
        "reference" => Ok(()),
        _ => Err(Fault::new(format!("is not known as `{}`", shown(text))).hint("write `compat: reference`")),
    });
    word.map(|word| word.place)
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
        values: values(&section, report),
        children: section
            .get("descriptors")
            .map(|node| descriptors(node, report))
            .unwrap_or_default(),
        limits: limits::of_node(&section, report),
        settings: settings::of(&section, report),
        normalize: section.get("normalize").and_then(|node| normalizer(node, report)),
        key: key?,
    };
    shared_values_only(&form, report);
    Some(form)
}

/// A threshold can only be shared by values that are more than one, and known to be.
fn shared_values_only(form: &NodeForm, report: &mut Report) {
    let many = match &form.values {
        ValuesForm::Any => false,
        ValuesForm::Text(text) => Pattern::new(&text.value).is_some(),
        ValuesForm::Networks(_) => true,
    };
    if let Some(share) = form.settings.share_threshold.filter(|share| share.value && !many) {
        report
            .error(
                share.place,
                "`share_threshold` needs a `value` with `*`, or `cidrs`",
            )
            .hint("without it every value already has a counter of its own");
    }
}

fn values(section: &Section<'_>, report: &mut Report) -> ValuesForm {
    let value = text(section, "value", report);
    let Some(node) = section.get("cidrs") else {
        return value.map_or(ValuesForm::Any, ValuesForm::Text);
    };
    if let Some(value) = &value {
        report
            .error(value.place, "`value` stands beside `cidrs`")
            .hint("keep one of them");
    }
    let errors = report.errors();
    let items: &[Rc<Node>] = report.list("cidrs", node).unwrap_or_default();
    let networks: Vec<_> = items.iter().filter_map(|item| network(item, report)).collect();
    if items.is_empty() && report.errors() == errors {
        report
            .error(node.place, "`cidrs` needs at least one network")
            .hint("write, say, `cidrs: [10.0.0.0/8]`");
    }
    if networks.is_empty() {
        ValuesForm::Any
    } else {
        ValuesForm::Networks(networks)
    }
}

fn network(node: &Node, report: &mut Report) -> Option<Located<IpNet>> {
    let written = report.parse("cidrs", node, |text| {
        let fault = || {
            Fault::new(format!("takes networks, found `{}`", shown(text))).hint("write, say, `10.0.0.0/8`")
        };
        normalize::network(text)
            .filter(|_| !text.contains([' ', '%', '[']))
            .ok_or_else(fault)
    })?;
    let network = written.value.trunc();
    if network != written.value {
        let message = format!("`{}` has bits set behind its prefix", written.value);
        report
            .error(node.place, message)
            .hint(format!("write `{network}`"));
    }
    Some(written)
}

fn normalizer(node: &Node, report: &mut Report) -> Option<Located<Normalizer>> {
    let errors = report.errors();
    let section = report.section("`normalize`", node, Level::Normalize)?;
    let usual = Prefixes::default();
    let ipv4 = at_most(&section, "ipv4_prefix", 32, report);
    let ipv6 = at_most(&section, "ipv6_prefix", 128, report);
    let lower_case = section.get("case").map(|node| {
        report.parse("case", node, |text| match text {
            "lower" => Ok(()),
            _ => Err(Fault::new(format!("is not known as `{}`", shown(text))).hint("write `case: lower`")),
        })
    });
    let trusted_hops = section
        .get("forwarded_for")
        .and_then(|node| trusted_hops(node, report));
    let is_address = ipv4.is_some() || ipv6.is_some() || trusted_hops.is_some();
    if !is_address && lower_case.is_none() && report.errors() == errors {
        report
            .error(node.place, "`normalize` says nothing")
            .hint("give it `ipv4_prefix`, `ipv6_prefix`, `forwarded_for` or `case`");
    }
    let prefixes = Prefixes {
        ipv4: ipv4.unwrap_or(usual.ipv4),
        ipv6: ipv6.unwrap_or(usual.ipv6),
    };
    let value = Normalizer {
        trusted_hops,
        prefixes: is_address.then_some(prefixes),
        lower_case: lower_case.is_some(),
    };
    (report.errors() == errors).then_some(Located {
        place: node.place,
        value,
    })
}

fn trusted_hops(node: &Node, report: &mut Report) -> Option<u8> {
    let errors = report.errors();
    let section = report.section("`forwarded_for`", node, Level::ForwardedFor)?;
    let hops = at_most(&section, "trusted_hops", 32, report);
    if hops.is_none() && report.errors() == errors {
        report
            .error(node.place, "`forwarded_for` needs `trusted_hops`")
            .hint(
                "say how many addresses at the end of the list are those of your own proxies, often 0 or 1",
            );
    }
    hops
}

fn at_most(section: &Section<'_>, key: &str, most: u8, report: &mut Report) -> Option<u8> {
    let number = report.whole(key, section.get(key)?)?;
    let small = u8::try_from(number.value).ok().filter(|number| *number <= most);
    if small.is_none() {
        complain(
            report,
            key,
            number.place,
            Fault::new(format!("is at most {most}, found `{}`", number.value)),
        );
    }
    small
}

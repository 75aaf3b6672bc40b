//! An explanation for people.

use std::io::{self, Write};

use crate::domain::check::{Binding, Charge};
use crate::policy::leads::{Lead, Level};
use crate::policy::trace::{Counts, End, Step};
use crate::policy::{Found, Limits, Policy, Rule};

use super::limits::{self, is_normalised};
use super::misses::{self, some_of};
use super::{Explanation, Met, readable, value_of};

/// Writes the explanation, a heading in front of each part.
pub(super) fn write(explanation: &Explanation<'_>, out: &mut impl Write) -> io::Result<()> {
    line(out, "domain", &domain(explanation))?;
    if let Some(met) = &explanation.met {
        path(explanation, met, out)?;
        match &met.trace.end {
            End::Rule(found) => rule(explanation, met.policy, found, out)?,
            End::NoLimit { .. } | End::Stopped { .. } => no_rule(explanation, met, out)?,
        }
    } else {
        line(
            out,
            "no rule",
            "an unknown domain: the request passes, and a metric counts it",
        )?;
    }
    for (domain, rule) in &explanation.elsewhere {
        line(
            out,
            "also",
            &format!("the domain {domain} has a rule for this: {rule}"),
        )?;
    }
    Ok(())
}

/// A line with its heading; without one it goes on with the part above.
fn line(out: &mut impl Write, heading: &str, text: &str) -> io::Result<()> {
    writeln!(out, "{heading:<11} {text}")
}

fn domain(explanation: &Explanation<'_>) -> String {
    let domain = readable(explanation.domain);
    if explanation.met.is_some() {
        return domain;
    }
    let has = some_of(&explanation.domains);
    match explanation.domain_like {
        Some(like) => format!("{domain}, which the policy does not have: did you mean {like}? It has {has}"),
        None => format!("{domain}, which the policy does not have: it has {has}"),
    }
}

/// The levels one below the other.
fn path(explanation: &Explanation<'_>, met: &Met<'_>, out: &mut impl Write) -> io::Result<()> {
    let sent: Vec<String> = explanation
        .entries
        .iter()
        .map(|entry| format!("{}={}", readable(entry.key), value_of(entry, met.policy)))
        .collect();
    let width = sent
        .iter()
        .map(|entry| entry.chars().count())
        .max()
        .unwrap_or_default();
    for (place, entry) in sent.iter().enumerate() {
        let said = match met.trace.steps.get(place) {
            Some(step) => step_in_words(step),
            None if place == met.trace.steps.len() => String::from("leads nowhere"),
            None => String::from("not looked at"),
        };
        let heading = if place == 0 { "path" } else { "" };
        line(out, heading, &format!("{entry:<width$}  {said}"))?;
    }
    Ok(())
}

/// `read as 192.0.2.1, in the network 192.0.2.0/24`
fn step_in_words(step: &Step<'_>) -> String {
    let mut words = Vec::new();
    if is_normalised(step) {
        words.push(format!("read as {}", readable(&step.read)));
    }
    words.push(match &step.lead {
        Lead::Exact(_) => String::from("exactly this value"),
        Lead::Pattern(pattern) => format!("fits the pattern {}", readable(pattern.as_bytes())),
        Lead::Networks(networks) => format!("in the network {}", networks.join(", ")),
        Lead::Any => String::from("any value"),
    });
    match &step.counts {
        Counts::NamesThePlan => words.push(String::from("names the plan, is not counted")),
        Counts::NotAtAll => words.push(String::from("is not counted")),
        Counts::As(value) if *value != step.read => {
            words.push(format!("counted as {}, with all that do", readable(value)));
        }
        Counts::As(_) => {}
    }
    words.join("; ")
}

fn rule(
    explanation: &Explanation<'_>,
    policy: &Policy,
    found: &Found<'_, '_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let rule = found.rule;
    let origin = rule.origin.as_ref().map(|origin| format!(" at {origin}"));
    line(
        out,
        "rule",
        &format!("{}{}", rule.path, origin.unwrap_or_default()),
    )?;
    if let Limits::Unlimited = found.limits {
        line(
            out,
            "limit",
            "unlimited: everything passes and nothing is counted",
        )?;
    }
    for (place, (limit, key)) in limits::limits_of(explanation).iter().enumerate() {
        let watched = if found.is_shadowed(place) {
            ", only watched"
        } else {
            ""
        };
        line(
            out,
            "limit",
            &format!("{}: {}{watched}", limit.name(), limits::said(limit)),
        )?;
        line(out, "  admits", &limits::worst_case(limit))?;
        if let Some(why) = limits::why(limit) {
            line(out, "", &why)?;
        }
        line(
            out,
            "  excess",
            &limits::on_excess(limit, found.is_shadowed(place)),
        )?;
        line(out, "  counter", key)?;
        let degraded = limits::degraded(
            limit,
            explanation.choice(rule),
            found.is_shadowed(place),
            explanation.instances,
        );
        line(out, "  no Redis", &degraded)?;
    }
    if let Limits::Held(_) = found.limits {
        if rule.on_store_failure.or(explanation.on_store_failure).is_none() {
            line(
                out,
                "",
                "the rule does not say `on_store_failure`, so this is what --on-store-failure says, by default local",
            )?;
        }
        line(out, "charged", charge(rule.charge))?;
        more_about(rule, out)?;
    }
    if policy.compat() {
        line(
            out,
            "compat",
            "the domain is decided as envoyproxy/ratelimit does",
        )?;
    }
    Ok(())
}

const fn charge(charge: Charge) -> &'static str {
    match charge {
        Charge::AllOrNothing => "if it fits, and every other limit of the request lets it pass",
        Charge::Each => "if it fits, whatever other limits of the request say",
        Charge::Always => {
            "whatever the verdict, refused calls too: what is charged late can go above the limit, and the next call meets the debt"
        }
    }
}

fn more_about(rule: &Rule, out: &mut impl Write) -> io::Result<()> {
    if rule.cost > 1 {
        line(out, "cost", &format!("each hit counts {} times", rule.cost))?;
    }
    match rule.binding {
        Binding::Always => {}
        Binding::Never => line(out, "shadow", "only watched: it refuses nobody")?,
        Binding::WithAllQuotas => line(
            out,
            "quota",
            "refuses only when every quota of the request is spent",
        )?,
    }
    if !rule.replaces().is_empty() {
        line(out, "replaces", &rule.replaces().join(", "))?;
    }
    if let Some(advice) = rule.advice() {
        line(out, "advice", &readable(advice.as_bytes()))?;
    }
    Ok(())
}

fn no_rule(explanation: &Explanation<'_>, met: &Met<'_>, out: &mut impl Write) -> io::Result<()> {
    let (why, onward) = match &met.trace.end {
        End::NoLimit { onward } => ("the node at the end has no limit", onward.as_slice()),
        End::Stopped { onward } => ("", onward.as_slice()),
        End::Rule(_) => ("", [].as_slice()),
    };
    let passes = if why.is_empty() {
        String::from("the request passes, and nothing limits it")
    } else {
        format!("{why}: the request passes, and nothing limits it")
    };
    line(out, "no rule", &passes)?;
    line(out, "goes on by", &goes_on(onward))?;
    for (place, near) in met.nearest.iter().enumerate() {
        let heading = if place == 0 { "nearest" } else { "" };
        let differences = misses::differences(near, explanation.entries, met.policy);
        line(
            out,
            heading,
            &format!("{}  {}", near.rule.path, differences.join("; ")),
        )?;
    }
    Ok(())
}

fn goes_on(onward: &[Level]) -> String {
    if onward.is_empty() {
        return String::from("nothing: this is the last level");
    }
    let mut levels: Vec<String> = onward.iter().map(misses::level).collect();
    levels.dedup();
    some_of(&levels)
}

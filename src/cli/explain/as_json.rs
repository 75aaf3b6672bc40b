//! An explanation for programs.

use serde_json::{Value, json};

use crate::domain::check::{Binding, Charge, OnStoreFailure};
use crate::domain::limit::{Algorithm, Limit};
use crate::policy::leads::Lead;
use crate::policy::trace::{Counts, End, Step};
use crate::policy::{Found, Limits, Rule};

use super::limits;
use super::misses;
use super::{Explanation, Met, readable};

/// All of it, as one object.
pub(super) fn as_json(explanation: &Explanation<'_>) -> Value {
    let met = explanation.met.as_ref();
    let found = met.and_then(|met| match &met.trace.end {
        End::Rule(found) => Some(&**found),
        _ => None,
    });
    json!({
        "domain": readable(explanation.domain),
        "known_domain": met.is_some(),
        "path": met.map(|met| met.trace.steps.iter().map(step).collect::<Vec<_>>()),
        "rule": found.map(|found| rule(found.rule)),
        "unlimited": found.is_some_and(|found| matches!(found.limits, Limits::Unlimited)),
        "limits": found.map(|found| held(explanation, found)),
        "stopped": met.filter(|_| found.is_none()).map(stopped),
        "nearest": met.map(|met| nearest(explanation, met)),
        "domain_like": explanation.domain_like.filter(|_| met.is_none()),
        "elsewhere": explanation.elsewhere.iter().map(|(domain, rule)| json!({ "domain": domain, "rule": rule })).collect::<Vec<_>>(),
    })
}

fn step(step: &Step<'_>) -> Value {
    let (lead, by) = match &step.lead {
        Lead::Exact(value) => ("exact", Some(readable(value))),
        Lead::Networks(networks) => ("network", Some(networks.join(", "))),
        Lead::Pattern(pattern) => ("pattern", Some(pattern.clone())),
        Lead::Any => ("any", None),
    };
    let (counted, counts_as) = match &step.counts {
        Counts::As(value) => (true, Some(readable(value))),
        Counts::NamesThePlan | Counts::NotAtAll => (false, None),
    };
    json!({
        "key": readable(step.key),
        "value": readable(step.sent),
        "read_as": readable(&step.read),
        "match": lead,
        "by": by,
        "counted": counted,
        "counted_as": counts_as,
        "names_the_plan": step.counts == Counts::NamesThePlan,
    })
}

fn rule(rule: &Rule) -> Value {
    let origin = rule.origin.as_ref();
    let spot = origin.and_then(|origin| origin.spot);
    json!({
        "path": *rule.path,
        "file": origin.map(|origin| &*origin.file),
        "line": spot.map(|spot| spot.line),
        "column": spot.map(|spot| spot.column),
        "charge": match rule.charge {
            Charge::AllOrNothing => "all_or_nothing",
            Charge::Each => "each",
            Charge::Always => "always",
        },
        "refuses": match rule.binding {
            Binding::Always => "always",
            Binding::Never => "never",
            Binding::WithAllQuotas => "with_all_quotas",
        },
        "on_store_failure": rule.on_store_failure.map(OnStoreFailure::name),
        "cost": rule.cost,
        "replaces": rule.replaces().iter().map(|name| &**name).collect::<Vec<_>>(),
        "advice": rule.advice(),
    })
}

fn held(explanation: &Explanation<'_>, found: &Found<'_, '_>) -> Vec<Value> {
    let limits = limits::limits_of(explanation);
    let held = limits.iter().enumerate().map(|(place, (limit, key))| {
        json!({
            "name": **limit.name(),
            "requests_per_unit": limit.count(),
            "unit": limit.period().unit.name(),
            "unit_multiplier": limit.period().multiplier,
            "algorithm": limit.algorithm().name(),
            "burst": (limit.algorithm() == Algorithm::TokenBucket).then(|| limit.capacity()),
            "delay_seconds": seconds(limit.delay().get()),
            "shadow": found.is_shadowed(place),
            "counter": key,
            "worst_case": worst_case(limit),
            "on_excess": limits::on_excess(limit, found.is_shadowed(place)),
            "on_store_failure": explanation.choice(found.rule).name(),
            "without_redis": limits::degraded(
                limit,
                explanation.choice(found.rule),
                found.is_shadowed(place),
                explanation.instances,
            ),
        })
    });
    held.collect()
}

fn worst_case(limit: &Limit) -> Value {
    let within = limits::spans(limit).into_iter().map(|span| {
        json!({
            "seconds": seconds(span.length().get()),
            "most": limit.most_within(span.length()),
        })
    });
    json!({
        "at_once": limit.most_at_once(),
        "within": within.collect::<Vec<_>>(),
        "words": limits::worst_case(limit),
    })
}

fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}

fn stopped(met: &Met<'_>) -> Value {
    let (why, onward) = match &met.trace.end {
        End::NoLimit { onward } => ("no_limit", onward.as_slice()),
        End::Stopped { onward } => ("leads_nowhere", onward.as_slice()),
        End::Rule(_) => ("", [].as_slice()),
    };
    json!({
        "after": met.trace.steps.len(),
        "why": why,
        "onward": onward.iter().map(misses::level).collect::<Vec<_>>(),
    })
}

fn nearest(explanation: &Explanation<'_>, met: &Met<'_>) -> Vec<Value> {
    let near = met.nearest.iter().map(|near| {
        json!({
            "rule": *near.rule.path,
            "differences": misses::differences(near, explanation.entries, met.policy),
        })
    });
    near.collect()
}

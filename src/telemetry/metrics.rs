//! All metrics of the process: what counts, and what a scrape reads.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use super::catalog::{Metric, PREFIX};
use super::ledger::{Ledger, Totals};
use super::reloads::Reloads;
use super::stores::Stores;
use crate::domain::time::Timestamp;
use crate::policy::Policy;
use crate::service::answer::Cause;
use crate::service::observer::{Observer, Tally};
use crate::service::reload::{self, Outcome, ReloadObserver};
use crate::store::StoreObserver;
use crate::store::instances::Instances;

/// The media type of [`Metrics::render`].
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every number of the process. Calls add to cells of their own core; a scrape sums them up.
#[derive(Debug)]
pub struct Metrics {
    cores: usize,
    ledger: Ledger,
    stores: Stores,
    instances: Instances,
    overrides_ignored: AtomicU64,
    generation: AtomicU64,
    reloads: Reloads,
}

impl Metrics {
    /// Metrics of a process that serves on `cores`.
    pub fn new(cores: usize) -> Self {
        Self {
            cores,
            ledger: Ledger::default(),
            stores: Stores::new(cores),
            instances: Instances::default(),
            overrides_ignored: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            reloads: Reloads::default(),
        }
    }

    /// The same, which show how many `instances` share each budget.
    #[must_use]
    pub fn showing(self, instances: Instances) -> Self {
        Self { instances, ..self }
    }

    /// What listens to the store of `core`.
    pub fn store_observer(&self, core: usize) -> Arc<dyn StoreObserver> {
        self.stores.core(core)
    }

    /// All metrics in Prometheus' text format.
    ///
    /// # Errors
    /// None that can happen while memory lasts; the format's own type says so.
    pub fn render(self: &Arc<Self>) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(Arc::clone(self)));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Observer for Metrics {
    fn opens(&self, generation: u64, policies: &[&Policy]) -> Vec<Arc<dyn Tally>> {
        self.generation.store(generation, Ordering::Relaxed);
        self.ledger.open(policies, self.cores)
    }

    fn overrides_ignored(&self, descriptors: u32) {
        self.overrides_ignored
            .fetch_add(u64::from(descriptors), Ordering::Relaxed);
    }
}

impl ReloadObserver for Metrics {
    fn in_force(&self, hash: u64, since: Timestamp) {
        self.reloads.in_force(hash, since);
    }

    fn ended(&self, outcome: Outcome) {
        self.reloads.ended(outcome);
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let totals = self.ledger.totals();
        for metric in Metric::ALL {
            let out = encoder.encode_descriptor(metric.name(), metric.help(), None, metric.kind())?;
            self.encode_metric(metric, &totals, out)?;
        }
        Ok(())
    }
}

impl Metrics {
    fn encode_metric(&self, metric: Metric, totals: &Totals, mut out: MetricEncoder<'_>) -> fmt::Result {
        match metric {
            Metric::Calls => encode_calls(totals, &mut out),
            Metric::Decisions => totals.rules.iter().try_for_each(|((domain, rule), counted)| {
                count(&mut out, metric, &[domain, rule, "ok"], counted.passed)?;
                count(&mut out, metric, &[domain, rule, "over_limit"], counted.refused)
            }),
            Metric::DecisionsByValue => totals.by_value.iter().try_for_each(|(domain, paths)| {
                paths.iter().try_for_each(|(path, [passed, refused])| {
                    count(&mut out, metric, &[domain, path, "ok"], *passed)?;
                    count(&mut out, metric, &[domain, path, "over_limit"], *refused)
                })
            }),
            Metric::ShadowRefusals => totals.rules.iter().try_for_each(|((domain, rule), counted)| {
                count(&mut out, metric, &[domain, rule], counted.shadow_refused)
            }),
            Metric::RefusedForSize => totals.rules.iter().try_for_each(|((domain, rule), counted)| {
                count(&mut out, metric, &[domain, rule], counted.refused_for_size)
            }),
            Metric::StoreSeconds => {
                let buckets = self.stores.buckets();
                let calls = buckets.iter().map(|(_, calls)| calls).sum();
                let no_exemplars: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;
                out.encode_histogram(self.stores.took().as_secs_f64(), calls, &buckets, no_exemplars)
            }
            Metric::StoreErrors => self
                .stores
                .errors()
                .try_for_each(|(kind, errors)| count(&mut out, metric, &[kind], errors)),
            Metric::StoreDegraded => self.stores.degraded().try_for_each(|(reason, degraded)| {
                let labels: Vec<_> = metric.labels().iter().map(|label| (*label, reason)).collect();
                out.encode_family(&labels)?.encode_gauge(&i64::from(degraded))
            }),
            Metric::Degradations => put(&mut out, self.stores.degradations()),
            Metric::Instances => out.encode_gauge(&i64::from(self.instances.count())),
            Metric::RefusedFromMemory => put(&mut out, self.stores.refused_from_memory()),
            Metric::UnreadableCounters => put(&mut out, self.stores.unreadable()),
            Metric::OverflowedCounters => put(&mut out, self.stores.overflowed()),
            Metric::OverridesIgnored => put(&mut out, self.overrides_ignored.load(Ordering::Relaxed)),
            Metric::PolicyGeneration => out.encode_gauge(&self.generation.load(Ordering::Relaxed)),
            Metric::PolicyInfo => {
                let hash = reload::hex(self.reloads.hash());
                let labels: Vec<_> = metric.labels().iter().map(|label| (*label, &*hash)).collect();
                out.encode_family(&labels)?.encode_gauge(&1)
            }
            Metric::PolicyLoaded => out.encode_gauge(&self.reloads.since()),
            Metric::PolicyReloads => self
                .reloads
                .by_outcome()
                .try_for_each(|(outcome, ended)| count(&mut out, metric, &[outcome], ended)),
            Metric::PolicyReloadFailed => out.encode_gauge(&i64::from(self.reloads.failed())),
        }
    }
}

fn encode_calls(totals: &Totals, out: &mut MetricEncoder<'_>) -> fmt::Result {
    for (domain, calls) in &totals.calls {
        for (cause, calls) in Cause::ALL.into_iter().zip(calls) {
            count(out, Metric::Calls, &[domain, cause.name()], *calls)?;
        }
    }
    Ok(())
}

/// Writes one series of `metric`, its labels' values in the order of the catalog.
fn count(out: &mut MetricEncoder<'_>, metric: Metric, values: &[&str], value: u64) -> fmt::Result {
    let labels: Vec<_> = metric
        .labels()
        .iter()
        .copied()
        .zip(values.iter().copied())
        .collect();
    put(&mut out.encode_family(&labels)?, value)
}

fn put(out: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    out.encode_counter::<NoLabelSet, _, f64>(&value, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_every_metric_of_the_catalog_and_no_other() {
        let metrics = Arc::new(Metrics::new(2));
        let text = metrics.render().expect("text");
        let shown: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE comporta_"))
            .collect();
        let expected: Vec<_> = Metric::ALL
            .into_iter()
            .map(|metric| {
                let suffix = if metric.kind().as_str() == "counter" {
                    "_total"
                } else {
                    ""
                };
                format!("{}{suffix} {}", metric.name(), metric.kind().as_str())
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn labels_are_those_of_the_catalog() {
        let metrics = Arc::new(Metrics::new(1));
        let tallies = metrics.opens(3, &[]);
        tallies[0].called(None, Cause::UnknownDomain);
        metrics.overrides_ignored(2);
        metrics.in_force(0xabc, Timestamp::from_micros(1_500_000));
        metrics.ended(Outcome::Rejected);
        let text = metrics.render().expect("text");
        for line in [
            "comporta_calls_total{domain=\"unknown\",cause=\"unknown_domain\"} 1",
            "comporta_store_errors_total{kind=\"timeout\"} 0",
            "comporta_overrides_ignored_total 2",
            "comporta_policy_generation 3",
            "comporta_policy_info{hash=\"0000000000000abc\"} 1",
            "comporta_policy_loaded_timestamp_seconds 1.5",
            "comporta_policy_reloads_total{outcome=\"rejected\"} 1",
            "comporta_policy_reload_failed 1",
            "comporta_store_degraded{reason=\"timeout\"} 0",
            "comporta_degradations_total 0",
            "comporta_instances 1",
            "comporta_store_seconds_bucket{le=\"+Inf\"} 0",
        ] {
            assert!(
                text.lines().any(|shown| shown == line),
                "{line} is not in\n{text}"
            );
        }
    }
}

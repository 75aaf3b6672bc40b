//! `comporta doctor`: what is wrong with a Redis, as a page; and the same in the log when the server starts.

use std::collections::HashSet;
use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::DoctorArgs;
use super::exit::Exit;
use super::{deployment, settings};
use crate::clock::{Clock, SystemClock};
use crate::store::key::Keys;
use crate::store::redis::{Doctor, Inspection, RedisTarget};

/// How often a Redis that is away at the start is looked for.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

/// Examines the Redis that `args` name and writes what was found. What was not asked right is said on `err`.
///
/// # Errors
/// When `out` or `err` cannot be written to.
pub fn doctor(args: &DoctorArgs, out: &mut impl Write, err: &mut impl Write) -> io::Result<Exit> {
    let mut mistakes = Vec::new();
    let mut flag = |name: &str, mistake: String| mistakes.push(format!("--{name}: {mistake}"));
    let budget = settings::positive(&args.store_budget)
        .map_err(|mistake| flag("store-budget", mistake))
        .ok();
    let prefix = settings::prefix(&args.key_prefix)
        .map_err(|mistake| flag("key-prefix", mistake))
        .ok();
    let target = match deployment::target(&args.store) {
        Ok(Some(target)) => Some(target),
        Ok(None) => {
            flag(
                "store",
                String::from("which Redis? In memory there is nothing to examine"),
            );
            None
        }
        Err(more) => {
            mistakes.extend(more);
            None
        }
    };
    let (Some(budget), Some(prefix), Some(target)) = (budget, prefix, target) else {
        writeln!(err, "{}", mistakes.join("\n"))?;
        return Ok(Exit::Usage);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let keys = Keys::new(&prefix);
    let inspections = runtime.block_on(examine(&target, &keys, &prefix, budget));
    let biting = inspections.iter().map(biting).sum();
    if args.json {
        let servers: Vec<_> = inspections.iter().map(as_json).collect();
        let page = json!({ "store": target.url().to_string(), "servers": servers, "biting": biting });
        writeln!(out, "{page:#}")?;
    } else {
        writeln!(out, "{}", target.url())?;
        for inspection in &inspections {
            write_text(inspection, budget, out)?;
        }
        match biting {
            0 => writeln!(out, "\nfine: nothing here would bite")?,
            1 => writeln!(out, "\n1 thing would bite")?,
            many => writeln!(out, "\n{many} things would bite")?,
        }
    }
    Ok(if biting == 0 { Exit::Fine } else { Exit::No })
}

async fn examine(target: &RedisTarget, keys: &Keys, prefix: &str, budget: Duration) -> Vec<Inspection> {
    let doctor = Doctor {
        target,
        keys,
        prefix,
        budget,
        clock: || SystemClock.now(),
    };
    doctor.examine().await
}

fn biting(inspection: &Inspection) -> usize {
    inspection.findings.iter().filter(|finding| finding.bites).count()
}

fn write_text(inspection: &Inspection, budget: Duration, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{}", inspection.endpoint)?;
    if let Some(info) = &inspection.info {
        let limit = match info.max_memory {
            0 => String::from("no limit"),
            limit => format!("of {}", mebibytes(limit)),
        };
        writeln!(out, "  version     {}, {}", info.version, info.role)?;
        writeln!(
            out,
            "  memory      {} used, {limit}; when full: {}",
            mebibytes(info.used_memory),
            info.eviction
        )?;
    }
    if let Some(way) = inspection.round_trip {
        writeln!(
            out,
            "  round trip  {} of the {budget:?} that a call may take",
            millis(way)
        )?;
    }
    if let Some(ahead) = inspection.ahead {
        let difference = millis(Duration::from_micros(ahead.unsigned_abs()));
        let direction = if ahead < 0 { "behind" } else { "ahead of" };
        writeln!(out, "  clock       {difference} {direction} this machine's")?;
    }
    for finding in &inspection.findings {
        let mark = if finding.bites { "bites" } else { "note" };
        writeln!(out, "  {mark:<10}  {}", finding.what)?;
    }
    Ok(())
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

fn mebibytes(bytes: u64) -> String {
    // Of use to a person, not to a sum.
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit behind the point")]
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    format!("{mebibytes:.1} MiB")
}

fn as_json(inspection: &Inspection) -> Value {
    let info = inspection.info.as_ref();
    let findings = inspection.findings.iter();
    let findings: Vec<_> = findings
        .map(|finding| json!({ "bites": finding.bites, "what": finding.what }))
        .collect();
    json!({
        "endpoint": inspection.endpoint,
        "version": info.map(|info| &info.version),
        "role": info.map(|info| &info.role),
        "eviction": info.map(|info| &info.eviction),
        "max_memory_bytes": info.map(|info| info.max_memory),
        "used_memory_bytes": info.map(|info| info.used_memory),
        "round_trip_micros": inspection.round_trip.map(|way| way.as_micros()),
        "clock_ahead_micros": inspection.ahead,
        "findings": findings,
    })
}

/// Examines the Redis at `target`, each server as soon as it is there, and logs what was found.
pub async fn log_when_there(
    target: Arc<RedisTarget>,
    keys: Keys,
    prefix: String,
    budget: Duration,
) -> Infallible {
    let mut logged = HashSet::new();
    loop {
        let inspections = examine(&target, &keys, &prefix, budget).await;
        for inspection in inspections.iter().filter(|inspection| inspection.is_reached) {
            if logged.insert(inspection.endpoint.clone()) {
                log(inspection);
            }
        }
        if inspections.iter().all(|inspection| inspection.is_reached) {
            return std::future::pending().await;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

fn log(inspection: &Inspection) {
    let store = &inspection.endpoint;
    let info = inspection.info.as_ref();
    tracing::info!(
        %store,
        version = info.map(|info| info.version.as_str()),
        role = info.map(|info| info.role.as_str()),
        eviction = info.map(|info| info.eviction.as_str()),
        round_trip = inspection.round_trip.map(millis),
        clock_ahead_micros = inspection.ahead,
        "examined the shared store"
    );
    for finding in &inspection.findings {
        if finding.bites {
            tracing::warn!(%store, "{}", finding.what);
        } else {
            tracing::info!(%store, "{}", finding.what);
        }
    }
}

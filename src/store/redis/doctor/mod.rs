//! Looks at every server of a deployment for what would bite: the script that does not run, missing rights, eviction, age,
//! distance.

mod info;
mod rights;

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, ServerErrorKind};
use tokio::time::timeout;

pub use self::info::Info;
use super::connect::{self, Address, CONNECTING, Entry};
use super::links::probe_key_of;
use super::meaning::{self, Meaning};
use super::probe::Probe;
use super::script::{self, Script};
use super::sentinel;
use super::slots::SlotMap;
use super::target::RedisTarget;
use super::url::Layout;
use crate::domain::time::Timestamp;
use crate::store::key::Keys;

/// How often the way is measured; the median counts.
const PINGS: usize = 5;

/// A difference of clocks that an operator wonders about.
const ODD_DIFFERENCE: Duration = Duration::from_secs(1);

/// What a look at one server found.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Where it is.
    pub endpoint: String,
    /// Whether it could be examined.
    pub is_reached: bool,
    /// What it says of itself, if it may be asked.
    pub info: Option<Info>,
    /// How long it took to answer, if it did.
    pub round_trip: Option<Duration>,
    /// By how many microseconds its clock is ahead of this machine's; behind when negative.
    pub ahead: Option<i64>,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// Something that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it would bite: calls fail, or limits do not hold.
    pub bites: bool,
    /// What it is, and what to do.
    pub what: String,
}

impl Finding {
    const fn bites(what: String) -> Self {
        Self { bites: true, what }
    }

    const fn note(what: String) -> Self {
        Self { bites: false, what }
    }
}

/// What the looks are about.
pub struct Doctor<'a> {
    /// The deployment.
    pub target: &'a RedisTarget,
    /// How counters are named.
    pub keys: &'a Keys,
    /// What those names start with, as it was given.
    pub prefix: &'a str,
    /// How long a call may take.
    pub budget: Duration,
    /// This machine's time, read when it is called.
    pub clock: fn() -> Timestamp,
}

impl Doctor<'_> {
    /// Looks at every server, one after another: the one there is, the one that sentinels name and they, or all nodes.
    pub async fn examine(&self) -> Vec<Inspection> {
        match self.target.layout() {
            Layout::Single(address) => vec![self.look_at(address, None).await],
            Layout::Sentinel { sentinels, master } => self.look_by(sentinels, master).await,
            Layout::Cluster(seeds) => self.look_at_nodes(seeds).await,
        }
    }

    async fn look_by(&self, sentinels: &[Address], master: &str) -> Vec<Inspection> {
        let mut inspections = Vec::new();
        for sentinel in sentinels {
            let answer = sentinel::primary(self.target, std::slice::from_ref(sentinel), master).await;
            inspections.push(Inspection {
                endpoint: format!("{sentinel} (sentinel)"),
                is_reached: answer.is_ok(),
                findings: answer.err().map(Finding::bites).into_iter().collect(),
                ..Inspection::default()
            });
        }
        if let Ok(primary) = sentinel::primary(self.target, sentinels, master).await {
            inspections.push(self.look_at(&primary, None).await);
        }
        inspections
    }

    async fn look_at_nodes(&self, seeds: &[Address]) -> Vec<Inspection> {
        let mut unseen = Vec::new();
        for seed in seeds {
            match self.map_from(seed).await {
                Ok(map) => {
                    let mut inspections = unseen;
                    for node in map.nodes() {
                        inspections.push(self.look_at(node, Some(&map)).await);
                    }
                    return inspections;
                }
                Err(reason) => unseen.push(Inspection {
                    endpoint: seed.to_string(),
                    findings: vec![Finding::bites(reason)],
                    ..Inspection::default()
                }),
            }
        }
        unseen
    }

    async fn map_from(&self, node: &Address) -> Result<SlotMap, String> {
        let mut connection = connect::to(self.target, node).await?;
        SlotMap::ask(&mut connection, node).await
    }

    /// Looks at one server, which is a node where there is a `map`.
    async fn look_at(&self, address: &Address, map: Option<&SlotMap>) -> Inspection {
        let mut inspection = Inspection {
            endpoint: address.to_string(),
            ..Inspection::default()
        };
        let looking = self.examine_one(address, map, &mut inspection);
        let failed = match timeout(3 * CONNECTING, looking).await {
            Ok(Ok(())) => None,
            Ok(Err(reason)) => Some(reason),
            Err(_) => Some(format!("no answer within {:?}", 3 * CONNECTING)),
        };
        inspection.is_reached = failed.is_none();
        inspection.findings.extend(failed.map(Finding::bites));
        inspection
    }

    async fn examine_one(
        &self,
        address: &Address,
        map: Option<&SlotMap>,
        inspection: &mut Inspection,
    ) -> Result<(), String> {
        let told = |error: RedisError| meaning::explained(&error);
        let mut connection = connect::to(self.target, address).await?;
        inspection.info = info_of(&mut connection).await.map_err(told)?;
        inspection.findings.extend(match &inspection.info {
            Some(info) => info.findings(map.is_some()),
            None => vec![Finding::note(String::from(
                "INFO may not be asked for, so its version and what it drops when it is full are not known here",
            ))],
        });
        let way = round_trip(&mut connection).await.map_err(told)?;
        inspection.round_trip = Some(way);
        if way > self.budget {
            inspection.findings.push(Finding::bites(format!(
                "it takes {way:?} to answer, longer than the {:?} that a call may take (--store-budget)",
                self.budget
            )));
        }
        inspection.ahead = self.ahead(&mut connection).await.map_err(told)?;
        if let Some(ahead) = inspection.ahead
            && Duration::from_micros(ahead.unsigned_abs()) > ODD_DIFFERENCE
        {
            inspection.findings.push(Finding::note(String::from(
                "its clock and this machine's differ: counters go by the one of Redis, logs by this one",
            )));
        }
        self.try_rights(&mut connection, map.is_some(), inspection)
            .await
            .map_err(told)?;
        let is_replica = inspection
            .info
            .as_ref()
            .is_some_and(|info| info.role == "replica");
        if !is_replica {
            let key = probe_key_of(self.keys, address, map);
            let probe = Probe::new(Script::new(script::SOURCE).into(), &key);
            match probe.run(&mut connection).await {
                Ok(_) => {}
                Err(error) if map.is_some() && matches!(Meaning::of(&error), Meaning::Elsewhere { .. }) => {}
                Err(error) => inspection.findings.push(Finding::bites(format!(
                    "the script does not run: {}",
                    told(error)
                ))),
            }
        }
        Ok(())
    }

    async fn try_rights(
        &self,
        connection: &mut MultiplexedConnection,
        is_node: bool,
        inspection: &mut Inspection,
    ) -> Result<(), RedisError> {
        // Of a key for probes, text from end to end.
        let key = String::from_utf8_lossy(&self.keys.probe(0)).into_owned();
        let missing = rights::missing(connection, &key, &self.keys.channel(), is_node).await?;
        if !missing.unknown.is_empty() {
            inspection.findings.push(Finding::bites(format!(
                "these commands are disabled here or have another name: {}",
                missing.unknown.join(", ")
            )));
        }
        let user = self.target.user().unwrap_or("default");
        if let Some(grant) = missing.grant(user, self.prefix) {
            inspection.findings.push(Finding::bites(format!(
                "rights are missing, which this grants: {grant}"
            )));
        }
        Ok(())
    }

    /// By how many microseconds the server's clock is ahead; none when it may not be asked.
    async fn ahead(&self, connection: &mut MultiplexedConnection) -> Result<Option<i64>, RedisError> {
        let before = (self.clock)();
        let answer = redis::cmd("TIME").query_async::<(u64, u64)>(connection).await;
        let after = (self.clock)();
        let Some((seconds, micros)) = permitted(answer)? else {
            return Ok(None);
        };
        let theirs = i128::from(seconds) * 1_000_000 + i128::from(micros);
        let ours = i128::midpoint(before.as_micros().into(), after.as_micros().into());
        Ok(i64::try_from(theirs - ours).ok())
    }
}

async fn info_of(connection: &mut MultiplexedConnection) -> Result<Option<Info>, RedisError> {
    let answer = redis::cmd("INFO").query_async::<String>(connection).await;
    Ok(permitted(answer)?.map(|text| Info::read(&text)))
}

async fn round_trip(connection: &mut MultiplexedConnection) -> Result<Duration, RedisError> {
    let mut ways = [Duration::ZERO; PINGS];
    for way in &mut ways {
        let started = Instant::now();
        permitted(connect::call(connection, Entry::Plain, redis::cmd("PING")).await)?;
        *way = started.elapsed();
    }
    ways.sort_unstable();
    Ok(ways[PINGS / 2])
}

/// The answer, or none where the user may not have it.
fn permitted<T>(answer: Result<T, RedisError>) -> Result<Option<T>, RedisError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) => Ok(None),
        Err(error) if rights::is_unknown(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

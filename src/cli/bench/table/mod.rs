//! Everything that there is a bar for, as Markdown.

mod cost;
mod growth;
mod latency;
mod resident;
mod row;

use std::sync::Arc;

use self::row::Row;
use super::Bench;
use super::accuracy::{self, Accuracy};
use super::error::BenchError;
use super::figures;
use super::grid::Grid;
use super::keys::{Keys, Picker};
use super::load::Load;
use super::machine::Machine;
use super::pace::Pace;
use super::policies::routes;
use super::question::Question;
use super::redis::Redis;
use super::rounds::{Contestant, ROUNDS, Round, Rounds};
use super::server::{Server, Store};
use super::spread::{Spread, grouped};

/// As many callers as are asked about where it is not said otherwise.
const CALLERS: u64 = 100_000;

/// What was measured.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    /// What the rows are made of, each under how it was asked.
    figures: Vec<(String, Vec<Rounds>)>,
    accuracy: Vec<Accuracy>,
}

/// The servers that most rows are about.
struct Servers<'a> {
    baseline: Server,
    memory: Server,
    on_redis: Option<(Server, &'a Redis)>,
}

impl<'a> Servers<'a> {
    async fn start(bench: &'a Bench<'_>) -> Result<Self, BenchError> {
        let folder = &bench.folder;
        Ok(Self {
            baseline: Server::baseline(folder).await?,
            memory: Server::comporta("memory", &routes(), Store::Memory, folder).await?,
            on_redis: match &bench.redis {
                Some(redis) => {
                    let server = Server::comporta("redis", &routes(), Store::Redis(redis), folder).await?;
                    Some((server, redis))
                }
                None => None,
            },
        })
    }

    fn baseline(&self, load: &Load) -> Contestant<'_> {
        Contestant::new("baseline", &self.baseline, None, load.clone())
    }

    fn memory(&self, load: &Load) -> Contestant<'_> {
        Contestant::new("memory", &self.memory, None, load.clone())
    }

    fn on_redis(&self, load: &Load) -> Option<Contestant<'_>> {
        let (server, redis) = self.on_redis.as_ref()?;
        Some(Contestant::new("redis", server, Some(redis), load.clone()))
    }
}

/// Asks again once answered, over 4 connections with 16 calls under way each.
fn usual(question: Question, keys: Keys) -> Load {
    Load {
        connections: 4,
        streams: 16,
        pace: Pace::Closed,
        question: Arc::new(question),
        keys: Arc::new(Picker::new(keys)),
    }
}

/// Measures everything, and writes it as Markdown.
pub(super) async fn measure(bench: &Bench<'_>) -> Result<String, BenchError> {
    let mut table = Table::default();
    // Before any other server of this policy, so that it is as it is after its start.
    resident::idle(bench, &mut table).await?;
    {
        let servers = Servers::start(bench).await?;
        let saturation = cost::measure(bench, &servers, &mut table).await?;
        if let Some(saturation) = saturation {
            latency::measure(bench, &servers, saturation, &mut table).await?;
        }
        bench.say("accuracy");
        let memory = Accuracy::measure("memory", &servers.memory, None, bench.duration).await?;
        table.accuracy.push(memory);
        if let Some((server, redis)) = &servers.on_redis {
            let on_redis = Accuracy::measure("redis", server, Some(redis), bench.duration).await?;
            table.accuracy.push(on_redis);
        }
    }
    growth::rules(bench, &mut table).await?;
    growth::counters(bench, &mut table).await?;
    Ok(table.as_markdown(bench))
}

impl Table {
    /// How much somebody else did meanwhile: where that is much, calls a second and latencies say little.
    fn others(&self) -> String {
        let measured = self.figures.iter().flat_map(|(_, contestants)| contestants);
        let others = Spread::of(measured.flat_map(|contestant| contestant.each(Round::others)));
        others.map_or_else(String::new, |others| {
            format!(
                " Others took {} processors meanwhile, which ratios of CPU bear better than the rest.",
                others.show(2)
            )
        })
    }

    fn as_markdown(&self, bench: &Bench<'_>) -> String {
        let mut rows = Grid::new(Row::HEAD);
        for row in &self.rows {
            rows.row(row.cells());
        }
        let mut text = format!(
            "{}.

Every server is a process of its own on this machine and so is Redis; those who ask share the processors with them. \
             Servers take turns in {ROUNDS} rounds, {:?} each in all: a figure is the median (lowest–highest) of the rounds, a ratio \
             is taken within a round, and the baseline is a gRPC server with the same messages, threads and allocator that \
             always gives the same answer.{}

{}",
            Machine::look().show(),
            bench.duration,
            self.others(),
            rows.as_markdown(),
        );
        for (how, contestants) in &self.figures {
            text += "\n";
            text += &figures::grid(how, contestants).as_markdown();
            text += &figures::errors(contestants);
        }
        text += "\n";
        text += &accuracy::grid(&self.accuracy).as_markdown();
        text
    }
}

//! The comparison that takes less than a minute: one shape, every store, and how exactly each decides.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Bench;
use super::accuracy::{self, Accuracy};
use super::args::BenchArgs;
use super::error::BenchError;
use super::figures;
use super::keys::Picker;
use super::load::Load;
use super::machine::Machine;
use super::pace::Pace;
use super::policies::{Route, routes};
use super::rounds::{Contestant, ROUNDS, Rounds, take_turns};
use super::server::{Server, Store};

/// What was measured.
pub(super) struct Report {
    /// How it was asked, in words.
    asked: String,
    asked_json: Value,
    machine: Machine,
    /// The baseline, memory, Redis.
    contestants: Vec<Rounds>,
    accuracy: Vec<Accuracy>,
}

pub(super) async fn measure(bench: &Bench<'_>, args: &BenchArgs) -> Result<Report, BenchError> {
    let baseline = Server::baseline(&bench.folder).await?;
    let memory = Server::comporta("memory", &routes(), Store::Memory, &bench.folder).await?;
    let on_redis = match &bench.redis {
        Some(redis) => {
            let server = Server::comporta("redis", &routes(), Store::Redis(redis), &bench.folder).await?;
            Some((server, redis))
        }
        None => None,
    };
    let load = Load {
        connections: args.connections,
        streams: args.streams,
        pace: args.rate.map_or(Pace::Closed, Pace::Open),
        question: Arc::new(Route::Wide.ask(1)),
        keys: Arc::new(Picker::new(args.keys)),
    };
    let mut contestants = vec![
        Contestant::new("baseline", &baseline, None, load.clone()),
        Contestant::new("memory", &memory, None, load.clone()),
    ];
    if let Some((server, redis)) = &on_redis {
        contestants.push(Contestant::new("redis", server, Some(redis), load));
    }
    let contestants = take_turns(contestants, bench.duration).await?;
    let mut accuracy = vec![Accuracy::measure("memory", &memory, None, bench.duration).await?];
    if let Some((server, redis)) = &on_redis {
        accuracy.push(Accuracy::measure("redis", server, Some(redis), bench.duration).await?);
    }
    Ok(Report {
        asked: in_words(args),
        asked_json: json!({
            "loop": if args.rate.is_some() { "open" } else { "closed" },
            "rate": args.rate,
            "connections": args.connections,
            "streams": args.streams,
            "keys": args.keys.to_string(),
            "seconds": args.duration.as_secs_f64(),
            "rounds": ROUNDS,
        }),
        machine: Machine::look(),
        contestants,
        accuracy,
    })
}

/// `64 calls under way over 4 connections, keys uniform:100000, 3s for each server in 5 rounds`
fn in_words(args: &BenchArgs) -> String {
    let (most, connections) = (args.connections * args.streams, args.connections);
    let under_way = match args.rate {
        None => format!("{most} calls under way"),
        Some(rate) => format!("{rate} calls a second, {most} of them under way at most,"),
    };
    let (keys, duration) = (args.keys, args.duration);
    let s = if connections == 1 { "" } else { "s" };
    format!(
        "{under_way} over {connections} connection{s}, keys {keys}, {duration:?} for each server in {ROUNDS} rounds"
    )
}

impl Report {
    /// Each of Comporta's with what it is held against: the baseline, or where Redis decides, memory.
    fn pairs(&self) -> Vec<(&Rounds, &Rounds)> {
        let contestants = &self.contestants;
        contestants.iter().skip(1).zip(contestants).collect()
    }

    pub(super) fn as_text(&self) -> String {
        let blocks = [
            format!("{}\n{}\n", self.machine.show(), self.asked),
            figures::grid("", &self.contestants).as_text() + &figures::errors(&self.contestants),
            figures::ratio_grid(&self.pairs()).as_text(),
            accuracy::grid(&self.accuracy).as_text(),
        ];
        blocks.join("\n")
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "machine": self.machine.as_json(),
            "asked": self.asked_json,
            "servers": self.contestants.iter().map(figures::as_json).collect::<Vec<_>>(),
            "ratios": self.pairs().into_iter().map(figures::ratios_as_json).collect::<Vec<_>>(),
            "accuracy": self.accuracy.iter().map(Accuracy::as_json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Args, Command};

    #[test]
    fn how_it_was_asked_is_said_in_words() {
        let words = |args: &[&str]| {
            let all = ["comporta", "bench"].iter().chain(args);
            match Args::try_parse_from(all)
                .expect("an accepted command line")
                .command
            {
                Command::Bench(args) => in_words(&args),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            words(&[]),
            "64 calls under way over 4 connections, keys uniform:100000, 3s for each server in 5 rounds"
        );
        assert_eq!(
            words(&[
                "--rate=500",
                "--keys=hot",
                "--connections=1",
                "--streams=8",
                "--duration=500ms"
            ]),
            "500 calls a second, 8 of them under way at most, over 1 connection, keys hot, 500ms for each server in 5 rounds"
        );
    }
}

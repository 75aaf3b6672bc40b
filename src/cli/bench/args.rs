//! What is typed behind `bench`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;

use super::keys::Keys;
use crate::cli::settings;

/// What `bench` does, at length.
pub(in crate::cli) const BENCH: &str = "Show what a decision costs, against a server that decides nothing.

Starts what it needs on this machine: the baseline, a gRPC server with the same messages, threads and allocator that always
gives the same answer; a server with counters in memory; one with counters in a Redis, where redis-server is installed. They
are asked in turns, in five rounds, so that whatever else the machine does meets them alike. Figures are the median of the
rounds, with the lowest and the highest behind it; ratios are taken within a round.

By default every stream asks again once it is answered. With --rate calls are due by a schedule, whatever becomes of those
before them, and waited for from the moment they were due: a server that stalls cannot hide it.

Accuracy stands beside speed: one key is asked for as fast as can be under a limit of 1000 a second, and what was admitted is
held against the most that the limit promises.";

/// What `bench` is told.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// How long each server is asked, all rounds together
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = settings::positive)]
    pub duration: Duration,

    /// How many connections ask
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub connections: usize,

    /// How many calls each connection has under way at most
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub streams: usize,

    /// So many calls a second, due by a schedule, instead of as many as are answered
    #[arg(long, value_name = "N")]
    pub rate: Option<NonZeroU32>,

    /// Which callers are asked about: always the same, one of N, or one of N of whom few are asked about often
    #[arg(long, value_name = "hot|uniform:N|zipf:N", default_value = "uniform:100000")]
    pub keys: Keys,

    /// Where counters live beside the baseline: memory alone, a Redis that is started, or one that is there. When not given,
    /// memory, and a Redis where redis-server is installed. What is left in a Redis goes by itself within two days
    #[arg(long, value_name = "memory|redis|redis://[USER:PASSWORD@]HOST[:PORT][/DB]")]
    pub store: Option<String>,

    /// One JSON object
    #[arg(long)]
    pub json: bool,

    /// Measure everything that there is a bar for instead, and write it to this file as Markdown. Takes minutes
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["connections", "streams", "rate", "keys", "json"]
    )]
    pub table: Option<PathBuf>,
}

//! What a caller waits for, where there is room: a fifth of what can be answered at all.

use std::num::NonZeroU32;

use super::row::{Bar, Row, Unit};
use super::{CALLERS, Servers, Table, usual};
use crate::cli::bench::Bench;
use crate::cli::bench::error::BenchError;
use crate::cli::bench::keys::Keys;
use crate::cli::bench::load::Load;
use crate::cli::bench::pace::Pace;
use crate::cli::bench::policies::Route;
use crate::cli::bench::redis::Redis;
use crate::cli::bench::round_trip;
use crate::cli::bench::rounds::ROUNDS;
use crate::cli::bench::spread::{Spread, as_float, grouped};

/// Milliseconds in one round; absent where there were no answers.
struct Waits {
    memory: Option<f64>,
    on_redis: Option<f64>,
    on_redis_p99: Option<f64>,
    round_trip: Option<f64>,
}

impl Waits {
    /// What is neither the call itself nor the way to Redis and back.
    fn added(&self) -> Option<f64> {
        Some(self.on_redis? - self.memory? - self.round_trip?)
    }
}

/// What is asked a second is a fifth of `saturation`.
pub(super) async fn measure(
    bench: &Bench<'_>,
    servers: &Servers<'_>,
    saturation: NonZeroU32,
    table: &mut Table,
) -> Result<(), BenchError> {
    let rate = NonZeroU32::new(saturation.get() / 5).unwrap_or(NonZeroU32::MIN);
    let load = Load {
        pace: Pace::Open(rate),
        ..usual(Route::Wide.ask(1), Keys::Uniform(CALLERS))
    };
    let (memory, Some(on_redis)) = (servers.memory(&load), servers.on_redis(&load)) else {
        return Ok(());
    };
    // Only of a Redis that was started here it is known where it is.
    let Some(address) = on_redis.redis.and_then(Redis::address) else {
        return Ok(());
    };
    let at = grouped(as_float(rate.get().into()), 0);
    bench.say(&format!("latency at {at} calls a second"));
    let each = bench.duration / ROUNDS;
    memory.warm_up(each).await?;
    on_redis.warm_up(each).await?;
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        let on_redis = on_redis.ask(each).await?;
        waits.push(Waits {
            on_redis: on_redis.p50(),
            on_redis_p99: on_redis.p99(),
            memory: memory.ask(each).await?.p50(),
            round_trip: round_trip::measure(address, rate, each).await?.latency_ms(0.5),
        });
    }
    let mut row = |what: &str, bar: Bar, figure: fn(&Waits) -> Option<f64>| {
        table.rows.push(Row {
            what: format!("at {at} calls a second, 20 % of what Redis allows, {what}"),
            bar,
            unit: Unit::Millis,
            figure: Spread::of(waits.iter().map(figure)),
        });
    };
    row(
        "p50: Redis − memory − a bare EVALSHA",
        Bar::Most(0.25),
        Waits::added,
    );
    row("p50, Redis", Bar::None, |round| round.on_redis);
    row("p99, Redis", Bar::None, |round| round.on_redis_p99);
    row("p50, memory", Bar::None, |round| round.memory);
    row("p50, a bare EVALSHA", Bar::None, |round| round.round_trip);
    Ok(())
}

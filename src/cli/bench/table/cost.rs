//! What a call costs, in several shapes, and whether many descriptors cost less than many calls.

use std::num::NonZeroU32;

use super::row::{Bar, Row, Unit};
use super::{CALLERS, Servers, Table, usual};
use crate::cli::bench::Bench;
use crate::cli::bench::error::BenchError;
use crate::cli::bench::keys::Keys;
use crate::cli::bench::load::Load;
use crate::cli::bench::policies::{Route, routes};
use crate::cli::bench::rounds::{Contestant, Round, Rounds, take_turns};
use crate::cli::bench::server::{Server, Store};

/// Connections, and calls under way over each: 64 in all.
const SHAPES: [(usize, usize); 4] = [(1, 64), (4, 16), (16, 8), (64, 1)];

/// The one that is compared further.
const USUAL: (usize, usize) = (4, 16);

/// What the server on Redis answers a second when it is asked as fast as can be, if there is one.
pub(super) async fn measure(
    bench: &Bench<'_>,
    servers: &Servers<'_>,
    table: &mut Table,
) -> Result<Option<NonZeroU32>, BenchError> {
    let mut saturation = None;
    for shape in SHAPES {
        let measured = in_shape(bench, servers, shape, table).await?;
        if shape == USUAL {
            saturation = measured.get(2).and_then(whole_calls_per_second);
        }
        table.figures.push((shape_name(shape), measured));
    }
    refused(bench, servers, table).await?;
    many_under_way(bench, servers, table).await?;
    several_descriptors(bench, servers, table).await?;
    Ok(saturation)
}

fn shape_name((connections, streams): (usize, usize)) -> String {
    format!("{connections} × {streams}")
}

async fn in_shape(
    bench: &Bench<'_>,
    servers: &Servers<'_>,
    shape: (usize, usize),
    table: &mut Table,
) -> Result<Vec<Rounds>, BenchError> {
    let name = shape_name(shape);
    bench.say(&format!("cost, {name}"));
    let load = Load {
        connections: shape.0,
        streams: shape.1,
        ..usual(Route::Wide.ask(1), Keys::Uniform(CALLERS))
    };
    let mut contestants = vec![servers.baseline(&load), servers.memory(&load)];
    if shape == USUAL {
        contestants.extend(servers.on_redis(&load));
    }
    let measured = take_turns(contestants, bench.duration).await?;
    let (baseline, memory) = (&measured[0], &measured[1]);
    table.rows.push(Row {
        what: format!("server CPU a call, {name}: memory ÷ baseline"),
        bar: Bar::Most(1.35),
        unit: Unit::Times,
        figure: memory.over(baseline, Round::server_cpu),
    });
    if shape == USUAL {
        table.rows.push(Row {
            what: format!("calls a second as fast as can be, {name}: memory ÷ baseline"),
            bar: Bar::Least(0.85),
            unit: Unit::Times,
            figure: memory.over(baseline, Round::calls_per_second),
        });
    }
    if let Some(on_redis) = measured.get(2) {
        table.rows.push(Row {
            what: format!("server CPU a call, {name}: Redis ÷ memory"),
            bar: Bar::Most(1.5),
            unit: Unit::Times,
            figure: on_redis.over(memory, Round::server_cpu),
        });
    }
    Ok(measured)
}

fn whole_calls_per_second(measured: &Rounds) -> Option<NonZeroU32> {
    let calls = measured.figure(Round::calls_per_second)?.median;
    // Far below what the type holds, and never negative.
    #[allow(clippy::cast_sign_loss)]
    NonZeroU32::new(calls as u32)
}

/// One caller that has spent its budget.
async fn refused(bench: &Bench<'_>, servers: &Servers<'_>, table: &mut Table) -> Result<(), BenchError> {
    let load = usual(Route::Spent.ask(1), Keys::Hot);
    let Some(on_redis) = servers.on_redis(&load) else {
        return Ok(());
    };
    bench.say("cost of a refusal");
    let measured = take_turns(vec![servers.memory(&load), on_redis], bench.duration).await?;
    table.rows.push(Row {
        what: String::from("server CPU a call, one caller that is refused: Redis ÷ memory"),
        bar: Bar::Most(1.1),
        unit: Unit::Times,
        figure: measured[1].over(&measured[0], Round::server_cpu),
    });
    table.figures.push((String::from("refused, 4 × 16"), measured));
    Ok(())
}

/// 256 calls under way: enough that Redis gets several at once. What that gains is seen beside a server that sends each alone.
async fn many_under_way(
    bench: &Bench<'_>,
    servers: &Servers<'_>,
    table: &mut Table,
) -> Result<(), BenchError> {
    let load = Load {
        streams: 64,
        ..usual(Route::Wide.ask(1), Keys::Uniform(CALLERS))
    };
    let Some((server, redis)) = &servers.on_redis else {
        return Ok(());
    };
    bench.say("cost, 4 × 64");
    let store = Store::RedisOneByOne(redis);
    let alone = Server::comporta("one-by-one", &routes(), store, &bench.folder).await?;
    let contestants = vec![
        servers.memory(&load),
        Contestant::new("redis", server, Some(redis), load.clone()),
        Contestant::new("redis, one by one", &alone, Some(redis), load),
    ];
    let measured = take_turns(contestants, bench.duration).await?;
    let (together, alone) = (&measured[1], &measured[2]);
    table.rows.push(Row {
        what: String::from("Redis CPU a decision, 256 calls under way: together ÷ one by one"),
        bar: Bar::Most(0.7),
        unit: Unit::Times,
        figure: together.over(alone, Round::redis_cpu),
    });
    for (how, measured) in [("", together), (", one by one", alone)] {
        table.rows.push(Row {
            what: format!("Redis CPU a decision, 256 calls under way{how}"),
            bar: Bar::None,
            unit: Unit::Micros,
            figure: measured.figure(Round::redis_cpu),
        });
    }
    table.figures.push((String::from("4 × 64"), measured));
    Ok(())
}

async fn several_descriptors(
    bench: &Bench<'_>,
    servers: &Servers<'_>,
    table: &mut Table,
) -> Result<(), BenchError> {
    bench.say("cost of 8 descriptors");
    let contestant = |callers: usize| {
        let load = usual(Route::Wide.ask(callers), Keys::Uniform(CALLERS / callers as u64));
        let name = format!("memory, {callers} of them");
        Contestant::new(name, &servers.memory, None, load)
    };
    let measured = take_turns(vec![contestant(1), contestant(8)], bench.duration).await?;
    table.rows.push(Row {
        what: String::from("server CPU a call, memory: 8 descriptors ÷ 1"),
        bar: Bar::Most(1.8),
        unit: Unit::Times,
        figure: measured[1].over(&measured[0], Round::server_cpu),
    });
    table
        .figures
        .push((String::from("descriptors in a call, 4 × 16"), measured));
    Ok(())
}

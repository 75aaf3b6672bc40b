//! Whether more rules or more counters make a call dearer.

use std::sync::Arc;
use std::time::Duration;

use super::resident::resident;
use super::row::{Bar, Row, Unit};
use super::{CALLERS, Table, usual};
use crate::cli::bench::Bench;
use crate::cli::bench::error::BenchError;
use crate::cli::bench::keys::{Keys, Picker};
use crate::cli::bench::load::Load;
use crate::cli::bench::policies::{self, Route};
use crate::cli::bench::question::Question;
use crate::cli::bench::rounds::{Contestant, Round, take_turns};
use crate::cli::bench::server::{Server, Store};

/// Longer than it takes to ask about everybody.
const LONG: Duration = Duration::from_hours(1);

/// Many counters.
const COUNTERS: u64 = 1_000_000;

/// Callers in one call where every caller is to have a counter.
const AT_ONCE: usize = 100;

/// One rule for all callers, against one for each; the callers are the same.
pub(super) async fn rules(bench: &Bench<'_>, table: &mut Table) -> Result<(), BenchError> {
    bench.say("cost of many rules");
    let one = Server::comporta("one-rule", &policies::routes(), Store::Memory, &bench.folder).await?;
    let many = policies::rules(CALLERS);
    let many = Server::comporta("many-rules", &many, Store::Memory, &bench.folder).await?;
    let load = usual(Route::Wide.ask(1), Keys::Uniform(CALLERS));
    let contestants = vec![
        Contestant::new("1", &one, None, load.clone()),
        Contestant::new("100,000", &many, None, load),
    ];
    let measured = take_turns(contestants, bench.duration).await?;
    table.rows.push(Row {
        what: String::from("server CPU a call, memory: 100,000 rules ÷ 1"),
        bar: Bar::Most(1.1),
        unit: Unit::Times,
        figure: measured[1].over(&measured[0], Round::server_cpu),
    });
    table.figures.push((String::from("rules, 4 × 16"), measured));
    Ok(())
}

/// A thousand counters, against a million, of which each is as likely to be asked for as any other; and what these hold.
pub(super) async fn counters(bench: &Bench<'_>, table: &mut Table) -> Result<(), BenchError> {
    bench.say("cost of many counters");
    let policy = policies::short_keys();
    let few = Server::comporta("few-counters", &policy, Store::Memory, &bench.folder).await?;
    let many = Server::comporta("many-counters", &policy, Store::Memory, &bench.folder).await?;
    fill(&many, policies::ask_short_keys(AT_ONCE), COUNTERS).await?;
    let resident = resident(
        &format!("a million counters with keys of {} bytes", policies::SHORT_KEY),
        180.0,
        &many,
    );
    let asked = |callers| usual(policies::ask_short_keys(1), Keys::Uniform(callers));
    let contestants = vec![
        Contestant::new("1,000", &few, None, asked(1000)),
        Contestant::new("1,000,000", &many, None, asked(COUNTERS)),
    ];
    let measured = take_turns(contestants, bench.duration).await?;
    table.rows.push(Row {
        what: String::from("server CPU a call, memory: a million counters ÷ a thousand"),
        bar: Bar::Most(1.25),
        unit: Unit::Times,
        figure: measured[1].over(&measured[0], Round::server_cpu),
    });
    table.rows.push(resident);
    table.figures.push((String::from("counters, 4 × 16"), measured));
    Ok(())
}

/// Asks about every one of so many callers once, [`AT_ONCE`] in a call.
async fn fill(server: &Server, question: Question, callers: u64) -> Result<(), BenchError> {
    let load = Load {
        connections: 2,
        streams: 4,
        keys: Arc::new(Picker::in_turn(callers / AT_ONCE as u64)),
        ..usual(question, Keys::Hot)
    };
    // Ends with the last caller.
    let filled = Contestant::new("fill", server, None, load).ask(LONG).await?;
    match filled.tally.said {
        None => Ok(()),
        Some(said) => Err(BenchError::NotFilled { said }),
    }
}

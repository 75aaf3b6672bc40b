//! How much memory a server holds.

use super::Table;
use super::row::{Bar, Row, Unit};
use crate::cli::bench::Bench;
use crate::cli::bench::error::BenchError;
use crate::cli::bench::policies;
use crate::cli::bench::rounds::ROUNDS;
use crate::cli::bench::server::{Server, Store};
use crate::cli::bench::spread::{Spread, as_float};

/// After its start, several times over.
pub(super) async fn idle(bench: &Bench<'_>, table: &mut Table) -> Result<(), BenchError> {
    bench.say("memory");
    let mut held = Vec::new();
    for _ in 0..ROUNDS {
        let server = Server::comporta("idle", &policies::routes(), Store::Memory, &bench.folder).await?;
        held.push(mebibytes(&server));
    }
    table.rows.push(row("idle", 16.0, Spread::of(held)));
    Ok(())
}

/// What a server holds now, against the most mebibytes that it should.
pub(super) fn resident(when: &str, most: f64, server: &Server) -> Row {
    row(when, most, Spread::of([mebibytes(server)]))
}

fn row(when: &str, most: f64, figure: Option<Spread>) -> Row {
    Row {
        what: format!("resident memory, {when}"),
        bar: Bar::Most(most),
        unit: Unit::Mebibytes,
        figure,
    }
}

fn mebibytes(server: &Server) -> Option<f64> {
    Some(as_float(server.resident()?) / as_float(1 << 20))
}

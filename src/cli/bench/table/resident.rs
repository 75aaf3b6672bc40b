//! How much memory a server holds.

use super::Table;
use super::row::{Bar, Row, Unit};
use crate::cli::bench::Bench;
use crate::cli::bench::error::BenchError;
use crate::cli::bench::policies;
use crate::cli::bench::server::{Server, Store};
use crate::cli::bench::spread::{Spread, as_float};

/// After its start.
pub(super) async fn idle(bench: &Bench<'_>, table: &mut Table) -> Result<(), BenchError> {
    bench.say("memory");
    let server = Server::comporta("idle", &policies::routes(), Store::Memory, &bench.folder).await?;
    table.rows.push(resident("idle", 16.0, &server));
    Ok(())
}

/// What a server holds now, against the most mebibytes that it should.
pub(super) fn resident(when: &str, most: f64, server: &Server) -> Row {
    let bytes = server.resident().map(as_float);
    Row {
        what: format!("resident memory, {when}"),
        bar: Bar::Most(most),
        unit: Unit::Mebibytes,
        figure: Spread::of([bytes.map(|bytes| bytes / as_float(1 << 20))]),
    }
}

//! Whether what was admitted is what the limit promises, asked as fast as can be.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::error::BenchError;
use super::grid::Grid;
use super::keys::{Keys, Picker};
use super::load::Load;
use super::pace::Pace;
use super::policies::{HOT, Route, hot_limit};
use super::redis::Redis;
use super::rounds::Contestant;
use super::server::Server;
use super::spread::{as_float, grouped};
use super::tally::Tally;
use crate::domain::time::Micros;

/// What was admitted of one caller's calls, and the most that may have been.
pub(super) struct Accuracy {
    name: String,
    tally: Tally,
    promised: u64,
}

impl Accuracy {
    /// Asks about one caller for so long. To be done once on a server: the promise is about all that it was asked.
    pub(super) async fn measure(
        name: &str,
        server: &Server,
        redis: Option<&Redis>,
        duration: Duration,
    ) -> Result<Self, BenchError> {
        let load = Load {
            connections: 4,
            streams: 16,
            pace: Pace::Closed,
            question: Arc::new(Route::Hot.ask(1)),
            keys: Arc::new(Picker::new(Keys::Hot)),
        };
        let round = Contestant::new(name, server, redis, load).ask(duration).await?;
        Ok(Self {
            name: name.to_owned(),
            promised: promised_within(round.tally.took),
            tally: round.tally,
        })
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "server": self.name,
            "seconds": self.tally.took.as_secs_f64(),
            "calls": self.tally.calls(),
            "admitted": self.tally.admitted,
            "promised": self.promised,
            "refused": self.tally.refused,
            "errors": self.tally.errors,
            "p50_ms": self.tally.latency_ms(0.5),
            "p99_ms": self.tally.latency_ms(0.99),
        })
    }
}

/// The most that is admitted while so much time passes, both ends included.
fn promised_within(time: Duration) -> u64 {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let span = Micros::new(micros.saturating_add(2));
    hot_limit().map_or(0, |limit| limit.most_within(span))
}

/// One column for each store.
pub(super) fn grid(measured: &[Accuracy]) -> Grid {
    let names = measured.iter().map(|accuracy| accuracy.name.clone());
    let mut grid = Grid::new([format!("one caller, {HOT} a second")].into_iter().chain(names));
    let count = |number: u64| grouped(as_float(number), 0);
    let millis = |figure: Option<f64>| figure.map_or_else(|| String::from("–"), |figure| grouped(figure, 2));
    let mut row = |what: &str, show: &dyn Fn(&Accuracy) -> String| {
        grid.row([what.to_owned()].into_iter().chain(measured.iter().map(show)));
    };
    row("seconds", &|one| grouped(one.tally.took.as_secs_f64(), 2));
    row("admitted", &|one| count(one.tally.admitted));
    row("promised at most", &|one| count(one.promised));
    row("refused", &|one| count(one.tally.refused));
    row("errors", &|one| count(one.tally.errors));
    row("p50, ms", &|one| millis(one.tally.latency_ms(0.5)));
    row("p99, ms", &|one| millis(one.tally.latency_ms(0.99)));
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_covers_both_ends() {
        assert_eq!(promised_within(Duration::ZERO), 1000);
        assert_eq!(promised_within(Duration::from_millis(999)), 1999);
        assert_eq!(promised_within(Duration::from_secs(3)), 4000);
    }
}

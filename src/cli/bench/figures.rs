//! What became of contestants, side by side.

use serde_json::{Value, json};

use super::grid::Grid;
use super::rounds::{Figure, Round, Rounds};
use super::spread::{Spread, as_float, grouped};

/// What is shown: its name, its name in JSON, the places behind the point, and how it is had.
const FIGURES: [(&str, &str, usize, Figure); 8] = [
    ("calls a second", "calls_per_second", 0, Round::calls_per_second),
    ("p50, ms", "p50_ms", 2, Round::p50),
    ("p99, ms", "p99_ms", 2, Round::p99),
    ("p99.9, ms", "p999_ms", 2, Round::p999),
    ("server CPU, µs a call", "server_cpu_us", 1, Round::server_cpu),
    ("Redis CPU, µs a call", "redis_cpu_us", 1, Round::redis_cpu),
    ("client CPU, µs a call", "client_cpu_us", 1, Round::client_cpu),
    ("processors taken by others", "others", 2, Round::others),
];

/// What is compared.
const RATIOS: [(&str, &str, Figure); 2] = [
    ("calls a second", "calls_per_second", Round::calls_per_second),
    ("server CPU", "server_cpu", Round::server_cpu),
];

/// One column for each contestant.
pub(super) fn grid(head: &str, contestants: &[Rounds]) -> Grid {
    let names = contestants.iter().map(|contestant| contestant.name.as_str());
    let mut grid = Grid::new([head].into_iter().chain(names));
    let mut row = |what: &str, cells: Vec<String>| grid.row([what.to_owned()].into_iter().chain(cells));
    for (name, _, places, figure) in FIGURES {
        let figures = contestants.iter().map(|contestant| contestant.figure(figure));
        let figures: Vec<_> = figures.map(|figure| show(figure, places)).collect();
        // Without a Redis there is nothing to say of it.
        if figures.iter().any(|figure| figure != UNKNOWN) {
            row(name, figures);
        }
    }
    let sums: Vec<_> = contestants.iter().map(Rounds::sum).collect();
    let counts: [(&str, Vec<u64>); 4] = [
        ("admitted", sums.iter().map(|sum| sum.admitted).collect()),
        ("refused", sums.iter().map(|sum| sum.refused).collect()),
        ("errors", sums.iter().map(|sum| sum.errors).collect()),
        ("due but not sent", sums.iter().map(|sum| sum.unsent).collect()),
    ];
    for (name, counts) in counts {
        // Verdicts always, troubles where there were any.
        if name == "admitted" || counts.iter().any(|count| *count > 0) {
            row(
                name,
                counts.iter().map(|count| grouped(as_float(*count), 0)).collect(),
            );
        }
    }
    grid
}

/// One column for each pair: the first as a multiple of the second.
pub(super) fn ratio_grid(pairs: &[(&Rounds, &Rounds)]) -> Grid {
    let names = pairs
        .iter()
        .map(|(one, other)| format!("{} ÷ {}", one.name, other.name));
    let mut grid = Grid::new([String::new()].into_iter().chain(names));
    for (name, _, figure) in RATIOS {
        let ratios = pairs.iter().map(|(one, other)| one.over(other, figure));
        grid.row(
            [name.to_owned()]
                .into_iter()
                .chain(ratios.map(|ratio| show(ratio, 2))),
        );
    }
    grid
}

/// What stands where nothing is known.
const UNKNOWN: &str = "–";

fn show(figure: Option<Spread>, places: usize) -> String {
    figure.map_or_else(|| UNKNOWN.to_owned(), |figure| figure.show(places))
}

/// What the first error of each said, a line each.
pub(super) fn errors(contestants: &[Rounds]) -> String {
    let said = contestants.iter().filter_map(|contestant| {
        let said = contestant.sum().said?;
        Some(format!("{}: {said}\n", contestant.name))
    });
    said.collect()
}

pub(super) fn as_json(contestant: &Rounds) -> Value {
    let sum = contestant.sum();
    let mut object = json!({
        "name": contestant.name,
        "calls": sum.calls(),
        "admitted": sum.admitted,
        "refused": sum.refused,
        "errors": sum.errors,
        "unsent": sum.unsent,
    });
    for (_, name, _, figure) in FIGURES {
        object[name] = contestant
            .figure(figure)
            .map_or(Value::Null, |figure| figure.as_json());
    }
    object
}

pub(super) fn ratios_as_json((one, other): (&Rounds, &Rounds)) -> Value {
    let mut object = json!({ "of": one.name, "to": other.name });
    for (_, name, figure) in RATIOS {
        object[name] = one
            .over(other, figure)
            .map_or(Value::Null, |ratio| ratio.as_json());
    }
    object
}

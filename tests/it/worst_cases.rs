//! The table "What each algorithm admits" of the README, measured: for every row the limit is built, a caller that wants
//! as much as it can get is played, and what it gets is what the table says.

use std::sync::Arc;

use comporta::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};
use comporta::domain::verdict::Verdict;
use comporta::store::memory::Memory;

use crate::harness::read;
use crate::harness::store::{Silent, check, group};

/// A minute's edge, in milliseconds since the epoch.
const EDGE: u64 = 1_790_000_040_000;

const WINDOW: u64 = 60_000;

/// What a row of the table says.
#[derive(Debug)]
struct Row {
    limit: Limit,
    /// Within 0.6 s on either side of an edge.
    at_an_edge: u64,
    /// Within any window, wherever it starts.
    in_any_window: u64,
}

/// The rows: `| \`token_bucket\`, burst 20 | 21 | 119 | … |`.
fn rows() -> Vec<Row> {
    let readme = read("README.md");
    let (_, section) = readme
        .split_once("### What each algorithm admits")
        .expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let table = section.lines().filter(|line| line.starts_with("| `"));
    table
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("`{cell}` in {line}"));
            Row {
                limit: limit(cells[1]),
                at_an_edge: number(cells[2]),
                in_any_window: number(cells[3]),
            }
        })
        .collect()
}

/// 100 in a minute, under the algorithm and with the burst that a row begins with.
fn limit(cell: &str) -> Limit {
    let name = cell.split('`').nth(1).expect("a name in backticks");
    let algorithm = Algorithm::ALL
        .into_iter()
        .find(|algorithm| algorithm.name() == name)
        .expect("an algorithm");
    let burst = cell
        .split_once("burst ")
        .map(|(_, burst)| burst.parse().expect("a number"));
    Limit::new(LimitSpec {
        name: Arc::from(cell),
        named: true,
        count: 100,
        period: Period::one(Unit::Minute),
        algorithm,
        burst,
        delay: Micros::ZERO,
        calendar: true,
    })
    .expect("a sound limit")
}

/// A caller that takes all it can.
struct Greedy<'l> {
    store: Memory,
    limit: &'l Limit,
    /// When it got how much, in order.
    got: Vec<(u64, u64)>,
}

impl<'l> Greedy<'l> {
    fn new(limit: &'l Limit) -> Self {
        Self {
            store: Memory::new(1_000, Arc::new(Silent)),
            limit,
            got: Vec::new(),
        }
    }

    fn takes_all_at(&mut self, millis: u64) -> u64 {
        let now = Timestamp::from_micros(millis * 1_000);
        let decide = |hits| {
            self.store
                .decide_now(&group(&[check(b"greedy", self.limit, hits)]), now)
                .checks[0]
        };
        let look = decide(Hits::LOOK);
        if look.verdict == Verdict::OverLimit {
            return 0;
        }
        assert_eq!(decide(Hits::take(look.remaining)).verdict, Verdict::UnderLimit);
        self.got.push((millis, look.remaining));
        look.remaining
    }

    /// The most that it got within a window, its start included and its end not.
    fn most_in_a_window(&self) -> u64 {
        let sum = |from: usize| -> u64 {
            let start = self.got[from].0;
            let window = self.got[from..].iter().take_while(|(at, _)| *at < start + WINDOW);
            window.map(|(_, hits)| hits).sum()
        };
        (0..self.got.len()).map(sum).max().unwrap_or(0)
    }
}

#[test]
fn the_table_has_every_algorithm_that_admits_at_once() {
    let mut shown: Vec<_> = rows().iter().map(|row| row.limit.algorithm().name()).collect();
    shown.dedup();
    assert_eq!(
        shown,
        ["fixed_window", "sliding_window", "sliding_log", "token_bucket"]
    );
}

#[test]
fn both_sides_of_an_edge() {
    for row in rows() {
        let mut caller = Greedy::new(&row.limit);
        let admitted = caller.takes_all_at(EDGE - 400) + caller.takes_all_at(EDGE + 200);
        assert_eq!(admitted, row.at_an_edge, "{row:?}");
    }
}

#[test]
fn any_window_at_all() {
    for row in rows() {
        // The first burst falls on each part of a window once; after it the caller asks all the time.
        let most = [0, 1, 200, 15_000, 30_000, 45_000, 59_000, 59_600, 59_900, 59_999].map(|offset| {
            let mut caller = Greedy::new(&row.limit);
            for step in 0..3 * WINDOW / 100 {
                caller.takes_all_at(EDGE + offset + step * 100);
                // And right after every edge, whatever the offset.
                let next_edge = (EDGE + offset + step * 100) / WINDOW * WINDOW + WINDOW;
                if next_edge < EDGE + offset + (step + 1) * 100 {
                    caller.takes_all_at(next_edge);
                }
            }
            caller.most_in_a_window()
        });
        assert_eq!(most.into_iter().max(), Some(row.in_any_window), "{row:?}");
    }
}

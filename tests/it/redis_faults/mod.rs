//! What an instance promises while its Redis fails, under steady load and for each way in which it can fail:
//!
//! - every call has its answer within its caller's deadline, and none is an error;
//! - nobody is refused for it, and nobody gets more than is promised: a budget more for each time that Redis lost its memory,
//!   and one for the change into deciding alone;
//! - no call is charged twice;
//! - two seconds after the fault has ended, Redis decides again, without a restart.
//!
//! Each test prints a line with what it measured. Beside the load, calls go to an instance without a store: where these are
//! slow, the machine is busy, and nothing is made of times.

mod cluster;
pub mod load;
mod network;
mod rights;
mod sentinels;
mod server;
mod tls;

use std::io::Write;
use std::sync::Once;
use std::time::Duration;

use self::load::{CONNECTIONS, Call, Caller, DEADLINE, Load, Outcome, Record};
use crate::harness::comporta::{Comporta, request};

const DOMAIN: &str = "edge";

/// What a greedy caller may have. So little comes back in the time of a test that it is nothing.
const BUDGET: usize = 100;

const MANY: u32 = 1_000_000_000;

fn policy() -> String {
    format!(
        "
domain: {DOMAIN}
descriptors:
  - key: steady
    rate_limit: {{ rate: {MANY}/day }}
  - key: greedy
    rate_limit: {{ rate: {BUDGET}/day, burst: {BUDGET} }}
"
    )
}

/// An instance with all settings as they are when nobody says anything. Its store need not be there yet.
fn serve(url: &str) -> Comporta {
    Comporta::serve_text(&policy(), &["--store", url, "--instances", "1"])
}

/// The same, whose store has answered, and load on it.
fn loaded(url: &str) -> (Comporta, Load) {
    let comporta = serve(url);
    comporta.wait_for_store(DOMAIN, "steady=nobody");
    let load = Load::start(&comporta);
    load.wait_for(20);
    (comporta, load)
}

/// What was done to Redis, and so what is to be held against the record.
struct Fault {
    /// In a few words.
    name: &'static str,
    /// How often Redis lost what it knew.
    losses: usize,
    /// Whether calls cannot but be decided without Redis while it lasts.
    is_felt: bool,
}

impl Fault {
    /// One that is felt, and by which nothing is lost.
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            losses: 0,
            is_felt: true,
        }
    }
}

impl Fault {
    /// Holds the promises against a record of the whole time, and prints what was measured.
    fn check(&self, comporta: &Comporta, record: &Record) {
        let degraded = record.count(Call::is_degraded);
        let promise = BUDGET * (1 + self.losses + usize::from(degraded > 0));
        let passed = |call: &Call| matches!(call.outcome, Outcome::Answered { admitted: true, .. });
        let admitted = record.count(|call| call.caller == Caller::Greedy && passed(call));
        let late = record.count(|call| matches!(call.outcome, Outcome::Failed(_)));
        self.print(record, [late, degraded], &format!("{admitted}/{promise}"));

        for call in &record.calls {
            match &call.outcome {
                Outcome::Answered { admitted, .. } => {
                    assert!(
                        *admitted || call.caller == Caller::Greedy,
                        "{}: {call:?}",
                        self.name
                    );
                }
                // Late, or an error.
                Outcome::Failed(status) => {
                    assert!(call.took >= DEADLINE, "{}: {status}: {call:?}", self.name);
                }
            }
        }
        assert!(late <= record.most_late(), "{}: {late} late", self.name);
        assert!(admitted <= promise, "{}: {admitted} of {promise}", self.name);
        assert!(degraded > 0 || !self.is_felt, "{} was not felt", self.name);
        let recovery = record.recovery.unwrap_or(Duration::MAX);
        assert!(recovery <= record.soon(), "{}: {recovery:?}", self.name);
        for connection in 0..CONNECTIONS {
            let sent = record.count(|call| call.caller == Caller::Steady && call.connection == connection);
            let charged = used(comporta, connection);
            assert!(charged <= sent, "{}: {charged} for {sent} calls", self.name);
        }
        let printed = comporta.printed();
        assert!(!printed.contains("this is a bug"), "{}: {printed}", self.name);
        // It says that something is wrong, not how often.
        let lines = printed.lines().count();
        assert!(lines < 50 || record.is_noise(), "{}: {lines} lines", self.name);
    }

    fn print(&self, record: &Record, [late, degraded]: [usize; 2], admitted: &str) {
        static HEAD: Once = Once::new();
        HEAD.call_once(|| {
            print_row(
                "Redis, for two seconds",
                [
                    "calls", "p50 ms", "p99 ms", "longest", "late", "degraded", "back ms", "admitted", "",
                ],
            );
        });
        let millis = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        let back = record.recovery.map(|time| time.as_millis().to_string());
        print_row(
            self.name,
            [
                &record.calls.len().to_string(),
                &millis(record.percentile(50)),
                &millis(record.percentile(99)),
                &millis(record.percentile(100)),
                &late.to_string(),
                &degraded.to_string(),
                &back.unwrap_or_else(|| "never".to_owned()),
                admitted,
                if record.is_noise() { "(busy)" } else { "" },
            ],
        );
    }
}

fn print_row(name: &str, columns: [&str; 9]) {
    let columns: String = columns.iter().map(|column| format!(" {column:>8}")).collect();
    let row = format!("{name:<36}{columns}");
    // Past the tests' own capture, which shows it only when they fail. An error says that nobody looks.
    let _ = std::io::stderr().write_all(format!("{}\n", row.trim_end()).as_bytes());
}

/// What Redis has counted of a steady caller.
fn used(comporta: &Comporta, connection: usize) -> usize {
    let mut look = request(DOMAIN, &[&format!("steady={connection}")]);
    look.descriptors[0].hits_addend = Some(0);
    let client = comporta.client();
    let answer = crate::harness::process::poll("an answer of Redis", || {
        let answer = client.send(look.clone()).expect("an answer");
        (!load::degraded(&answer)).then_some(answer)
    });
    (MANY - answer.statuses[0].limit_remaining) as usize
}

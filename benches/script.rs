//! What the script costs Redis beside the least that a limiter can do there: a GCRA that keeps one number. Both read the
//! server's clock.
//!
//! `cargo bench --bench script`. All scripts take turns in one Redis, 16 decisions in flight, each in a call of its own or
//! all in one, and each is charged with the processor time of Redis's main thread (schedstat) over its decisions: the median
//! of several rounds. Where valgrind is installed the instructions of a decision are counted too, as the difference between
//! a long run and a short one.

// A bench prints, and has no users who need docs.
#![allow(missing_docs, clippy::print_stdout, clippy::cast_precision_loss)]

mod support;

use comporta::domain::limit::Algorithm;
use comporta::store::redis::{codec, script};

use self::support::{Server, group, key, limit, take};

/// The most that a bucket may cost, times a bare GCRA.
const BAR: f64 = 1.5;

/// The most that a bucket may cost in a call with others, times one in a call of its own.
const BATCH_BAR: f64 = 0.75;

const GCRA: &str = "
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local interval = tonumber(ARGV[1])
local burst = tonumber(ARGV[2])
local new = tat + interval
if new - burst > now then return -1 end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return 1
";

const IN_FLIGHT: usize = 16;
const DECISIONS: usize = 16_000;
const ROUNDS: usize = 7;
const CLIENTS: usize = 20_000;

/// Buckets, as many in a call as are in flight.
const BATCH: &str = "token_bucket, together";

/// What is called: its name and, once loaded, its hash and the arguments of a decision.
struct Case {
    name: &'static str,
    hash: String,
    arguments: Vec<Vec<u8>>,
    /// How many decisions go in a call.
    together: usize,
}

fn cases(connection: &mut redis::Connection) -> Vec<Case> {
    let mut load = |source: &str| -> String {
        redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(source)
            .query(connection)
            .expect("a script that loads")
    };
    let gcra = Case {
        name: "gcra",
        hash: load(GCRA),
        arguments: vec![b"36000000".to_vec(), b"3600000000".to_vec()],
        together: 1,
    };
    let hash = load(script::SOURCE);
    let alone = |algorithm: Algorithm| (algorithm.name(), algorithm, 1);
    let ours = [
        alone(Algorithm::TokenBucket),
        alone(Algorithm::SlidingWindow),
        alone(Algorithm::FixedWindow),
        alone(Algorithm::SlidingLog),
        (BATCH, Algorithm::TokenBucket, IN_FLIGHT),
    ];
    let ours = ours.into_iter().map(|(name, algorithm, together)| {
        let (limit, key) = (limit(algorithm), key(0));
        let checks = [take(&key, &limit)];
        let group = group(&checks);
        Case {
            name,
            hash: hash.clone(),
            arguments: codec::arguments(&group)
                .map(|argument| argument.to_vec())
                .collect(),
            together,
        }
    });
    std::iter::once(gcra).chain(ours).collect()
}

/// Makes `decisions` decisions, each about one of `clients` clients, in an order that is the same each time.
fn decide(connection: &mut redis::Connection, case: &Case, decisions: usize, clients: usize) {
    for first in (0..decisions).step_by(IN_FLIGHT) {
        let mut pipe = redis::pipe();
        for first in (first..first + IN_FLIGHT).step_by(case.together) {
            pipe.cmd("EVALSHA").arg(&case.hash).arg(case.together);
            for number in first..first + case.together {
                pipe.arg(key(number.wrapping_mul(0x9E37_79B9) % clients));
            }
            for argument in std::iter::repeat_n(&case.arguments, case.together).flatten() {
                pipe.arg(argument);
            }
            pipe.ignore();
        }
        pipe.query::<()>(connection).expect("replies");
    }
}

/// Nanoseconds that the main thread of a process has run.
fn ran(id: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/schedstat")).expect("Linux");
    text.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .expect("nanoseconds")
}

/// Nanoseconds of processor time a decision, by case.
fn processor_time() -> Vec<(&'static str, f64)> {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    let cases = cases(&mut connection);
    let mut rounds = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for (case, rounds) in cases.iter().zip(&mut rounds) {
            redis::cmd("FLUSHALL")
                .query::<()>(&mut connection)
                .expect("an empty Redis");
            let before = ran(server.id());
            decide(&mut connection, case, DECISIONS, CLIENTS);
            rounds.push((ran(server.id()) - before) / DECISIONS as u64);
        }
    }
    let median = |mut rounds: Vec<u64>| {
        rounds.sort_unstable();
        rounds[rounds.len() / 2] as f64
    };
    cases
        .iter()
        .map(|case| case.name)
        .zip(rounds.into_iter().map(median))
        .collect()
}

/// Instructions of a decision, by each of `count` cases; nothing where valgrind is not installed.
fn instructions(count: usize) -> Option<Vec<(&'static str, f64)>> {
    const SHORT: usize = 960;
    const LONG: usize = 3_840;
    std::process::Command::new("valgrind")
        .arg("--version")
        .output()
        .ok()?;
    let run = |place: usize, decisions: usize| -> (&'static str, f64) {
        let mut server = Server::start(&[
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--callgrind-out-file=instructions",
        ]);
        let mut connection = server.connect();
        let case = cases(&mut connection).swap_remove(place);
        decide(&mut connection, &case, decisions, 500);
        server.stop();
        let report = std::fs::read_to_string(server.file("instructions")).expect("a report");
        let total = report
            .lines()
            .find_map(|line| {
                line.strip_prefix("summary: ")
                    .or_else(|| line.strip_prefix("totals: "))
            })
            .expect("a total");
        (case.name, total.trim().parse().expect("a number"))
    };
    let of_case = |place| {
        let ((name, long), (_, short)) = (run(place, LONG), run(place, SHORT));
        (name, (long - short) / (LONG - SHORT) as f64)
    };
    Some((0..count).map(of_case).collect())
}

fn print(what: &str, costs: &[(&str, f64)]) {
    println!("\n{what}\n");
    let least = costs[0].1;
    for (name, cost) in costs {
        println!("{name:<24}{cost:>10.0}{:>8.2} x", cost / least);
    }
}

fn main() {
    let times = processor_time();
    print("Nanoseconds of Redis's processor time a decision", &times);
    // Instructions are the same whatever else the machine does, so they decide where they can be had.
    let (counted, costs) = match instructions(times.len()) {
        Some(costs) => {
            print("Instructions of Redis a decision", &costs);
            ("Redis instructions", costs)
        }
        None => ("Redis CPU", times),
    };
    let of = |name: &str| costs.iter().find(|cost| cost.0 == name).expect("measured").1;
    let bucket = of(Algorithm::TokenBucket.name());
    let ratios = [
        ("token bucket ÷ a bare GCRA", bucket / of("gcra"), BAR),
        (
            "token bucket, 16 in a call ÷ alone",
            of(BATCH) / bucket,
            BATCH_BAR,
        ),
    ];
    println!("\n| what | bar | measured | within |\n|---|---|---|---|");
    for (what, ratio, bar) in ratios {
        let within = if ratio <= bar { "yes" } else { "no" };
        println!("| {counted} a decision, {what} | ≤ {bar:.2} | {ratio:.2} | {within} |");
    }
    std::process::exit(i32::from(ratios.iter().any(|(_, ratio, bar)| ratio > bar)));
}

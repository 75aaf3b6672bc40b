//! What the parts of a call cost, each by itself.
//!
//!     cargo bench --bench micro              times
//!     cargo bench --bench micro -- call      times of the cases whose names contain this
//!     cargo bench --bench micro -- --check   counts instructions, and fails where there are more than were kept
//!     cargo bench --bench micro -- --update  counts instructions, and keeps them
//!
//! Times are for comparing on one machine that does nothing else; instructions are the same on any day, so they are kept
//! beside this, in `instructions.txt`. They depend on the compiler, on libc and on what the processor can do: a change of
//! those is kept like any other. Counting takes valgrind.

// A bench prints, and has no users who need docs.
#![allow(missing_docs, clippy::pedantic, clippy::print_stdout, clippy::print_stderr)]

mod cases;
mod kept;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::Criterion;

use self::cases::{CASES, Call, Calls};
use self::kept::{Counts, Finding};
use self::support::callgrind;

// The allocator of the service.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/micro/instructions.txt");

/// Names the case that a child is to run under valgrind.
const CASE: &str = "COMPORTA_BENCH_CASE";

/// Calls before those that are counted: whatever is made at first is made then.
const WARMING_CALLS: usize = 1_000;
/// Enough that whatever differs between calls, and between processes that hash by different secrets, evens out.
const COUNTED_CALLS: usize = 10_000;

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(CASE) {
        run_counted(&name);
        return ExitCode::SUCCESS;
    }
    let asked = |flag| std::env::args().any(|argument| argument == flag);
    let outcome = if asked("--check") {
        check()
    } else if asked("--update") {
        update().map(|()| true)
    } else {
        time();
        Ok(true)
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn time() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .without_plots()
        .configure_from_args();
    for case in CASES {
        criterion.bench_function(case.name, |bencher| match case.calls {
            Calls::Alone(prepare) => bencher.iter(prepare()),
            Calls::Together(prepare) => {
                let mut calls = prepare();
                bencher.iter_custom(|each| at_the_same_time(&mut calls, each));
            }
        });
    }
    criterion.final_summary();
}

/// How long it takes until every thread has made its call `each` times.
fn at_the_same_time(calls: &mut [Call], each: u64) -> Duration {
    let start = Barrier::new(calls.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = calls
            .iter_mut()
            .map(|call| {
                scope.spawn(|| {
                    start.wait();
                    let started = Instant::now();
                    (0..each).for_each(|_| call());
                    started.elapsed()
                })
            })
            .collect();
        let taken = threads
            .into_iter()
            .map(|thread| thread.join().expect("calls that return"));
        taken.max().unwrap_or_default()
    })
}

/// What valgrind runs: calls that it does not count, and calls that it does.
fn run_counted(name: &str) {
    let case = CASES
        .iter()
        .find(|case| case.name == name)
        .expect("a case of ours");
    let Calls::Alone(prepare) = case.calls else {
        panic!("only cases of one thread are counted");
    };
    let mut call = prepare();
    (0..WARMING_CALLS).for_each(|_| call());
    counted_calls(&mut *call);
}

/// Its name is how valgrind finds it.
#[inline(never)]
fn counted_calls(call: &mut dyn FnMut()) {
    (0..COUNTED_CALLS).for_each(|_| call());
}

/// Counts all cases of one thread. With several it would count how often they look whether they still wait for each other.
fn count() -> Result<Counts, String> {
    CASES
        .iter()
        .filter(|case| matches!(case.calls, Calls::Alone(_)))
        .map(|case| {
            let counted = callgrind::instructions("counted_calls", &[(CASE, case.name)])?;
            let calls = COUNTED_CALLS as u64;
            Ok((String::from(case.name), (counted + calls / 2) / calls))
        })
        .collect()
}

/// Compares counts with those kept, and says whether they may be as they are.
fn check() -> Result<bool, String> {
    let text = std::fs::read_to_string(KEPT).map_err(|error| format!("{KEPT}: {error}"))?;
    let compared = kept::compare(&kept::read(&text)?, &count()?);
    println!(
        "{:32}{:>8}{:>8}{:>11}",
        "instructions per call", "kept", "now", "change"
    );
    for case in &compared {
        println!("{case}");
    }
    let findings: Vec<_> = compared.iter().map(kept::Compared::finding).collect();
    let passes = findings.iter().all(|finding| finding.passes());
    if !passes || findings.contains(&Finding::Less) {
        println!("\nWhere that is meant, `cargo bench --bench micro -- --update` keeps what is counted now.");
    }
    Ok(passes)
}

fn update() -> Result<(), String> {
    std::fs::write(KEPT, kept::write(&count()?)).map_err(|error| format!("{KEPT}: {error}"))
}

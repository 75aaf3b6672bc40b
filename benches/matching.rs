//! What a set of many rules costs: to load, to hold, and per match.
//!
//!     cargo bench --bench matching            everything
//!     cargo bench --bench matching -- cidrs   the cases whose names contain this
//!
//! Every case runs in a process of its own, so that memory is its own as well; freed memory is given back at once, or
//! it would look as if it were held. Where valgrind is installed, instructions per match are counted too: unlike time
//! they do not depend on who else uses the machine, and they tell more work from more cache misses. The loop over one
//! descriptor finds everything in the cache, the one over all of them in random order finds next to nothing there.

#![allow(missing_docs, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]

mod support;

use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use comporta::domain::descriptor::Entry;
use comporta::policy::PolicySet;

use self::support::{callgrind, shuffle};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Names the case that a child is to run.
const CASE: &str = "COMPORTA_BENCH_CASE";
/// Tells a child that its instructions are counted.
const COUNTED: &str = "COMPORTA_BENCH_COUNTED";

/// Matches of a counted loop: enough that what is around the loop is nothing.
const COUNTED_MATCHES: usize = 20_000;
/// How long a timed round is meant to take, and how many there are.
const ROUND_NANOS: f64 = 200_000_000.0;
const ROUNDS: usize = 5;

/// A domain, and the entries of one descriptor.
type Asked = (String, Vec<(&'static str, String)>);

/// A set of rules and what is asked of it.
struct Case {
    name: &'static str,
    policy: fn() -> String,
    /// The question of a number; there are as many as `questions`.
    question: fn(usize) -> Asked,
    questions: usize,
}

const CASES: &[Case] = &[
    exact("exact/10", 10, || exact_rules(10)),
    exact("exact/1000", 1_000, || exact_rules(1_000)),
    exact("exact/100000", 100_000, || exact_rules(100_000)),
    Case {
        name: "domains/1000",
        policy: || (0..1_000).map(domain_of_ten).collect(),
        question: |number| {
            let domain = format!("domain-{:03}", number % 1_000);
            (domain, vec![("client", format!("client-{:06}", number / 1_000))])
        },
        questions: 10_000,
    },
    Case {
        name: "patterns/200, the last",
        policy: patterns,
        question: |number| ("edge".into(), vec![("path", format!("/v1/part-199/{number:06}"))]),
        questions: 1_000,
    },
    Case {
        name: "patterns/200, none",
        policy: patterns,
        question: |number| ("edge".into(), vec![("path", format!("/v1/else-999/{number:06}"))]),
        questions: 1_000,
    },
    Case {
        name: "cidrs/10000",
        policy: cidrs,
        question: |number| {
            let (second, third) = (number / 250 % 40, number % 250);
            (
                "edge".into(),
                vec![("address", format!("10.{second}.{third}.{}", number % 7))],
            )
        },
        questions: 10_000,
    },
    Case {
        name: "cidrs/10000, none",
        policy: cidrs,
        question: |number| {
            (
                "edge".into(),
                vec![("address", format!("192.0.{}.{}", number / 250, number % 250))],
            )
        },
        questions: 10_000,
    },
];

const fn exact(name: &'static str, questions: usize, policy: fn() -> String) -> Case {
    Case {
        name,
        policy,
        question: |number| {
            let client = format!("client-{number:06}");
            ("edge".into(), vec![("tenant", "one".into()), ("client", client)])
        },
        questions,
    }
}

fn exact_rules(rules: usize) -> String {
    let mut policy =
        String::from("domain: edge\ndescriptors:\n  - key: tenant\n    value: one\n    descriptors:\n");
    for rule in 0..rules {
        let _ = writeln!(policy, "      - key: client\n        value: client-{rule:06}");
        let _ = writeln!(
            policy,
            "        rate_limit: {{ rate: {}/minute }}",
            rule % 1_000 + 1
        );
    }
    policy
}

fn domain_of_ten(domain: usize) -> String {
    let mut policy = format!("---\ndomain: domain-{domain:03}\ndescriptors:\n");
    for rule in 0..10 {
        let _ = writeln!(policy, "  - key: client\n    value: client-{rule:06}");
        let _ = writeln!(policy, "    rate_limit: {{ rate: 100/minute }}");
    }
    policy
}

fn patterns() -> String {
    let mut policy = String::from("domain: edge\ndescriptors:\n");
    for rule in 0..200 {
        let _ = writeln!(policy, "  - key: path\n    value: /v*/part-{rule:03}/*");
        let _ = writeln!(policy, "    rate_limit: {{ rate: 100/minute }}");
    }
    policy + "  - key: path\n    rate_limit: { rate: 1/minute }\n"
}

/// Networks of ten lengths, as lists of addresses to allow or to block have them.
fn cidrs() -> String {
    let mut policy = String::from("domain: edge\ndescriptors:\n");
    for rule in 0..10_000 {
        let (second, third) = (rule / 250, rule % 250);
        let _ = match rule % 10 {
            0 => writeln!(policy, "  - key: address\n    cidrs: ['2001:db8:{rule:x}::/48']"),
            length => writeln!(
                policy,
                "  - key: address\n    cidrs: [10.{second}.{third}.0/{}]",
                23 + length
            ),
        };
        let _ = writeln!(policy, "    rate_limit: {{ rate: 100/minute }}");
    }
    policy + "  - key: address\n    rate_limit: { rate: 1/minute }\n"
}

/// What was asked, as it is matched.
type Question<'a> = (&'a [u8], Vec<Entry<'a>>);

fn asked(case: &Case, first: usize, count: usize) -> Vec<Asked> {
    (first..first + count).map(case.question).collect()
}

fn questions(asked: &[Asked]) -> Vec<Question<'_>> {
    asked
        .iter()
        .map(|(domain, entries)| {
            let entries = entries.iter().map(|(key, value)| Entry::new(*key, value));
            (domain.as_bytes(), entries.collect())
        })
        .collect()
}

/// Its name is how valgrind finds it.
#[inline(never)]
fn measured_matches(set: &PolicySet, questions: &[Question<'_>], matches: usize) -> usize {
    let mut found = 0;
    for (domain, entries) in questions.iter().cycle().take(matches) {
        let policy = set.policy(black_box(domain));
        found += usize::from(
            policy
                .and_then(|policy| policy.find(black_box(entries)))
                .is_some(),
        );
    }
    found
}

fn run(case: &Case, counted: bool) {
    let policy = (case.policy)();
    let resting = kib("VmRSS:");
    let start = Instant::now();
    let set = PolicySet::parse(&[("policy.yaml", &policy)]).unwrap_or_else(|problems| panic!("{problems}"));
    let load = start.elapsed();
    let [held, peak] = ["VmRSS:", "VmHWM:"].map(|what| kib(what).saturating_sub(resting) as f64 / 1_024.0);
    let mut asked_all = asked(case, 0, case.questions);
    shuffle(&mut asked_all);
    let all = questions(&asked_all);
    assert_eq!(measured_off(&set, &all), all.len(), "every question finds a rule");
    if counted {
        black_box(measured_matches(&set, &all, COUNTED_MATCHES));
        return;
    }
    let asked_one = asked(case, case.questions / 2, 1);
    let one = questions(&asked_one);
    let (hot, spread) = (nanos(&set, &one), nanos(&set, &all));
    let size = policy.len() as f64 / 1_048_576.0;
    let load = load.as_secs_f64() * 1_000.0;
    print!(
        "{:24} {size:8.1} {load:10.1} {held:10.1} {peak:10.1} {hot:8.0} {spread:8.0}",
        case.name
    );
}

/// As [`measured_matches`], but nobody counts.
#[inline(never)]
fn measured_off(set: &PolicySet, questions: &[Question<'_>]) -> usize {
    let found = |(domain, entries): &&Question<'_>| {
        set.policy(domain)
            .and_then(|policy| policy.find(entries))
            .is_some()
    };
    questions.iter().filter(found).count()
}

/// The best of some rounds: what disturbs only ever adds.
fn nanos(set: &PolicySet, questions: &[Question<'_>]) -> f64 {
    let round = |matches: usize| {
        let start = Instant::now();
        black_box(measured_matches(set, questions, matches));
        start.elapsed().as_nanos() as f64 / matches as f64
    };
    // Every question is asked once at least, or the cache is not as cold as it should be.
    let matches = (ROUND_NANOS / round(1_000)) as usize;
    let matches = matches.max(1_000).max(questions.len());
    (0..ROUNDS).map(|_| round(matches)).fold(f64::INFINITY, f64::min)
}

/// KiB of memory that the process holds, or held at most.
fn kib(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(what));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

/// Instructions per match, if valgrind is there to count them.
fn instructions(case: &Case) -> Option<f64> {
    let variables = [(CASE, case.name), (COUNTED, "1")];
    let counted = callgrind::instructions("measured_matches", &variables).ok()?;
    Some(counted as f64 / COUNTED_MATCHES as f64)
}

fn main() {
    if let Ok(name) = std::env::var(CASE) {
        let case = CASES
            .iter()
            .find(|case| case.name == name)
            .expect("a case of ours");
        return run(case, std::env::var_os(COUNTED).is_some());
    }
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'))
        .unwrap_or_default();
    println!(
        "{:24} {:>8} {:>10} {:>10} {:>10} {:>8} {:>8} {:>12}",
        "rules", "MiB YAML", "load ms", "holds MiB", "peak MiB", "ns hot", "ns cold", "instructions"
    );
    for case in CASES.iter().filter(|case| case.name.contains(&wanted)) {
        let status = Command::new(std::env::current_exe().expect("our own name"))
            .env(CASE, case.name)
            .env("MIMALLOC_PURGE_DELAY", "0")
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "{} failed",
            case.name
        );
        match instructions(case) {
            Some(instructions) => println!(" {instructions:12.1}"),
            None => println!(" {:>12}", "-"),
        }
    }
}

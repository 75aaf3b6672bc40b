//! `comporta test` as its users see it: `tests/policy_tests/NAME.yaml` stands beside what is printed about it. With
//! `COMPORTA_BLESS=1` the texts are written instead of compared.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::comporta::command;
use crate::harness::repository;

/// What it prints and how it ends, run beside its files.
fn run(arguments: &[&str]) -> (String, Option<i32>) {
    let output = command(["test"])
        .args(arguments)
        .current_dir(repository("tests/policy_tests"))
        .output()
        .expect("it starts");
    let printed = String::from_utf8(output.stdout).expect("text");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    (printed + &complaints, output.status.code())
}

fn check(arguments: &[&str], expected: &str, code: i32) {
    let (printed, ended) = run(arguments);
    let expected = repository("tests/policy_tests").join(expected);
    if std::env::var_os("COMPORTA_BLESS").is_some() {
        fs::write(&expected, &printed).expect("written");
    }
    let wanted = fs::read_to_string(&expected).unwrap_or_default();
    assert_eq!(printed, wanted, "{}", expected.display());
    assert_eq!(ended, Some(code), "{arguments:?}");
}

#[test]
fn what_files_cannot_say_may_be_said_beside_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write(
        "policy.yaml",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n",
    );
    // At an empty budget a look passes only as the reference has it.
    write(
        "tests.yaml",
        "policy: policy.yaml\ntests: [{name: t, steps: [{hit: k=a}, {hit: k=a, hits: 0, expect: {verdict: ok}}]}]\n",
    );
    let tests = folder.path().join("tests.yaml");
    let tests = tests.to_str().expect("UTF-8");
    assert_eq!(run(&[tests, "--compat", "reference"]).1, Some(0));
    assert_eq!(run(&[tests]).1, Some(1));
}

#[test]
fn tests_that_hold_are_counted() {
    check(&["passing.yaml"], "passing.txt", 0);
}

#[test]
fn tests_that_fail_show_what_was_expected_and_what_came() {
    check(&["failing.yaml"], "failing.txt", 1);
    check(&["--json", "failing.yaml"], "failing.json", 1);
}

#[test]
fn all_mistakes_of_a_file_and_of_its_policies_are_shown() {
    check(&["broken.yaml"], "broken.txt", 1);
    check(&["with_a_broken_policy.yaml"], "with_a_broken_policy.txt", 1);
}

#[test]
fn sound_files_are_run_beside_broken_ones() {
    check(&["passing.yaml", "broken.yaml", "none.yaml"], "several.txt", 1);
}

#[test]
fn nothing_to_test_is_a_mistake_of_the_caller() {
    assert_eq!(run(&[]).1, Some(2));
}

#[test]
fn what_a_program_reads_agrees_with_what_a_person_reads() {
    let (printed, _) = run(&["--json", "passing.yaml", "failing.yaml", "broken.yaml"]);
    let report: Value = serde_json::from_str(&printed).expect("one object");
    assert_eq!(
        (&report["passed"], &report["failed"]),
        (&Value::from(6), &Value::from(2))
    );
    assert_eq!(report["tests"].as_array().map(Vec::len), Some(8));
    assert!(
        report["problems"]
            .as_array()
            .is_some_and(|problems| !problems.is_empty())
    );
}

#[test]
fn a_month_takes_no_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let tests = folder.path().join("tests.yaml");
    let policy = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: { rate: 1000/month, algorithm: fixed_window }\n";
    fs::write(folder.path().join("policy.yaml"), policy).expect("written");
    fs::write(
        &tests,
        "policy: policy.yaml\ntests:\n  - name: a month\n    steps:\n      - { hit: k=a, times: 1488, every: 30m, expect: { admitted: 1000 } }\n      - { pass: 30m }\n      - { hit: k=a, expect: { verdict: ok, remaining: 999 } }\n",
    )
    .expect("written");
    let start = std::time::Instant::now();
    let (printed, _) = run(&[path(&tests)]);
    assert_eq!(printed, "ok: 1 test\n");
    // Milliseconds; the rest is room for a machine that is busy.
    assert!(start.elapsed().as_secs() < 20);
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

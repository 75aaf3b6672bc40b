use std::fs;

use super::*;

/// What is said about a file of tests beside a policy with the domain `edge`.
fn said(tests: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = "domain: edge\ndescriptors:\n  - key: client\n    rate_limit: { rate: 1/minute }\n";
    fs::write(folder.path().join("policy.yaml"), policy).expect("written");
    fs::write(folder.path().join("two.yaml"), policy.replace("edge", "other")).expect("written");
    let path = folder.path().join("tests.yaml");
    fs::write(&path, tests).expect("written");
    let said = match read(&path, Assumed::default()) {
        Ok(suite) => format!("{} tests\n", suite.tests.len()),
        Err(unusable) => unusable.iter().map(|files| files.problems.to_string()).collect(),
    };
    said.replace(&format!("{}/", folder.path().display()), "")
}

/// A file of one test with this step and a sound one.
fn step(step: &str) -> String {
    said(&format!(
        "policy: policy.yaml\ntests:\n  - name: a\n    steps:\n      - {step}\n      - {{ hit: client=a, expect: {{ verdict: ok }} }}\n"
    ))
}

#[test]
fn a_sound_file_is_read() {
    for sound in [
        "{ hit: client=a, times: 3, every: 1s, hits: 2, expect: { admitted: 3 } }",
        "{ hit: [client=a, client=b], hits: [1, -2], expect: { statuses: [{ verdict: ok }, { remaining: none }] } }",
        "{ pass: 1h30m }",
        "{ at: 2026-01-31T23:59:59Z }",
        "{ reload: [policy.yaml, two.yaml] }",
        "{ hit: client=a, expect: { limit: 1/minute, retry_after: never, reset_after: 1s, rule: none, cause: no_rule } }",
    ] {
        assert_eq!(step(sound), "1 tests\n", "{sound}");
    }
}

#[test]
fn every_mistake_is_told_where_it_is() {
    let check = |wrong: &str, expected: &str| assert_eq!(step(wrong), format!("tests.yaml:5:{expected}\n"));
    check(
        "{ hitt: client=a }",
        "11: unknown key `hitt` in a step: did you mean `hit`?",
    );
    check(
        "{ times: 3 }",
        "9: a step is one of `hit`, `pass`, `at` and `reload`",
    );
    check(
        "{ pass: 1s, at: 2026-01-01T00:00:00Z }",
        "9: a step is one of `hit`, `pass`, `at` and `reload`: make it two steps",
    );
    check("{ pass: 1s, times: 2 }", "21: `times` belongs beside `hit`");
    check(
        "{ pass: soon }",
        "17: `pass` must be a time, found `soon`: write, say, 1s, 600ms, 1h30m or 31d",
    );
    check(
        "{ at: 2026-01-31 }",
        "15: `at` must be a moment, found `2026-01-31`: write, say, 2026-01-31T23:59:59Z, with the zone and not before 1970",
    );
    check("{ pass: 90000d }", "17: `pass` sets the clock past the year 2200");
    check(
        "{ hit: client }",
        "16: `hit` takes descriptors: `client` in `client` has no `=`: a descriptor looks like client=acme,plan=pro",
    );
    check("{ hit: [] }", "16: `hit` takes descriptors, found none");
    check(
        "{ hit: client=a, hits: [1, 2] }",
        "32: `hits` has 2 numbers for 1 descriptor",
    );
    check(
        "{ hit: client=a, hits: 1.5 }",
        "32: `hits` must be a whole number, found `1.5`",
    );
    check("{ hit: client=a, times: 0 }", "33: `times` must be at least 1");
    check("{ hit: client=a, expect: {} }", "34: `expect` expects nothing");
    check(
        "{ hit: client=a, expect: { verdict: allowed } }",
        "45: `verdict` is none of ok, over, found `allowed`",
    );
    check(
        "{ hit: client=a, expect: { remain: 1 } }",
        "36: unknown key `remain` in `expect`: did you mean `remaining`?",
    );
    check(
        "{ hit: client=a, expect: { cause: overlimit } }",
        "43: `cause` has no `overlimit`: did you mean `over_limit`?",
    );
    check(
        "{ hit: client=a, expect: { retry_after: later } }",
        "49: `retry_after` must be a time, found `later`: write, say, 1s, 600ms, 1h30m or 31d, or never, or none",
    );
    check(
        "{ hit: client=a, expect: { statuses: [] } }",
        "46: `statuses` has 0 items for 1 descriptor",
    );
    check(
        "{ hit: client=a, expect: { limit: often } }",
        "43: `limit` must be a whole number, found `often`: write, say, 60/minute or 60, or none",
    );
}

#[test]
fn mistakes_above_the_steps_are_told_together() {
    assert_eq!(
        said("tests:\n  - steps: []\n  - name: b\n  - 3\n"),
        "tests.yaml:1:1: there is no `policy` to test: add `policy: FILE`, relative to this file\n\
         tests.yaml:2:5: a test needs a `name`: say in a few words what must hold\n\
         tests.yaml:2:12: a test needs `steps`\n\
         tests.yaml:3:5: a test needs `steps`\n\
         tests.yaml:4:5: a test must be a map of keys, found text\n"
    );
    assert_eq!(
        said("policy: policy.yaml\ntests:\n  - name: a\n    steps: [{ hit: client=a }]\n"),
        "tests.yaml:3:5: no step of this test expects anything\n"
    );
    assert_eq!(
        said("policy: policy.yaml\n"),
        format!("tests.yaml:1:1: there are no `tests`: {SHORTEST}\n")
    );
    assert_eq!(
        said("# none yet\n\n"),
        format!("tests.yaml: there are no tests: {SHORTEST}\n")
    );
    assert_eq!(
        said("policy: policy.yaml\n---\ntests: []\n"),
        "tests.yaml:3:1: a file of tests is one document: write all tests under one `tests`\n"
    );
}

#[test]
fn domains_are_those_of_the_policy() {
    let check = |policy: &str, domain: &str, expect: &str, expected: &str| {
        let tests = format!(
            "policy: {policy}\ntests:\n  - name: a\n    {domain}\n    steps: [{{ hit: client=a, expect: {expect} }}]\n"
        );
        assert_eq!(said(&tests), expected);
    };
    let ok = "{ verdict: ok }";
    check("policy.yaml", "", ok, "1 tests\n");
    check("policy.yaml", "domain: edge", ok, "1 tests\n");
    check(
        "policy.yaml",
        "domain: egde",
        ok,
        "tests.yaml:4:13: the policy has no domain `egde`: did you mean `edge`?\n",
    );
    check(
        "policy.yaml",
        "domain: egde",
        "{ cause: unknown_domain }",
        "1 tests\n",
    );
    check(
        "[policy.yaml, two.yaml]",
        "",
        ok,
        "tests.yaml:3:5: there are 2 domains, so a test needs a `domain`: it is one of edge, other\n",
    );
    check("[policy.yaml, two.yaml]", "domain: other", ok, "1 tests\n");
}

#[test]
fn a_policy_that_cannot_be_served_is_not_tested() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = "domain: d\ndescriptors:\n  - { key: k, on_excess: { delay: 10ms }, rate_limit: { rate: 1000/second, burst: 1 } }\n";
    fs::write(folder.path().join("policy.yaml"), policy).expect("written");
    let path = folder.path().join("tests.yaml");
    fs::write(
        &path,
        "policy: policy.yaml\ntests:\n  - name: a\n    steps: [{ hit: k=a, expect: { verdict: ok } }]\n",
    )
    .expect("written");
    let unusable = read(&path, Assumed::default()).expect_err("replies cannot be held");
    assert!(unusable[0].problems.to_string().contains("cannot hold replies"));
}

#[test]
fn policies_are_looked_for_beside_the_tests() {
    assert_eq!(
        said(
            "policy: gone.yaml\ntests:\n  - name: a\n    steps: [{ reload: tests.yaml }, { hit: client }]\n"
        ),
        "tests.yaml:4:44: `hit` takes descriptors: `client` in `client` has no `=`: a descriptor looks like \
         client=acme,plan=pro\ngone.yaml: no such file or folder\n\
         tests.yaml:1:1: unknown key `policy`\ntests.yaml:2:1: unknown key `tests`\n"
    );
}

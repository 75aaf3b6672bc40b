//! The scenarios of `tests/scenarios` and the tests of the policies in `deploy`, the same on every store: policy tests as
//! users write them, run by the code that runs theirs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use comporta::cli::scenario::{self, Failure, Test};
use comporta::policy::Assumed;
use comporta::store::Store;
use comporta::store::memory::Memory;
use comporta::store::redis::TimeSource;

use crate::harness::redis::Redis;
use crate::harness::repository;
use crate::harness::store::{Silent, connect};

/// Every test of every file, in order, each beside the name of its file.
fn all() -> Vec<(String, Test)> {
    let mut files: Vec<PathBuf> = fs::read_dir(repository("tests/scenarios"))
        .expect("the scenarios")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.push(repository("deploy/policy-tests.yaml"));
    let examples = fs::read_dir(repository("deploy/policies")).expect("the examples");
    files.extend(examples.map(|example| example.expect("an entry").path().join("tests.yaml")));
    files.sort();
    let mut tests = Vec::new();
    for file in files {
        let name = file.strip_prefix(repository("")).expect("a file of ours");
        let name = name.display().to_string();
        let suite = scenario::read(&file, Assumed::default()).unwrap_or_else(|unusable| {
            let said: Vec<_> = unusable.iter().map(|files| files.problems.to_string()).collect();
            panic!("{}", said.concat())
        });
        tests.extend(suite.tests.into_iter().map(|test| (name.clone(), test)));
    }
    assert!(tests.len() > 50, "where have the scenarios gone?");
    tests
}

fn told(file: &str, test: &Test, failure: &Failure) -> String {
    format!("{file}:{}: {}: {failure}", failure.place.line, test.name)
}

async fn run_all<S: Store>(store: impl Fn() -> S) {
    let mut failures = Vec::new();
    for (number, (file, test)) in all().iter().enumerate() {
        let ended = scenario::run(test, store(), &format!("scenario-{number}")).await;
        match ended {
            Ok(None) => {}
            Ok(Some(failure)) => failures.push(told(file, test, &failure)),
            Err(error) => failures.push(format!("{file}: {}: {error}", test.name)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn memory() {
    let store = Memory::new(1_000_000, Arc::new(Silent));
    run_all(|| store.clone()).await;
}

#[tokio::test]
async fn redis() {
    let server = Redis::start();
    let store = connect(&server, TimeSource::Caller).await;
    run_all(|| store.clone()).await;
}

#[test]
fn every_policy_of_the_scenarios_is_used() {
    let text: String = fs::read_dir(repository("tests/scenarios"))
        .expect("the scenarios")
        .filter_map(|entry| fs::read_to_string(entry.expect("an entry").path()).ok())
        .collect();
    for entry in fs::read_dir(repository("tests/scenarios/policies")).expect("their policies") {
        let name = entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned();
        assert!(text.contains(&format!("policies/{name}")), "{name}");
    }
}

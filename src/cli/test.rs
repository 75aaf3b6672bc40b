//! `comporta test`: whether policies do what their tests say.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::app;
use super::args::TestArgs;
use super::exit::Exit;
use super::scenario::{self, Failure, RunError, Test};
use crate::policy::problem::{Problem, Problems};

/// Runs the tests in the files that `args` name, each test on counters of its own. Writes what is wrong with the files, a
/// line for every test that fails, and how many did.
///
/// # Errors
/// When `out` cannot be written to, or no runtime is to be had.
pub fn test(args: &TestArgs, out: &mut impl Write) -> io::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut report = Report::default();
    for file in &args.files {
        match scenario::read(file) {
            Ok(suite) => {
                for test in suite.tests {
                    let ended = runtime.block_on(scenario::run(&test, app::embedded_store(), "test"));
                    report.ran(file, test, ended);
                }
            }
            Err(problems) => report.problems.extend(problems),
        }
    }
    if args.json {
        writeln!(out, "{}", report.as_json())?;
    } else {
        report.write(out)?;
    }
    Ok(if report.is_fine() { Exit::Fine } else { Exit::No })
}

/// What became of all tests.
#[derive(Default)]
struct Report {
    problems: Vec<Problems>,
    ran: Vec<Ran>,
}

/// What became of one test.
struct Ran {
    file: String,
    test: Test,
    failure: Option<Failure>,
}

impl Report {
    fn ran(&mut self, file: &Path, test: Test, ended: Result<Option<Failure>, RunError>) {
        let file = file.display().to_string();
        match ended {
            Ok(failure) => self.ran.push(Ran { file, test, failure }),
            Err(RunError::Policy(problems)) => self.problems.push(problems),
            Err(RunError::Store(error)) => {
                let problem = Problem::about_file(&file, format!("{}: {error}", test.name));
                self.problems.push(Problems::from(vec![problem]));
            }
        }
    }

    fn failed(&self) -> usize {
        self.ran.iter().filter(|ran| ran.failure.is_some()).count()
    }

    fn is_fine(&self) -> bool {
        self.problems.is_empty() && self.failed() == 0
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for problems in &self.problems {
            write!(out, "{problems}")?;
        }
        for ran in &self.ran {
            if let Some(failure) = &ran.failure {
                writeln!(out, "{}", as_line(&ran.file, &ran.test.name, failure))?;
            }
        }
        match (self.failed(), self.ran.len()) {
            (0, 0) => Ok(()),
            (0, all) => writeln!(out, "ok: {}", counted(all)),
            (failed, all) => writeln!(out, "failed: {failed} of {}", counted(all)),
        }
    }

    fn as_json(&self) -> Value {
        let problems = self.problems.iter().flatten().map(problem_as_json);
        let tests = self.ran.iter().map(Ran::as_json);
        json!({
            "problems": problems.collect::<Vec<_>>(),
            "tests": tests.collect::<Vec<_>>(),
            "passed": self.ran.len() - self.failed(),
            "failed": self.failed(),
        })
    }
}

impl Ran {
    fn as_json(&self) -> Value {
        json!({
            "file": self.file,
            "line": self.test.place.line,
            "name": self.test.name,
            "passed": self.failure.is_none(),
            "failure": self.failure.as_ref().map(failure_as_json),
        })
    }
}

/// `tests.yaml:7:9: a free client has ten at once: step 2, hit client=a,plan=free: remaining is 1, expected 0`
fn as_line(file: &str, test: &str, failure: &Failure) -> String {
    let Failure {
        step,
        place,
        action,
        differences,
    } = failure;
    let differences: Vec<_> = differences.iter().map(ToString::to_string).collect();
    let (line, column, differences) = (place.line, place.column, differences.join("; "));
    format!("{file}:{line}:{column}: {test}: step {step}, {action}: {differences}")
}

fn failure_as_json(failure: &Failure) -> Value {
    let differences = failure.differences.iter().map(|difference| {
        json!({
            "what": difference.what,
            "expected": difference.expected,
            "got": difference.got,
        })
    });
    json!({
        "step": failure.step,
        "line": failure.place.line,
        "column": failure.place.column,
        "action": failure.action,
        "differences": differences.collect::<Vec<_>>(),
    })
}

fn problem_as_json(problem: &Problem) -> Value {
    json!({
        "file": &*problem.file,
        "line": problem.spot.map(|spot| spot.line),
        "column": problem.spot.map(|spot| spot.column),
        "message": problem.message,
        "hint": problem.hint,
    })
}

fn counted(tests: usize) -> String {
    if tests == 1 {
        String::from("1 test")
    } else {
        format!("{tests} tests")
    }
}

//! `comporta test`: whether policies do what their tests say.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::args::TestArgs;
use super::check::{counted, problem_as_json, write_problems};
use super::exit::Exit;
use super::scenario::{self, Failure, RunError, Test, Unusable};
use super::stores;
use crate::policy::problem::{Problem, Problems, Severity};

/// Runs the tests in the files that `args` name, each test on counters of its own. Writes what is wrong with the files, a
/// line for every test that fails, and how many did.
///
/// # Errors
/// When `out` cannot be written to, or no runtime is to be had.
pub fn test(args: &TestArgs, out: &mut impl Write) -> io::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut report = Report::default();
    for file in &args.files {
        match scenario::read(file, args.assume.assumed()) {
            Ok(suite) => {
                for test in suite.tests {
                    let ended = runtime.block_on(scenario::run(&test, stores::embedded_store(), "test"));
                    report.ran(file, test, ended);
                }
            }
            Err(unusable) => report.unusable.extend(unusable),
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
    unusable: Vec<Unusable>,
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
            Err(error) => {
                let problem = Problem::about_file(&file, format!("{}: {error}", test.name));
                self.unusable.push(Problems::from(vec![problem]).into());
            }
        }
    }

    fn failed(&self) -> usize {
        self.ran.iter().filter(|ran| ran.failure.is_some()).count()
    }

    /// How much is wrong with the files.
    fn errors(&self) -> usize {
        let of = |Unusable { problems, .. }: &Unusable| {
            let errors = problems
                .iter()
                .filter(|problem| problem.severity == Severity::Error);
            errors.count() + problems.left_out()
        };
        self.unusable.iter().map(of).sum()
    }

    fn is_fine(&self) -> bool {
        self.unusable.is_empty() && self.failed() == 0
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for Unusable { problems, sources } in &self.unusable {
            write_problems(sources, problems, out)?;
        }
        for ran in &self.ran {
            if let Some(failure) = &ran.failure {
                writeln!(out, "{}", as_line(&ran.file, &ran.test.name, failure))?;
            }
        }
        let (failed, tests, errors) = (self.failed(), counted(self.ran.len(), "test"), self.errors());
        match (self.ran.len(), failed, errors) {
            (0, _, errors) => writeln!(out, "refused: {}", counted(errors, "error")),
            (_, 0, 0) => writeln!(out, "ok: {tests}"),
            (_, failed, 0) => writeln!(out, "failed: {failed} of {tests}"),
            (_, failed, errors) => writeln!(out, "failed: {failed} of {tests}, {}", counted(errors, "error")),
        }
    }

    fn as_json(&self) -> Value {
        let problems = self
            .unusable
            .iter()
            .flat_map(|files| &files.problems)
            .map(problem_as_json);
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
    let (line, column) = (failure.place.line, failure.place.column);
    format!("{file}:{line}:{column}: {test}: {failure}")
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

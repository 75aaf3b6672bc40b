//! Policy tests: what a policy is expected to answer to hits and to time that passes.
//!
//! ```yaml
//! policy: policy.yaml        # a file, a folder or a list of them, relative to this file
//! tests:
//!   - name: a free client has ten at once, then one a second
//!     domain: edge           # may be left out where the policy has one domain
//!     steps:
//!       - { hit: "client=a,plan=free", times: 10, expect: { verdict: ok, remaining: 0 } }
//!       - { hit: "client=a,plan=free", expect: { verdict: over, retry_after: 1s, rule: client/plan } }
//!       - { pass: 1s }
//!       - { hit: ["client=a,plan=free", "client=a,route_class=expensive,plan=free"], expect: { verdict: ok } }
//! ```
//!
//! Every test starts with whole budgets, at 2026-01-01T00:00:00Z, where a second, a minute, an hour, a day, a month and
//! a year begin. Its clock stands still but for what its steps say.
//!
//! | step | does |
//! |---|---|
//! | `hit` | asks with one descriptor or with a list of them, written as for `comporta call` |
//! | `pass` | lets time pass: `1s`, `600ms`, `1h30m`, `31d` |
//! | `at` | sets the clock, also back: `2026-01-31T23:59:59Z` |
//! | `reload` | puts another policy in force, named as under `policy`; counters stay |
//!
//! | beside `hit` | means |
//! |---|---|
//! | `hits` | how many each descriptor takes, 1 if not said; 0 only looks, a negative number gives back. A list has one number for each descriptor |
//! | `times` | ask so often, 1 if not said |
//! | `every` | how much time passes between two of these |
//! | `expect` | what is answered, to the last of them; what is not said may be anything |
//!
//! | in `expect` | means |
//! |---|---|
//! | `verdict` | `ok` or `over` |
//! | `rule` | the path of the rule that decided: the one that refuses, else the one nearest its limit; `none` where no limit was met |
//! | `remaining`, `limit`, `name`, `retry_after`, `reset_after` | what is said about that rule: what is left, `60/minute` or the count alone, the limit's name, when to try again (`never` where waiting does not help, `none` where it passed), when the budget is whole again. Times are exact; answers to gateways round them up to seconds |
//! | `cause` | why, in the words of the metrics: `under_limit`, `over_limit`, `shadow`, `unlimited`, `no_rule`, `unknown_domain` |
//! | `admitted` | how many of `times` passed |
//! | `statuses` | a list with `verdict`, `remaining`, `limit`, `name`, `retry_after` and `reset_after` for each descriptor |
//!
//! A test ends at its first step that does not get what it expects: what comes after would only be in its wake.

mod expect;
mod file;
mod run;
mod step;
mod words;

use std::sync::Arc;

use bytes::Bytes;

use super::descriptor::TypedEntry;
use super::sources::Source;
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};
use crate::policy::Assumed;
use crate::policy::problem::Problems;

pub use expect::{Difference, Expectation};
pub use file::read;
pub use run::{Failure, RunError, run};

/// The tests of one file.
#[derive(Debug)]
pub struct Suite {
    /// In the order of the file; at least one.
    pub tests: Vec<Test>,
}

/// Files that cannot be used.
#[derive(Debug)]
pub struct Unusable {
    /// What is wrong with them.
    pub problems: Problems,
    /// Those of them that could be read.
    pub sources: Vec<Source>,
}

impl From<Problems> for Unusable {
    fn from(problems: Problems) -> Self {
        Self {
            problems,
            sources: Vec::new(),
        }
    }
}

/// One test: steps under a policy.
#[derive(Debug)]
pub struct Test {
    /// What it is about, in words.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// The domain that it asks about.
    domain: Bytes,
    /// The policy in force at the start; known to be sound.
    policy: Arc<[Source]>,
    /// What policy files are taken to say.
    assumed: Assumed,
    steps: Vec<Step>,
}

/// A place in a file of tests, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

#[derive(Debug)]
struct Step {
    place: Place,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Hit(Hit),
    Pass(Micros),
    At(Timestamp),
    Reload(Arc<[Source]>),
}

#[derive(Debug)]
struct Hit {
    /// The descriptors as they were written.
    written: Vec<String>,
    descriptors: Vec<(Vec<TypedEntry>, Hits)>,
    times: u32,
    every: Micros,
    expect: Option<Expectation>,
}

//! Runs a test: the use case itself, with a clock that is moved by hand.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::expect::Difference;
use super::words::START;
use super::{Action, Hit, Place, Test};
use crate::cli::descriptor;
use crate::cli::sources::Source;
use crate::clock::ManualClock;
use crate::domain::descriptor::{Descriptor, Request};
use crate::domain::verdict::Verdict;
use crate::policy::problem::Problems;
use crate::policy::{Policy, PolicySet};
use crate::service::headers::HeaderStyle;
use crate::service::limiter::Limiter;
use crate::service::live::Policies;
use crate::service::observer::{Observer, Tally};
use crate::service::options::LimiterOptions;
use crate::store::key::Keys;
use crate::store::{Store, StoreError};

/// How long a store may take, in real time: only one that hangs gets this far.
const PATIENCE: Duration = Duration::from_mins(1);

/// The first step that did not get what it expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which step of its test, from 1.
    pub step: usize,
    /// Where it stands.
    pub place: Place,
    /// What it does: `hit client=a,plan=free`.
    pub action: String,
    /// How the answer differs; at least one.
    pub differences: Vec<Difference>,
}

/// `step 2, hit client=a,plan=free: remaining is 1, expected 0`
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differences: Vec<_> = self.differences.iter().map(ToString::to_string).collect();
        write!(
            f,
            "step {}, {}: {}",
            self.step,
            self.action,
            differences.join("; ")
        )
    }
}

/// Why a test could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A policy cannot be used after all.
    #[error("{0}")]
    Policy(#[from] Problems),
}

/// Runs `test` on `store`, whose counters get keys that start with `prefix`: another one for every test that shares it.
/// Tells the first failure, if there is one.
///
/// # Errors
/// When the store could not decide.
pub async fn run<S: Store>(test: &Test, store: S, prefix: &str) -> Result<Option<Failure>, RunError> {
    let clock = ManualClock::at(START);
    let policies = Arc::new(Policies::new(compile(test, &test.policy)?, Arc::new(Nobody)));
    let limiter = Limiter::new(
        0,
        Arc::clone(&policies),
        store,
        clock.clone(),
        Keys::new(prefix),
        LimiterOptions {
            headers: Some(HeaderStyle::Off),
            ..LimiterOptions::default()
        },
    );
    for (step, number) in test.steps.iter().zip(1..) {
        match &step.action {
            Action::Pass(span) => clock.advance(*span),
            Action::At(moment) => clock.set(*moment),
            Action::Reload(sources) => {
                policies.publish(compile(test, sources)?);
            }
            Action::Hit(hit) => {
                let differences = ask(test, hit, &limiter, &clock).await?;
                if !differences.is_empty() {
                    return Ok(Some(Failure {
                        step: number,
                        place: step.place,
                        action: format!("hit {}", hit.written.join(" | ")),
                        differences,
                    }));
                }
            }
        }
    }
    Ok(None)
}

fn compile(test: &Test, sources: &[Source]) -> Result<PolicySet, Problems> {
    PolicySet::parse_assuming(sources, test.assumed)
}

/// Asks as often as `hit` says and tells how the last answer differs from what is expected.
async fn ask<S: Store>(
    test: &Test,
    hit: &Hit,
    limiter: &Limiter<S, ManualClock>,
    clock: &ManualClock,
) -> Result<Vec<Difference>, StoreError> {
    let descriptors = hit.descriptors.iter().map(|(typed, hits)| Descriptor {
        entries: descriptor::entries(typed).collect(),
        hits: *hits,
        limit: None,
    });
    let request = Request {
        domain: &test.domain,
        descriptors: descriptors.collect(),
    };
    let mut admitted = 0;
    let mut last = None;
    for turn in 0..hit.times {
        if turn > 0 {
            clock.advance(hit.every);
        }
        let answer = limiter.decide(&request, Instant::now() + PATIENCE).await?;
        admitted += u32::from(answer.verdict == Verdict::UnderLimit);
        last = Some(answer);
    }
    Ok(match (&hit.expect, &last) {
        (Some(expected), Some(answer)) => expected.compare(answer, admitted),
        _ => Vec::new(),
    })
}

/// Tests are not counted.
struct Nobody;

impl Observer for Nobody {
    fn opens(&self, _generation: u64, _policies: &[&Policy]) -> Vec<Arc<dyn Tally>> {
        Vec::new()
    }

    fn overrides_ignored(&self, _descriptors: u32) {}
}

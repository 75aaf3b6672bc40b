//! One call, whatever brought it: what was asked, decided.

use std::time::Instant;

use super::answer::{Answer, Cause};
use super::decode::{Asked, Invalid};
use super::limiter::{Limiter, shown_domain};
use super::options::UnknownDomain;
use crate::clock::Clock;
use crate::store::{Store, StoreError};

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unanswered {
    /// It is no question.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No policy is about its domain, and that is to be an error.
    #[error("no policy is about the domain `{domain}`; there are: {loaded}")]
    UnknownDomain {
        /// What was asked for.
        domain: String,
        /// What there is.
        loaded: String,
    },
    /// The store could not decide and nothing decides in its place.
    #[error(transparent)]
    Undecided(#[from] StoreError),
}

/// Answers what was `asked` before `deadline`; what is no question is counted here, wherever it was read.
///
/// # Errors
/// When it is no question, or nothing can decide it.
pub async fn answer<S: Store, C: Clock>(
    limiter: &Limiter<S, C>,
    asked: Result<Asked<'_>, Invalid>,
    deadline: Instant,
) -> Result<Answer, Unanswered> {
    let asked = asked.inspect_err(|_| limiter.reject())?;
    if asked.unreadable_overrides > 0 {
        limiter.ignore_overrides(asked.unreadable_overrides);
    }
    let answer = limiter.decide(&asked.request, deadline).await?;
    if answer.cause == Cause::UnknownDomain && limiter.options().unknown_domain == UnknownDomain::Error {
        let domain = shown_domain(asked.request.domain);
        return Err(Unanswered::UnknownDomain {
            domain,
            loaded: limiter.domains(),
        });
    }
    Ok(answer)
}

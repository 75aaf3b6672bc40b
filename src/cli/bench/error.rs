//! Why nothing could be measured.

use std::io;

use crate::service::client::AskError;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum BenchError {
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    Io { what: String, source: io::Error },
    /// A server that was started is not there any more, or answers what is no verdict.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A process ended that should not.
    #[error("{name} ended by itself: {said}")]
    Ended { name: String, said: String },
    /// A process does not become what it should be.
    #[error("{name} is not ready after {seconds} s: {said}")]
    NotReady {
        name: String,
        seconds: u64,
        said: String,
    },
    /// There is no program to start a Redis with.
    #[error("redis-server is not installed: install it, or name a Redis by --store redis://…")]
    NoRedis,
    /// Callers that were to have a counter each may have none.
    #[error("could not make counters to measure with: {said}")]
    NotFilled { said: String },
    /// A thread that asks ended without a result.
    #[error("a thread that asks ended unexpectedly")]
    ThreadEnded,
    /// Somebody asked to stop.
    #[error("stopped before everything was measured")]
    Stopped,
}

impl BenchError {
    /// The system's word on what was tried.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            what: what.into(),
            source,
        }
    }
}

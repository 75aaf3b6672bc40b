//! What the process tells who started it.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; the answer is yes.
    Fine,
    /// Done, and the answer is no; or it could not be done.
    No,
    /// It was not said right what to do; for `call`, also that nobody could be asked.
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::No => 1,
            Exit::Usage => 2,
        })
    }
}

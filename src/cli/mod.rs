//! The command: arguments in, exit code out.

pub mod check;
pub mod excerpt;
pub mod sources;

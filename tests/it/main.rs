//! The tests that start the real programs.

// Tests are read from top to bottom, and have no users who need docs.
#![allow(missing_docs, clippy::pedantic)]

mod architecture;
mod battery;
mod cli;
mod deploy;
mod envoy;
mod harness;
mod overrides;
mod policies;
mod readme;
mod recorded;
mod reload;
mod shared_store;
mod shutdown;
mod twin;

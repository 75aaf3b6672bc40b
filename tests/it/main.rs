//! The tests that start the real programs.

mod cli;
mod deploy;
mod envoy;
mod harness;
mod readme;
mod recorded;
mod shared_store;
mod shutdown;
mod twin;

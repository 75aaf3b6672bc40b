//! The tests that start the real programs.

// A binary of tests has no outside that its items could be too visible for.
#![allow(unreachable_pub, missing_docs)]

mod architecture;
mod battery;
mod cli;
mod deploy;
mod envoy;
mod harness;
mod policies;
mod readme;
mod recorded;
mod shared_store;
mod shutdown;
mod twin;

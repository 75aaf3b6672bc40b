//! The tests that start the real programs.

// Tests are read from top to bottom, and have no users who need docs.
#![allow(missing_docs, clippy::pedantic)]

mod architecture;
mod battery;
mod bench;
mod callers;
mod cli;
mod conformance;
mod contention;
mod deploy;
mod envoy;
mod examples;
mod explain;
mod faults;
mod flags;
mod gateways;
mod harness;
mod json;
mod matching;
mod overrides;
mod policies;
mod policy_tests;
mod readme;
mod recorded;
mod reload;
mod scenarios;
mod schema;
mod secrets;
mod shared_store;
mod shutdown;
mod twin;
mod worst_cases;

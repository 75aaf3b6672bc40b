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
mod degraded;
mod deploy;
mod doctor;
mod envoy;
mod examples;
mod explain;
mod faults;
mod flags;
mod gateways;
mod harness;
mod heartbeat;
mod history;
mod json;
mod kept_instructions;
mod matching;
mod notices;
mod overrides;
mod policies;
mod policy_tests;
mod readme;
mod recorded;
mod redis_faults;
mod redis_setups;
mod refused;
mod reload;
mod scenarios;
mod schema;
mod secrets;
mod shared_store;
mod shutdown;
mod twin;
mod worst_cases;

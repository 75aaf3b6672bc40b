//! Comporta.
#![allow(missing_docs)]
pub mod cli;
pub mod clock;
pub mod decide;
pub mod domain;
pub mod policy;
pub mod proto;
pub mod service;
pub mod store;
pub mod telemetry;

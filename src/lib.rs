//! Comporta.
#![allow(missing_docs)]
pub mod clock;
pub mod decide;
pub mod domain;
pub mod policy;
mod proto;
pub mod service;
pub mod store;
pub mod telemetry;

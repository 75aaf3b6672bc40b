//! Comporta.
#![allow(missing_docs)]
pub mod cli;
pub mod clock;
pub mod domain;
pub mod policy;
pub mod store;

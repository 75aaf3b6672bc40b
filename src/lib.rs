//! Comporta.
#![allow(missing_docs)]
pub mod clock;
pub mod domain;
pub mod store;
pub mod policy;

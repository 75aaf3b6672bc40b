//! Comporta.
#![allow(missing_docs)]
pub mod clock;
pub mod decide;
pub mod domain;
pub mod policy;
pub mod store;

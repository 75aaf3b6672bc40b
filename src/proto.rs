//! The wire types, generated from `proto/`. Only the service layer knows them.

// Generated code follows its own style.
#![allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]

include!(concat!(env!("OUT_DIR"), "/wire.rs"));

/// The types as Envoy has them, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wire.bin"));

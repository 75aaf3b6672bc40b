//! The wire types as a gateway has them, generated from the same `proto/` as the service's own, which it keeps to itself.

#![allow(dead_code, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/wire.rs"));

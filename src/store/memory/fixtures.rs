//! What the tests of the embedded store count with.

use std::sync::Arc;

use crate::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use crate::domain::time::Micros;

/// `count` a minute.
pub(super) fn limit(algorithm: Algorithm, count: u32) -> Limit {
    Limit::new(LimitSpec {
        name: Arc::from("limit"),
        named: true,
        count,
        period: Period::one(Unit::Minute),
        algorithm,
        burst: None,
        delay: Micros::ZERO,
        calendar: true,
    })
    .expect("a sound limit")
}

/// The key of a client's counter.
pub(super) fn key(client: usize) -> Vec<u8> {
    format!("comporta:1:{{4:edge6:client{client}}}5:limitw60").into_bytes()
}

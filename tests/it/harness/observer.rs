//! What a store under test tells nobody.

use std::sync::Arc;
use std::time::Duration;

use comporta::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use comporta::domain::time::Micros;
use comporta::store::{StoreError, StoreObserver};

/// Hears everything and says nothing.
pub struct Silent;

impl StoreObserver for Silent {
    fn asked(&self, _: Duration, _: Result<(), &StoreError>) {}
    fn connected(&self, _: &str) {}
    fn connection_failed(&self, _: &str, _: &str, _: Duration) {}
    fn unreadable(&self, _: u32) {}
    fn degraded(&self, _: bool, _: &str) {}
    fn overflowed(&self) {}
}

/// Some limit, where it does not matter which.
pub fn any_limit() -> Limit {
    Limit::new(LimitSpec {
        name: Arc::from("any"),
        named: true,
        count: 10,
        period: Period::one(Unit::Minute),
        algorithm: Algorithm::TokenBucket,
        burst: None,
        delay: Micros::ZERO,
        calendar: true,
    })
    .expect("a sound limit")
}

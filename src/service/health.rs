//! Whether calls should come here, as `grpc.health.v1` and `/ready` say it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::proto::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer;

/// The names that are asked for: the whole server, the one that `envoyproxy/ratelimit` goes by, and the service's own.
const NAMES: [&str; 3] = [
    "",
    "ratelimit",
    <RateLimitServiceServer<()> as NamedService>::NAME,
];

/// Whether this server wants calls. It does not from the start: it says so when it has something to answer by.
#[derive(Clone)]
pub struct Health {
    reporter: HealthReporter,
    ready: Arc<AtomicBool>,
}

impl Health {
    /// A server that wants no calls yet, and the service that says so.
    pub(super) async fn new() -> (Self, Routes) {
        let (reporter, service) = tonic_health::server::health_reporter();
        let health = Self {
            reporter,
            ready: Arc::new(AtomicBool::new(false)),
        };
        // The reporter starts with a server that serves, which ours does not.
        health.set(false).await;
        (health, Routes::new(service))
    }

    /// Says under every name whether calls are wanted.
    pub(super) async fn set(&self, ready: bool) {
        self.ready.store(ready, Ordering::SeqCst);
        let status = if ready {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for name in NAMES {
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// Whether calls are wanted.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }
}

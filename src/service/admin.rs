//! The operators' port, on a thread and a runtime of its own, so that it answers also when the data path is jammed.

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use tokio::sync::watch;

use super::health::Health;
use super::json;
use super::limiter::Limiter;
use super::threads::Threads;
use crate::clock::Clock;
use crate::store::Store;

/// What `/metrics` shows.
#[derive(Clone)]
pub struct MetricsPage {
    /// The media type of the text.
    pub media_type: &'static str,
    /// Writes the text; absent when that went wrong.
    pub render: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

/// What operators are shown, and what runs on their thread.
pub struct Operators {
    /// What `/metrics` shows.
    pub metrics: MetricsPage,
    /// Writes what `/policy` shows, as JSON.
    pub policy: Arc<dyn Fn() -> String + Send + Sync>,
    /// Runs beside the pages, away from the cores that serve calls. If it ends by itself, so does the server.
    pub background: Background,
}

/// What runs beside the pages.
pub type Background = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves `/live`, `/ready`, `/metrics`, `/policy`, `/healthcheck` and `/json` on `listener` until `stop` turns true.
/// `limiter`, which decides what `/json` asks, is called on the thread that serves, inside its runtime.
pub(super) fn start<S: Store, C: Clock>(
    listener: TcpListener,
    health: Health,
    operators: Operators,
    limiter: impl FnOnce() -> Limiter<S, C> + Send + 'static,
    mut stop: watch::Receiver<bool>,
    threads: &mut Threads,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let Operators {
        metrics,
        policy,
        background,
    } = operators;
    threads.spawn(String::from("admin"), move || {
        let served = runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let pages = pages(health, metrics, policy, Arc::new(limiter()));
            tokio::select! {
                served = async { axum::serve(listener, pages).await } => served,
                () = background => Err(io::Error::other("what runs beside the pages ended")),
                // A scrape that is under way is not worth waiting for.
                _ = stop.wait_for(|stop| *stop) => Ok(()),
            }
        });
        // What is still being read or compiled is not worth waiting for, either.
        runtime.shutdown_background();
        if let Err(error) = served {
            tracing::error!(%error, "the admin port failed");
        }
    })
}

fn pages<S: Store, C: Clock>(
    health: Health,
    metrics: MetricsPage,
    policy: Arc<dyn Fn() -> String + Send + Sync>,
    limiter: Arc<Limiter<S, C>>,
) -> Router {
    let health_again = health.clone();
    Router::new()
        .route("/live", get(|| async { "live\n" }))
        .route("/ready", get(async move || ready(&health)))
        .route("/metrics", get(async move || show(&metrics)))
        .route(
            "/policy",
            get(async move || ([(header::CONTENT_TYPE, "application/json")], policy())),
        )
        // Where scripts and probes of the reference look; it heeds no method.
        .route("/healthcheck", any(async move || healthcheck(&health_again)))
        .route("/json", any(move |body: Body| json::reply(limiter, body)))
}

fn ready(health: &Health) -> impl IntoResponse + use<> {
    if health.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

fn healthcheck(health: &Health) -> impl IntoResponse + use<> {
    if health.is_ready() {
        (StatusCode::OK, "OK")
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "")
    }
}

fn show(metrics: &MetricsPage) -> impl IntoResponse + use<> {
    match (metrics.render)() {
        Some(text) => Ok(([(header::CONTENT_TYPE, metrics.media_type)], text)),
        None => Err(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

//! The operators' port, on a thread and a runtime of its own, so that it answers also when the data path is jammed.

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::sync::watch;

use super::health::Health;
use super::threads::Threads;

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
    pub background: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Serves `/live`, `/ready`, `/metrics` and `/policy` on `listener` until `stop` turns true.
pub(super) fn start(
    listener: TcpListener,
    health: Health,
    operators: Operators,
    mut stop: watch::Receiver<bool>,
    threads: &mut Threads,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let pages = pages(health, operators.metrics, operators.policy);
    let background = operators.background;
    threads.spawn(String::from("admin"), move || {
        let served = runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
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

fn pages(health: Health, metrics: MetricsPage, policy: Arc<dyn Fn() -> String + Send + Sync>) -> Router {
    Router::new()
        .route("/live", get(|| async { "live\n" }))
        .route("/ready", get(async move || ready(&health)))
        .route("/metrics", get(async move || show(&metrics)))
        .route(
            "/policy",
            get(async move || ([(header::CONTENT_TYPE, "application/json")], policy())),
        )
}

fn ready(health: &Health) -> impl IntoResponse + use<> {
    if health.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

fn show(metrics: &MetricsPage) -> impl IntoResponse + use<> {
    match (metrics.render)() {
        Some(text) => Ok(([(header::CONTENT_TYPE, metrics.media_type)], text)),
        None => Err(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

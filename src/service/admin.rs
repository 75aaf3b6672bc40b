//! The operators' port, on a thread and a runtime of its own, so that it answers also when the data path is jammed.

use std::io;
use std::net::TcpListener;
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

/// Serves `/live`, `/ready` and `/metrics` on `listener` until `stop` turns true.
pub(super) fn start(
    listener: TcpListener,
    health: Health,
    metrics: MetricsPage,
    mut stop: watch::Receiver<bool>,
    threads: &mut Threads,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let pages = pages(health, metrics);
    threads.spawn(String::from("admin"), move || {
        let served = runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::select! {
                served = async { axum::serve(listener, pages).await } => served,
                // A scrape that is under way is not worth waiting for.
                _ = stop.wait_for(|stop| *stop) => Ok(()),
            }
        });
        if let Err(error) = served {
            tracing::error!(%error, "the admin port failed");
        }
    })
}

fn pages(health: Health, metrics: MetricsPage) -> Router {
    Router::new()
        .route("/live", get(|| async { "live\n" }))
        .route("/ready", get(async move || ready(&health)))
        .route("/metrics", get(async move || show(&metrics)))
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

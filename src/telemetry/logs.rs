//! What the process says on standard error.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For a person.
    #[default]
    Text,
    /// One JSON object a line, for a machine.
    Json,
}

/// Starts to log what `level` lets through: a level, or the directives of `tracing` (`info,comporta::store=debug`).
///
/// # Errors
/// When `level` is neither, or something logs already.
pub fn start(format: LogFormat, level: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let filter = EnvFilter::try_new(level)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false)
        .with_span_events(FmtSpan::NONE);
    match format {
        LogFormat::Text => lines
            .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
            .try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }
}

/// Whether `level` is one that [`start`] takes.
///
/// # Errors
/// What is wrong with it.
pub fn check_level(level: &str) -> Result<(), String> {
    EnvFilter::try_new(level)
        .map(drop)
        .map_err(|error| error.to_string())
}

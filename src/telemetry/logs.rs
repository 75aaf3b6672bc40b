//! What the process says on standard error.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal};
use std::{panic, thread};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

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
        // Where nobody reads any more, nobody can be told so: trying would panic, and the panic would be logged.
        .log_internal_errors(false)
        .with_target(false);
    match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }?;
    log_panics();
    Ok(())
}

/// A panic becomes a log line like any other, so that whoever reads machine-made lines finds it, too.
fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
        let location = panic.location().map(ToString::to_string);
        let thread = thread::current();
        tracing::error!(
            thread = thread.name(),
            location,
            backtrace,
            "this is a bug: {}",
            panic.payload_as_str().unwrap_or("a panic without words")
        );
    }));
}

/// Whether `level` is one that [`start`] takes.
///
/// # Errors
/// What is wrong with it.
pub fn check_level(level: &str) -> Result<(), String> {
    // To the filter a word that is no level is the name of a part of the program, and nothing else would be logged.
    let word = level
        .split(',')
        .map(str::trim)
        .find(|word| !word.contains(['=', '[']) && (word.is_empty() || word.parse::<LevelFilter>().is_err()));
    if let Some(word) = word {
        return Err(format!(
            "`{word}` is none of error, warn, info, debug, trace, off"
        ));
    }
    EnvFilter::try_new(level)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_a_mistake() {
        for level in [
            "info",
            "WARN",
            "off",
            "info,comporta::store=debug",
            "comporta=trace",
        ] {
            assert_eq!(check_level(level), Ok(()), "{level}");
        }
        for level in ["loud", "warning", "", "info,verbose", "comporta=loud"] {
            assert!(check_level(level).is_err(), "{level}");
        }
    }
}

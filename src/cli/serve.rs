//! `comporta serve`: answers gateways until it is told to stop.

use std::io::{self, Write};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::app::{App, AppError};
use super::args::ServeArgs;
use super::exit::Exit;
use super::settings::Settings;
use crate::telemetry::logs;

/// Serves as `args` say. What goes wrong is said on `err`.
///
/// # Errors
/// When `err` cannot be written to.
pub fn serve(args: ServeArgs, err: &mut impl Write) -> io::Result<Exit> {
    let settings = match Settings::new(args) {
        Ok(settings) => settings,
        Err(mistakes) => {
            write!(err, "{mistakes}")?;
            return Ok(Exit::Usage);
        }
    };
    if let Err(error) = logs::start(settings.log, &settings.log_level) {
        writeln!(err, "cannot log: {error}")?;
        return Ok(Exit::No);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match runtime.block_on(run(settings)) {
        Ok(exit) => Ok(exit),
        Err(error) => {
            writeln!(err, "{}", error.to_string().trim_end())?;
            Ok(Exit::No)
        }
    }
}

async fn run(settings: Settings) -> Result<Exit, AppError> {
    let mut hangups = signal(SignalKind::hangup()).map_err(|error| AppError::Server(error.into()))?;
    let mut signals = Signals::new().map_err(|error| AppError::Server(error.into()))?;
    let app = App::build(settings).await?;
    let reload = app.reload();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async {
        // A sender that is gone stops the server, too.
        let _ = stopped.await;
    };
    let impatience = async {
        signals.next().await;
        let _ = stop.send(());
        signals.next().await;
    };
    let reloads = async {
        while hangups.recv().await.is_some() {
            reload();
        }
        std::future::pending().await
    };
    tokio::select! {
        ended = app.run(shutdown) => ended.map(|()| Exit::Fine),
        () = impatience => {
            tracing::warn!("told to stop a second time: not waiting for what is in flight");
            Ok(Exit::No)
        }
        exit = reloads => exit,
    }
}

/// SIGTERM from whoever runs us, SIGINT from the keyboard.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

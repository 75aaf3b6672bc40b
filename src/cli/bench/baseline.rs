//! The server that others are held against, as the bench starts it.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::cli::app;
use crate::cli::exit::Exit;
use crate::cli::settings;
use crate::service::baseline::Baseline;
use crate::service::server::ServerError;

/// What `baseline` is told.
#[derive(Clone, Debug, clap::Args)]
pub struct BaselineArgs {
    /// Write the real address here, as JSON, once it answers
    #[arg(long, value_name = "PATH")]
    pub ready_file: PathBuf,
}

/// Serves until it is killed, as many cores as `serve` takes when it is not told.
pub(in crate::cli) fn baseline(args: &BaselineArgs, err: &mut impl Write) -> io::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match runtime.block_on(serve(args)) {
        Ok(()) => Ok(Exit::Fine),
        Err(error) => {
            writeln!(err, "{error}")?;
            Ok(Exit::No)
        }
    }
}

async fn serve(args: &BaselineArgs) -> Result<(), ServerError> {
    let baseline = Baseline::new().await?;
    app::write_ready_file(&args.ready_file, baseline.grpc_addr(), None)?;
    baseline.run(settings::processors()).await
}

//! The command: arguments in, exit code out.

pub mod app;
pub mod args;
pub mod bench;
mod call;
mod ceiling;
pub mod check;
mod deployment;
mod descriptor;
mod doctor;
pub mod excerpt;
pub mod exit;
pub mod explain;
mod key_secret;
mod mounts;
pub mod scenario;
mod serve;
pub mod settings;
pub mod sources;
pub mod stores;
mod test;
mod watch;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, CheckArgs, Command};
use exit::Exit;

use crate::policy::schema::schema;

/// Runs the command that `args` name, the program's own name first.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(said) => {
            // Help goes to standard output, a mistake to standard error. Nobody may be reading either.
            let _ = said.print();
            return if said.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Fine.into()
            };
        }
    };
    let (mut out, mut err) = (io::stdout().lock(), io::stderr());
    let ended = match args.command {
        Command::Serve(args) => serve::serve(*args, &mut err),
        Command::Check(args) => check(&args, &mut out),
        Command::Explain(args) => explain::explain(&args, &mut out, &mut err),
        Command::Test(args) => test::test(&args, &mut out),
        Command::Doctor(args) => doctor::doctor(&args, &mut out, &mut err),
        Command::Bench(args) => bench::bench(&args, &mut out, &mut err),
        Command::Baseline(args) => bench::baseline::baseline(&args, &mut err),
        Command::Call(args) => call::call(&args, &mut out, &mut err),
    };
    match ended {
        Ok(exit) => exit.into(),
        // Whoever read our output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Fine.into(),
        Err(error) => {
            let _ = writeln!(err, "{error}");
            Exit::No.into()
        }
    }
}

fn check(args: &CheckArgs, out: &mut impl Write) -> io::Result<Exit> {
    if args.schema {
        writeln!(out, "{:#}", schema())?;
        return Ok(Exit::Fine);
    }
    let format = if args.json {
        check::Format::Json
    } else {
        check::Format::Text
    };
    let fine = check::check_as(&args.policies, args.assume.assumed(), format, out)?;
    Ok(if fine { Exit::Fine } else { Exit::No })
}

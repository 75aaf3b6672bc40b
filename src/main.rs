//! The program `comporta`: arguments in, exit code out.

use std::process::ExitCode;

/// A third fewer instructions per call than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    comporta::cli::run(std::env::args_os())
}

//! Instructions, counted by valgrind: unlike time they do not depend on who else uses the machine.

use std::io::ErrorKind;
use std::process::Command;

/// What this program, run again with these environment variables, takes inside the function of this name and in all that it
/// calls. No other function's name may contain the name, and the function must not be inlined.
///
/// # Errors
/// Why nothing was counted, for a person to read.
pub fn instructions(function: &str, variables: &[(&str, &str)]) -> Result<u64, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("this program is not to be found: {error}"))?;
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(program)
        .envs(variables.iter().copied())
        .output()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => String::from("valgrind is not installed"),
            _ => format!("valgrind does not start: {error}"),
        })?;
    let said = String::from_utf8_lossy(&run.stderr);
    let collected = said
        .lines()
        .find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok());
    match collected {
        Some(collected) if run.status.success() => Ok(collected),
        _ => Err(format!("nothing was counted, {}:\n{said}", run.status)),
    }
}

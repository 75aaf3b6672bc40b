//! `comporta check`: whether a policy set can be used, and what is wrong with it.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::policy::PolicySet;
use crate::policy::problem::Problems;

use super::sources;

/// Writes a line for every problem of the set that `paths` name, or how many rules it holds. Tells whether the set can be
/// used.
///
/// # Errors
/// When `out` cannot be written to.
pub fn check(paths: &[PathBuf], out: &mut impl Write) -> io::Result<bool> {
    report(&sources::load(paths), out)
}

/// As [`check`], for a set that has been loaded.
///
/// # Errors
/// When `out` cannot be written to.
pub fn report(set: &Result<PolicySet, Problems>, out: &mut impl Write) -> io::Result<bool> {
    match set {
        Ok(set) => {
            write!(out, "{}", set.warnings())?;
            let rules = counted(set.limit_count(), "rule");
            let domains = counted(set.policies().len(), "domain");
            writeln!(out, "ok: {rules} in {domains}")?;
        }
        Err(problems) => write!(out, "{problems}")?,
    }
    Ok(set.is_ok())
}

fn counted(number: usize, thing: &str) -> String {
    if number == 1 {
        format!("1 {thing}")
    } else {
        format!("{number} {thing}s")
    }
}

//! `comporta check`: whether a policy set can be used, and what is wrong with it.

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::policy::problem::{Problem, Problems, Related, Severity, Spot};
use crate::policy::{Assumed, PolicySet};

use super::excerpt::excerpt;
use super::sources::{self, Source};

/// How problems are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `FILE:LINE:COLUMN: message`, and the line with what is meant marked.
    #[default]
    Text,
    /// One object, for editors and pipelines.
    Json,
}

/// Writes every problem of the set that `paths` name, and how many rules it holds where it can be used. Tells whether it
/// can.
///
/// # Errors
/// When `out` cannot be written to.
pub fn check(paths: &[PathBuf], out: &mut impl Write) -> io::Result<bool> {
    check_as(paths, Assumed::default(), Format::Text, out)
}

/// As [`check`], with some things taken for said, in the `format` asked for.
///
/// # Errors
/// When `out` cannot be written to.
pub fn check_as(
    paths: &[PathBuf],
    assumed: Assumed,
    format: Format,
    out: &mut impl Write,
) -> io::Result<bool> {
    match sources::read(paths) {
        Ok(sources) => report(&sources, assumed, format, out),
        Err(problems) => write_report(&[], &Err(problems), format, out),
    }
}

/// As [`check_as`], for files that have been read.
///
/// # Errors
/// When `out` cannot be written to.
pub fn report(
    sources: &[Source],
    assumed: Assumed,
    format: Format,
    out: &mut impl Write,
) -> io::Result<bool> {
    write_report(sources, &PolicySet::parse_assuming(sources, assumed), format, out)
}

fn write_report(
    sources: &[Source],
    set: &Result<PolicySet, Problems>,
    format: Format,
    out: &mut impl Write,
) -> io::Result<bool> {
    match format {
        Format::Text => text(sources, set, out)?,
        Format::Json => writeln!(out, "{}", as_json(set))?,
    }
    Ok(set.is_ok())
}

fn text(sources: &[Source], set: &Result<PolicySet, Problems>, out: &mut impl Write) -> io::Result<()> {
    match set {
        Ok(set) => {
            write_problems(sources, set.warnings(), out)?;
            let rules = counted(set.limit_count(), "rule");
            writeln!(out, "ok: {rules} in {}", counted(set.policies().len(), "domain"))
        }
        Err(problems) => {
            write_problems(sources, problems, out)?;
            let errors = problems
                .iter()
                .filter(|problem| problem.severity == Severity::Error)
                .count();
            let over = if problems.left_out() > 0 { "over " } else { "" };
            writeln!(out, "refused: {over}{}", counted(errors, "error"))
        }
    }
}

/// Writes `problems`, each with the line of `sources` that it is about.
pub(super) fn write_problems(
    sources: &[Source],
    problems: &Problems,
    out: &mut impl Write,
) -> io::Result<()> {
    for problem in problems {
        writeln!(out, "{problem}")?;
        let mut show = |file: &str, spot: Option<Spot>, mark: char| match (find(sources, file), spot) {
            (Some(bytes), Some(spot)) => out.write_all(excerpt(bytes, spot, mark).as_bytes()),
            _ => Ok(()),
        };
        show(&problem.file, problem.spot, '^')?;
        if let Some(Related { file, spot, .. }) = &problem.related {
            show(file, Some(*spot), '-')?;
        }
    }
    if problems.left_out() > 0 {
        writeln!(out, "… and {} more", problems.left_out())?;
    }
    Ok(())
}

fn find<'s>(sources: &'s [Source], file: &str) -> Option<&'s [u8]> {
    sources
        .iter()
        .find(|(name, _)| name == file)
        .map(|(_, bytes)| bytes.as_slice())
}

/// `1 rule`, `2 rules`.
pub(super) fn counted(number: usize, thing: &str) -> String {
    if number == 1 {
        format!("1 {thing}")
    } else {
        format!("{number} {thing}s")
    }
}

fn as_json(set: &Result<PolicySet, Problems>) -> Value {
    let (rules, domains, problems) = match set {
        Ok(set) => (
            json!(set.limit_count()),
            json!(set.policies().len()),
            set.warnings(),
        ),
        Err(problems) => (Value::Null, Value::Null, problems),
    };
    json!({
        "ok": set.is_ok(),
        "rules": rules,
        "domains": domains,
        "problems": problems.iter().map(problem_as_json).collect::<Value>(),
        "left_out": problems.left_out(),
    })
}

/// What a program reads about one problem.
pub(super) fn problem_as_json(problem: &Problem) -> Value {
    let related = |Related { file, spot, label }: &Related| json!({ "file": **file, "line": spot.line, "column": spot.column, "width": spot.width, "label": label });
    json!({
        "severity": match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "file": *problem.file,
        "line": problem.spot.map(|spot| spot.line),
        "column": problem.spot.map(|spot| spot.column),
        "width": problem.spot.map(|spot| spot.width),
        "message": problem.message,
        "hint": problem.hint,
        "related": problem.related.as_ref().map(related),
    })
}

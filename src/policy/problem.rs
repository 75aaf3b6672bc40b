//! What is wrong with a policy: where, what, and what to write instead.

use std::fmt;
use std::sync::Arc;

use super::node::Place;

/// How many errors of one set are kept; more help nobody.
const MOST_ERRORS: usize = 1_000;

/// How many warnings of one set are kept, beside the errors.
const MOST_WARNINGS: usize = 200;

/// Whether a problem keeps the set from being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The set is not accepted.
    Error,
    /// The set is accepted, but probably does not do what was meant.
    Warning,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// How many characters of the line it is about; at least 1.
    pub width: u32,
}

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file, as it was named to us.
    pub file: Arc<str>,
    /// Where in it; absent for a file as a whole.
    pub spot: Option<Spot>,
}

impl fmt::Display for Origin {
    /// `FILE:LINE:COLUMN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.spot {
            Some(Spot { line, column, .. }) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// Another place that has to do with a problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Related {
    /// The file, as it was named to us.
    pub file: Arc<str>,
    /// Where in it.
    pub spot: Spot,
    /// What is there: `first here`.
    pub label: &'static str,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the set can be used nevertheless.
    pub severity: Severity,
    /// The file, as it was named to us.
    pub file: Arc<str>,
    /// Where in it; absent when it is about the file as a whole.
    pub spot: Option<Spot>,
    /// What is wrong.
    pub message: String,
    /// What to write instead, or what else to do.
    pub hint: Option<String>,
    /// The other place that it is about.
    pub related: Option<Related>,
}

impl Problem {
    /// An error about a file as a whole.
    pub fn about_file(file: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            file: file.into(),
            spot: None,
            message: message.into(),
            hint: None,
            related: None,
        }
    }

    /// An error about something that is written at `origin`.
    pub fn about(origin: &Origin, message: impl Into<String>) -> Self {
        Self {
            spot: origin.spot,
            ..Self::about_file(&origin.file, message)
        }
    }

    /// This problem with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    /// `FILE:LINE:COLUMN: message: hint (first here FILE:LINE:COLUMN)`, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(Spot { line, column, .. }) = self.spot {
            write!(f, "{line}:{column}:")?;
        }
        if self.severity == Severity::Warning {
            f.write_str(" warning:")?;
        }
        write!(f, " {}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, ": {hint}")?;
        }
        if let Some(Related { file, spot, label }) = &self.related {
            write!(f, " ({label} {file}:{}:{})", spot.line, spot.column)?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a set, in the order of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    found: Vec<Problem>,
    left_out: usize,
}

impl Problems {
    /// The problems, those of one file in the order of its lines.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.found.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many more there are than are listed.
    pub const fn left_out(&self) -> usize {
        self.left_out
    }
}

impl From<Vec<Problem>> for Problems {
    fn from(found: Vec<Problem>) -> Self {
        Self { found, left_out: 0 }
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    /// A line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self {
            writeln!(f, "{problem}")?;
        }
        if self.left_out > 0 {
            writeln!(f, "… and {} more", self.left_out)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Gathers the problems of a set while it is read, so that all are reported at once.
#[derive(Debug)]
pub(super) struct Report {
    files: Vec<Arc<str>>,
    found: Vec<(Place, Problem)>,
    left_out: usize,
    errors: usize,
    warnings: usize,
    partial: bool,
}

impl Report {
    /// Nothing wrong yet with the files of these names.
    pub(super) fn new(files: Vec<Arc<str>>) -> Self {
        Self {
            files,
            found: Vec::new(),
            left_out: 0,
            errors: 0,
            warnings: 0,
            partial: false,
        }
    }

    /// Notes an error and hands it back, for a hint or a second place.
    pub(super) fn error(&mut self, place: Place, message: impl Into<String>) -> Noted<'_> {
        self.note(Severity::Error, place, message.into())
    }

    /// Notes a warning and hands it back, for a hint or a second place.
    pub(super) fn warning(&mut self, place: Place, message: impl Into<String>) -> Noted<'_> {
        self.note(Severity::Warning, place, message.into())
    }

    /// Notes an error about a whole file.
    pub(super) fn error_about(&mut self, source: u32, message: impl Into<String>) -> Noted<'_> {
        self.error(Place::whole(source), message)
    }

    /// Notes that a part of the set could not be read at all: what is not found may be in it.
    pub(super) const fn mark_partial(&mut self) {
        self.partial = true;
    }

    /// Whether all parts of the set could be read, so that what is not found is not there.
    pub(super) const fn is_whole(&self) -> bool {
        !self.partial
    }

    /// How many errors there are so far: none, or the set cannot be accepted.
    pub(super) const fn errors(&self) -> usize {
        self.errors
    }

    /// Whether another error would not be kept, so that no thought needs to be given to its hint.
    pub(super) const fn is_full(&self) -> bool {
        self.errors >= MOST_ERRORS
    }

    /// What `place` is called outside.
    pub(super) fn origin(&self, place: Place) -> Origin {
        Origin {
            file: Arc::clone(&self.files[place.source as usize]),
            spot: place.spot(),
        }
    }

    /// Everything noted, in the order of files and lines, each thing once: what an alias repeats is said once.
    pub(super) fn finish(mut self) -> Problems {
        self.found.sort_by_key(|(place, _)| *place);
        self.found.dedup();
        Problems {
            found: self.found.into_iter().map(|(_, problem)| problem).collect(),
            left_out: self.left_out,
        }
    }

    fn note(&mut self, severity: Severity, place: Place, message: String) -> Noted<'_> {
        match severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
        }
        let file = Arc::clone(&self.files[place.source as usize]);
        let problem = Problem {
            severity,
            file,
            spot: place.spot(),
            message,
            hint: None,
            related: None,
        };
        let kept = match severity {
            Severity::Error => self.errors <= MOST_ERRORS,
            Severity::Warning => self.warnings <= MOST_WARNINGS,
        };
        if kept {
            self.found.push((place, problem));
            Noted {
                files: &self.files,
                problem: self.found.last_mut().map(|(_, problem)| problem),
            }
        } else {
            self.left_out += 1;
            Noted {
                files: &self.files,
                problem: None,
            }
        }
    }
}

/// A problem that was just noted.
pub(super) struct Noted<'r> {
    files: &'r [Arc<str>],
    problem: Option<&'r mut Problem>,
}

impl Noted<'_> {
    /// Adds what to write instead.
    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        self.maybe_hint(Some(hint))
    }

    /// Adds what to write instead, where that is known.
    pub(super) fn maybe_hint(mut self, hint: Option<impl Into<String>>) -> Self {
        if let (Some(problem), Some(hint)) = (&mut self.problem, hint) {
            problem.hint = Some(hint.into());
        }
        self
    }

    /// Adds the other place that the problem is about.
    pub(super) fn also(mut self, place: Place, label: &'static str) -> Self {
        if let (Some(problem), Some(spot)) = (&mut self.problem, place.spot()) {
            problem.related = Some(Related {
                file: Arc::clone(&self.files[place.source as usize]),
                spot,
                label,
            });
        }
        self
    }
}

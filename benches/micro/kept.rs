//! What is kept of earlier counts, and what a new count says beside it.

use std::fmt::{self, Write as _};

/// What a kept file says of itself.
const HEAD: &str = "\
# Instructions that one call of each case takes, on x86-64.
# `cargo bench --bench micro -- --check` counts again, and with `--update` it writes this.
";

/// By how many hundredths a count may differ from what is kept.
const TOLERATED: u64 = 5;

/// The instructions of cases, by their names, in order.
pub type Counts = Vec<(String, u64)>;

/// Reads what [`write`] wrote.
///
/// # Errors
/// The line that is no count.
pub fn read(text: &str) -> Result<Counts, String> {
    let count = |line: &str| {
        let (case, count) = line.rsplit_once(' ')?;
        Some((case.trim_end().to_owned(), count.parse().ok()?))
    };
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| count(line).ok_or_else(|| format!("not a case and its count: {line}")))
        .collect()
}

/// The counts as a file.
pub fn write(counts: &Counts) -> String {
    let mut text = String::from(HEAD);
    for (case, count) in counts {
        let _ = writeln!(text, "{case:31} {count:>8}");
    }
    text
}

/// One case: what is kept of it, and what it takes now. One of the two is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Its name.
    pub case: String,
    /// What is kept.
    pub kept: Option<u64>,
    /// What was counted.
    pub now: Option<u64>,
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// As it was, or nearly.
    Same,
    /// It takes less: worth keeping.
    Less,
    /// It takes more.
    More,
    /// Nothing is kept of it.
    New,
    /// It is kept, and there is no such case.
    Gone,
}

impl Finding {
    /// Whether that may be.
    pub const fn passes(self) -> bool {
        matches!(self, Self::Same | Self::Less)
    }
}

impl Compared {
    /// What that comes to.
    pub fn finding(&self) -> Finding {
        match (self.kept, self.now) {
            (Some(kept), Some(now)) if now * 100 > kept * (100 + TOLERATED) => Finding::More,
            (Some(kept), Some(now)) if now * 100 < kept * (100 - TOLERATED) => Finding::Less,
            (Some(_), Some(_)) => Finding::Same,
            (None, _) => Finding::New,
            (Some(_), None) => Finding::Gone,
        }
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: Option<u64>| count.map_or_else(|| String::from("-"), |count| count.to_string());
        let (kept, now) = (count(self.kept), count(self.now));
        write!(formatter, "{:31} {kept:>8}{now:>8}", self.case)?;
        if let (Some(kept), Some(now)) = (self.kept, self.now) {
            let change = 100.0 * (now as f64 / kept as f64 - 1.0);
            write!(formatter, "{change:>+9.1} %")?;
        }
        match self.finding() {
            Finding::Same => Ok(()),
            Finding::Less => formatter.write_str("  less"),
            Finding::More => formatter.write_str("  MORE"),
            Finding::New => formatter.write_str("  NOT KEPT"),
            Finding::Gone => formatter.write_str("  NO SUCH CASE"),
        }
    }
}

/// Every case that is kept or was counted: those that were counted first.
pub fn compare(kept: &Counts, now: &Counts) -> Vec<Compared> {
    let of = |counts: &Counts, case: &str| {
        let found = counts.iter().find(|(known, _)| known == case);
        found.map(|(_, count)| *count)
    };
    let gone = kept.iter().filter(|(case, _)| of(now, case).is_none());
    now.iter()
        .chain(gone)
        .map(|(case, _)| Compared {
            case: case.clone(),
            kept: of(kept, case),
            now: of(now, case),
        })
        .collect()
}

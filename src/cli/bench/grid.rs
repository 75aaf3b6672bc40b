//! Rows and columns, for a terminal and as Markdown.

use std::fmt::Write as _;

/// A table: its first row says what the columns are.
#[derive(Default)]
pub(super) struct Grid(Vec<Vec<String>>);

impl Grid {
    pub(super) fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self(vec![head.into_iter().map(Into::into).collect()])
    }

    pub(super) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.0.push(cells.into_iter().map(Into::into).collect());
    }

    /// Columns side by side, wide enough for what is in them.
    pub(super) fn as_text(&self) -> String {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.0 {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(line, "{cell:<width$}  ");
            }
            text.extend([line.trim_end(), "\n"]);
        }
        text
    }

    pub(super) fn as_markdown(&self) -> String {
        let mut text = String::new();
        for (at, row) in self.0.iter().enumerate() {
            let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
            if at == 0 {
                let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let mut grid = Grid::new(["", "baseline"]);
        grid.row(["p50 µs", "1"]);
        grid.row(["calls", "12"]);
        assert_eq!(grid.as_text(), "        baseline\np50 µs  1\ncalls   12\n");
        assert_eq!(
            grid.as_markdown(),
            "|  | baseline |\n|---|---|\n| p50 µs | 1 |\n| calls | 12 |\n"
        );
    }
}

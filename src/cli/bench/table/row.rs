//! One line of the table: what, its bar, what was measured.

use crate::cli::bench::spread::Spread;

/// What a figure is to be.
#[derive(Clone, Copy)]
pub(super) enum Bar {
    Most(f64),
    Least(f64),
    /// Whatever it is.
    None,
}

/// What a figure counts.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// One thing as a multiple of another.
    Times,
    Micros,
    Millis,
    Mebibytes,
}

/// One line of the table.
pub(super) struct Row {
    pub(super) what: String,
    pub(super) bar: Bar,
    pub(super) unit: Unit,
    /// Absent where it is not known.
    pub(super) figure: Option<Spread>,
}

impl Row {
    /// What stands above the cells.
    pub(super) const HEAD: [&str; 4] = ["what", "bar", "measured", "within"];

    pub(super) fn cells(&self) -> [String; 4] {
        let bar = match self.bar {
            Bar::Most(bar) => format!("≤ {}", self.unit.bar(bar)),
            Bar::Least(bar) => format!("≥ {}", self.unit.bar(bar)),
            Bar::None => String::new(),
        };
        let Some(figure) = self.figure else {
            return [self.what.clone(), bar, String::from("not known"), String::new()];
        };
        let within = match self.bar {
            Bar::Most(bar) => figure.median <= bar,
            Bar::Least(bar) => figure.median >= bar,
            Bar::None => return [self.what.clone(), bar, self.unit.show(&figure), String::new()],
        };
        let within = if within { "yes" } else { "no" };
        [self.what.clone(), bar, self.unit.show(&figure), within.to_owned()]
    }
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::Times => "",
            Self::Micros => " µs",
            Self::Millis => " ms",
            Self::Mebibytes => " MiB",
        }
    }

    fn bar(self, bar: f64) -> String {
        let places = match self {
            Self::Times | Self::Millis => 2,
            Self::Micros | Self::Mebibytes => 0,
        };
        format!("{bar:.places$}{}", self.name())
    }

    fn show(self, figure: &Spread) -> String {
        let places = match self {
            Self::Times | Self::Millis => 2,
            Self::Micros => 1,
            Self::Mebibytes => 0,
        };
        // Of one figure there is no spread.
        let shown = if figure.least.total_cmp(&figure.most).is_eq() {
            super::grouped(figure.median, places)
        } else {
            figure.show(places)
        };
        format!("{shown}{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(bar: Bar, unit: Unit, figures: &[f64]) -> [String; 4] {
        let row = Row {
            what: String::from("memory"),
            bar,
            unit,
            figure: Spread::of(figures.iter().copied().map(Some)),
        };
        row.cells()
    }

    #[test]
    fn the_median_is_held_against_the_bar() {
        let check = |bar, unit, figures: &[f64], expected: [&str; 3]| {
            assert_eq!(cells(bar, unit, figures)[1..], expected);
        };
        check(
            Bar::Most(1.35),
            Unit::Times,
            &[1.3, 1.5, 1.2],
            ["≤ 1.35", "1.30 (1.20–1.50)", "yes"],
        );
        check(
            Bar::Least(0.85),
            Unit::Times,
            &[0.8, 0.9, 0.8],
            ["≥ 0.85", "0.80 (0.80–0.90)", "no"],
        );
        check(
            Bar::Most(16.0),
            Unit::Mebibytes,
            &[12.4],
            ["≤ 16 MiB", "12 MiB", "yes"],
        );
        check(
            Bar::None,
            Unit::Micros,
            &[10.25, 11.0, 10.0],
            ["", "10.2 (10.0–11.0) µs", ""],
        );
        check(Bar::Most(0.25), Unit::Millis, &[], ["≤ 0.25 ms", "not known", ""]);
    }
}

//! A figure of several rounds.

use serde_json::{Value, json};

/// The median, and between what it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// Of figures that are all known. Of an even number the lower one of the two in the middle is the median, so that it is
    /// one that was measured.
    pub(super) fn of(figures: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect::<Option<_>>()?;
        figures.sort_by(f64::total_cmp);
        Some(Self {
            median: *figures.get(figures.len().checked_sub(1)? / 2)?,
            least: *figures.first()?,
            most: *figures.last()?,
        })
    }

    /// `1.20 (1.18–1.31)`
    pub(super) fn show(&self, places: usize) -> String {
        let [median, least, most] =
            [self.median, self.least, self.most].map(|figure| grouped(figure, places));
        format!("{median} ({least}–{most})")
    }

    pub(super) fn as_json(&self) -> Value {
        json!({ "median": self.median, "least": self.least, "most": self.most })
    }
}

/// Exact: no number here has more than 53 bits.
#[allow(clippy::cast_precision_loss)]
pub(super) const fn as_float(number: u64) -> f64 {
    number as f64
}

/// `12,345.6`
pub(super) fn grouped(figure: f64, places: usize) -> String {
    let text = format!("{:.places$}", figure.abs());
    let (whole, part) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut shown = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    let is_negative = figure < 0.0 && text.contains(|digit| matches!(digit, '1'..='9'));
    format!("{}{shown}{part}", if is_negative { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        let spread = |figures: &[f64]| Spread::of(figures.iter().copied().map(Some));
        let check = |figures: &[f64], expected: &str| {
            assert_eq!(spread(figures).expect("known").show(0), expected);
        };
        check(&[3.0, 1.0, 2.0], "2 (1–3)");
        check(&[4.0, 1.0, 3.0, 2.0], "2 (1–4)");
        check(&[7.0], "7 (7–7)");
        assert_eq!(spread(&[]), None);
        assert_eq!(Spread::of([Some(1.0), None]), None);
    }

    #[test]
    fn numbers_can_be_read() {
        let spread = Spread::of([Some(1234.5), Some(999.0), Some(1_234_567.0)]).expect("known");
        assert_eq!(spread.show(0), "1,234 (999–1,234,567)");
        assert_eq!(grouped(0.6049, 2), "0.60");
        assert_eq!(grouped(-1234.56, 1), "-1,234.6");
        assert_eq!(grouped(-0.001, 2), "0.00");
    }
}

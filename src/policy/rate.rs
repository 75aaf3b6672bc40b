//! `100/15m`: so many hits per period.

use crate::domain::limit::{LONGEST_PERIOD, LimitError, Period, Unit};

use super::node::shown;
use super::number::{Fault, whole};
use super::spelling::nearest;

/// The letters that may follow a number.
const LETTERS: [(&str, Unit); 5] = [
    ("s", Unit::Second),
    ("m", Unit::Minute),
    ("h", Unit::Hour),
    ("d", Unit::Day),
    ("w", Unit::Week),
];

/// Count and period of a rate that is written as in a policy: `100/15m`.
///
/// # Errors
/// What is wrong with it, and what to write instead.
pub fn parse(text: &str) -> Result<(u32, Period), String> {
    rate(text).map_err(|fault| match fault.hint {
        Some(hint) => format!("{}: {hint}", fault.message),
        None => fault.message,
    })
}

/// Count and period of `<count>/<period>`.
pub(super) fn rate(text: &str) -> Result<(u32, Period), Fault> {
    let Some((count, span)) = text.split_once('/') else {
        return Err(
            Fault::new(format!("must be <count>/<period>, found `{}`", shown(text)))
                .hint("write, say, `100/minute` or `100/15m`"),
        );
    };
    if count.trim() != count || span.trim() != span {
        let hint = format!("write `{}/{}`", shown(count.trim()), shown(span.trim()));
        return Err(Fault::new("has no spaces around the slash").hint(hint));
    }
    let period = period(span)?;
    let count = whole(count)
        .map_err(|fault| whole_instead(count, period).map_or(fault.clone(), |hint| fault.hint(hint)))?;
    Ok((count, period))
}

/// The unit that a `unit:` names, in any case.
pub(super) fn unit(text: &str) -> Result<Unit, Fault> {
    Unit::ALL
        .into_iter()
        .find(|unit| unit.name().eq_ignore_ascii_case(text))
        .ok_or_else(|| {
            let fault = Fault::new(format!("is not a unit of time, found `{}`", shown(text)));
            match nearest(text, Unit::ALL.map(Unit::name)) {
                Some(unit) => fault.hint(format!("did you mean `{unit}`?")),
                None => fault.hint("write one of second, minute, hour, day, week, month, year"),
            }
        })
}

/// A period of a sound length.
pub(super) fn period_of(unit: Unit, multiplier: u32) -> Result<Period, Fault> {
    let period = Period { unit, multiplier };
    if multiplier == 0 || u64::from(multiplier) > LONGEST_PERIOD.get() / unit.length().get() {
        return Err(Fault::new(LimitError::Period(period).to_string()));
    }
    Ok(period)
}

fn period(text: &str) -> Result<Period, Fault> {
    if let Some(unit) = unit_word(text) {
        return Ok(Period::one(unit));
    }
    let digits = text.len()
        - text
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == '_' || c == '.')
            .len();
    let (number, letter) = text.split_at(digits);
    let Some((_, unit)) = LETTERS.iter().find(|(known, _)| *known == letter) else {
        return Err(not_a_period(text, number, letter));
    };
    if number.is_empty() {
        return Err(
            Fault::new(format!("has no period `{letter}`")).hint(format!("did you mean `{}`?", unit.name()))
        );
    }
    let multiplier = whole(number).map_err(|fault| Fault {
        message: format!("has a period whose number {}", fault.message),
        ..fault
    })?;
    period_of(*unit, multiplier).map_err(|fault| Fault {
        message: format!("is out of bounds: {}", fault.message),
        ..fault
    })
}

/// `second` … `year`, in any case, singular or plural.
fn unit_word(text: &str) -> Option<Unit> {
    let singular = text.strip_suffix(['s', 'S']).unwrap_or(text);
    Unit::ALL
        .into_iter()
        .find(|unit| unit.name().eq_ignore_ascii_case(singular))
}

fn not_a_period(text: &str, number: &str, letter: &str) -> Fault {
    if text.is_empty() {
        return Fault::new("has no period behind the slash").hint("write, say, `100/minute` or `100/15m`");
    }
    let fault = Fault::new(format!("has no period `{}`", shown(text)));
    let lower = letter.trim().to_ascii_lowercase();
    let word = unit_word(&lower)
        .map(Unit::name)
        .or_else(|| nearest(&lower, Unit::ALL.map(Unit::name)));
    match (number, word) {
        ("", Some(word)) => fault.hint(format!("did you mean `{word}`?")),
        (number, Some(word @ ("second" | "minute" | "hour" | "day" | "week"))) => {
            fault.hint(format!("did you mean `{number}{}`?", &word[..1]))
        }
        _ => {
            fault.hint("write second, minute, hour, day, week, month, year, or a number with s, m, h, d or w")
        }
    }
}

/// The rate that a fraction of a hit per period is, in whole hits: `0.1/second` is `1/10s`.
fn whole_instead(count: &str, period: Period) -> Option<String> {
    let (whole, fraction) = count.split_once('.')?;
    let digits = format!("{whole}{fraction}");
    if fraction.is_empty() || fraction.len() > 6 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hits: u64 = digits.parse().ok()?;
    let parts = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let letter = LETTERS.iter().find(|(_, unit)| *unit == period.unit)?.0;
    let divisor = greatest_common_divisor(hits, parts);
    let (hits, periods) = (hits / divisor, u64::from(period.multiplier) * (parts / divisor));
    Some(format!("write `{hits}/{periods}{letter}`"))
}

const fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_count_and_a_period() {
        let check = |text: &str, count: u32, unit: Unit, multiplier: u32| {
            assert_eq!(rate(text), Ok((count, Period { unit, multiplier })), "{text}");
        };
        check("100/minute", 100, Unit::Minute, 1);
        check("100/Minutes", 100, Unit::Minute, 1);
        check("100/15m", 100, Unit::Minute, 15);
        check("5/36h", 5, Unit::Hour, 36);
        check("5/2w", 5, Unit::Week, 2);
        check("1/10s", 1, Unit::Second, 10);
        check("0/day", 0, Unit::Day, 1);
        check("1_000/year", 1_000, Unit::Year, 1);
    }

    #[test]
    fn a_bad_rate_says_what_to_write() {
        let check = |text: &str, message: &str, hint: &str| {
            let fault = rate(text).expect_err(text);
            assert_eq!(
                (fault.message.as_str(), fault.hint.as_deref().unwrap_or("")),
                (message, hint),
                "{text}"
            );
        };
        check(
            "0.1/second",
            "must be a whole number, found `0.1`",
            "write `1/10s`",
        );
        check("1.5/15m", "must be a whole number, found `1.5`", "write `3/30m`");
        check("0.5/month", "must be a whole number, found `0.5`", "");
        check(
            "100",
            "must be <count>/<period>, found `100`",
            "write, say, `100/minute` or `100/15m`",
        );
        check(
            "100 / minute",
            "has no spaces around the slash",
            "write `100/minute`",
        );
        check("100/min", "has no period `min`", "did you mean `minute`?");
        check("100/m", "has no period `m`", "did you mean `minute`?");
        check("100/15min", "has no period `15min`", "did you mean `15m`?");
        check(
            "100/15 minutes",
            "has no period `15 minutes`",
            "did you mean `15m`?",
        );
        check(
            "100/1.5h",
            "has a period whose number must be a whole number, found `1.5`",
            "",
        );
        check(
            "100/500ms",
            "has no period `500ms`",
            "write second, minute, hour, day, week, month, year, or a number with s, m, h, d or w",
        );
        check(
            "100/0s",
            "is out of bounds: a period of 0 seconds is out of range: it must be between 1 second and 10 years",
            "",
        );
        check("-1/second", "must not be negative, found `-1`", "");
        check("4294967296/s", "has no period `s`", "did you mean `second`?");
        check("4294967296/1s", "is at most 4294967295, found `4294967296`", "");
    }
}

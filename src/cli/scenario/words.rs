//! Time and hits as a test writes them.

use std::fmt::Write;

use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};
use crate::policy::reading::{Mistake, whole};

/// When every test starts, 2026-01-01T00:00:00Z: where all windows begin but weeks.
pub(super) const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// The last moment of a test, 2200-01-01T00:00:00Z.
pub(super) const END: Timestamp = Timestamp::from_micros(7_258_118_400_000_000);

/// Units of time with their microseconds, longest first. `ms` and `us` are matched before `m` by their length.
const UNITS: [(&str, u64); 7] = [
    ("w", Micros::WEEK.get()),
    ("d", Micros::DAY.get()),
    ("h", Micros::HOUR.get()),
    ("m", Micros::MINUTE.get()),
    ("s", Micros::SECOND.get()),
    ("ms", 1_000),
    ("us", 1),
];

/// `1s`, `600ms`, `59.6s`, `1h30m`.
pub(super) fn span(text: &str) -> Result<Micros, Mistake> {
    let mut rest = text;
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, |c| c.is_ascii_alphabetic());
        let micros = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .and_then(|(_, micros)| multiple(number, *micros))
            .ok_or_else(|| no_span(text))?;
        sum = sum.checked_add(micros).ok_or_else(|| no_span(text))?;
        rest = after;
    }
    if text.is_empty() {
        return Err(no_span(text));
    }
    Ok(Micros::new(sum))
}

fn no_span(text: &str) -> Mistake {
    Mistake {
        message: format!("must be a time, found `{text}`"),
        hint: Some(String::from("write, say, 1s, 600ms, 1h30m or 31d")),
    }
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// `number` times `unit`, if that is a whole number of microseconds.
fn multiple(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let parts = u128::from(parts.checked_add(fraction.parse().ok()?)?) * u128::from(unit);
    let exact = parts % u128::from(scale) == 0;
    exact.then(|| u64::try_from(parts / u128::from(scale)).ok())?
}

/// As [`span`] reads it, in the largest units.
pub(super) fn show_span(span: Micros) -> String {
    let mut rest = span.get();
    let mut shown = String::new();
    for (unit, micros) in UNITS.into_iter().filter(|(unit, _)| *unit != "w") {
        if rest >= micros {
            let _ = write!(shown, "{}{unit}", rest / micros);
            rest %= micros;
        }
    }
    if shown.is_empty() {
        String::from("0s")
    } else {
        shown
    }
}

/// `2026-01-31T23:59:59Z`.
pub(super) fn moment(text: &str) -> Result<Timestamp, Mistake> {
    let moment = text
        .parse::<jiff::Timestamp>()
        .ok()
        .and_then(|moment| u64::try_from(moment.as_microsecond()).ok())
        .map(Timestamp::from_micros)
        .ok_or_else(|| Mistake {
            message: format!("must be a moment, found `{text}`"),
            hint: Some(String::from(
                "write, say, 2026-01-31T23:59:59Z, with the zone and not before 1970",
            )),
        })?;
    if moment > END {
        return Err(too_late());
    }
    Ok(moment)
}

/// A clock that goes on for too long.
pub(super) fn too_late() -> Mistake {
    Mistake {
        message: String::from("sets the clock past the year 2200"),
        hint: None,
    }
}

/// `3` takes, `0` looks, `-3` gives back.
pub(super) fn hits(text: &str) -> Result<Hits, Mistake> {
    match text.strip_prefix('-') {
        Some(number) => whole(number).map(|hits| Hits::give_back(u64::from(hits))),
        None => whole(text).map(|hits| Hits::take(u64::from(hits))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_exactly_and_shown_as_they_are_read() {
        let good = |text: &str, micros: u64, shown: &str| {
            assert_eq!(span(text), Ok(Micros::new(micros)), "{text}");
            assert_eq!(show_span(Micros::new(micros)), shown);
            assert_eq!(span(shown), Ok(Micros::new(micros)), "{shown}");
        };
        good("1s", 1_000_000, "1s");
        good("600ms", 600_000, "600ms");
        good("59.6s", 59_600_000, "59s600ms");
        good("0.000001s", 1, "1us");
        good("1h30m", 5_400_000_000, "1h30m");
        good("90m", 5_400_000_000, "1h30m");
        good("1w", 604_800_000_000, "7d");
        good("0s", 0, "0s");
        for bad in [
            "",
            "1",
            "s",
            "1 s",
            "-1s",
            "1.s",
            "1.5us",
            "1mo",
            "1S",
            "1s2",
            "99999999999w",
        ] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn moments_have_a_zone_and_are_those_of_a_test() {
        assert_eq!(moment("2026-01-01T00:00:00Z"), Ok(START));
        assert_eq!(moment("2026-01-01T01:00:00+01:00"), Ok(START));
        assert_eq!(moment("2200-01-01T00:00:00Z"), Ok(END));
        for bad in [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "1969-12-31T23:59:59Z",
            "2200-01-01T00:00:01Z",
        ] {
            assert!(moment(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hits_take_look_or_give_back() {
        assert_eq!(hits("3"), Ok(Hits::Take(3)));
        assert_eq!(hits("0"), Ok(Hits::LOOK));
        assert_eq!(hits("-3"), Ok(Hits::GiveBack(3)));
        for bad in ["", "-", "--3", "1.5", "ten", "4294967296"] {
            assert!(hits(bad).is_err(), "{bad}");
        }
    }
}

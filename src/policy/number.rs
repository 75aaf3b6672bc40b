//! Whole numbers as people and generators write them.

/// What is wrong with a written value, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Goes behind the name of what it is about: `must be a whole number: found 0.5`.
    pub message: String,
    pub hint: Option<String>,
}

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// The number that `text` stands for: decimal, with `_` between digits if wanted, or `0x`, `0o`, `0b`.
///
/// A leading zero is octal in YAML 1.1 and decimal in YAML 1.2, so it is refused.
pub(super) fn whole(text: &str) -> Result<u32, Fault> {
    let found = super::node::shown(text);
    if let Some(rest) = text.strip_prefix('-')
        && rest.starts_with(|first: char| first.is_ascii_digit() || first == '.')
    {
        return Err(Fault::new(format!("must not be negative, found `{found}`")));
    }
    if let Some(number) = prefixed(text) {
        return number.map_err(|()| too_large(&found));
    }
    let digits = text.strip_prefix('+').unwrap_or(text).replace('_', "");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) || text.starts_with('_') {
        return Err(not_whole(text, &found));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(leading_zero(&digits, &found));
    }
    digits.parse().map_err(|_| too_large(&found))
}

/// A number with a base in front; `None` when it is not one.
fn prefixed(text: &str) -> Option<Result<u32, ()>> {
    let (base, digits) = match text.get(..2)? {
        "0x" | "0X" => (16, &text[2..]),
        "0o" | "0O" => (8, &text[2..]),
        "0b" | "0B" => (2, &text[2..]),
        _ => return None,
    };
    let digits = digits.replace('_', "");
    let sound = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
    sound.then(|| u32::from_str_radix(&digits, base).map_err(|_| ()))
}

fn too_large(found: &str) -> Fault {
    Fault::new(format!("is at most {}, found `{found}`", u32::MAX))
}

fn leading_zero(digits: &str, found: &str) -> Fault {
    let decimal = digits.trim_start_matches('0');
    let decimal = if decimal.is_empty() { "0" } else { decimal };
    match u64::from_str_radix(digits, 8) {
        Ok(octal) if octal.to_string() != decimal => {
            Fault::new(format!("has a leading zero, found `{found}`")).hint(format!(
                "some readers take that for {octal}, others for {decimal}; write the one you mean"
            ))
        }
        _ => Fault::new(format!("has a leading zero, found `{found}`")).hint(format!("write {decimal}")),
    }
}

fn not_whole(text: &str, found: &str) -> Fault {
    let fault = Fault::new(format!("must be a whole number, found `{found}`"));
    let float = text
        .bytes()
        .any(|byte| byte.is_ascii_digit())
        .then(|| text.parse::<f64>().ok())
        .flatten();
    match float {
        Some(float) if float.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&float) => {
            fault.hint(format!("write {float:.0}"))
        }
        _ => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_and_say_what_is_wrong() {
        let good = |text: &str, number: u32| assert_eq!(whole(text), Ok(number), "{text}");
        good("0", 0);
        good("4294967295", u32::MAX);
        good("1_000", 1_000);
        good("0x10", 16);
        good("0o17", 15);
        good("+5", 5);
        let bad = |text: &str, message: &str, hint: Option<&str>| {
            let fault = Fault {
                message: message.to_owned(),
                hint: hint.map(str::to_owned),
            };
            assert_eq!(whole(text), Err(fault), "{text}");
        };
        bad("-1", "must not be negative, found `-1`", None);
        bad("0.5", "must be a whole number, found `0.5`", None);
        bad("1e3", "must be a whole number, found `1e3`", Some("write 1000"));
        bad("5.0", "must be a whole number, found `5.0`", Some("write 5"));
        bad("4294967296", "is at most 4294967295, found `4294967296`", None);
        bad("0xfffffffff", "is at most 4294967295, found `0xfffffffff`", None);
        bad(
            "010",
            "has a leading zero, found `010`",
            Some("some readers take that for 8, others for 10; write the one you mean"),
        );
        bad("08", "has a leading zero, found `08`", Some("write 8"));
        bad("00", "has a leading zero, found `00`", Some("write 0"));
        bad("ten", "must be a whole number, found `ten`", None);
        bad("", "must be a whole number, found ``", None);
        bad(".inf", "must be a whole number, found `.inf`", None);
    }
}

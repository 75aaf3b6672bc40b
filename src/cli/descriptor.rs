//! Descriptors as a person types them: `client=acme,plan=pro`.

use crate::domain::descriptor::Entry;

/// An entry's key and value.
pub type TypedEntry = (String, String);

/// Reads a descriptor: entries with commas between them, each a key, `=`, and a value that may hold any more of those.
/// A backslash takes the next character as it is.
///
/// # Errors
/// When an entry has no `=`, or the text ends in a lone backslash.
pub fn parse(text: &str) -> Result<Vec<TypedEntry>, String> {
    let mut entries = Vec::new();
    let (mut key, mut part) = (None, String::new());
    let mut characters = text.chars();
    loop {
        match characters.next() {
            Some('\\') => {
                part.push(
                    characters
                        .next()
                        .ok_or_else(|| format!("`{text}` ends in a lone backslash"))?,
                );
            }
            Some('=') if key.is_none() => key = Some(std::mem::take(&mut part)),
            end @ (Some(',') | None) => {
                let key = key.take().ok_or_else(|| {
                    format!("`{part}` in `{text}` has no `=`: a descriptor looks like client=acme,plan=pro")
                })?;
                entries.push((key, std::mem::take(&mut part)));
                if end.is_none() {
                    return Ok(entries);
                }
            }
            Some(other) => part.push(other),
        }
    }
}

/// What was typed as the entries of a descriptor.
pub fn entries(typed: &[TypedEntry]) -> impl Iterator<Item = Entry<'_>> {
    typed.iter().map(|(key, value)| Entry::new(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        assert_eq!(parse(text), Ok(expected), "{text}");
    }

    #[test]
    fn reads_entries_in_order_and_values_of_any_kind() {
        check("client=acme,plan=pro", &[("client", "acme"), ("plan", "pro")]);
        check("path=/a?b=c", &[("path", "/a?b=c")]);
        check("empty=", &[("empty", "")]);
        check(r"a\=b=c\,d\\", &[("a=b", r"c,d\")]);
    }

    #[test]
    fn says_what_is_missing() {
        for wrong in ["", "client", "client=a,", r"client=a\"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            parse("client=a,plan").expect_err("no value"),
            "`plan` in `client=a,plan` has no `=`: a descriptor looks like client=acme,plan=pro"
        );
    }
}

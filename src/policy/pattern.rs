//! Values with `*`, which stands for any bytes, none included.

use std::fmt;

use memchr::memmem::Finder;

/// A pattern, cut at its stars.
#[derive(Debug)]
pub(super) struct Pattern {
    prefix: Box<[u8]>,
    /// Callers choose how long a value is, so what is sought in it is sought in linear time.
    middle: Box<[Finder<'static>]>,
    suffix: Box<[u8]>,
}

impl Pattern {
    /// The pattern that `text` is; `None` when it has no star and so is a plain value.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (prefix, rest) = text.split_once('*')?;
        let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let parts = middle.split('*').filter(|part| !part.is_empty());
        Some(Self {
            prefix: prefix.as_bytes().into(),
            middle: parts.map(|part| Finder::new(part).into_owned()).collect(),
            suffix: suffix.as_bytes().into(),
        })
    }

    /// Whether `value` begins and ends as the pattern does and has its other parts in between, in order; no byte
    /// serves two parts.
    pub(super) fn matches(&self, value: &[u8]) -> bool {
        let between = value
            .strip_prefix(&*self.prefix)
            .and_then(|rest| rest.strip_suffix(&*self.suffix));
        let Some(mut between) = between else { return false };
        // Taking each part where it first appears leaves the most for those behind it.
        self.middle.iter().all(|part| match part.find(between) {
            Some(at) => {
                between = &between[at + part.needle().len()..];
                true
            }
            None => false,
        })
    }
}

impl fmt::Display for Pattern {
    /// As it was written, stars in a row as one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let middle = self.middle.iter().map(Finder::needle);
        for part in std::iter::once(&*self.prefix).chain(middle) {
            write!(f, "{}*", String::from_utf8_lossy(part))?;
        }
        f.write_str(&String::from_utf8_lossy(&self.suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything_and_parts_keep_their_order() {
        let check = |pattern: &str, value: &str, matches: bool| {
            let pattern = Pattern::new(pattern).expect(pattern);
            assert_eq!(pattern.matches(value.as_bytes()), matches, "{pattern:?} {value}");
        };
        assert_eq!(Pattern::new("a**b*").expect("a pattern").to_string(), "a*b*");
        check("foo*", "foo1", true);
        check("foo*", "foo", true);
        check("foo*", "bar", false);
        check("foo*", "fo", false);
        check("*", "", true);
        check("*", "anything", true);
        check("**", "anything", true);
        check("bar*b", "bar--b", true);
        check("bar*b", "bar", false);
        check("*suffix", "a suffix", true);
        check("ab*ba", "abba", true);
        check("ab*ba", "aba", false);
        check("ab*ba", "ab--ba", true);
        check("foo*bar*baz", "foo123bar456baz", true);
        check("foo*bar*baz", "foobarbaz", true);
        check("foo*bar*baz", "foo123baz", false);
        check("foo*bar*baz", "bar456baz", false);
        check("foo*bar*baz", "foobarbarbaz", true);
        check("a*bc*bc", "abc", false);
        check("a*bc*c", "abcc", true);
        assert!(Pattern::new("plain").is_none());
        assert!(Pattern::new("").is_none());
    }
}

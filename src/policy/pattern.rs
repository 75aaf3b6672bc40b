//! Values with `*`, which stands for any bytes, none included.

/// A pattern, cut at its stars.
#[derive(Debug)]
pub(super) struct Pattern {
    prefix: Box<[u8]>,
    middle: Box<[Box<[u8]>]>,
    suffix: Box<[u8]>,
}

impl Pattern {
    /// The pattern that `text` is; `None` when it has no star and so is a plain value.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut parts: Vec<Box<[u8]>> = text.split('*').map(|part| part.as_bytes().into()).collect();
        let suffix = parts.pop().filter(|_| !parts.is_empty())?;
        let prefix = parts.remove(0);
        parts.retain(|part| !part.is_empty());
        Some(Self {
            prefix,
            middle: parts.into(),
            suffix,
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
        self.middle.iter().all(|part| match find(between, part) {
            Some(at) => {
                between = &between[at + part.len()..];
                true
            }
            None => false,
        })
    }
}

/// Where `needle`, which is not empty, first appears: most places are ruled out by one byte.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let starts = haystack.len().checked_sub(needle.len())?;
    let mut candidates = haystack.iter().take(starts + 1).enumerate();
    candidates
        .find(|(at, byte)| **byte == first && haystack[*at..].starts_with(needle))
        .map(|(at, _)| at)
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

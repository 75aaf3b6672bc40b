//! The word that was probably meant.

/// Words longer than this are not compared: nobody misspells at such length, and the cost is bounded.
const LONGEST: usize = 64;

/// The one of `words` that `written` is nearest to, if it is near at all: a slip or two, or a beginning.
pub(super) fn nearest<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let written: Vec<char> = written
        .chars()
        .take(LONGEST + 1)
        .flat_map(char::to_lowercase)
        .collect();
    if written.len() > LONGEST {
        return None;
    }
    words
        .into_iter()
        .filter_map(|word| Some((distance_if_near(&written, word)?, word)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

fn distance_if_near(written: &[char], word: &str) -> Option<usize> {
    let word: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
    if written.len() >= 2 && word.starts_with(written) {
        return Some(1);
    }
    let near = (word.len().max(written.len()) / 3).max(1);
    let distance = distance(written, &word);
    (distance <= near && distance < word.len()).then_some(distance)
}

/// How many characters must be added, dropped, changed or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_mended_and_nonsense_is_not() {
        let check = |written: &str, meant: Option<&str>| {
            let words = [
                "requests_per_unit",
                "rate",
                "unit",
                "burst",
                "minute",
                "month",
                "descriptors",
            ];
            assert_eq!(nearest(written, words), meant, "{written}");
        };
        check("request_per_unit", Some("requests_per_unit"));
        check("requestsPerUnit", Some("requests_per_unit"));
        check("brust", Some("burst"));
        check("uint", Some("unit"));
        check("min", Some("minute"));
        check("DESCRIPTOR", Some("descriptors"));
        check("x", None);
        check("", None);
        check("colour", None);
        check(&"a".repeat(100_000), None);
    }
}

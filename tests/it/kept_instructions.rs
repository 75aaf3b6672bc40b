//! What `cargo bench --bench micro -- --check` finds, without counting.

#[path = "../../benches/micro/kept.rs"]
mod kept;

use kept::{Counts, Finding, compare};

use crate::harness::read;

fn counts(counts: &[(&str, u64)]) -> Counts {
    counts
        .iter()
        .map(|(case, count)| (String::from(*case), *count))
        .collect()
}

#[test]
fn five_hundredths_more_or_less_are_the_same() {
    let finding = |now| compare(&counts(&[("case", 1_000)]), &counts(&[("case", now)]))[0].finding();
    let findings = [949, 950, 1_000, 1_050, 1_051].map(finding);
    assert_eq!(
        findings,
        [
            Finding::Less,
            Finding::Same,
            Finding::Same,
            Finding::Same,
            Finding::More
        ]
    );
    assert_eq!(findings.map(Finding::passes), [true, true, true, true, false]);
}

#[test]
fn a_case_that_is_not_kept_fails_and_so_does_what_is_kept_of_none() {
    let compared = compare(
        &counts(&[("both", 7), ("gone", 7)]),
        &counts(&[("new", 7), ("both", 7)]),
    );
    let findings: Vec<_> = compared
        .iter()
        .map(|compared| (compared.case.as_str(), compared.finding()))
        .collect();
    assert_eq!(
        findings,
        [
            ("new", Finding::New),
            ("both", Finding::Same),
            ("gone", Finding::Gone)
        ]
    );
    assert!(!Finding::New.passes() && !Finding::Gone.passes());
}

#[test]
fn what_differs_is_marked() {
    let kept = counts(&[("a case", 200), ("gone", 7)]);
    let shown: Vec<_> = compare(&kept, &counts(&[("a case", 219)]))
        .iter()
        .map(|compared| {
            compared
                .to_string()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(shown, ["a case 200 219 +9.5 % MORE", "gone 7 - NO SUCH CASE"]);
}

#[test]
fn counts_are_read_as_they_were_written() {
    let some = counts(&[
        ("match", 3),
        ("a name, longer than any column is wide", 12_345_678),
    ]);
    assert_eq!(kept::read(&kept::write(&some)), Ok(some));
    assert!(kept::read("match three").is_err_and(|error| error.contains("match three")));
}

#[test]
fn the_kept_file_is_as_it_would_be_written() {
    let text = read("benches/micro/instructions.txt");
    let counts = kept::read(&text).expect("counts");
    assert_eq!(kept::write(&counts), text);
}

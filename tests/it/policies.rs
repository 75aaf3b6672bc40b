//! Policies that must load, and policies that must not, each beside the exact words a person reads.
//!
//! `tests/policies/bad/NAME.yaml` or, for a set of several files, the folder `NAME/` stands beside `NAME.txt`. With
//! `COMPORTA_BLESS=1` the texts are written instead of compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use comporta::cli::check::{self, Format};
use comporta::policy::{Assumed, PolicySet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/policies")
        .join(name);
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    cases.sort();
    cases
}

/// What `check` says about a case, its files named without their folder.
fn checked(case: &Path) -> (bool, String) {
    let mut files = vec![case.to_owned()];
    if case.is_dir() {
        files = fs::read_dir(case)
            .expect("a set")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
    }
    let source = |file: &PathBuf| {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read(file).expect("a readable file"))
    };
    let sources: Vec<_> = files.iter().map(source).collect();
    let mut said = Vec::new();
    let good =
        check::report(&sources, Assumed::default(), Format::Text, &mut said).expect("written to memory");
    (good, String::from_utf8(said).expect("text"))
}

fn compare(case: &Path, said: &str, differing: &mut Vec<String>) {
    let expected = case.with_extension("txt");
    if std::env::var_os("COMPORTA_BLESS").is_some() {
        fs::write(&expected, said).expect("written");
    }
    let wanted = fs::read_to_string(&expected).unwrap_or_default();
    if wanted != said {
        differing.push(format!(
            "{}:\n--- expected\n{wanted}--- said\n{said}",
            expected.display()
        ));
    }
}

#[test]
fn bad_policies_are_refused_in_these_words() {
    let mut differing = Vec::new();
    for case in corpus("bad") {
        let (good, said) = checked(&case);
        if good {
            differing.push(format!("{} is accepted", case.display()));
        }
        compare(&case, &said, &mut differing);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn good_policies_load() {
    let mut differing = Vec::new();
    for case in corpus("good") {
        let (good, said) = checked(&case);
        if !good {
            differing.push(format!("{} is refused", case.display()));
        }
        compare(&case, &said, &mut differing);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn problems_are_written_for_programs_too() {
    let sources = [("p.yaml".to_owned(), b"domain: d\nkey: [a]\nkey: b\n".to_vec())];
    let mut said = Vec::new();
    let good =
        check::report(&sources, Assumed::default(), Format::Json, &mut said).expect("written to memory");
    let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
    assert!(!good);
    assert_eq!(said["ok"], false);
    assert_eq!(said["problems"][0]["line"], 2);
    assert_eq!(
        said["problems"][0]["message"],
        "`key` belongs in the descriptor, beside `key`"
    );
    assert_eq!(said["problems"][1]["related"]["line"], 2);
    assert_eq!(said["problems"][1]["severity"], "error");
}

/// Every policy of the corpora, as seeds.
fn seeds() -> Vec<Vec<u8>> {
    let cases = corpus("good").into_iter().chain(corpus("bad"));
    cases
        .filter(|case| case.is_file())
        .map(|case| fs::read(case).expect("a readable file"))
        .collect()
}

/// One thing that happens to a file.
#[derive(Clone, Debug)]
enum Edit {
    Cut {
        at: Index,
        length: usize,
    },
    Insert {
        at: Index,
        text: &'static str,
    },
    Byte {
        at: Index,
        byte: u8,
    },
    Splice {
        at: Index,
        seed: Index,
        from: Index,
        length: usize,
    },
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let words = [
        "\n",
        " ",
        "  ",
        ": ",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "<<: *a",
        "---\n",
        "'",
        "\"",
        "#",
        "!!str ",
        "~",
        "-1",
        "010",
        "4294967296",
        "*",
        "/",
        "rate: ",
        "plan: ",
        "rate_limit:",
        "descriptors:",
        "value: ",
        "10.0.0.0/8",
        "\t",
        "\u{feff}",
        "ü",
        "? ",
        "|\n",
        "%",
        ",",
        "1/10000w",
        "name: ",
        "replaces: [{name: x}]",
    ];
    let edit = prop_oneof![
        (any::<Index>(), 0..80_usize).prop_map(|(at, length)| Edit::Cut { at, length }),
        (any::<Index>(), select(words.to_vec())).prop_map(|(at, text)| Edit::Insert { at, text }),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Byte { at, byte }),
        (any::<Index>(), any::<Index>(), any::<Index>(), 0..200_usize).prop_map(
            |(at, seed, from, length)| Edit::Splice {
                at,
                seed,
                from,
                length
            }
        ),
    ];
    vec(edit, 1..12)
}

fn edited(seeds: &[Vec<u8>], seed: Index, edits: &[Edit]) -> Vec<u8> {
    let mut bytes = seeds[seed.index(seeds.len())].clone();
    for edit in edits {
        let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        match edit {
            Edit::Cut { at, length } => {
                let from = place(at, &bytes);
                bytes.drain(from..(from + length).min(bytes.len()));
            }
            Edit::Insert { at, text } => {
                let from = place(at, &bytes);
                bytes.splice(from..from, text.bytes());
            }
            Edit::Byte { at, byte } => {
                let from = place(at, &bytes);
                bytes.splice(from..(from + 1).min(bytes.len()), [*byte]);
            }
            Edit::Splice {
                at,
                seed,
                from,
                length,
            } => {
                let other = &seeds[seed.index(seeds.len())];
                let from = from.index(other.len() + 1);
                let part = other[from..(from + length).min(other.len())].to_vec();
                let at = place(at, &bytes);
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever a file holds: problems or a set, and what is said about it can be written.
    #[test]
    fn no_bytes_break_the_reader(seed in any::<Index>(), edits in edits()) {
        let bytes = edited(&seeds(), seed, &edits);
        let mut said = Vec::new();
        let good = check::report(&[("f".to_owned(), bytes)], Assumed::default(), Format::Text, &mut said);
        let good = good.expect("written to memory");
        let said = String::from_utf8(said).expect("text");
        prop_assert_eq!(good, said.lines().last().is_some_and(|last| last.starts_with("ok: ")));
        prop_assert!(good || said.lines().count() > 1, "refused without a reason: {}", said);
    }
}

/// A mebibyte of what hurts naive readers takes a moment, not minutes, and fits the stack.
#[test]
fn bombs_are_bounded() {
    const SIZE: usize = 1 << 20;
    let repeat = |unit: &str| unit.repeat(SIZE / unit.len());
    let bombs = [
        repeat("- "),
        repeat("["),
        repeat("{a: "),
        repeat("- - ? "),
        repeat("a: 1\n"),
        repeat("? "),
        repeat("&a "),
        repeat("*a "),
        repeat("'"),
        repeat("---\n{\n"),
        repeat("! "),
        repeat("\u{feff}"),
        format!(
            "a: &a [{}]\nb: [{}]\n",
            "x, ".repeat(1_000),
            "*a, ".repeat(200_000)
        ),
        format!(
            "a: &a {{{}}}\nb: [{}]\n",
            keys(20_000),
            "{<<: *a}, ".repeat(60_000)
        ),
        format!("domain: d\ndescriptors:\n{}", repeat("- {key: k, value: v}\n")),
        format!("domain: d\ndescriptors:\n{}", repeat("- {kye: k}\n")),
        format!("domain: d\ndescriptors:\n- key: k\n  value: {}\n", repeat("*a")),
        anchors_upon_anchors(),
        rules_times_plans(),
    ];
    for bomb in bombs {
        let start = processor_time();
        let _ = PolicySet::parse(&[("bomb", &bomb)]);
        let took = processor_time() - start;
        // Bounded, not fast: what is not bounded takes hours, or all memory.
        assert!(
            took < Duration::from_secs(60),
            "{took:?} for {}…",
            bomb.chars().take(40).collect::<String>()
        );
    }
}

/// What this thread has had of the processor: not the wall's time, which others on the machine stretch.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec for the length of the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).expect("below a second"),
    )
}

fn keys(count: usize) -> String {
    (0..count).map(|key| format!("k{key}: 1, ")).collect()
}

/// Each anchor holds the one before, ever deeper.
fn anchors_upon_anchors() -> String {
    let mut text = "domain: d\na0: &a0 {descriptors: []}\n".to_owned();
    for depth in 1..10_000 {
        text += &format!(
            "a{depth}: &a{depth} {{descriptors: [{{key: k, descriptors: [*a{}]}}]}}\n",
            depth - 1
        );
    }
    text
}

fn rules_times_plans() -> String {
    let rows: String = (0..15_000)
        .map(|row| format!("r{row}: {{rate: 1/day}}, "))
        .collect();
    let rules: String = (0..15_000)
        .map(|rule| format!("- {{key: k{rule}, rate_limit: {{plan: p}}}}\n"))
        .collect();
    format!("domain: d\nplans: {{p: {{{rows}default: r1}}}}\ndescriptors:\n{rules}")
}

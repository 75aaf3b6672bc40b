//! Policies that must load, and policies that must not, each beside the exact words a person reads.
//!
//! `tests/policies/bad/NAME.yaml` or, for a set of several files, the folder `NAME/` stands beside `NAME.txt`. With
//! `COMPORTA_BLESS=1` the texts are written instead of compared.

use std::fs;
use std::path::{Path, PathBuf};

use comporta::cli::check;
use comporta::policy::PolicySet;

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
    let good = check::report(&PolicySet::parse(&sources), &mut said).expect("written to memory");
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

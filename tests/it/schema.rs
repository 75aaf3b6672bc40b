//! The JSON Schema of policy files agrees with the reader: what one accepts, so does the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::comporta::command;
use crate::harness::{installed, repository};

/// Prints which of the files that follow the schema are refused by it. Scalars are read as YAML 1.2 has them, as editors
/// do.
const VALIDATE: &str = r#"
import json, re, sys, yaml
from jsonschema import Draft202012Validator

schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
loader = yaml.constructor.SafeConstructor()

def scalar(node):
    text = node.value
    if node.style is not None: return text
    if text in ("", "~", "null", "Null", "NULL"): return None
    if text in ("true", "True", "TRUE"): return True
    if text in ("false", "False", "FALSE"): return False
    if re.fullmatch("[-+]?[0-9]+", text): return int(text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text): return float(text)
    return text

def value(node):
    if isinstance(node, yaml.ScalarNode): return scalar(node)
    if isinstance(node, yaml.SequenceNode): return [value(item) for item in node.value]
    loader.flatten_mapping(node)
    return {key.value: value(item) for key, item in node.value}

for path in sys.argv[2:]:
    documents = yaml.compose_all(open(path, encoding="utf-8"), Loader=yaml.SafeLoader)
    for document in documents:
        if document is None: continue
        for error in validator.iter_errors(value(document)):
            print(f"{path}: {error.json_path}: {error.message}"[:400])
"#;

fn refused(files: &[PathBuf]) -> String {
    let schema = tempfile::NamedTempFile::new().expect("a file");
    let printed = command(["check", "--schema"]).output().expect("it starts");
    assert!(printed.status.success());
    fs::write(schema.path(), printed.stdout).expect("written");
    let output = Command::new(installed("python"))
        .args(["-c", VALIDATE])
        .arg(schema.path())
        .args(files)
        .output()
        .expect("python starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn policies(folder: &str, into: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(repository(folder)).expect("a folder of policies");
    let files = entries.map(|entry| entry.expect("an entry").path());
    into.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")));
}

#[test]
fn good_policies_are_good_by_the_schema() {
    let mut files = vec![repository("deploy/policy.yaml")];
    for folder in ["tests/policies/good", "tests/scenarios/policies"] {
        policies(folder, &mut files);
    }
    assert!(files.len() > 10);
    assert_eq!(refused(&files), "");
}

/// Of what `check` refuses, the schema sees what a single key tells.
#[test]
fn mistakes_of_one_key_are_seen_by_the_schema() {
    let mistakes = [
        "algorithm_unknown",
        "burst_zero",
        "count_fraction",
        "count_negative",
        "count_too_large",
        "domain_list",
        "no_key",
        "no_domain",
        "rate_bad_period",
        "rate_without_period",
        "settings_bad",
        "normalize_bad",
        "unknown_key",
        "unit_unknown",
    ];
    for name in mistakes {
        let file = repository("tests/policies/bad").join(name).with_extension("yaml");
        assert!(Path::new(&file).is_file(), "{name}");
        assert_ne!(refused(&[file]), "", "{name}");
    }
}

//! Reads a file of tests, as strictly as a policy: every mistake in it and in its policies is told at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::step::Steps;
use super::{Place, Suite, Test, Unusable};
use crate::cli::sources::{self, Source};
use crate::policy::PolicySet;
use crate::policy::problem::{Problem, Problems};
use crate::policy::reading::{At, Fields, Part, Reader, meant};

/// Reads the tests in the file `path`, and the policies that they name.
///
/// # Errors
/// Everything that is wrong with the file, then with each of its policies.
pub fn read(path: &Path) -> Result<Suite, Vec<Unusable>> {
    let name = path.display().to_string();
    let bytes = sources::read_file(path).map_err(|problems| vec![problems.into()])?;
    if is_blank(&bytes) {
        let problem = Problem::about_file(&name, "there are no tests").with_hint(SHORTEST);
        return Err(vec![Problems::from(vec![problem]).into()]);
    }
    let (reader, documents) = Reader::open(&name, &bytes);
    let mut form = Form {
        reader,
        folder: path.parent().unwrap_or(Path::new("")).to_owned(),
        unusable: Vec::new(),
    };
    let suite = form.suite(&documents);
    let mut unusable = form.unusable;
    if form.reader.errors() > 0 {
        let own = Unusable {
            problems: form.reader.finish(),
            sources: vec![(name, bytes)],
        };
        unusable.insert(0, own);
    }
    match suite {
        Some(suite) if unusable.is_empty() => Ok(suite),
        _ => Err(unusable),
    }
}

const SHORTEST: &str = "write `policy:` and `tests:`, each test with a `name` and `steps`";

/// Whether there is nothing in a file but comments.
fn is_blank(bytes: &[u8]) -> bool {
    bytes
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .all(|line| line.is_empty() || line.starts_with(b"#"))
}

/// A file that is being read.
pub(super) struct Form {
    pub(super) reader: Reader,
    /// What its policies are relative to.
    folder: PathBuf,
    /// Policies of which something is wrong.
    unusable: Vec<Unusable>,
}

/// A policy that a file names.
pub(super) struct NamedPolicy {
    pub(super) sources: Arc<[Source]>,
    domains: Vec<Bytes>,
}

impl Form {
    fn suite(&mut self, documents: &[Part]) -> Option<Suite> {
        let [document] = documents else {
            // Where there is none, it has been said why.
            if let Some(second) = documents.get(1) {
                let hint = "write all tests under one `tests`";
                self.reader
                    .error(second.at(), "a file of tests is one document", Some(hint));
            }
            return None;
        };
        let errors = self.reader.errors();
        let fields = self
            .reader
            .fields("a file of tests", document, &["policy", "tests"])?;
        let all_known = self.reader.errors() == errors;
        let policy = fields.get("policy").map(|part| self.policy("policy", part));
        if policy.is_none() {
            let hint = "add `policy: FILE`, relative to this file";
            self.missing(
                all_known,
                document.at(),
                "there is no `policy` to test",
                Some(hint),
            );
        }
        let policy = policy.flatten();
        let Some(tests) = fields.get("tests") else {
            self.missing(all_known, document.at(), "there are no `tests`", Some(SHORTEST));
            return None;
        };
        let items = self.reader.list("tests", tests)?;
        if items.is_empty() {
            self.reader
                .error(tests.at(), "there are no `tests`", Some(SHORTEST));
        }
        let tests = items
            .iter()
            .filter_map(|item| self.test(item, policy.as_ref()))
            .collect();
        Some(Suite { tests })
    }

    fn test(&mut self, part: &Part, policy: Option<&NamedPolicy>) -> Option<Test> {
        let errors = self.reader.errors();
        let fields = self.reader.fields("a test", part, &["name", "domain", "steps"])?;
        let all_known = self.reader.errors() == errors;
        let name = fields.get("name").map(|name| self.reader.text("name", name));
        if name.is_none() {
            let hint = "say in a few words what must hold";
            self.missing(all_known, part.at(), "a test needs a `name`", Some(hint));
        }
        if fields.get("steps").is_none() {
            self.missing(all_known, part.at(), "a test needs `steps`", None);
        }
        let steps = Steps::read(self, &fields, part.at());
        let domain = self.domain(&fields, part.at(), policy?, &steps);
        Some(Test {
            name: name??,
            place: place(part.at()),
            domain: domain?,
            policy: Arc::clone(&policy?.sources),
            steps: steps.0,
        })
    }

    /// Notes that a key is not there, unless it may be the one that is misspelt.
    fn missing(&mut self, all_known: bool, at: At, message: &str, hint: Option<&str>) {
        if all_known {
            self.reader.error(at, message, hint);
        }
    }

    /// The domain that a test says, or the only one that there is. One that the policy does not have is a slip, unless
    /// the test is about just that.
    fn domain(&mut self, fields: &Fields, at: At, policy: &NamedPolicy, steps: &Steps) -> Option<Bytes> {
        let Some(part) = fields.get("domain") else {
            if let [domain] = policy.domains.as_slice() {
                return Some(domain.clone());
            }
            let message = format!(
                "there are {} domains, so a test needs a `domain`",
                policy.domains.len()
            );
            let hint = format!("it is one of {}", listed(&policy.domains));
            self.reader.error(at, message, Some(&hint));
            return None;
        };
        let domain = Bytes::from(self.reader.text("domain", part)?);
        if !policy.domains.contains(&domain) && !steps.expect_an_unknown_domain() {
            let known: Vec<_> = policy.domains.iter().map(shown).collect();
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            let message = format!("the policy has no domain `{}`", shown(&domain));
            let hint = meant(&shown(&domain), &known);
            self.reader.error(part.at(), message, Some(&hint));
            return None;
        }
        Some(domain)
    }

    /// The policy that `part` names: a file, a folder or a list of them.
    pub(super) fn policy(&mut self, key: &str, part: &Part) -> Option<NamedPolicy> {
        let names = if part.is_list() {
            let items = self.reader.list(key, part)?;
            let names: Option<Vec<_>> = items.iter().map(|item| self.reader.text(key, item)).collect();
            names?
        } else {
            vec![self.reader.text(key, part)?]
        };
        let paths: Vec<_> = names.iter().map(|name| self.folder.join(name)).collect();
        let sources = match sources::read(&paths) {
            Ok(sources) => sources,
            Err(problems) => return self.cannot_use(problems, Vec::new()),
        };
        match PolicySet::parse(&sources) {
            Ok(set) => Some(NamedPolicy {
                domains: set.domains().cloned().collect(),
                sources: sources.into(),
            }),
            Err(problems) => self.cannot_use(problems, sources),
        }
    }

    fn cannot_use<T>(&mut self, problems: Problems, sources: Vec<Source>) -> Option<T> {
        self.unusable.push(Unusable { problems, sources });
        None
    }
}

/// A place for messages.
pub(super) fn place(at: At) -> Place {
    let (line, column) = at.line_and_column();
    Place { line, column }
}

fn shown(domain: &Bytes) -> String {
    domain.escape_ascii().to_string()
}

fn listed(domains: &[Bytes]) -> String {
    domains.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is said about a file of tests beside a policy with the domain `edge`.
    fn said(tests: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let policy = "domain: edge\ndescriptors:\n  - key: client\n    rate_limit: { rate: 1/minute }\n";
        fs::write(folder.path().join("policy.yaml"), policy).expect("written");
        fs::write(folder.path().join("two.yaml"), policy.replace("edge", "other")).expect("written");
        let path = folder.path().join("tests.yaml");
        fs::write(&path, tests).expect("written");
        let said = match read(&path) {
            Ok(suite) => format!("{} tests\n", suite.tests.len()),
            Err(unusable) => unusable.iter().map(|files| files.problems.to_string()).collect(),
        };
        said.replace(&format!("{}/", folder.path().display()), "")
    }

    /// A file of one test with this step and a sound one.
    fn step(step: &str) -> String {
        said(&format!(
            "policy: policy.yaml\ntests:\n  - name: a\n    steps:\n      - {step}\n      - {{ hit: client=a, expect: {{ verdict: ok }} }}\n"
        ))
    }

    #[test]
    fn a_sound_file_is_read() {
        for sound in [
            "{ hit: client=a, times: 3, every: 1s, hits: 2, expect: { admitted: 3 } }",
            "{ hit: [client=a, client=b], hits: [1, -2], expect: { statuses: [{ verdict: ok }, { remaining: none }] } }",
            "{ pass: 1h30m }",
            "{ at: 2026-01-31T23:59:59Z }",
            "{ reload: [policy.yaml, two.yaml] }",
            "{ hit: client=a, expect: { limit: 1/minute, retry_after: never, reset_after: 1s, rule: none, cause: no_rule } }",
        ] {
            assert_eq!(step(sound), "1 tests\n", "{sound}");
        }
    }

    #[test]
    fn every_mistake_is_told_where_it_is() {
        let check =
            |wrong: &str, expected: &str| assert_eq!(step(wrong), format!("tests.yaml:5:{expected}\n"));
        check(
            "{ hitt: client=a }",
            "11: unknown key `hitt` in a step: did you mean `hit`?",
        );
        check(
            "{ times: 3 }",
            "9: a step is one of `hit`, `pass`, `at` and `reload`",
        );
        check(
            "{ pass: 1s, at: 2026-01-01T00:00:00Z }",
            "9: a step is one of `hit`, `pass`, `at` and `reload`: make it two steps",
        );
        check("{ pass: 1s, times: 2 }", "21: `times` belongs beside `hit`");
        check(
            "{ pass: soon }",
            "17: `pass` must be a time, found `soon`: write, say, 1s, 600ms, 1h30m or 31d",
        );
        check(
            "{ at: 2026-01-31 }",
            "15: `at` must be a moment, found `2026-01-31`: write, say, 2026-01-31T23:59:59Z, with the zone and not before 1970",
        );
        check("{ pass: 90000d }", "17: `pass` sets the clock past the year 2200");
        check(
            "{ hit: client }",
            "16: `hit` takes descriptors: `client` in `client` has no `=`: a descriptor looks like client=acme,plan=pro",
        );
        check("{ hit: [] }", "16: `hit` takes descriptors, found none");
        check(
            "{ hit: client=a, hits: [1, 2] }",
            "32: `hits` has 2 numbers for 1 descriptor",
        );
        check(
            "{ hit: client=a, hits: 1.5 }",
            "32: `hits` must be a whole number, found `1.5`",
        );
        check("{ hit: client=a, times: 0 }", "33: `times` must be at least 1");
        check("{ hit: client=a, expect: {} }", "34: `expect` expects nothing");
        check(
            "{ hit: client=a, expect: { verdict: allowed } }",
            "45: `verdict` is none of ok, over, found `allowed`",
        );
        check(
            "{ hit: client=a, expect: { remain: 1 } }",
            "36: unknown key `remain` in `expect`: did you mean `remaining`?",
        );
        check(
            "{ hit: client=a, expect: { cause: overlimit } }",
            "43: `cause` has no `overlimit`: did you mean `over_limit`?",
        );
        check(
            "{ hit: client=a, expect: { retry_after: later } }",
            "49: `retry_after` must be a time, found `later`: write, say, 1s, 600ms, 1h30m or 31d, or never, or none",
        );
        check(
            "{ hit: client=a, expect: { statuses: [] } }",
            "46: `statuses` has 0 items for 1 descriptor",
        );
        check(
            "{ hit: client=a, expect: { limit: often } }",
            "43: `limit` must be a whole number, found `often`: write, say, 60/minute or 60, or none",
        );
    }

    #[test]
    fn mistakes_above_the_steps_are_told_together() {
        assert_eq!(
            said("tests:\n  - steps: []\n  - name: b\n  - 3\n"),
            "tests.yaml:1:1: there is no `policy` to test: add `policy: FILE`, relative to this file\n\
             tests.yaml:2:5: a test needs a `name`: say in a few words what must hold\n\
             tests.yaml:2:12: a test needs `steps`\n\
             tests.yaml:3:5: a test needs `steps`\n\
             tests.yaml:4:5: a test must be a map of keys, found text\n"
        );
        assert_eq!(
            said("policy: policy.yaml\ntests:\n  - name: a\n    steps: [{ hit: client=a }]\n"),
            "tests.yaml:3:5: no step of this test expects anything\n"
        );
        assert_eq!(
            said("policy: policy.yaml\n"),
            format!("tests.yaml:1:1: there are no `tests`: {SHORTEST}\n")
        );
        assert_eq!(
            said("# none yet\n\n"),
            format!("tests.yaml: there are no tests: {SHORTEST}\n")
        );
        assert_eq!(
            said("policy: policy.yaml\n---\ntests: []\n"),
            "tests.yaml:3:1: a file of tests is one document: write all tests under one `tests`\n"
        );
    }

    #[test]
    fn domains_are_those_of_the_policy() {
        let check = |policy: &str, domain: &str, expect: &str, expected: &str| {
            let tests = format!(
                "policy: {policy}\ntests:\n  - name: a\n    {domain}\n    steps: [{{ hit: client=a, expect: {expect} }}]\n"
            );
            assert_eq!(said(&tests), expected);
        };
        let ok = "{ verdict: ok }";
        check("policy.yaml", "", ok, "1 tests\n");
        check("policy.yaml", "domain: edge", ok, "1 tests\n");
        check(
            "policy.yaml",
            "domain: egde",
            ok,
            "tests.yaml:4:13: the policy has no domain `egde`: did you mean `edge`?\n",
        );
        check(
            "policy.yaml",
            "domain: egde",
            "{ cause: unknown_domain }",
            "1 tests\n",
        );
        check(
            "[policy.yaml, two.yaml]",
            "",
            ok,
            "tests.yaml:3:5: there are 2 domains, so a test needs a `domain`: it is one of edge, other\n",
        );
        check("[policy.yaml, two.yaml]", "domain: other", ok, "1 tests\n");
    }

    #[test]
    fn policies_are_looked_for_beside_the_tests() {
        assert_eq!(
            said(
                "policy: gone.yaml\ntests:\n  - name: a\n    steps: [{ reload: tests.yaml }, { hit: client }]\n"
            ),
            "tests.yaml:4:44: `hit` takes descriptors: `client` in `client` has no `=`: a descriptor looks like \
             client=acme,plan=pro\ngone.yaml: no such file or folder\n\
             tests.yaml:1:1: unknown key `policy`\ntests.yaml:2:1: unknown key `tests`\n"
        );
    }
}

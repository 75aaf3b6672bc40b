//! Reads a file of tests, as strictly as a policy: every mistake in it and in its policies is told at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::step::Steps;
use super::{Place, Suite, Test, Unusable};
use crate::cli::sources::{self, Source};
use crate::policy::Assumed;
use crate::policy::problem::{Problem, Problems};
use crate::policy::reading::{At, Fields, Part, Reader, meant};

/// Reads the tests in the file `path`, and the policies that they name.
///
/// # Errors
/// Everything that is wrong with the file, then with each of its policies.
pub fn read(path: &Path, assumed: Assumed) -> Result<Suite, Vec<Unusable>> {
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
        assumed,
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
    /// What they are taken to say.
    assumed: Assumed,
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
            assumed: self.assumed,
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
        // What a server could not do would be tested in vain.
        match sources::compile(&sources, self.assumed) {
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
mod tests;

//! The files of a policy set.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::policy::problem::{Problem, Problems};
use crate::policy::{Assumed, PolicySet, Rule};

/// A file's name as it is shown in messages, and its bytes.
pub type Source = (String, Vec<u8>);

/// The largest file that is read: far more rules than anybody has, and an end to files that have none.
const LARGEST: u64 = 64 << 20;

/// Compiles the set that `sources` are, to be served: at the start and at each reload.
///
/// # Errors
/// Everything that is wrong with what they say, or else with what they ask of a server.
pub fn compile(sources: &[Source], assumed: Assumed) -> Result<PolicySet, Problems> {
    servable(PolicySet::parse_assuming(sources, assumed)?)
}

/// The same set, if a server can do what it asks for: replies cannot be held yet.
///
/// # Errors
/// Every rule that asks for more.
fn servable(set: PolicySet) -> Result<PolicySet, Problems> {
    let delayed = |rule: &Rule| {
        let origin = rule.origin.as_ref()?;
        let message = format!(
            "the rule {} delays calls, and this version cannot hold replies: it can be checked, but not served",
            rule.path
        );
        Some(Problem::about(origin, message).with_hint("write `on_excess: reject` until it can"))
    };
    let problems: Vec<Problem> = set.delaying().filter_map(delayed).collect();
    if problems.is_empty() {
        Ok(set)
    } else {
        Err(problems.into())
    }
}

/// Reads files, and of folders every `*.yaml` and `*.yml` directly in them, in the order of their names and without
/// those that start with a dot. Symbolic links are followed, and a file that is reached twice is read once: so a mounted
/// `ConfigMap` is read as its author wrote it.
///
/// # Errors
/// Every path that does not exist or cannot be read, and every folder without a policy file.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Source>, Problems> {
    let mut sources = Vec::new();
    let mut problems = Vec::new();
    let mut seen = HashSet::new();
    for path in paths {
        let files = files(path).unwrap_or_else(|problem| {
            problems.push(*problem);
            Vec::new()
        });
        for file in files {
            match read_once(&file, &mut seen) {
                Ok(Some(bytes)) => sources.push((file.display().to_string(), bytes)),
                Ok(None) => {}
                Err(error) => problems.push(unreadable(&file, &error)),
            }
        }
    }
    if problems.is_empty() {
        Ok(sources)
    } else {
        Err(problems.into())
    }
}

/// The bytes of one file that is no policy.
///
/// # Errors
/// When it does not exist or cannot be read.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Problems> {
    read_bounded(path).map_err(|error| vec![unreadable(path, &error)].into())
}

/// The files that `path` stands for: itself, or those in it.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, Box<Problem>> {
    let kind = fs::metadata(path).map_err(|error| Box::new(unreadable(path, &error)))?;
    if !kind.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries: io::Result<Vec<PathBuf>> =
        fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut files = entries.map_err(|error| Box::new(unreadable(path, &error)))?;
    // What cannot be looked at stays, and is reported when it is read. A pipe would keep the reader waiting for ever.
    files.retain(|file| is_policy(file) && fs::metadata(file).map_or(true, |kind| kind.is_file()));
    files.sort();
    if files.is_empty() {
        let problem = Problem::about_file(&path.display().to_string(), "there is no policy in this folder");
        return Err(Box::new(problem.with_hint(
            "policies are the files named *.yaml or *.yml directly in it",
        )));
    }
    Ok(files)
}

/// Whether a file in a folder belongs to the set, by its name.
pub(super) fn is_policy(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden
        && path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
}

fn read_once(file: &Path, seen: &mut HashSet<PathBuf>) -> io::Result<Option<Vec<u8>>> {
    // A pipe has no name of its own.
    let name = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if !seen.insert(name) {
        return Ok(None);
    }
    read_bounded(file).map(Some)
}

/// The bytes of a file that has an end.
pub(super) fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        let reason = format!("it is larger than {} MiB", LARGEST >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let path = path.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound => Problem::about_file(&path, "no such file or folder"),
        _ => Problem::about_file(&path, format!("cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(folder: &Path, paths: &[&str], expected: &str) {
        let paths: Vec<PathBuf> = paths.iter().map(|path| folder.join(path)).collect();
        let shown = match read(&paths) {
            Ok(sources) => sources
                .iter()
                .map(|(name, bytes)| format!("{name} {}\n", String::from_utf8_lossy(bytes)))
                .collect::<String>(),
            Err(problems) => problems.to_string(),
        };
        assert_eq!(shown.replace(&format!("{}/", folder.display()), ""), expected);
    }

    #[test]
    fn folders_are_read_in_the_order_of_names_and_each_file_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for name in ["b.yaml", "a.yml", ".hidden.yaml", "README.md"] {
            fs::write(root.join(name), name).expect("written");
        }
        fs::create_dir(root.join("nested.yaml")).expect("made");
        check(root, &[""], "a.yml a.yml\nb.yaml b.yaml\n");
        check(root, &["b.yaml", ""], "b.yaml b.yaml\na.yml a.yml\n");
        check(root, &["README.md"], "README.md README.md\n");
        check(
            root,
            &["nested.yaml"],
            "nested.yaml: there is no policy in this folder: policies are the files named *.yaml or *.yml directly in it\n",
        );
        check(
            root,
            &["x.yaml", "y"],
            "x.yaml: no such file or folder\ny: no such file or folder\n",
        );
    }

    #[test]
    fn a_mounted_config_map_is_read_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        fs::create_dir(root.join("..2026_11_30")).expect("made");
        fs::write(root.join("..2026_11_30/policy.yaml"), "x").expect("written");
        std::os::unix::fs::symlink("..2026_11_30", root.join("..data")).expect("linked");
        std::os::unix::fs::symlink("..data/policy.yaml", root.join("policy.yaml")).expect("linked");
        std::os::unix::fs::symlink("policy.yaml", root.join("again.yaml")).expect("linked");
        std::os::unix::fs::symlink("gone", root.join("gone.yaml")).expect("linked");
        check(root, &[""], "gone.yaml: no such file or folder\n");
        fs::remove_file(root.join("gone.yaml")).expect("removed");
        check(root, &[""], "again.yaml x\n");
    }
}

//! Follows the files of a policy set: says when one may have changed.
//!
//! Folders are watched, not files: an editor, a deployment and a mounted ConfigMap all put something new in the place of
//! the old, and a watch on the old would see nothing of it. What cannot be seen this way (a network's file system, a
//! folder above that was renamed) is found when the files are looked at unasked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::sources;
use crate::service::source::Hints;

/// The most symbolic links on one way, as in Linux.
const MOST_LINKS: usize = 40;

/// How often the places are found anew when they change while they are being looked for.
const ATTEMPTS: usize = 5;

/// Follows what `paths` lead to.
pub struct Watch {
    paths: Vec<PathBuf>,
    hints: Arc<Hints>,
    watching: Option<(Places, RecommendedWatcher)>,
    complained: bool,
}

impl Watch {
    /// Will follow `paths` once [`follow`](Self::follow) is called, and tell `hints` of what happens there.
    pub fn new(paths: Vec<PathBuf>, hints: Arc<Hints>) -> Self {
        Self {
            paths,
            hints,
            watching: None,
            complained: false,
        }
    }

    /// Finds out where the paths lead now and watches over that. To be called before each reading: a change that comes
    /// later is then seen.
    pub fn follow(&mut self) {
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let places = Places::of(&self.paths);
            if self.watching.as_ref().is_some_and(|(known, _)| *known == places) {
                self.complained = false;
                return;
            }
            match watch(&places, &self.hints) {
                // Something may have moved before the watch was on it, so they are found once more.
                Ok(watcher) => self.watching = Some((places, watcher)),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure
            && !std::mem::replace(&mut self.complained, true)
        {
            tracing::warn!(%error, "the policy files cannot be watched; they are looked at every few seconds instead");
        }
    }
}

fn watch(places: &Places, hints: &Arc<Hints>) -> notify::Result<RecommendedWatcher> {
    let (hints, of_interest) = (Arc::clone(hints), places.clone());
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error tells that something was missed.
        if event.map_or(true, |event| of_interest.concern(&event)) {
            hints.changed();
        }
    })?;
    for folder in places.watched.keys() {
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Where something can happen that changes what the paths lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places {
    /// Links on the way, where the way breaks off, and the files at its end.
    spots: BTreeSet<PathBuf>,
    /// Folders whose policy files all belong to the set.
    folders: BTreeSet<PathBuf>,
    /// The folders that all of these are in, and which they are: another one may stand under the same name.
    watched: BTreeMap<PathBuf, (u64, u64)>,
}

impl Places {
    fn of(paths: &[PathBuf]) -> Self {
        let mut places = Self::default();
        for path in paths {
            let Some(end) = walk(path, &mut places.spots).filter(|end| end.is_dir()) else {
                continue;
            };
            // Each of its files may be a link, too.
            for file in sources::files(&end).unwrap_or_default() {
                walk(&file, &mut places.spots);
            }
            places.folders.insert(end);
        }
        let parents = places.spots.iter().filter_map(|spot| spot.parent());
        places.watched = parents
            .chain(places.folders.iter().map(PathBuf::as_path))
            .filter_map(|folder| {
                let folder_is = fs::metadata(folder).ok()?;
                Some((folder.to_owned(), (folder_is.dev(), folder_is.ino())))
            })
            .collect();
        places
    }

    /// Whether an event can have changed anything.
    fn concern(&self, event: &Event) -> bool {
        // Reading files makes events as well, and must not make us read again.
        let only_looked_at = match event.kind {
            EventKind::Access(kind) => kind != AccessKind::Close(AccessMode::Write),
            _ => false,
        };
        let at = |path: &PathBuf| {
            self.spots.contains(path)
                || self.watched.contains_key(path)
                || path.parent().is_some_and(|parent| self.folders.contains(parent))
                    && sources::is_policy(path)
        };
        event.need_rescan() || !only_looked_at && event.paths.iter().any(at)
    }
}

/// Goes from the root to where `path` leads, through all links, and notes on the way what could lead elsewhere: each
/// link, and the end or the first thing that is missing. Returns the end, with no link in it, where there is one.
fn walk(path: &Path, spots: &mut BTreeSet<PathBuf>) -> Option<PathBuf> {
    let mut rest: VecDeque<Part> = parts(&std::path::absolute(path).ok()?);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        let name = match part {
            Part::Root => {
                at = PathBuf::from("/");
                continue;
            }
            Part::Up => {
                at.pop();
                continue;
            }
            Part::Name(name) => name,
        };
        let next = at.join(name);
        let Ok(kind) = fs::symlink_metadata(&next) else {
            spots.insert(next);
            return None;
        };
        if !kind.is_symlink() {
            at = next;
            continue;
        }
        let target = fs::read_link(&next).ok()?;
        spots.insert(next);
        links += 1;
        if links > MOST_LINKS {
            return None;
        }
        for part in parts(&target).into_iter().rev() {
            rest.push_front(part);
        }
    }
    spots.insert(at.clone());
    Some(at)
}

enum Part {
    Root,
    Up,
    Name(OsString),
}

fn parts(path: &Path) -> VecDeque<Part> {
    let part = |component| match component {
        Component::RootDir | Component::Prefix(_) => Some(Part::Root),
        Component::CurDir => None,
        Component::ParentDir => Some(Part::Up),
        Component::Normal(name) => Some(Part::Name(name.to_owned())),
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::service::source::Hint;

    /// The spots on the way to `path` in `folder`, and its end.
    fn spots(folder: &Path, path: &str) -> (Vec<String>, Option<String>) {
        let shown = |path: &Path| {
            let below = path.strip_prefix(folder).expect("inside");
            below.display().to_string()
        };
        let mut spots = BTreeSet::new();
        let end = walk(&folder.join(path), &mut spots);
        (
            spots.iter().map(|spot| shown(spot)).collect(),
            end.map(|end| shown(&end)),
        )
    }

    #[test]
    fn the_way_to_a_file_goes_through_every_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("its real place");
        fs::create_dir(root.join("..2026")).expect("made");
        fs::write(root.join("..2026/policy.yaml"), "x").expect("written");
        symlink("..2026", root.join("..data")).expect("linked");
        symlink("..data/policy.yaml", root.join("policy.yaml")).expect("linked");
        symlink("circle", root.join("circle")).expect("linked");
        symlink(root.join("away"), root.join("gone.yaml")).expect("linked");
        let check = |path, expected: &[&str], end: Option<&str>| {
            let (spots, found) = spots(&root, path);
            assert_eq!(spots, expected, "{path}");
            assert_eq!(found.as_deref(), end, "{path}");
        };
        let file = "..2026/policy.yaml";
        check("policy.yaml", &[file, "..data", "policy.yaml"], Some(file));
        check(
            "..2026/../policy.yaml",
            &[file, "..data", "policy.yaml"],
            Some(file),
        );
        check("a/b/c", &["a"], None);
        check("circle", &["circle"], None);
        check("gone.yaml", &["away", "gone.yaml"], None);
    }

    #[test]
    fn only_what_can_matter_is_heeded() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("its real place");
        fs::create_dir(root.join("set")).expect("made");
        fs::write(root.join("one.yaml"), "x").expect("written");
        let places = Places::of(&[root.join("set"), root.join("one.yaml")]);
        let concern = |kind, path: &str| places.concern(&Event::new(kind).add_path(root.join(path)));
        let created = EventKind::Create(notify::event::CreateKind::Any);
        for (path, expected) in [
            ("one.yaml", true),
            ("two.yaml", false),
            ("set", true),
            ("set/new.yaml", true),
            ("set/.new.yaml.swp", false),
            ("set/notes.txt", false),
        ] {
            assert_eq!(concern(created, path), expected, "{path}");
        }
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert!(!concern(opened, "one.yaml"));
        assert!(concern(written, "one.yaml"));
    }

    /// Does something to the files, and waits until it is told of.
    async fn told_of(watch: &mut Watch, change: impl FnOnce()) {
        watch.follow();
        // What came before is no news.
        while timeout(Duration::from_millis(200), watch.hints.next())
            .await
            .is_ok()
        {}
        change();
        let told = timeout(Duration::from_mins(1), watch.hints.next()).await;
        assert_eq!(told.ok(), Some(Hint::Changed));
    }

    #[tokio::test]
    async fn tells_of_whatever_happens_to_the_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let (set, aside) = (root.join("set"), root.join("aside"));
        let deploy = |version: &str| {
            fs::create_dir_all(set.join(version)).expect("made");
            fs::write(set.join(version).join("policy.yaml"), version).expect("written");
            symlink(version, set.join("..data_tmp")).expect("linked");
            fs::rename(set.join("..data_tmp"), set.join("..data")).expect("renamed");
        };
        deploy("..1");
        symlink("..data/policy.yaml", set.join("policy.yaml")).expect("linked");
        let mut watch = Watch::new(vec![set.clone()], Arc::default());
        let watch = &mut watch;
        told_of(watch, || deploy("..2")).await;
        told_of(watch, || deploy("..3")).await;
        told_of(watch, || {
            fs::write(set.join("..3/policy.yaml"), "edited").expect("written");
        })
        .await;
        told_of(watch, || fs::write(set.join("more.yaml"), "x").expect("written")).await;
        told_of(watch, || fs::remove_file(set.join("more.yaml")).expect("removed")).await;
        told_of(watch, || fs::rename(&set, &aside).expect("moved")).await;
        told_of(watch, || fs::create_dir(&set).expect("made")).await;
        told_of(watch, || fs::write(set.join("a.yml"), "x").expect("written")).await;
        told_of(watch, || fs::remove_dir_all(&set).expect("removed")).await;
        told_of(watch, || symlink(&aside, &set).expect("linked")).await;
        told_of(watch, || fs::write(aside.join("a.yml"), "x").expect("written")).await;
    }

    #[test]
    fn another_folder_under_the_same_name_is_another_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = [folder.path().join("set")];
        fs::create_dir(&paths[0]).expect("made");
        let before = Places::of(&paths);
        assert_eq!(before, Places::of(&paths));
        fs::rename(&paths[0], folder.path().join("old")).expect("moved");
        let without = Places::of(&paths);
        fs::create_dir(&paths[0]).expect("made");
        assert_ne!(before, without);
        assert_ne!(before, Places::of(&paths));
    }
}

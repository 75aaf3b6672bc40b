//! Takes edited policies over while calls are being decided: whole or not at all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};

use super::afresh;
use super::live::{Live, Policies};
use super::source::{Document, Hint, Hints, PolicySource};
use crate::clock::Clock;
use crate::domain::time::Timestamp;
use crate::policy::PolicySet;
use crate::policy::problem::{Problem, Problems};

/// A source is read once nothing about it has changed for this long: whoever writes is then probably done.
const QUIET: Duration = Duration::from_millis(250);

/// A source that never rests is read after this long all the same.
const RESTLESS: Duration = Duration::from_secs(2);

/// How often a source is looked at unasked: for changes that no hint tells of.
const UNASKED: Duration = Duration::from_secs(10);

/// The most limits that are named when they start afresh.
const NAMED: usize = 100;

/// How long calls may go on under the policies of before, until those are no longer waited for.
const HELD: Duration = Duration::from_secs(10);

/// What became of an attempt to take policies over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They are in force.
    Accepted,
    /// Something is wrong with them; those of before stay in force.
    Rejected,
    /// They are those in force.
    Unchanged,
}

/// Is told which policies are in force and what became of others.
pub trait ReloadObserver: Send + Sync + 'static {
    /// Policies with this hash have been in force since then.
    fn in_force(&self, hash: u64, since: Timestamp);
    /// An attempt has ended.
    fn ended(&self, outcome: Outcome);
}

/// What operators are told about the policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Status {
    /// Which load is in force, counted from 1.
    generation: u64,
    /// Of the bytes of all files.
    hash: String,
    /// Since when, as RFC 3339 has it.
    loaded_at: String,
    files: Vec<String>,
    domains: Vec<String>,
    rules: usize,
    /// What is wrong with the policies that are there now, a line each; absent while those are in force.
    last_error: Option<String>,
}

impl Status {
    fn new(live: &Live, documents: &[Document], since: Timestamp) -> Self {
        Self {
            generation: live.generation(),
            hash: hex(live.set().hash()),
            loaded_at: rfc_3339(since),
            files: names(documents),
            domains: live.domain_names(),
            rules: live.set().limit_count(),
            last_error: None,
        }
    }
}

/// Makes a set of what a source says, or says everything that keeps it from being served.
pub type Compile = Box<dyn Fn(&[Document]) -> Result<PolicySet, Problems> + Send>;

/// Watches over the policies in force.
pub struct Reloader {
    hints: Arc<Hints>,
    keeper: Arc<Mutex<Keeper>>,
    status: Arc<Mutex<Status>>,
}

impl Reloader {
    /// Keeps `policies`, which were made of `documents` as `compile` does it, at what `source` says.
    pub fn new(
        source: PolicySource,
        compile: Compile,
        policies: Arc<Policies>,
        documents: &[Document],
        clock: Arc<dyn Clock>,
        observer: Arc<dyn ReloadObserver>,
    ) -> Self {
        let now = clock.now();
        let (status, hash) = {
            let live = policies.load();
            (Status::new(&live, documents, now), live.set().hash())
        };
        observer.in_force(hash, now);
        let status = Arc::new(Mutex::new(status));
        Self {
            hints: source.hints,
            keeper: Arc::new(Mutex::new(Keeper {
                read: source.read,
                compile,
                policies,
                clock,
                observer,
                status: Arc::clone(&status),
                rejected: None,
            })),
            status,
        }
    }

    /// Writes what operators are told, as JSON.
    pub fn page(&self) -> impl Fn() -> String + Send + Sync + use<> {
        let status = Arc::clone(&self.status);
        move || {
            let status = status.lock().clone();
            serde_json::to_string_pretty(&status).unwrap_or_default() + "\n"
        }
    }

    /// Takes edits over as they come. Ends only if an attempt ends in a panic.
    pub async fn run(self) {
        // What changed between the first load and now has given no hint.
        let mut hint = None;
        loop {
            let looked_at = match hint {
                Some(Hint::Asked) => self.attempt(true).await,
                Some(Hint::Changed) => self.attempt_once_quiet().await,
                None => match self.differs().await {
                    Ok(true) => self.attempt_once_quiet().await,
                    same => same.map(drop),
                },
            };
            if looked_at.is_err() {
                return;
            }
            hint = timeout(UNASKED, self.hints.next()).await.ok();
        }
    }

    async fn attempt_once_quiet(&self) -> Result<(), JoinError> {
        let asked = self.settle().await;
        self.attempt(asked).await
    }

    /// Reading and compiling take their time: neither the cores nor the pages of operators wait for it.
    async fn attempt(&self, asked: bool) -> Result<(), JoinError> {
        let keeper = Arc::clone(&self.keeper);
        spawn_blocking(move || keeper.lock().attempt(asked)).await
    }

    /// Whether the source says something else than it did when it was last looked at.
    async fn differs(&self) -> Result<bool, JoinError> {
        let keeper = Arc::clone(&self.keeper);
        spawn_blocking(move || keeper.lock().differs()).await
    }

    /// Waits until nothing changes any more. Tells whether somebody asked meanwhile, and then waits no longer.
    async fn settle(&self) -> bool {
        let end = Instant::now() + RESTLESS;
        loop {
            let rest = (Instant::now() + QUIET).min(end);
            match timeout_at(rest, self.hints.next()).await {
                Ok(Hint::Asked) => return true,
                Ok(Hint::Changed) if Instant::now() < end => {}
                _ => return false,
            }
        }
    }
}

/// Does the work: reads, compiles, swaps, says what happened.
struct Keeper {
    read: Box<dyn FnMut() -> Result<Vec<Document>, Problems> + Send>,
    compile: Compile,
    policies: Arc<Policies>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn ReloadObserver>,
    status: Arc<Mutex<Status>>,
    /// What was last there, where that could not be used: it is complained about once.
    rejected: Option<Content>,
}

/// What a source said.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Documents with this hash.
    Documents(u64),
    /// Nothing that can be read, for these reasons.
    Unreadable(String),
}

impl Keeper {
    fn differs(&mut self) -> bool {
        let content = match (self.read)() {
            Ok(documents) => Content::Documents(PolicySet::hash_of(&documents)),
            Err(problems) => Content::Unreadable(problems.to_string()),
        };
        match &self.rejected {
            Some(rejected) => *rejected != content,
            None => content != Content::Documents(self.policies.load().set().hash()),
        }
    }

    /// Takes over what the source says, if it says something new that can be used. Whoever asked is told in any case.
    fn attempt(&mut self, asked: bool) {
        let documents = match (self.read)() {
            Ok(documents) => documents,
            Err(problems) => {
                let content = Content::Unreadable(problems.to_string());
                return self.reject(content, &problems, asked);
            }
        };
        let hash = PolicySet::hash_of(&documents);
        if hash == self.policies.load().set().hash() {
            return self.stay(&documents, asked);
        }
        let content = Content::Documents(hash);
        if !asked && self.rejected.as_ref() == Some(&content) {
            return;
        }
        match compile(&self.compile, &documents) {
            Ok(set) => self.accept(set, &documents),
            Err(problems) => self.reject(content, &problems, asked),
        }
    }

    fn accept(&mut self, set: PolicySet, documents: &[Document]) {
        let (generation, old) = self.policies.replace(set);
        let since = self.clock.now();
        self.rejected = None;
        {
            let live = self.policies.load();
            let set = live.set();
            *self.status.lock() = Status::new(&live, documents, since);
            self.observer.in_force(set.hash(), since);
            self.observer.ended(Outcome::Accepted);
            tracing::info!(
                generation,
                old_hash = hex(old.set().hash()),
                new_hash = hex(set.hash()),
                rules = set.limit_count(),
                domains = set.policies().len(),
                "the policies were reloaded"
            );
            for warning in set.warnings() {
                tracing::warn!("{warning}");
            }
            say_what_is_gone(&old, &live);
            say_what_starts_afresh(old.set(), set);
        }
        let_go(old);
    }

    fn reject(&mut self, content: Content, problems: &Problems, asked: bool) {
        if !asked && self.rejected.as_ref() == Some(&content) {
            return;
        }
        self.rejected = Some(content);
        let (generation, hash) = {
            let mut status = self.status.lock();
            status.last_error = Some(problems.to_string().trim_end().to_owned());
            (status.generation, status.hash.clone())
        };
        self.observer.ended(Outcome::Rejected);
        for problem in problems {
            tracing::error!("{problem}");
        }
        tracing::error!(
            generation,
            hash,
            problems = problems.iter().count() + problems.left_out(),
            "the policies were not reloaded; those of before stay in force"
        );
    }

    fn stay(&mut self, documents: &[Document], asked: bool) {
        let mended = self.rejected.take().is_some();
        {
            let mut status = self.status.lock();
            status.last_error = None;
            // A file may have another name than before.
            status.files = names(documents);
        }
        if mended || asked {
            self.observer.ended(Outcome::Unchanged);
            tracing::info!("what the policies say is in force already");
        }
    }
}

/// A bug in the reader must not end a server that has policies to go by.
fn compile(compile: &Compile, documents: &[Document]) -> Result<PolicySet, Problems> {
    catch_unwind(AssertUnwindSafe(|| compile(documents))).unwrap_or_else(|_| {
        let problem = Problem::about_file("policy", "reading it failed by a bug of ours, see above");
        Err(Problems::from(vec![problem]))
    })
}

fn say_what_is_gone(old: &Live, new: &Live) {
    let there = new.domain_names();
    let gone: Vec<_> = old
        .domain_names()
        .into_iter()
        .filter(|name| there.binary_search(name).is_err())
        .collect();
    if !gone.is_empty() {
        tracing::warn!(domains = gone.join(", "), "no policy is about these any more");
    }
}

fn say_what_starts_afresh(old: &PolicySet, new: &PolicySet) {
    let notes = afresh::compare(old, new);
    for note in notes.iter().take(NAMED) {
        tracing::info!("counts afresh: {note}");
    }
    if let more @ 1.. = notes.len().saturating_sub(NAMED) {
        tracing::info!(more, "more limits count afresh");
    }
}

/// Frees policies here and not on a core, whose calls would wait while a large set goes.
fn let_go(old: Arc<Live>) {
    let start = std::time::Instant::now();
    while Arc::strong_count(&old) > 1 && start.elapsed() < HELD {
        thread::sleep(Duration::from_millis(10));
    }
    drop(old);
}

fn names(documents: &[Document]) -> Vec<String> {
    documents.iter().map(|(name, _)| name.clone()).collect()
}

/// A hash as logs, metrics and pages show it.
pub fn hex(hash: u64) -> String {
    format!("{hash:016x}")
}

fn rfc_3339(moment: Timestamp) -> String {
    i64::try_from(moment.as_micros())
        .ok()
        .and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok())
        .map(|moment| moment.to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;

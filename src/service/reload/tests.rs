use super::*;
use crate::clock::ManualClock;
use crate::policy::Policy;
use crate::service::observer::{Observer, Tally};

struct Nobody;

impl Observer for Nobody {
    fn opens(&self, _: u64, _: &[&Policy]) -> Vec<Arc<dyn Tally>> {
        Vec::new()
    }

    fn overrides_ignored(&self, _: u32) {}
}

#[derive(Default)]
struct Heard(Mutex<Vec<Outcome>>);

impl ReloadObserver for Heard {
    fn in_force(&self, _: u64, _: Timestamp) {}

    fn ended(&self, outcome: Outcome) {
        self.0.lock().push(outcome);
    }
}

/// The text, or why there is none.
type Says = Result<String, String>;

/// A source that says what the test wants, and what was read from it.
struct Bench {
    says: Arc<Mutex<Says>>,
    reads: Arc<Mutex<usize>>,
    hints: Arc<Hints>,
    policies: Arc<Policies>,
    heard: Arc<Heard>,
    keeper: Arc<Mutex<Keeper>>,
    page: Box<dyn Fn() -> String + Send + Sync>,
    reloader: Option<Reloader>,
}

fn text(rate: &str) -> String {
    format!("domain: edge\ndescriptors:\n  - key: client\n    rate_limit: {{ rate: {rate} }}\n")
}

impl Bench {
    fn new() -> Self {
        let says: Arc<Mutex<Says>> = Arc::new(Mutex::new(Ok(text("10/minute"))));
        let reads = Arc::new(Mutex::new(0));
        let documents = [(String::from("a.yaml"), text("10/minute").into_bytes())];
        let set = PolicySet::parse(&documents).expect("sound");
        let policies = Arc::new(Policies::new(set, Arc::new(Nobody)));
        let hints = Arc::new(Hints::default());
        let heard = Arc::new(Heard::default());
        let read = {
            let (says, reads) = (Arc::clone(&says), Arc::clone(&reads));
            move || {
                *reads.lock() += 1;
                match &*says.lock() {
                    Ok(text) => Ok(vec![(String::from("a.yaml"), text.clone().into_bytes())]),
                    Err(why) => Err(Problems::from(vec![Problem::about_file("a.yaml", why.clone())])),
                }
            }
        };
        let reloader = Reloader::new(
            PolicySource {
                read: Box::new(read),
                hints: Arc::clone(&hints),
            },
            Box::new(PolicySet::parse),
            Arc::clone(&policies),
            &documents,
            Arc::new(ManualClock::at(Timestamp::from_micros(1_796_040_000_500_000))),
            Arc::clone(&heard) as Arc<_>,
        );
        Self {
            says,
            reads,
            hints,
            policies,
            heard,
            keeper: Arc::clone(&reloader.keeper),
            page: Box::new(reloader.page()),
            reloader: Some(reloader),
        }
    }

    fn says(&self, what: Result<&str, &str>) {
        *self.says.lock() = what.map(str::to_owned).map_err(str::to_owned);
    }

    fn attempt(&self, what: Result<&str, &str>) -> Vec<Outcome> {
        self.says(what);
        self.keeper.lock().attempt(false);
        std::mem::take(&mut *self.heard.0.lock())
    }

    fn status(&self) -> serde_json::Value {
        serde_json::from_str(&(self.page)()).expect("JSON")
    }
}

#[test]
fn a_set_is_taken_over_whole_or_not_at_all() {
    let bench = Bench::new();
    let (good, better) = (text("10/minute"), text("20/minute"));
    assert_eq!(bench.attempt(Ok(&good)), []);
    assert_eq!(bench.attempt(Ok(&better)), [Outcome::Accepted]);
    assert_eq!(bench.status()["generation"], 2);
    for bad in [
        Ok(""),
        Ok("domain: edge\n\tdescriptors: []\n"),
        Ok(&better[..30]),
        Err("no such file or folder"),
    ] {
        assert_eq!(bench.attempt(bad), [Outcome::Rejected], "{bad:?}");
        // It is still there, and was complained about.
        assert_eq!(bench.attempt(bad), [], "{bad:?}");
        assert!(
            bench.status()["last_error"]
                .as_str()
                .is_some_and(|error| error.starts_with("a.yaml:"))
        );
    }
    assert_eq!(bench.policies.load().generation(), 2);
    assert_eq!(bench.attempt(Ok(&better)), [Outcome::Unchanged]);
    assert!(bench.status()["last_error"].is_null());
    assert_eq!(bench.attempt(Ok(&better)), []);
    assert_eq!(bench.attempt(Ok(&good)), [Outcome::Accepted]);
    assert_eq!(bench.policies.load().generation(), 3);
}

#[test]
fn who_asks_is_told_in_any_case() {
    let bench = Bench::new();
    let ask = |what: Result<&str, &str>| {
        bench.says(what);
        bench.keeper.lock().attempt(true);
        std::mem::take(&mut *bench.heard.0.lock())
    };
    assert_eq!(ask(Ok(&text("10/minute"))), [Outcome::Unchanged]);
    assert_eq!(ask(Ok("")), [Outcome::Rejected]);
    assert_eq!(ask(Ok("")), [Outcome::Rejected]);
}

#[test]
fn the_page_says_what_is_in_force() {
    let bench = Bench::new();
    let hash = PolicySet::hash_of(&[("", text("10/minute"))]);
    assert_eq!(
        bench.status(),
        serde_json::json!({
            "generation": 1,
            "hash": hex(hash),
            "loaded_at": "2026-11-30T12:00:00.5Z",
            "files": ["a.yaml"],
            "domains": ["edge"],
            "rules": 1,
            "last_error": null,
        })
    );
}

#[test]
fn policies_are_let_go_once_no_call_is_under_them() {
    let bench = Bench::new();
    let old = Arc::downgrade(&bench.policies.load());
    let call = arc_swap::Guard::into_inner(bench.policies.load());
    thread::scope(|scope| {
        let reload = scope.spawn(|| bench.attempt(Ok(&text("20/minute"))));
        while bench.policies.load().generation() == 1 {
            thread::yield_now();
        }
        assert!(old.upgrade().is_some());
        drop(call);
        assert_eq!(reload.join().expect("no panic"), [Outcome::Accepted]);
    });
    assert!(old.upgrade().is_none());
}

#[tokio::test]
async fn many_changes_in_a_row_are_one_reload() {
    let mut bench = Bench::new();
    let running = tokio::spawn(bench.reloader.take().expect("a reloader").run());
    // Whoever writes does not rest before the last number.
    for rate in 11..=20 {
        bench.says(Ok(&text(&format!("{rate}/minute"))));
        bench.hints.changed();
        tokio::time::sleep(QUIET / 10).await;
    }
    while bench.policies.load().generation() == 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        bench.status()["hash"],
        hex(PolicySet::hash_of(&[("", text("20/minute"))]))
    );
    assert!(*bench.reads.lock() <= 4, "{} reads", bench.reads.lock());
    // Without any hint a change is found as well, only later; one that is asked for, at once.
    bench.says(Ok(&text("30/minute")));
    bench.hints.ask();
    while bench.policies.load().generation() == 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.abort();
}

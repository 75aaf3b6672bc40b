//! What envoyproxy/ratelimit does, done by us: every case of `tests/conformance/cases.yaml` holds under
//! `compat: reference`, but for what `tests/conformance/exceptions.yaml` says; and our own ways differ as it says, no more
//! and no less.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use comporta::clock::ManualClock;
use comporta::domain::check::Charge;
use comporta::domain::time::Timestamp;
use comporta::policy::{Assumed, PolicySet};
use comporta::service::field::{DraftNames, FieldName};
use comporta::service::headers::HeaderStyle;
use comporta::service::limiter::Limiter;
use comporta::service::live::Policies;
use comporta::service::options::{LimiterOptions, Modes, UnknownDomain};
use comporta::service::{call, decode, encode};
use comporta::store::key::Keys;
use comporta::store::memory::Memory;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::harness::store::Silent;
use crate::harness::{read, yaml};
use crate::overrides::Nobody;

mod answers;

use answers::{Aspect, Differences, Expected, Request};

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

#[derive(Clone, Deserialize)]
struct Case {
    id: String,
    title: String,
    diverge: Option<Diverge>,
    env: BTreeMap<String, String>,
    files: Vec<File>,
    clock: u64,
    load: Outcome,
    steps: Vec<Step>,
}

#[derive(Clone, Deserialize)]
struct Diverge {
    kind: String,
}

#[derive(Clone, Deserialize)]
struct File {
    name: String,
    yaml: String,
}

#[derive(Clone, Deserialize)]
struct Outcome {
    ok: bool,
}

#[derive(Clone, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Step {
    Request(Box<Request>),
    Clock { to: u64 },
    Reload { files: Vec<File>, load: Outcome },
    Stats {},
}

#[derive(Deserialize)]
struct Exceptions {
    better: Vec<Better>,
    own: Vec<Own>,
}

/// Where we do better than the reference, also under `compat`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Better {
    id: String,
    why: String,
    load: Option<Load>,
    #[serde(default)]
    answers: BTreeMap<String, Expected>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Load {
    Accepted,
    Warned,
    /// What follows in the case is then not asked.
    Refused,
}

/// How our own ways differ from the reference's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    aspect: Aspect,
    why: String,
    cases: BTreeSet<String>,
}

fn data<T: DeserializeOwned>(file: &str) -> T {
    let value = yaml::read(&read(&format!("tests/conformance/{file}")));
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// What the reference's environment is among our flags.
struct Setting {
    options: LimiterOptions,
    assumed: Assumed,
}

impl Setting {
    fn new(env: &BTreeMap<String, String>, compat: bool) -> Self {
        let mut setting = Self {
            options: LimiterOptions {
                headers: Some(HeaderStyle::Off),
                names: DraftNames::default(),
                modes: Modes::default(),
                unknown_domain: UnknownDomain::Pass,
                ..LimiterOptions::default()
            },
            assumed: Assumed { compat, charge: None },
        };
        for (name, value) in env {
            setting.heed(name, value);
        }
        setting
    }

    fn heed(&mut self, name: &str, value: &str) {
        let field = || Some(FieldName::parse(value).expect("a header's name"));
        let is_on = value == "true";
        match name {
            "SHADOW_MODE" => self.options.modes.shadow = is_on,
            "QUOTA_MODE" => self.options.modes.quota = is_on,
            "LIMIT_RESPONSE_HEADERS_ENABLED" if is_on => self.options.headers = Some(HeaderStyle::Draft03),
            "LIMIT_LIMIT_HEADER" => self.options.names.limit = field(),
            "LIMIT_REMAINING_HEADER" => self.options.names.remaining = field(),
            "LIMIT_RESET_HEADER" => self.options.names.reset = field(),
            "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" if is_on => {
                self.assumed.charge = Some(Charge::AllOrNothing);
            }
            // Always so here, of no effect, or about what is shown.
            "MERGE_DOMAIN_CONFIG" | "LOCAL_CACHE_SIZE_IN_BYTES" | "RESPONSE_DYNAMIC_METADATA" => {}
            _ => assert!(!is_on, "what is {name}={value} here?"),
        }
    }

    fn parse(&self, files: &[File]) -> Result<PolicySet, String> {
        let sources: Vec<_> = files.iter().map(|file| (&file.name, &file.yaml)).collect();
        PolicySet::parse_assuming(&sources, self.assumed).map_err(|problems| problems.to_string())
    }
}

/// Runs `case` and says in what it differs.
async fn differences(case: &Case, better: Option<&Better>, compat: bool) -> Differences {
    let mut differences = Differences::default();
    let setting = Setting::new(&case.env, compat);
    let parsed = setting.parse(&case.files);
    let said = better.and_then(|better| better.load);
    let expected = said.map_or(case.load.ok, |load| load != Load::Refused);
    if parsed.is_ok() != expected {
        let met = parsed.err().unwrap_or_else(|| "accepted".to_owned());
        differences.add(Aspect::Load, format!("loading: {met}"));
        return differences;
    }
    let Ok(set) = parsed else { return differences };
    if said == Some(Load::Warned) && set.warnings().iter().next().is_none() {
        differences.add(Aspect::Load, "no warning".to_owned());
    }
    let moment = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
    let clock = ManualClock::at(moment(case.clock));
    let policies = Arc::new(Policies::new(set, Arc::new(Nobody)));
    let store = Memory::new(1000, Arc::new(Silent));
    let (keys, options) = (Keys::new("test"), setting.options.clone());
    let limiter = Limiter::new(0, Arc::clone(&policies), store, clock.clone(), keys, options);
    for (place, step) in case.steps.iter().enumerate() {
        match step {
            Step::Clock { to } => clock.set(moment(*to)),
            Step::Reload { files, load } => match setting.parse(files) {
                Ok(set) if load.ok => drop(policies.publish(set)),
                Err(_) if !load.ok => {}
                other => differences.add(Aspect::Load, format!("step {place}: {:?}", other.err())),
            },
            Step::Request(request) => {
                let deadline = Instant::now() + Duration::from_secs(60);
                let mut answer = None;
                for _ in 0..request.repeat {
                    let wire = request.wire();
                    answer = Some(call::answer(&limiter, decode::request(&wire), deadline).await);
                }
                let expected = better.and_then(|better| better.answers.get(&place.to_string()));
                let shows_metadata = case.env.contains_key("RESPONSE_DYNAMIC_METADATA");
                answers::compare(
                    expected.unwrap_or(&request.expect),
                    answer
                        .expect("asked at least once")
                        .map(|answer| encode::message(&answer)),
                    shows_metadata,
                    |aspect, text| differences.add(aspect, format!("step {place}: {text}")),
                );
            }
            // How numbers are called is no part of the promise.
            Step::Stats {} => {}
        }
    }
    differences
}

/// The first cells of those tables that list differences, in the README's section for those who come from there.
fn rows_of_readme() -> BTreeSet<String> {
    let readme = read("README.md");
    let mut sections = readme.split("\n## ");
    let section = sections
        .find(|section| section.starts_with("Coming from envoyproxy/ratelimit\n"))
        .expect("a section");
    let mut rows = BTreeSet::new();
    for table in section
        .split("\n\n")
        .filter(|table| table.starts_with("| here |"))
    {
        let cells = table.lines().skip(2).filter_map(|row| row.split('|').nth(1));
        rows.extend(cells.map(|cell| cell.trim().to_owned()));
    }
    rows
}

fn find<'a>(exceptions: &'a Exceptions, case: &Case) -> Option<&'a Better> {
    exceptions.better.iter().find(|better| better.id == case.id)
}

#[tokio::test]
async fn every_case_holds_under_compat_but_for_what_is_better() {
    let (cases, exceptions): (Cases, Exceptions) = (data("cases.yaml"), data("exceptions.yaml"));
    let mut wrong = String::new();
    for case in &cases.cases {
        let found = differences(case, find(&exceptions, case), true).await;
        if !found.is_empty() {
            wrong += &format!("{} {}\n{found}", case.id, case.title);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[tokio::test]
async fn our_own_ways_differ_where_it_is_written_down() {
    let (cases, exceptions): (Cases, Exceptions) = (data("cases.yaml"), data("exceptions.yaml"));
    let mut differ: BTreeMap<Aspect, BTreeSet<String>> = BTreeMap::new();
    for case in &cases.cases {
        for aspect in differences(case, find(&exceptions, case), false).await.aspects() {
            differ.entry(aspect).or_default().insert(case.id.clone());
        }
    }
    let mut written: BTreeMap<Aspect, BTreeSet<String>> = BTreeMap::new();
    for own in &exceptions.own {
        assert!(!own.why.is_empty());
        written.entry(own.aspect).or_default().extend(own.cases.clone());
    }
    assert_eq!(differ, written, "left: how it is, right: what is written");
}

#[test]
fn exceptions_are_those_of_the_cases() {
    let (cases, exceptions): (Cases, Exceptions) = (data("cases.yaml"), data("exceptions.yaml"));
    let must: BTreeSet<_> = cases
        .cases
        .iter()
        .filter(|case| {
            case.diverge
                .as_ref()
                .is_some_and(|diverge| diverge.kind == "must")
        })
        .map(|case| &case.id)
        .collect();
    let better: BTreeSet<_> = exceptions.better.iter().map(|better| &better.id).collect();
    assert_eq!(better.len(), exceptions.better.len(), "one said twice");
    assert_eq!(better, must);
    assert!(exceptions.better.iter().all(|better| !better.why.is_empty()));
}

#[test]
fn the_readme_lists_every_difference_and_no_other() {
    let exceptions: Exceptions = data("exceptions.yaml");
    let better = exceptions.better.into_iter().map(|better| better.why);
    let own = exceptions.own.into_iter().map(|own| own.why);
    let written: BTreeSet<_> = better.chain(own).collect();
    assert_eq!(rows_of_readme(), written);
}

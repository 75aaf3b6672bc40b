//! From what was typed to what the program runs on. All mistakes are found at once.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::args::ServeArgs;
use super::ceiling::ceiling;
use super::deployment;
use crate::domain::check::OnStoreFailure;
use crate::domain::limit::{Limit, MOST_INSTANCES};
use crate::policy::Assumed;
use crate::service::field::{DraftNames, FieldName};
use crate::service::headers::HeaderStyle;
use crate::service::options::{LimiterOptions, Modes, UnknownDomain};
use crate::service::server::ServerOptions;
use crate::store::redis::{MOST_KEYS, RedisTarget};
use crate::telemetry::logs::{self, LogFormat};

/// What `serve` runs on: everything in range, nothing left to ask.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Policy files and folders; at least one.
    pub policies: Vec<PathBuf>,
    /// Where gateways ask.
    pub grpc: SocketAddr,
    /// Where operators look.
    pub admin: SocketAddr,
    /// Where counters live.
    pub store: StoreSettings,
    /// How many instances share a store, if that was said.
    pub instances: Option<NonZeroU32>,
    /// How many requests pass while a shared store cannot decide, if not as many as rules let.
    pub fallback_ceiling: Option<Limit>,
    /// The most counters kept in this process.
    pub max_counters: usize,
    /// In front of every counter's key.
    pub key_prefix: String,
    /// Where the secret is by which secret values are hashed.
    pub key_secret_file: Option<PathBuf>,
    /// What policy files are taken to say.
    pub assumed: Assumed,
    /// How answers are given.
    pub limiter: LimiterOptions,
    /// How the server runs.
    pub server: ServerOptions,
    /// Where the real addresses are written.
    pub ready_file: Option<PathBuf>,
    /// How log lines look.
    pub log: LogFormat,
    /// The least that is logged.
    pub log_level: String,
}

/// Where counters live.
#[derive(Clone, Debug)]
pub enum StoreSettings {
    /// In this process.
    Memory,
    /// In a Redis.
    Redis {
        /// How to reach it; prints without passwords.
        target: Arc<RedisTarget>,
        /// The longest one decision may take there.
        budget: Duration,
        /// The most counters of one script call that several requests share.
        most_keys: usize,
    },
}

/// Everything that is wrong with what was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(Vec<String>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|mistake| writeln!(f, "{mistake}"))
    }
}

impl std::error::Error for Mistakes {}

impl Settings {
    /// Reads what was typed.
    ///
    /// # Errors
    /// Every mistake in it, each beside the flag that it is about.
    pub fn new(args: ServeArgs) -> Result<Self, Mistakes> {
        let mut read = Reader::default();
        if args.policies.is_empty() {
            read.mistakes.push(NO_POLICY.to_owned());
        }
        let grpc = read.value("grpc", &args.grpc, address);
        let admin = read.value("admin", &args.admin, address);
        let target = deployment::target(&args.store)
            .map_err(|mistakes| read.mistakes.extend(mistakes))
            .ok();
        let budget = read.value("store-budget", &args.store_budget, positive);
        let batch = read.optional("store-batch", args.store_batch.as_deref(), batch);
        let on_store_failure = read.value("on-store-failure", &args.on_store_failure, on_store_failure);
        let instances = read.optional("instances", args.instances.as_deref(), instances);
        let ceiling = read.optional("fallback-ceiling", args.fallback_ceiling.as_deref(), ceiling);
        let max_counters = read.value("max-counters", &args.max_counters, number);
        let headers = read.optional("headers", args.headers.as_deref(), headers);
        let limit = read.optional("header-limit", args.header_limit.as_deref(), field_name);
        let remaining = read.optional("header-remaining", args.header_remaining.as_deref(), field_name);
        let reset = read.optional("header-reset", args.header_reset.as_deref(), field_name);
        let unknown_domain = read.value("unknown-domain", &args.unknown_domain, unknown_domain);
        let workers = read.optional("workers", args.workers.as_deref(), workers);
        let drain = read.value("drain", &args.drain, time);
        let connection_age = read.value("connection-age", &args.connection_age, age);
        let log = read.value("log", &args.log, log_format);
        let log_level = read.value("log-level", &args.log_level, log_level);
        let key_prefix = read.value("key-prefix", &args.key_prefix, prefix);
        let mistakes = Mistakes(read.mistakes);
        // Whatever is absent left a mistake behind.
        let all = || {
            Some(Self {
                policies: args.policies,
                assumed: args.assume.assumed(),
                grpc: grpc?,
                admin: admin?,
                store: match target? {
                    None => StoreSettings::Memory,
                    Some(target) => StoreSettings::Redis {
                        target,
                        budget: budget?,
                        most_keys: batch?.unwrap_or(MOST_KEYS),
                    },
                },
                instances: instances?,
                fallback_ceiling: ceiling?,
                max_counters: usize::try_from(max_counters?.get()).unwrap_or(usize::MAX),
                key_prefix: key_prefix?,
                key_secret_file: args.key_secret_file,
                limiter: LimiterOptions {
                    headers: headers?,
                    names: DraftNames {
                        limit: limit?,
                        remaining: remaining?,
                        reset: reset?,
                    },
                    modes: Modes {
                        shadow: args.shadow,
                        quota: args.quota,
                    },
                    unknown_domain: unknown_domain?,
                    on_store_failure: on_store_failure?,
                },
                server: ServerOptions {
                    workers: workers?.unwrap_or_else(processors),
                    drain: drain?,
                    connection_age: connection_age?,
                },
                ready_file: args.ready_file,
                log: log?,
                log_level: log_level?,
            })
        };
        if mistakes.0.is_empty() {
            all().ok_or(mistakes)
        } else {
            Err(mistakes)
        }
    }
}

/// Each is a thread with counts of its own: more than any machine has processors is a slip of the hand.
const MOST_WORKERS: u32 = 1024;

const NO_POLICY: &str =
    "there is no policy to serve: pass POLICY, a file or a folder of them, as often as needed

    comporta serve policy.yaml

or name one in COMPORTA_POLICY. The shortest policy that limits something is

    domain: edge
    descriptors:
      - key: client
        rate_limit: { rate: 60/minute }

and `comporta check policy.yaml` tells what is wrong with one.";

/// Reads values one after another and keeps what is wrong with them.
#[derive(Default)]
struct Reader {
    mistakes: Vec<String>,
}

impl Reader {
    fn value<T>(&mut self, flag: &str, text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        parse(text)
            .map_err(|mistake| self.mistakes.push(format!("--{flag}: {mistake}")))
            .ok()
    }

    /// Absent when the text is wrong; `Some(None)` when there is none.
    fn optional<T>(
        &mut self,
        flag: &str,
        text: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        match text {
            Some(text) => self.value(flag, text, parse).map(Some),
            None => Some(None),
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no address with a port, such as 127.0.0.1:8081 or [::]:8081"))
}

/// What holds while the shared store cannot decide.
pub(super) fn on_store_failure(text: &str) -> Result<OnStoreFailure, String> {
    one_of(text, &OnStoreFailure::ALL.map(|choice| (choice.name(), choice)))
}

fn unknown_domain(text: &str) -> Result<UnknownDomain, String> {
    one_of(
        text,
        &[("pass", UnknownDomain::Pass), ("error", UnknownDomain::Error)],
    )
}

fn headers(text: &str) -> Result<HeaderStyle, String> {
    one_of(
        text,
        &[
            ("ietf", HeaderStyle::Ietf),
            ("draft03", HeaderStyle::Draft03),
            ("both", HeaderStyle::Both),
            ("off", HeaderStyle::Off),
        ],
    )
}

fn field_name(text: &str) -> Result<FieldName, String> {
    FieldName::parse(text).map_err(|error| error.to_string())
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    one_of(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
}

fn log_level(text: &str) -> Result<String, String> {
    logs::check_level(text).map(|()| text.to_owned())
}

pub(super) fn prefix(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err(String::from(
            "must not be empty: it tells our keys from others in the same Redis",
        ));
    }
    Ok(text.to_owned())
}

fn batch(text: &str) -> Result<usize, String> {
    at_most(MOST_KEYS as u32, text).map(|keys| keys.get() as usize)
}

fn number(text: &str) -> Result<NonZeroU32, String> {
    at_most(u32::MAX, text)
}

/// How many instances share a budget: not more than it can be divided by.
pub(super) fn instances(text: &str) -> Result<NonZeroU32, String> {
    at_most(MOST_INSTANCES, text)
}

fn workers(text: &str) -> Result<usize, String> {
    at_most(MOST_WORKERS, text).map(|workers| workers.get() as usize)
}

fn at_most(most: u32, text: &str) -> Result<NonZeroU32, String> {
    text.parse()
        .ok()
        .filter(|number: &NonZeroU32| number.get() <= most)
        .ok_or_else(|| format!("`{text}` is no whole number from 1 to {most}"))
}

fn age(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" {
        Ok(None)
    } else {
        positive(text)
            .map(Some)
            .map_err(|mistake| format!("{mistake}, or off"))
    }
}

pub(super) fn positive(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err(String::from("must be longer than nothing")),
        time => Ok(time),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    text.parse::<SignedDuration>()
        .ok()
        .and_then(|time| Duration::try_from(time).ok())
        .ok_or_else(|| format!("`{text}` is no time, such as 150ms, 5s or 1h"))
}

fn one_of<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, choice)| *choice)
        .ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is none of {}", names.join(", "))
        })
}

pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Args, Command};

    fn settings(args: &[&str]) -> Result<Settings, Mistakes> {
        let all = ["comporta", "serve"].iter().chain(args);
        match Args::try_parse_from(all)
            .expect("an accepted command line")
            .command
        {
            Command::Serve(args) => Settings::new(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn says_all_mistakes_at_once_each_with_its_flag() {
        let mistakes = settings(&[
            "p.yaml",
            "--grpc=8081",
            "--store=redis://:secret@h:port",
            "--drain=-1s",
            "--store-budget=0s",
            "--store-batch=0",
            "--instances=0",
            "--headers=none",
            "--header-reset=when: soon",
            "--on-store-failure=open",
            "--fallback-ceiling=many",
            "--connection-age=soon",
            "--key-prefix=",
        ])
        .expect_err("mistakes")
        .to_string();
        assert!(!mistakes.contains("secret"), "{mistakes}");
        let lines: Vec<_> = mistakes.lines().collect();
        assert_eq!(lines.len(), 12, "{mistakes}");
        assert_eq!(
            lines[0],
            "--grpc: `8081` is no address with a port, such as 127.0.0.1:8081 or [::]:8081"
        );
        assert!(
            lines.contains(&"--headers: `none` is none of ietf, draft03, both, off"),
            "{mistakes}"
        );
        assert!(
            lines.contains(&"--drain: `-1s` is no time, such as 150ms, 5s or 1h"),
            "{mistakes}"
        );
        assert!(
            lines.contains(&"--instances: `0` is no whole number from 1 to 1024"),
            "{mistakes}"
        );
    }

    #[test]
    fn without_a_policy_it_says_what_to_pass() {
        let mistakes = settings(&[]).expect_err("no policy").to_string();
        assert!(mistakes.contains("comporta serve policy.yaml"), "{mistakes}");
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let settings = settings(&["policy.yaml"]).expect("settings");
        assert_eq!(settings.grpc.to_string(), "127.0.0.1:8081");
        assert_eq!(settings.admin.to_string(), "127.0.0.1:8080");
        assert!(matches!(settings.store, StoreSettings::Memory));
        assert_eq!(settings.server.drain, Duration::from_secs(5));
        assert_eq!(settings.limiter, LimiterOptions::default());
        assert!(settings.server.workers >= 1);
    }

    #[test]
    fn requests_share_script_calls_unless_told_otherwise() {
        let most_keys = |flags: &[&str]| {
            let args = [&["p", "--store", "redis://h:1"], flags].concat();
            match settings(&args).expect("settings").store {
                StoreSettings::Redis { most_keys, .. } => most_keys,
                StoreSettings::Memory => panic!("no Redis"),
            }
        };
        assert_eq!(most_keys(&[]), MOST_KEYS);
        assert_eq!(most_keys(&["--store-batch=1"]), 1);
        assert!(
            settings(&["p", "--store-batch=33"]).is_err(),
            "Redis would be held up"
        );
    }

    #[test]
    fn modes_and_names_are_taken_over() {
        let settings = settings(&["p", "--shadow", "--quota", "--header-reset=X-Reset"]).expect("settings");
        assert_eq!(
            settings.limiter.modes,
            Modes {
                shadow: true,
                quota: true
            }
        );
        assert_eq!(settings.limiter.names.reset.expect("a name"), "X-Reset");
    }

    #[test]
    fn a_password_is_printed_nowhere() {
        let settings = settings(&["p", "--store", "redis://limiter:hunter2@h:1/2"]).expect("settings");
        let printed = format!("{settings:?}");
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("h:1"), "{printed}");
    }
}

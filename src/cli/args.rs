//! What is typed: strings and paths. What they mean is for `settings` to say.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Parser, Subcommand};

use super::bench::args::{BENCH, BenchArgs};
use super::bench::baseline::BaselineArgs;
use super::deployment::StoreArgs;
use super::settings;
use crate::domain::check::{Charge, OnStoreFailure};
use crate::policy::Assumed;

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "comporta", version, about, max_term_width = 110)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer gateways by a policy
    #[command(
        after_help = "SIGHUP reloads the policy. SIGTERM and Ctrl-C stop after --drain, a second one at once.

\
                      Exit codes: 0 stopped, 1 could not serve or was told twice to stop, 2 not asked right."
    )]
    Serve(Box<ServeArgs>),
    /// Tell what is wrong with a policy
    #[command(after_help = "Exit codes: 0 nothing but warnings, 1 mistakes, 2 not asked right.")]
    Check(CheckArgs),
    /// Tell which rule a descriptor meets, and what that means
    #[command(
        override_usage = "comporta explain [OPTIONS] <POLICY>... <DESCRIPTOR>",
        after_help = "Exit codes: 0 a rule, 1 none or no usable policy, 2 not asked right."
    )]
    Explain(ExplainArgs),
    /// Tell whether a policy does what its tests say
    #[command(
        long_about = TEST,
        after_help = "Exit codes: 0 every test passed, 1 one failed or something is wrong with a file, 2 nothing to test."
    )]
    Test(TestArgs),
    /// Tell what is wrong with a Redis, before it bites
    #[command(after_help = "Exit codes: 0 nothing that would bite, 1 something would, 2 not asked right.")]
    Doctor(DoctorArgs),
    /// Show what a decision costs
    #[command(
        long_about = BENCH,
        after_help = "Exit codes: 0 measured, 1 could not measure, 2 not asked right."
    )]
    Bench(BenchArgs),
    /// What `bench` holds servers against
    #[command(hide = true)]
    Baseline(BaselineArgs),
    /// Ask a running server
    #[command(after_help = "Exit codes: 0 admitted, 1 refused at least once, 2 could not ask.")]
    Call(CallArgs),
}

/// What `serve` is told. Every flag can also be given in the environment.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// Policy files, or folders of them
    #[arg(value_name = "POLICY", env = "COMPORTA_POLICY")]
    pub policies: Vec<PathBuf>,

    /// What files are taken to say
    #[command(flatten)]
    pub assume: AssumeArgs,

    /// Where gateways ask; port 0 takes a free one
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "COMPORTA_GRPC",
        default_value = "127.0.0.1:8081"
    )]
    pub grpc: String,

    /// Where operators look: /live, /ready, /metrics, /policy; and where scripts ask: /json, /healthcheck
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "COMPORTA_ADMIN",
        default_value = "127.0.0.1:8080"
    )]
    pub admin: String,

    /// Where counters live
    #[command(flatten)]
    pub store: StoreArgs,

    /// The longest one decision may take in Redis
    #[arg(
        long,
        value_name = "TIME",
        env = "COMPORTA_STORE_BUDGET",
        default_value = "10ms"
    )]
    pub store_budget: String,

    /// The most counters of one script call that several requests share. It is here for `bench`, to show what it gains that
    /// calls share one: there is no other reason to change it
    #[arg(long, value_name = "N", hide = true)]
    pub store_batch: Option<String>,

    /// While Redis cannot decide, for rules that do not say: decide in this process by its share of each budget, let
    /// pass, refuse, or answer with an error, so that the gateway does as it is configured
    #[arg(
        long,
        value_name = "local|allow|deny|error",
        env = "COMPORTA_ON_STORE_FAILURE",
        default_value = "local"
    )]
    pub on_store_failure: String,

    /// How many instances share the Redis; each takes that part of a budget when it decides by itself. When not given, they
    /// hear each other through Redis
    #[arg(long, value_name = "N", env = "COMPORTA_INSTANCES")]
    pub instances: Option<String>,

    /// The most requests that this instance lets through while Redis cannot decide, all rules together, such as
    /// 5000/second: at once, and then so many more in each period. None are held to it where no rule could refuse them
    #[arg(long, value_name = "RATE", env = "COMPORTA_FALLBACK_CEILING")]
    pub fallback_ceiling: Option<String>,

    /// In front of every key in Redis
    #[arg(
        long,
        value_name = "TEXT",
        env = "COMPORTA_KEY_PREFIX",
        default_value = "comporta"
    )]
    pub key_prefix: String,

    /// A file with the secret by which the values of `secret` keys are hashed in counters: at least 16 bytes, the same for
    /// all instances. Needed for such keys on a shared store; in memory a random one will do
    #[arg(long, value_name = "PATH", env = "COMPORTA_KEY_SECRET_FILE")]
    pub key_secret_file: Option<PathBuf>,

    /// The most counters kept in this process; beyond that, new ones of a rule share one
    #[arg(
        long,
        value_name = "N",
        env = "COMPORTA_MAX_COUNTERS",
        default_value = "1000000"
    )]
    pub max_counters: String,

    /// Headers about the budget on every answer: `RateLimit` and `RateLimit-Policy`, the three of the older draft, both, or
    /// none. ietf when not given. A refusal says `Retry-After` in any case, but for domains with `compat: reference`:
    /// there it does not, and off is the default
    #[arg(long, value_name = "ietf|draft03|both|off", env = "COMPORTA_HEADERS")]
    pub headers: Option<String>,

    /// What `RateLimit-Limit` of the older draft is called instead
    #[arg(long, value_name = "NAME", env = "COMPORTA_HEADER_LIMIT")]
    pub header_limit: Option<String>,

    /// What `RateLimit-Remaining` of the older draft is called instead
    #[arg(long, value_name = "NAME", env = "COMPORTA_HEADER_REMAINING")]
    pub header_remaining: Option<String>,

    /// What `RateLimit-Reset` of the older draft is called instead
    #[arg(long, value_name = "NAME", env = "COMPORTA_HEADER_RESET")]
    pub header_reset: Option<String>,

    /// Refuse nobody: every rule is counted and reported as ever, and its status says what it would do
    #[arg(long, env = "COMPORTA_SHADOW", value_parser = BoolishValueParser::new())]
    pub shadow: bool,

    /// Take every rule for one with `quota_mode`: a request is refused only when all that it meets are spent
    #[arg(long, env = "COMPORTA_QUOTA", value_parser = BoolishValueParser::new())]
    pub quota: bool,

    /// Let calls about a domain that no policy is about pass, or answer them with an error. Either is counted and warned
    /// about
    #[arg(
        long,
        value_name = "pass|error",
        env = "COMPORTA_UNKNOWN_DOMAIN",
        default_value = "pass"
    )]
    pub unknown_domain: String,

    /// Threads that answer; one per processor when not given
    #[arg(long, value_name = "N", env = "COMPORTA_WORKERS")]
    pub workers: Option<String>,

    /// How long to go on serving after SIGTERM, while gateways look elsewhere
    #[arg(long, value_name = "TIME", env = "COMPORTA_DRAIN", default_value = "5s")]
    pub drain: String,

    /// About how long a gateway's connection is kept before it is asked to make a new one, so that new instances get
    /// their share
    #[arg(
        long,
        value_name = "TIME|off",
        env = "COMPORTA_CONNECTION_AGE",
        default_value = "1h"
    )]
    pub connection_age: String,

    /// Write the real addresses here, as JSON, once the server answers
    #[arg(long, value_name = "PATH", env = "COMPORTA_READY_FILE")]
    pub ready_file: Option<PathBuf>,

    /// How log lines look
    #[arg(long, value_name = "text|json", env = "COMPORTA_LOG", default_value = "text")]
    pub log: String,

    /// The least that is logged: error, warn, info, debug, trace; or nothing: off
    #[arg(
        long,
        value_name = "LEVEL",
        env = "COMPORTA_LOG_LEVEL",
        default_value = "info"
    )]
    pub log_level: String,
}

/// What `check` is told.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckArgs {
    /// Policy files, or folders of them
    #[arg(value_name = "POLICY", required_unless_present = "schema")]
    pub policies: Vec<PathBuf>,

    /// What files are taken to say
    #[command(flatten)]
    pub assume: AssumeArgs,

    /// One JSON object, for editors and pipelines
    #[arg(long)]
    pub json: bool,

    /// Print the JSON Schema of policy files instead, for editors
    #[arg(long, exclusive = true)]
    pub schema: bool,
}

/// What `explain` is told.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    /// Policy files, or folders of them; last what a gateway would send, as 'client=acme,plan=pro', where a comma in a value
    /// is written \,
    // One list, so that flags may stand anywhere between.
    #[arg(value_name = "POLICY|DESCRIPTOR", required = true)]
    pub policies_and_descriptor: Vec<OsString>,

    /// The domain that the gateway names; may be left out where the policies have one
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,

    /// How many instances share the budgets, for what holds while Redis is gone
    #[arg(long, value_name = "N", value_parser = settings::instances)]
    pub instances: Option<NonZeroU32>,

    /// What `serve` is told of rules that do not say what holds while Redis is gone
    #[arg(long, value_name = "local|allow|deny|error", value_parser = settings::on_store_failure)]
    pub on_store_failure: Option<OnStoreFailure>,

    /// What files are taken to say
    #[command(flatten)]
    pub assume: AssumeArgs,

    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// What is taken for said by files that cannot say it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AssumeArgs {
    /// Decide every domain as this other service does, as `compat: reference` in a file has it
    #[arg(long, value_name = "reference", env = "COMPORTA_COMPAT")]
    pub compat: Option<Compat>,

    /// When hits are charged by rules that do not say: if their request passes, if they fit, whatever the verdict
    #[arg(long, value_name = "all_or_nothing|each|always", env = "COMPORTA_CHARGE")]
    pub charge: Option<ChargeArg>,
}

impl AssumeArgs {
    /// What that means to a policy.
    pub fn assumed(&self) -> Assumed {
        Assumed {
            compat: self.compat.is_some(),
            charge: self.charge.map(|charge| match charge {
                ChargeArg::AllOrNothing => Charge::AllOrNothing,
                ChargeArg::Each => Charge::Each,
                ChargeArg::Always => Charge::Always,
            }),
        }
    }
}

/// Other services whose ways a domain may keep.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Compat {
    /// envoyproxy/ratelimit.
    Reference,
}

/// When hits are charged.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ChargeArg {
    /// If they fit and their request passes.
    AllOrNothing,
    /// If they fit.
    Each,
    /// Whatever the verdict.
    Always,
}

/// What `test` does, at length.
const TEST: &str = "Tell whether a policy does what its tests say.

A file of tests names a policy and says what it must answer to hits and to time that passes:

    policy: policy.yaml        # a file, a folder or a list of them, relative to this file
    tests:
      - name: one at once, then one a minute
        domain: edge           # may be left out where the policy has one domain
        steps:
          - { hit: \"client=a,plan=free\", expect: { verdict: ok, remaining: 0 } }
          - { hit: \"client=a,plan=free\", expect: { verdict: over, retry_after: 1m } }
          - { pass: 1m }
          - { hit: \"client=a,plan=free\", expect: { verdict: ok } }

Steps: hit, pass: 1h30m, at: 2026-01-31T23:59:59Z, reload: other-policy.yaml.
Beside hit: hits (0 looks, a negative number gives back), times, every: 100ms, expect.
In expect: verdict, rule, remaining, limit, name, retry_after, reset_after, cause, admitted, statuses.

Every test starts with whole budgets at 2026-01-01T00:00:00Z. Time is simulated and counters live in memory, so a
month takes no time and nothing else is touched.";

/// What `test` is told.
#[derive(Clone, Debug, clap::Args)]
pub struct TestArgs {
    /// Files of tests
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// What policy files are taken to say
    #[command(flatten)]
    pub assume: AssumeArgs,

    /// Everything as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What `doctor` is told.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorArgs {
    /// Where counters live
    #[command(flatten)]
    pub store: StoreArgs,

    /// The longest one decision may take in Redis
    #[arg(
        long,
        value_name = "TIME",
        env = "COMPORTA_STORE_BUDGET",
        default_value = "10ms"
    )]
    pub store_budget: String,

    /// In front of every key in Redis
    #[arg(
        long,
        value_name = "TEXT",
        env = "COMPORTA_KEY_PREFIX",
        default_value = "comporta"
    )]
    pub key_prefix: String,

    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// What `call` is told.
#[derive(Clone, Debug, clap::Args)]
pub struct CallArgs {
    /// Where the server is: 127.0.0.1:8081
    #[arg(value_name = "ADDRESS:PORT")]
    pub address: String,

    /// The domain to ask about
    pub domain: String,

    /// Descriptors, each as 'client=acme,plan=pro'; a comma in a value is written \,
    #[arg(value_name = "DESCRIPTOR", required = true)]
    pub descriptors: Vec<String>,

    /// How many hits each descriptor takes; 0 only looks, a negative number gives back
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub hits: Option<i64>,

    /// Ask so many times, one after another
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub times: u32,

    /// One JSON object per call
    #[arg(long)]
    pub json: bool,
}

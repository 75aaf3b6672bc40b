//! `comporta explain`: which rule a descriptor meets, and what that means.

mod as_json;
mod as_text;
mod limits;
mod misses;

use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;

use bytes::Bytes;

use super::args::ExplainArgs;
use super::descriptor::{self, TypedEntry};
use super::exit::Exit;
use super::sources;
use crate::domain::check::OnStoreFailure;
use crate::domain::descriptor::Entry;
use crate::policy::nearest::Near;
use crate::policy::trace::{End, Trace};
use crate::policy::{Policy, PolicySet, Rule};

/// How many rules are shown that a descriptor misses.
const NEAREST: usize = 3;

/// Explains as `args` say. That no rule is met is [`Exit::No`].
///
/// # Errors
/// When `out` or `err` cannot be written to.
pub fn explain(args: &ExplainArgs, out: &mut impl Write, err: &mut impl Write) -> io::Result<Exit> {
    let (policies, typed) = match read(&args.policies_and_descriptor) {
        Ok(read) => read,
        Err(mistake) => {
            writeln!(err, "{mistake}")?;
            return Ok(Exit::Usage);
        }
    };
    let entries: Vec<_> = descriptor::entries(&typed).collect();
    let set = sources::read(&policies)
        .and_then(|sources| PolicySet::parse_assuming(&sources, args.assume.assumed()));
    let set = match set {
        Ok(set) => set,
        Err(problems) => {
            write!(err, "{problems}")?;
            return Ok(Exit::No);
        }
    };
    let domain = match (&args.domain, set.policies()) {
        (Some(domain), _) => Bytes::from(domain.clone()),
        (None, [only]) => only.domain().clone(),
        (None, _) => {
            let domains: Vec<_> = set.domains().map(|domain| readable(domain)).collect();
            writeln!(
                err,
                "name one of these domains with --domain: {}",
                domains.join(", ")
            )?;
            return Ok(Exit::Usage);
        }
    };
    let explanation = Explanation {
        instances: args.instances,
        on_store_failure: args.on_store_failure,
        ..Explanation::new(&set, &domain, &entries)
    };
    if args.json {
        writeln!(out, "{}", as_json::as_json(&explanation))?;
    } else {
        as_text::write(&explanation, out)?;
    }
    Ok(if explanation.meets_a_rule() {
        Exit::Fine
    } else {
        Exit::No
    })
}

/// The policies and, in the last word, the descriptor.
fn read(words: &[OsString]) -> Result<(Vec<PathBuf>, Vec<TypedEntry>), String> {
    let [policies @ .., descriptor] = words else {
        return Err(String::from(INCOMPLETE));
    };
    if policies.is_empty() {
        return Err(String::from(INCOMPLETE));
    }
    let typed = descriptor::parse(&descriptor.to_string_lossy())?;
    let policies = policies.iter().map(PathBuf::from).collect();
    Ok((policies, typed))
}

const INCOMPLETE: &str =
    "name a policy and a descriptor: comporta explain policy.yaml 'client=acme,plan=pro'";

/// All that is to be said about a descriptor.
struct Explanation<'e> {
    domain: &'e [u8],
    entries: &'e [Entry<'e>],
    /// How many instances share the budgets, where that was said.
    instances: Option<NonZeroU32>,
    /// What holds while Redis is gone where rules do not say, if that was said.
    on_store_failure: Option<OnStoreFailure>,
    /// Absent where the set has no such domain.
    met: Option<Met<'e>>,
    /// Of the domains that the set has, the one that was probably meant.
    domain_like: Option<&'e str>,
    /// The domains that the set has.
    domains: Vec<String>,
    /// Where no rule is met, the other domains with one for the descriptor.
    elsewhere: Vec<(String, &'e str)>,
}

/// What a descriptor meets in its domain.
struct Met<'e> {
    policy: &'e Policy,
    trace: Trace<'e, 'e>,
    /// Rules that it misses, where it meets none.
    nearest: Vec<Near<'e>>,
}

impl<'e> Explanation<'e> {
    fn new(set: &'e PolicySet, domain: &'e [u8], entries: &'e [Entry<'e>]) -> Self {
        let met = set.policy(domain).map(|policy| {
            let trace = policy.trace(entries);
            let nearest = match trace.end {
                End::Rule(_) => Vec::new(),
                _ => policy.nearest(entries, NEAREST),
            };
            Met {
                policy,
                trace,
                nearest,
            }
        });
        let missed = !met.as_ref().is_some_and(Met::has_rule);
        let others = set.policies().iter().filter(|policy| policy.domain() != domain);
        let elsewhere = others
            .filter(|_| missed)
            .filter_map(|policy| Some((readable(policy.domain()), &*policy.find(entries)?.rule.path)))
            .collect();
        Self {
            domain,
            entries,
            instances: None,
            on_store_failure: None,
            met,
            domain_like: std::str::from_utf8(domain)
                .ok()
                .and_then(|domain| set.domain_like(domain)),
            domains: set.domains().map(|domain| readable(domain)).collect(),
            elsewhere,
        }
    }

    /// What holds for `rule` while Redis is gone.
    fn choice(&self, rule: &Rule) -> OnStoreFailure {
        rule.on_store_failure
            .or(self.on_store_failure)
            .unwrap_or_default()
    }

    fn meets_a_rule(&self) -> bool {
        self.met.as_ref().is_some_and(Met::has_rule)
    }
}

impl Met<'_> {
    const fn has_rule(&self) -> bool {
        matches!(self.trace.end, End::Rule(_))
    }
}

/// The value of an entry as it was asked about; a word in its place where it is secret.
fn value_of(entry: &Entry<'_>, policy: &Policy) -> String {
    if policy.is_secret(entry.key) {
        String::from("(secret)")
    } else {
        readable(entry.value)
    }
}

/// Bytes as a line of text: what would move a terminal's cursor is escaped.
fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .flat_map(|character| {
            let escaped = character.is_control().then(|| character.escape_default());
            let plain = escaped.is_none().then_some(character);
            plain.into_iter().chain(escaped.into_iter().flatten())
        })
        .collect()
}

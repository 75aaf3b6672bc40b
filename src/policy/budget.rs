//! From what is written about limits to limits that can be held.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;

use crate::domain::limit::{Algorithm, Limit, LimitError, LimitSpec, Unit};
use crate::domain::time::Micros;

use super::Limits;
use super::forms::{LimitForm, LimitsForm, NodeForm, PlanForm};
use super::limits::MOST;
use super::lint;
use super::node::{Located, Place, shown};
use super::path::period_suffix;
use super::problem::Report;
use super::table::Tables;

/// What a rule holds its callers to.
#[derive(Debug)]
pub(super) enum Budget {
    /// The same for all.
    Flat(Share),
    /// By the caller's plan.
    ByPlan {
        /// The entry, counted from 0, whose value names the row.
        entry: usize,
        rows: HashMap<Bytes, Share>,
        /// For a plan that is not listed. Boxed, so that rules without plans are small.
        default: Box<Share>,
    },
}

/// What one caller is held to.
#[derive(Debug)]
pub(super) struct Share {
    pub limits: Limits,
    /// A bit for each limit, by its place: whether it alone is only watched.
    pub shadowed: u8,
}

/// How a domain reads limits where they do not say.
#[derive(Clone, Copy, Default)]
pub(super) struct Manner {
    /// As the reference does.
    pub compat: bool,
    /// Of limits without a burst.
    pub algorithm: Option<Algorithm>,
}

impl Manner {
    fn algorithm_of(self, form: &LimitForm) -> Algorithm {
        let usual = if self.compat {
            Algorithm::FixedWindow
        } else {
            Algorithm::SlidingWindow
        };
        match form.algorithm {
            Some(algorithm) => algorithm.value,
            None if form.burst.is_some() => Algorithm::TokenBucket,
            None => self.algorithm.unwrap_or(usual),
        }
    }
}

/// The rule that a budget is made for.
pub(super) struct Site<'s> {
    /// Names the limits that have no name of their own.
    pub path: &'s Arc<str>,
    /// The nodes that lead to it, itself the last.
    pub nodes: &'s [&'s NodeForm],
    pub tables: &'s Tables<'s>,
    pub manner: Manner,
    /// The longest delay of limits that do not say; zero refuses at once.
    pub excess: Option<Located<Micros>>,
}

impl Budget {
    /// Of a rule that counts nothing.
    pub(super) const fn unlimited() -> Self {
        Self::Flat(Share {
            limits: Limits::Unlimited,
            shadowed: 0,
        })
    }

    pub(super) fn new(form: &LimitsForm, site: &Site<'_>, report: &mut Report) -> Option<Self> {
        let mut entry = None;
        let mut plans: Vec<&str> = Vec::new();
        for plan in form.items.iter().filter_map(|item| item.plan.as_ref()) {
            let table = site.tables.find(plan, report)?;
            plans.extend(table.rows.iter().map(|(name, _)| &*name.value));
            let named = site.plan_entry(plan, report)?;
            if *entry.get_or_insert(named) != named {
                report.error(
                    plan.table.place,
                    "the plans of one list are named by different entries",
                );
                return None;
            }
        }
        let share = |plan: Option<&str>, report: &mut Report| {
            let pieces = form
                .items
                .iter()
                .map(|item| site.pieces(item, form.is_list, plan))
                .collect::<Option<Vec<_>>>()?;
            share(&pieces.concat(), site.path, site.manner, report)
        };
        let Some(entry) = entry else {
            return share(None, report).map(Self::Flat);
        };
        let mut rows = HashMap::with_capacity(plans.len());
        for plan in plans {
            rows.insert(
                Bytes::copy_from_slice(plan.as_bytes()),
                share(Some(plan), report)?,
            );
        }
        Some(Self::ByPlan {
            entry,
            rows,
            default: Box::new(share(None, report)?),
        })
    }

    /// The entry that names the caller's plan.
    pub(super) const fn plan_entry(&self) -> Option<usize> {
        match self {
            Self::Flat(_) => None,
            Self::ByPlan { entry, .. } => Some(*entry),
        }
    }

    /// What a caller is held to whose plan is `plan`.
    pub(super) fn of(&self, plan: Option<&[u8]>) -> &Share {
        match self {
            Self::Flat(share) => share,
            Self::ByPlan { rows, default, .. } => plan.and_then(|plan| rows.get(plan)).unwrap_or(default),
        }
    }

    /// What any caller may be held to.
    pub(super) fn shares(&self) -> impl Iterator<Item = &Share> {
        let (first, rows) = match self {
            Self::Flat(share) => (share, None),
            Self::ByPlan { rows, default, .. } => (&**default, Some(rows)),
        };
        std::iter::once(first).chain(rows.into_iter().flat_map(HashMap::values))
    }
}

impl Share {
    /// The limits, none where everything passes.
    pub(super) fn held(&self) -> &[Limit] {
        match &self.limits {
            Limits::Unlimited => &[],
            Limits::Held(limits) => limits,
        }
    }
}

impl Site<'_> {
    /// The entry that names the row: this node's, or the nearest of the key asked for.
    fn plan_entry(&self, plan: &PlanForm, report: &mut Report) -> Option<usize> {
        let Some(key) = &plan.entry else {
            return Some(self.nodes.len() - 1);
        };
        let entry = self.nodes.iter().rposition(|node| node.key.value == key.value);
        if entry.is_none() {
            let keys: Vec<String> = self
                .nodes
                .iter()
                .map(|node| format!("`{}`", shown(&node.key.value)))
                .collect();
            report
                .error(
                    key.place,
                    format!("no entry `{}` leads to this rule", shown(&key.value)),
                )
                .hint(format!("the keys on its path are {}", keys.join(", ")));
        }
        entry
    }

    /// What an item says for the callers of `plan`, or of plans that are not listed.
    fn pieces(&self, item: &LimitForm, is_list: bool, plan: Option<&str>) -> Option<Vec<Piece>> {
        let excess = Excess::Settled(item.on_excess.or(self.excess));
        let Some(form) = &item.plan else {
            return Some(vec![Piece {
                form: item.clone(),
                is_listed: is_list,
                row_of: None,
                excess,
            }]);
        };
        let row = self.tables.row(form, plan)?;
        let piece = |limit: &LimitForm| Piece {
            form: limit.overridden_by(item),
            is_listed: is_list || row.is_list,
            row_of: Some(item.place),
            excess,
        };
        Some(row.items.iter().map(piece).collect())
    }
}

/// One limit to be.
#[derive(Clone)]
pub(super) struct Piece {
    pub form: LimitForm,
    /// Whether it is one of a list, and so named by its period as well.
    pub is_listed: bool,
    /// Where it is a row of a table: the rule that takes it from there.
    pub row_of: Option<Place>,
    pub excess: Excess,
}

/// What is known about the delay of a limit to be.
#[derive(Clone, Copy)]
pub(super) enum Excess {
    /// This is what is said about it, if anything.
    Settled(Option<Located<Micros>>),
    /// The rules that take a row from its table have yet to say.
    Open,
}

impl Excess {
    /// The delay of a limit of `algorithm`. Where it is open it is one with which all else can be checked.
    fn delay(self, algorithm: Algorithm) -> Micros {
        match (self, algorithm) {
            (Self::Settled(delay), _) => delay.map_or(Micros::ZERO, |delay| delay.value),
            (Self::Open, Algorithm::LeakyBucket) => Micros::SECOND,
            (Self::Open, _) => Micros::ZERO,
        }
    }

    /// Where a delay is asked for.
    fn place(self) -> Option<Place> {
        match self {
            Self::Settled(delay) => delay
                .filter(|delay| delay.value > Micros::ZERO)
                .map(|delay| delay.place),
            Self::Open => None,
        }
    }
}

/// All pieces held at once; where all are unlimited, nothing is.
pub(super) fn share(pieces: &[Piece], path: &Arc<str>, manner: Manner, report: &mut Report) -> Option<Share> {
    let mut limits = Vec::new();
    let mut shadowed = 0;
    let mut names = HashSet::new();
    let mut sound = true;
    for piece in pieces
        .iter()
        .filter(|piece| !piece.form.unlimited || !piece.form.sound)
    {
        let Some(limit) = piece.limit(path, manner, report) else {
            sound = false;
            continue;
        };
        if !names.insert(Arc::clone(limit.name())) {
            report
                .error(
                    piece.form.place,
                    format!("two limits of one rule are named `{}`", limit.name()),
                )
                .hint("give each a `name` of its own");
            sound = false;
        }
        if limits.len() < MOST {
            shadowed |= u8::from(piece.form.shadow_mode) << limits.len();
        }
        limits.push(limit);
    }
    if let Some(piece) = pieces.get(MOST).filter(|_| limits.len() > MOST) {
        report.error(
            piece.form.place,
            format!("a rule holds its callers to at most {MOST} limits at once"),
        );
        sound = false;
    }
    let limits = if limits.is_empty() {
        Limits::Unlimited
    } else {
        Limits::Held(limits.into_iter().collect())
    };
    sound.then_some(Share { limits, shadowed })
}

impl Piece {
    fn limit(&self, path: &Arc<str>, manner: Manner, report: &mut Report) -> Option<Limit> {
        let form = &self.form;
        if !form.sound {
            return None;
        }
        let (Some(count), Some(period)) = (self.count(manner), form.period) else {
            incomplete(form, report);
            return None;
        };
        let algorithm = manner.algorithm_of(form);
        let spec = LimitSpec {
            name: self.name(path, period.value),
            named: form.name.is_some(),
            count,
            period: period.value,
            algorithm,
            burst: form.burst.map(|burst| burst.value),
            delay: self.excess.delay(algorithm),
            calendar: !manner.compat,
        };
        let uneven = matches!(period.value.unit, Unit::Month | Unit::Year);
        if uneven && algorithm != Algorithm::FixedWindow {
            let unit = period.value.unit;
            let days = unit.length().get() / Micros::DAY.get();
            report
                .warning(
                    period.place,
                    format!(
                        "a {} is always {days} days under {}",
                        unit.name(),
                        algorithm.name()
                    ),
                )
                .hint("`algorithm: fixed_window` follows the calendar");
        }
        match Limit::new(spec) {
            Ok(limit) => {
                if let Some(place) = self.excess.place() {
                    lint::delay(&limit, place, report);
                }
                Some(limit)
            }
            Err(error) => {
                self.refuse(&error, report);
                None
            }
        }
    }

    /// Notes that there can be no such limit.
    fn refuse(&self, error: &LimitError, report: &mut Report) {
        let form = &self.form;
        let noted = match self.row_of {
            None => report.error(place_of(error, form), error.to_string()),
            Some(place) => {
                let message = format!("a row of the table does not go with what is said here: {error}");
                report.error(place, message).also(form.place, "the row")
            }
        };
        if let (LimitError::Delay(_), Some(place)) = (error, self.excess.place()) {
            noted
                .hint("write `algorithm: token_bucket`, or `on_excess: reject` for it")
                .also(place, "the delay");
        }
    }

    /// In the reference a number that is left out is zero.
    fn count(&self, manner: Manner) -> Option<u32> {
        let zero = manner.compat && self.form.period.is_some();
        self.form.count.map(|count| count.value).or(zero.then_some(0))
    }

    fn name(&self, path: &Arc<str>, period: crate::domain::limit::Period) -> Arc<str> {
        match &self.form.name {
            // A rule that renames a row that is a list renames all of it.
            Some(name) if self.row_of.is_none() || !self.is_listed => Arc::clone(&name.value),
            Some(name) => format!("{}:{}", name.value, period_suffix(period)).into(),
            None if self.is_listed => format!("{path}:{}", period_suffix(period)).into(),
            None => Arc::clone(path),
        }
    }
}

fn incomplete(form: &LimitForm, report: &mut Report) {
    match (form.count, form.period) {
        (Some(count), None) => report.error(count.place, "`requests_per_unit` needs a `unit`"),
        (None, Some(period)) => report.error(period.place, "`unit` needs `requests_per_unit`"),
        _ => report
            .error(form.place, "a limit needs a `rate`")
            .hint("write, say, `rate: 100/minute`, or `unlimited: true`"),
    };
}

/// The part of the form that an error is about.
fn place_of(error: &LimitError, form: &LimitForm) -> Place {
    let burst = form.burst.map(|burst| burst.place);
    let algorithm = form.algorithm.map(|algorithm| algorithm.place);
    let period = form.period.map(|period| period.place);
    match error {
        LimitError::Burst(_) | LimitError::Drain { .. } => burst.or(period),
        LimitError::Delay(_) | LimitError::NoQueue => algorithm,
        LimitError::Period(_) => period,
    }
    .unwrap_or(form.place)
}

//! Reads the steps of a test.

use super::expect::{Expectation, Figures, OrNone, Retry, Shape};
use super::file::{Form, place};
use super::words::{END, START, hits, moment, span, too_late};
use super::{Action, Hit, Step};
use crate::cli::descriptor::{self, TypedEntry};
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::Verdict;
use crate::policy::reading::{At, Fields, Mistake, Part, Reader, meant, rate, whole};
use crate::service::answer::Cause;

/// What a step does: one of these.
const ACTIONS: [&str; 4] = ["hit", "pass", "at", "reload"];

/// What a step can say beside `hit`.
const BESIDE_HIT: [&str; 4] = ["hits", "times", "every", "expect"];

/// The most times of one step: more is a slip that would take minutes.
const MOST_TIMES: u32 = 1_000_000;

/// The steps of a test.
pub(super) struct Steps(pub(super) Vec<Step>);

impl Steps {
    /// Reads the `steps` of the test at `at`. Its clock is followed, so that it stays within its bounds.
    pub(super) fn read(form: &mut Form, test: &Fields, at: At) -> Self {
        let Some(part) = test.get("steps") else {
            return Self(Vec::new());
        };
        let items = form.reader.list("steps", part).unwrap_or_default();
        if items.is_empty() && part.is_list() {
            form.reader.error(part.at(), "a test needs `steps`", None);
        }
        let mut clock = START;
        let read: Vec<_> = items.iter().map(|item| step(form, item, &mut clock)).collect();
        let all_sound = read.iter().all(Option::is_some);
        let steps = Self(read.into_iter().flatten().collect());
        if all_sound && !steps.0.is_empty() && steps.expectations().next().is_none() {
            form.reader
                .error(at, "no step of this test expects anything", None);
        }
        steps
    }

    /// Whether the test is about a domain that no policy has.
    pub(super) fn expect_an_unknown_domain(&self) -> bool {
        self.expectations()
            .any(|expect| expect.cause == Some(Cause::UnknownDomain))
    }

    fn expectations(&self) -> impl Iterator<Item = &Expectation> {
        self.0.iter().filter_map(|step| match &step.action {
            Action::Hit(hit) => hit.expect.as_ref(),
            _ => None,
        })
    }
}

fn step(form: &mut Form, part: &Part, clock: &mut Timestamp) -> Option<Step> {
    const KNOWN: [&str; 8] = ["hit", "pass", "at", "reload", "hits", "times", "every", "expect"];
    let errors = form.reader.errors();
    let fields = form.reader.fields("a step", part, &KNOWN)?;
    let said: Vec<_> = ACTIONS
        .into_iter()
        .filter(|key| fields.get(key).is_some())
        .collect();
    let [action] = said.as_slice() else {
        // Of a step with an unknown key that has been said.
        if form.reader.errors() == errors || !said.is_empty() {
            let hint = (said.len() > 1).then_some("make it two steps");
            form.reader.error(
                part.at(),
                "a step is one of `hit`, `pass`, `at` and `reload`",
                hint,
            );
        }
        return None;
    };
    let stray = BESIDE_HIT
        .into_iter()
        .find_map(|key| Some((key, fields.place_of(key)?)));
    if let Some((key, at)) = stray.filter(|_| *action != "hit") {
        form.reader
            .error(at, format!("`{key}` belongs beside `hit`"), None);
    }
    let value = fields.get(action)?;
    let action = match *action {
        "hit" => Action::Hit(hit(&mut form.reader, &fields, value, clock)?),
        "pass" => {
            let pass = form.reader.parse("pass", value, span)?;
            move_to(&mut form.reader, "pass", value, clock, clock.plus(pass))?;
            Action::Pass(pass)
        }
        "at" => {
            let moment = form.reader.parse("at", value, moment)?;
            *clock = moment;
            Action::At(moment)
        }
        _ => Action::Reload(form.policy("reload", value)?.sources),
    };
    Some(Step {
        place: place(part.at()),
        action,
    })
}

/// Moves the clock, within the bounds of a test.
fn move_to(reader: &mut Reader, key: &str, part: &Part, clock: &mut Timestamp, to: Timestamp) -> Option<()> {
    if to > END {
        return reader.parse(key, part, |_| Err(too_late()));
    }
    *clock = to;
    Some(())
}

fn hit(reader: &mut Reader, fields: &Fields, value: &Part, clock: &mut Timestamp) -> Option<Hit> {
    let written = descriptor_texts(reader, value);
    let entries = written
        .as_ref()
        .and_then(|written| descriptors(reader, value, written));
    let count = written.as_ref().map_or(1, Vec::len);
    let hits = fields.get("hits").map_or_else(
        || Some(vec![Hits::Take(1); count]),
        |part| each_hits(reader, part, count),
    );
    let times = fields.get("times").map_or(Some(1), |part| times(reader, part));
    let every = fields
        .get("every")
        .map_or(Some(Micros::ZERO), |part| reader.parse("every", part, span));
    let expect = fields.get("expect").map(|part| expectation(reader, part, count));
    let (times, every) = (times?, every?);
    if let Some(part) = fields.get("every") {
        let whole = every.get().saturating_mul(u64::from(times - 1));
        move_to(reader, "every", part, clock, clock.plus(Micros::new(whole)))?;
    }
    let descriptors = entries?.into_iter().zip(hits?).collect();
    Some(Hit {
        written: written?,
        descriptors,
        times,
        every,
        expect: match expect {
            Some(expect) => Some(expect?),
            None => None,
        },
    })
}

fn descriptor_texts(reader: &mut Reader, value: &Part) -> Option<Vec<String>> {
    if !value.is_list() {
        return Some(vec![reader.text("hit", value)?]);
    }
    let items = reader.list("hit", value)?;
    if items.is_empty() {
        reader.error(value.at(), "`hit` takes descriptors, found none", None);
        return None;
    }
    items.iter().map(|item| reader.text("hit", item)).collect()
}

fn descriptors(reader: &mut Reader, value: &Part, written: &[String]) -> Option<Vec<Vec<TypedEntry>>> {
    let mut read = Vec::new();
    for text in written {
        match descriptor::parse(text) {
            Ok(entries) => read.push(entries),
            Err(mistake) => reader.error(value.at(), format!("`hit` takes descriptors: {mistake}"), None),
        }
    }
    (read.len() == written.len()).then_some(read)
}

/// One number for all descriptors, or one for each.
fn each_hits(reader: &mut Reader, part: &Part, count: usize) -> Option<Vec<Hits>> {
    if !part.is_list() {
        return Some(vec![reader.parse("hits", part, hits)?; count]);
    }
    let items = reader.list("hits", part)?;
    if !fits(reader, "hits", "numbers", part, items.len(), count) {
        return None;
    }
    items
        .iter()
        .map(|item| reader.parse("hits", item, hits))
        .collect()
}

fn fits(reader: &mut Reader, key: &str, things: &str, part: &Part, found: usize, count: usize) -> bool {
    if found != count {
        let plural = if count == 1 { "" } else { "s" };
        let message = format!("`{key}` has {found} {things} for {count} descriptor{plural}");
        reader.error(part.at(), message, None);
    }
    found == count
}

fn times(reader: &mut Reader, part: &Part) -> Option<u32> {
    match reader.whole("times", part)? {
        0 => reader.error(part.at(), "`times` must be at least 1", None),
        times @ 1..=MOST_TIMES => return Some(times),
        _ => reader.error(part.at(), format!("`times` is at most {MOST_TIMES}"), None),
    }
    None
}

const FIGURES: [&str; 6] = [
    "verdict",
    "remaining",
    "limit",
    "name",
    "retry_after",
    "reset_after",
];

fn expectation(reader: &mut Reader, part: &Part, count: usize) -> Option<Expectation> {
    const KNOWN: [&str; 10] = [
        "verdict",
        "remaining",
        "limit",
        "name",
        "retry_after",
        "reset_after",
        "rule",
        "cause",
        "admitted",
        "statuses",
    ];
    let errors = reader.errors();
    let fields = reader.fields("`expect`", part, &KNOWN)?;
    if fields.is_empty() && reader.errors() == errors {
        reader.error(part.at(), "`expect` expects nothing", None);
    }
    let mut figures = figures(reader, &fields);
    Some(Expectation {
        // Of the answer as a whole, not of the status that decided.
        verdict: figures.verdict.take(),
        rule: or_none(reader, &fields, "rule", |text| Ok(text.to_owned())),
        cause: fields
            .get("cause")
            .and_then(|part| reader.parse("cause", part, cause)),
        admitted: fields
            .get("admitted")
            .and_then(|part| reader.whole("admitted", part)),
        statuses: fields
            .get("statuses")
            .and_then(|part| statuses(reader, part, count)),
        figures,
    })
}

fn statuses(reader: &mut Reader, part: &Part, count: usize) -> Option<Vec<Figures>> {
    let items = reader.list("statuses", part)?;
    if !fits(reader, "statuses", "items", part, items.len(), count) {
        return None;
    }
    items
        .iter()
        .map(|item| {
            let fields = reader.fields("an item of `statuses`", item, &FIGURES)?;
            Some(figures(reader, &fields))
        })
        .collect()
}

fn figures(reader: &mut Reader, fields: &Fields) -> Figures {
    Figures {
        verdict: fields
            .get("verdict")
            .and_then(|part| reader.parse("verdict", part, verdict)),
        remaining: or_none(reader, fields, "remaining", whole),
        limit: or_none(reader, fields, "limit", shape),
        name: or_none(reader, fields, "name", |text| Ok(text.to_owned())),
        retry_after: fields
            .get("retry_after")
            .and_then(|part| reader.parse("retry_after", part, retry)),
        reset_after: or_none(reader, fields, "reset_after", span),
    }
}

fn or_none<T>(
    reader: &mut Reader,
    fields: &Fields,
    key: &str,
    parse: impl FnOnce(&str) -> Result<T, Mistake>,
) -> Option<OrNone<T>> {
    reader.parse(key, fields.get(key)?, |text| match text {
        "none" => Ok(OrNone::None),
        text => parse(text).map(OrNone::Some),
    })
}

fn verdict(text: &str) -> Result<Verdict, Mistake> {
    match text {
        "ok" => Ok(Verdict::UnderLimit),
        "over" => Ok(Verdict::OverLimit),
        other => Err(Mistake {
            message: format!("is none of ok, over, found `{other}`"),
            hint: None,
        }),
    }
}

fn retry(text: &str) -> Result<Retry, Mistake> {
    match text {
        "none" => Ok(Retry::None),
        "never" => Ok(Retry::Never),
        text => span(text).map(Retry::After).map_err(|mistake| Mistake {
            hint: mistake.hint.map(|hint| format!("{hint}, or never, or none")),
            ..mistake
        }),
    }
}

fn shape(text: &str) -> Result<Shape, Mistake> {
    if text.contains('/') {
        return rate(text).map(|(count, period)| Shape {
            count,
            period: Some(period),
        });
    }
    match whole(text) {
        Ok(count) => Ok(Shape { count, period: None }),
        Err(mistake) => Err(Mistake {
            hint: Some(String::from("write, say, 60/minute or 60, or none")),
            ..mistake
        }),
    }
}

fn cause(text: &str) -> Result<Cause, Mistake> {
    Cause::ALL
        .into_iter()
        .find(|cause| cause.name() == text)
        .ok_or_else(|| Mistake {
            message: format!("has no `{text}`"),
            hint: Some(meant(text, &Cause::ALL.map(Cause::name))),
        })
}

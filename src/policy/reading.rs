//! Other files that people write beside policies, read as strictly: everything knows its place, and all mistakes are
//! reported at once.

use std::rc::Rc;

use super::node::{Node, Place, Value, shown};
use super::number::{self, Fault};
use super::problem::{Problems, Report};
use super::section::complain;
use super::spelling;
use super::tree;
use crate::domain::limit::Period;

/// Where something is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At(Place);

impl At {
    /// The line and the column, from 1; 1 and 1 for a file as a whole.
    pub(crate) fn line_and_column(self) -> (u32, u32) {
        self.0.spot().map_or((1, 1), |spot| (spot.line, spot.column))
    }
}

/// A part of a document.
#[derive(Clone)]
pub(crate) struct Part(Rc<Node>);

impl Part {
    /// Where it is.
    pub(crate) fn at(&self) -> At {
        At(self.0.place)
    }

    /// Whether it is a list.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.0.value, Value::List(_))
    }
}

/// A map whose keys are all known.
pub(crate) struct Fields(Vec<(&'static str, At, Part)>);

impl Fields {
    /// The value of `key`; absent and null are the same.
    pub(crate) fn get(&self, key: &str) -> Option<&Part> {
        self.find(key).map(|(_, _, part)| part)
    }

    /// Where `key` itself stands.
    pub(crate) fn place_of(&self, key: &str) -> Option<At> {
        self.find(key).map(|(_, at, _)| *at)
    }

    /// Whether nothing is said.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, key: &str) -> Option<&(&'static str, At, Part)> {
        self.0.iter().find(|(name, _, _)| *name == key)
    }
}

/// What is wrong with a written value, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Goes behind the name of what it is about: `must be a whole number, found 0.5`.
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl From<Fault> for Mistake {
    fn from(Fault { message, hint }: Fault) -> Self {
        Self { message, hint }
    }
}

/// A file while it is read.
pub(crate) struct Reader(Report);

impl Reader {
    /// The documents of the file that messages name `name`, but for those that are empty or cannot be read.
    pub(crate) fn open(name: &str, bytes: &[u8]) -> (Self, Vec<Part>) {
        let mut report = Report::new(vec![name.into()]);
        let documents = tree::read(0, bytes, &mut report);
        (Self(report), documents.into_iter().map(Part).collect())
    }

    /// Everything that was wrong.
    pub(crate) fn finish(self) -> Problems {
        self.0.finish()
    }

    /// How much was wrong so far.
    pub(crate) fn errors(&self) -> usize {
        self.0.errors()
    }

    /// Notes what is wrong at a place, and what to write there instead.
    pub(crate) fn error(&mut self, at: At, message: impl Into<String>, hint: Option<&str>) {
        self.0.error(at.0, message).maybe_hint(hint);
    }

    /// The map `part`, of which only `known` keys are kept.
    pub(crate) fn fields(&mut self, what: &str, part: &Part, known: &[&'static str]) -> Option<Fields> {
        let mut fields = Vec::new();
        for (key, value) in self.0.map(what, &part.0)? {
            match known.iter().find(|name| **name == key.value) {
                Some(name) if !value.is_null() => {
                    fields.push((*name, At(key.place), Part(Rc::clone(value))));
                }
                Some(_) => {}
                None => {
                    let hint = meant(&key.value, known);
                    self.0
                        .error(
                            key.place,
                            format!("unknown key `{}` in {what}", shown(&key.value)),
                        )
                        .hint(hint);
                }
            }
        }
        Some(Fields(fields))
    }

    /// The items of the list `part`.
    pub(crate) fn list(&mut self, key: &str, part: &Part) -> Option<Vec<Part>> {
        let items = self.0.list(key, &part.0)?;
        Some(items.iter().map(|item| Part(Rc::clone(item))).collect())
    }

    /// Any scalar, as it is written.
    pub(crate) fn text(&mut self, key: &str, part: &Part) -> Option<String> {
        self.0.text(key, &part.0).map(|text| text.value.to_string())
    }

    /// A whole number, 0 to 4294967295.
    pub(crate) fn whole(&mut self, key: &str, part: &Part) -> Option<u32> {
        self.0.whole(key, &part.0).map(|number| number.value)
    }

    /// What `parse` makes of the scalar `part`.
    pub(crate) fn parse<T>(
        &mut self,
        key: &str,
        part: &Part,
        parse: impl FnOnce(&str) -> Result<T, Mistake>,
    ) -> Option<T> {
        let text = self.text(key, part)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(Mistake { message, hint }) => {
                complain(&mut self.0, key, part.0.place, Fault { message, hint });
                None
            }
        }
    }
}

/// What to write instead of `written`, which is none of `known`.
pub(crate) fn meant(written: &str, known: &[&str]) -> String {
    match spelling::nearest(written, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// A whole number, as a policy writes one.
pub(crate) fn whole(text: &str) -> Result<u32, Mistake> {
    number::whole(text).map_err(Mistake::from)
}

/// `100/15m`, as a policy writes it.
pub(crate) fn rate(text: &str) -> Result<(u32, Period), Mistake> {
    super::rate::rate(text).map_err(Mistake::from)
}

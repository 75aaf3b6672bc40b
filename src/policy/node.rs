//! The parts of a located tree: nodes, and the places they are written at.

use std::rc::Rc;

use granit_parser::Span;

use super::problem::Spot;

/// Where something is written. Sorts by file, then line, then column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    /// The file's place in the set.
    pub source: u32,
    line: u32,
    column: u32,
    width: u32,
}

impl Place {
    /// A file as a whole.
    pub(super) const fn whole(source: u32) -> Self {
        Self {
            source,
            line: 0,
            column: 0,
            width: 0,
        }
    }

    /// The line and column; absent for a whole file.
    pub(super) fn spot(self) -> Option<Spot> {
        (self.line > 0).then_some(Spot {
            line: self.line,
            column: self.column,
            width: self.width,
        })
    }

    pub(super) fn new(source: u32, span: &Span) -> Self {
        let (start, end) = (span.start, span.end);
        let width = if start.line() == end.line() {
            end.col().saturating_sub(start.col())
        } else {
            1
        };
        Self::at(source, start.line(), start.col() + 1, width)
    }

    pub(super) fn at(source: u32, line: usize, column: usize, width: usize) -> Self {
        let narrow = |number: usize| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
        Self {
            source,
            line: narrow(line),
            column: narrow(column),
            width: narrow(width),
        }
    }
}

/// A value and where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Located<T> {
    pub place: Place,
    pub value: T,
}

/// A part of a document.
#[derive(Debug)]
pub(super) struct Node {
    pub place: Place,
    pub value: Value,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum Value {
    Scalar(Scalar),
    List(Vec<Rc<Node>>),
    Map(Vec<(Located<String>, Rc<Node>)>),
    /// Something was wrong with it, and that has been reported.
    Broken,
}

/// A scalar as it was written.
#[derive(Debug)]
pub(super) struct Scalar {
    pub text: String,
    /// Neither quoted nor a block, so that it may be a number, a boolean or null.
    pub plain: bool,
}

impl Scalar {
    /// Whether it stands for nothing.
    pub(super) fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

impl Node {
    /// Whether it stands for nothing.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.is_null())
    }

    /// What kind of thing it is, in words.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Scalar(scalar) if scalar.is_null() => "nothing",
            Value::Scalar(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Broken => "something broken",
        }
    }
}

/// `text` as it may stand in a message: on one line, and not for ever.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = text.chars().take(MOST).flat_map(escaped).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

fn escaped(character: char) -> impl Iterator<Item = char> {
    let (plain, odd) = if character.is_control() {
        (None, Some(character.escape_default()))
    } else {
        (Some(character), None)
    };
    plain.into_iter().chain(odd.into_iter().flatten())
}

//! Reading typed values out of the tree, noting what is not of the type asked for.

use std::rc::Rc;
use std::sync::Arc;

use super::forms::Text;
use super::keys::Level;
use super::node::{Located, Node, Place, Scalar, Value, shown};
use super::number::{Fault, whole};
use super::problem::Report;

/// A map whose keys are known to belong there.
pub(super) struct Section<'t> {
    pairs: Vec<(&'t Located<String>, &'t Node)>,
}

impl<'t> Section<'t> {
    /// The value of `key`; absent and null are the same.
    pub(super) fn get(&self, key: &str) -> Option<&'t Node> {
        self.pairs
            .iter()
            .find(|(name, _)| name.value == key)
            .map(|(_, node)| *node)
    }

    /// Where `key` itself stands, if it has a value.
    pub(super) fn place_of(&self, key: &str) -> Option<Place> {
        self.pairs
            .iter()
            .find(|(name, _)| name.value == key)
            .map(|(name, _)| name.place)
    }
}

/// Text that is there and not empty: generators write `value: ""` for none.
pub(super) fn text(section: &Section<'_>, key: &str, report: &mut Report) -> Option<Text> {
    report
        .text(key, section.get(key)?)
        .filter(|text| !text.value.is_empty())
}

/// Notes that `key` is not what it should be.
pub(super) fn complain(report: &mut Report, key: &str, place: Place, fault: Fault) {
    report
        .error(place, format!("`{key}` {}", fault.message))
        .maybe_hint(fault.hint);
}

/// What `text` is in YAML 1.1.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => Some(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => Some(false),
        _ => None,
    }
}

impl Report {
    /// The map `node`, of which only keys that belong to `level` are kept; null is an empty one.
    pub(super) fn section<'t>(&mut self, what: &str, node: &'t Node, level: Level) -> Option<Section<'t>> {
        let pairs = self
            .map(what, node)?
            .iter()
            .filter(|(key, _)| level.check(&key.value, key.place, self))
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, &**value))
            .collect();
        Some(Section { pairs })
    }

    /// The pairs of the map `node`.
    pub(super) fn map<'t>(
        &mut self,
        what: &str,
        node: &'t Node,
    ) -> Option<&'t [(Located<String>, Rc<Node>)]> {
        match &node.value {
            Value::Map(pairs) => Some(pairs),
            Value::Broken => None,
            _ => self.wrong_type(what, "a map of keys", node),
        }
    }

    /// The items of the list `node`.
    pub(super) fn list<'t>(&mut self, key: &str, node: &'t Node) -> Option<&'t [Rc<Node>]> {
        match &node.value {
            Value::List(items) => Some(items),
            Value::Broken => None,
            _ => self.wrong_type(&format!("`{key}`"), "a list", node),
        }
    }

    /// Any scalar, as it is written.
    pub(super) fn text(&mut self, key: &str, node: &Node) -> Option<Located<Arc<str>>> {
        let scalar = self.scalar(key, "text", node)?;
        Some(Located {
            place: node.place,
            value: scalar.text.as_str().into(),
        })
    }

    /// A boolean, in any of the spellings of YAML 1.1.
    pub(super) fn flag(&mut self, key: &str, node: &Node) -> Option<Located<bool>> {
        let scalar = self.scalar(key, "true or false", node)?;
        let value = boolean(&scalar.text).filter(|_| scalar.plain);
        match value {
            Some(value) => Some(Located {
                place: node.place,
                value,
            }),
            None => self.wrong_text(key, "true or false", node, scalar),
        }
    }

    /// A whole number, 0 to 4294967295.
    pub(super) fn whole(&mut self, key: &str, node: &Node) -> Option<Located<u32>> {
        let scalar = self.scalar(key, "a whole number", node)?;
        if !scalar.plain {
            return self.wrong_text(key, "a whole number", node, scalar);
        }
        self.parsed(key, node, whole(&scalar.text))
    }

    /// What `parse` makes of the scalar `node`.
    pub(super) fn parse<T>(
        &mut self,
        key: &str,
        node: &Node,
        parse: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Option<Located<T>> {
        let scalar = self.scalar(key, "text", node)?;
        self.parsed(key, node, parse(&scalar.text))
    }

    fn parsed<T>(&mut self, key: &str, node: &Node, result: Result<T, Fault>) -> Option<Located<T>> {
        match result {
            Ok(value) => Some(Located {
                place: node.place,
                value,
            }),
            Err(fault) => {
                complain(self, key, node.place, fault);
                None
            }
        }
    }

    fn scalar<'t>(&mut self, key: &str, wanted: &str, node: &'t Node) -> Option<&'t Scalar> {
        match &node.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::Broken => None,
            _ => self.wrong_type(&format!("`{key}`"), wanted, node),
        }
    }

    fn wrong_type<T>(&mut self, what: &str, wanted: &str, node: &Node) -> Option<T> {
        self.error(
            node.place,
            format!("{what} must be {wanted}, found {}", node.kind()),
        );
        None
    }

    fn wrong_text<T>(&mut self, key: &str, wanted: &str, node: &Node, scalar: &Scalar) -> Option<T> {
        let text = shown(&scalar.text);
        if scalar.plain {
            self.error(node.place, format!("`{key}` must be {wanted}, found `{text}`"));
        } else {
            self.error(
                node.place,
                format!("`{key}` must be {wanted}, found the text \"{text}\""),
            )
            .hint("remove the quotes");
        }
        None
    }
}

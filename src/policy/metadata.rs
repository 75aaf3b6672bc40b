//! What a rule adds to the answers it passes: any map, as JSON knows them.

use serde_json::{Map, Number, Value as Json};

use super::node::{Node, Place, Scalar, Value};
use super::section::boolean;

/// So many maps and lists may stand in each other, the outermost included. Each takes three levels of messages, and whoever
/// reads protobuf gives up behind a hundred.
pub const DEEPEST: usize = 16;

/// A map of JSON values.
pub type Metadata = Map<String, Json>;

/// `node` as JSON: plain scalars are null, booleans and numbers where they are written like these, and text otherwise.
pub(super) fn json(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(scalar) => scalar_as_json(scalar),
        Value::List(items) => items.iter().map(|item| json(item)).collect(),
        Value::Map(pairs) => Json::Object(
            pairs
                .iter()
                .map(|(key, value)| (key.value.clone(), json(value)))
                .collect(),
        ),
        Value::Broken => Json::Null,
    }
}

/// Where `node` holds more than [`DEEPEST`] maps and lists in each other.
pub(super) fn too_deep(node: &Node) -> Option<Place> {
    below(node, DEEPEST)
}

fn below(node: &Node, left: usize) -> Option<Place> {
    match &node.value {
        Value::Scalar(_) | Value::Broken => None,
        Value::List(_) | Value::Map(_) if left == 0 => Some(node.place),
        Value::List(items) => items.iter().find_map(|item| below(item, left - 1)),
        Value::Map(pairs) => pairs.iter().find_map(|(_, value)| below(value, left - 1)),
    }
}

fn scalar_as_json(scalar: &Scalar) -> Json {
    let text = scalar.text.as_str();
    if scalar.is_null() {
        return Json::Null;
    }
    let plain = scalar.plain.then(|| {
        boolean(text)
            .map(Json::Bool)
            .or_else(|| number(text).map(Json::Number))
    });
    plain.flatten().unwrap_or_else(|| Json::String(text.to_owned()))
}

/// A number, unless a leading zero leaves open which one is meant.
fn number(text: &str) -> Option<Number> {
    let digits = text.trim_start_matches(['+', '-']);
    let starts_as_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let leading_zero = digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
    if !starts_as_number || leading_zero {
        return None;
    }
    let whole = text.parse::<i64>().ok().map(Number::from);
    whole.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}

//! What a rule adds to the answers it passes: any map, as JSON knows them.

use serde_json::{Map, Number, Value as Json};

use super::node::{Node, Scalar, Value};
use super::section::boolean;

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

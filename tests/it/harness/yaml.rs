//! YAML as the tests' own data is written, read as JSON: no aliases, no tags, one document.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// The value of the only document in `text`.
pub fn read(text: &str) -> Value {
    let mut open: Vec<(bool, Vec<Value>)> = vec![(false, Vec::new())];
    for event in Parser::new_from_str(text) {
        let (event, span) = event.unwrap_or_else(|error| panic!("{error}"));
        let value = match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                open.push((matches!(event, Event::MappingStart(..)), Vec::new()));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop().expect("an open list or map") {
                (true, members) => map(members),
                (false, items) => Value::Array(items),
            },
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
            Event::Scalar(text, ..) => Value::from(text.as_ref()),
            Event::Alias(..) => panic!("an alias in line {}", span.start.line()),
            _ => continue,
        };
        open.last_mut().expect("the document").1.push(value);
    }
    let (_, mut documents) = open.pop().expect("the document");
    assert_eq!(documents.len(), 1, "documents");
    documents.remove(0)
}

fn map(members: Vec<Value>) -> Value {
    let pairs = members.chunks_exact(2).map(|pair| {
        let name = match &pair[0] {
            Value::String(name) => name.clone(),
            other => other.to_string(),
        };
        (name, pair[1].clone())
    });
    let count = members.len() / 2;
    let map: Map<_, _> = pairs.collect();
    assert_eq!(map.len(), count, "a name twice");
    Value::Object(map)
}

/// Null, a boolean or a number where it reads as one in JSON, else text.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    }
}

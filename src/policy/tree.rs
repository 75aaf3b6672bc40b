//! YAML as a tree in which everything knows its place.
//!
//! The parser gives events; this makes nodes of them, expands aliases and merge keys within bounds, and reports what
//! is wrong with the text as such. Scalars stay as they were written: what `yes` or `010` means is for whoever reads
//! them to say.

use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, Tag};

use super::node::{Located, Node, Place, Scalar, Value, shown};
use super::problem::Report;

/// The deepest that maps and lists may be nested, aliases included.
const DEEPEST: usize = 64;

/// The most nodes that the aliases of one file may stand for.
const MOST_ALIASED: u64 = 1_000_000;

/// The documents of a file, but for those that are empty or cannot be read.
pub(super) fn read(source: u32, bytes: &[u8], report: &mut Report) -> Vec<Rc<Node>> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let (good, rest) = bytes.split_at(error.valid_up_to());
            report
                .error(
                    end_of(source, good),
                    format!("this is not UTF-8: found the byte 0x{:02x}", rest[0]),
                )
                .hint("save the file as UTF-8");
            report.mark_partial();
            return Vec::new();
        }
    };
    let mut builder = Builder::new(source, report);
    let mut parser = Parser::new_from_str_with_options(text, options());
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => builder.take(event, &span),
            Err(error) => {
                builder.fail(&error);
                if !matches!(parser.proceed_next_document(), Ok(true)) {
                    break;
                }
            }
        }
    }
    builder.finish()
}

fn options() -> Options {
    granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        block_nesting_limit: DEEPEST,
        flow_nesting_limit: DEEPEST,
    }
}

/// The place just behind `text`.
fn end_of(source: u32, text: &[u8]) -> Place {
    let line = text.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(&text[start..]).chars().count() + 1;
    Place::at(source, line, column, 1)
}

/// A node and what it costs to use it again.
#[derive(Clone)]
struct Built {
    node: Rc<Node>,
    /// How many nodes it is when every alias in it is written out.
    weight: u64,
    /// How deep it is nested.
    height: usize,
}

/// A list or map whose end has not been seen.
struct Open {
    place: Place,
    anchor: usize,
    children: Vec<Built>,
    is_map: bool,
}

struct Builder<'r> {
    source: u32,
    report: &'r mut Report,
    documents: Vec<Rc<Node>>,
    open: Vec<Open>,
    anchors: HashMap<usize, Built>,
    aliased: u64,
    failed: bool,
}

impl<'r> Builder<'r> {
    fn new(source: u32, report: &'r mut Report) -> Self {
        Self {
            source,
            report,
            documents: Vec::new(),
            open: Vec::new(),
            anchors: HashMap::new(),
            aliased: 0,
            failed: false,
        }
    }

    fn take(&mut self, event: Event<'_>, span: &Span) {
        let place = Place::new(self.source, span);
        match event {
            Event::DocumentStart(..) => {
                self.anchors.clear();
                self.open.clear();
            }
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = scalar(&text, style, tag.as_deref(), span);
                let known = self.check_tag(tag.as_deref(), place);
                let value = if known {
                    Value::Scalar(scalar)
                } else {
                    Value::Broken
                };
                self.close(Node { place, value }, anchor, 1, 0);
            }
            Event::SequenceStart(_, anchor, tag) => self.open(place, anchor, tag.as_deref(), false),
            Event::MappingStart(_, anchor, tag) => self.open(place, anchor, tag.as_deref(), true),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(id) => self.alias(id, place),
            Event::UnresolvedAlias(name) => {
                self.report
                    .error(place, format!("no anchor `&{name}` stands before this alias"));
                self.place_broken(place);
            }
            _ => {}
        }
    }

    fn fail(&mut self, error: &ScanError) {
        self.failed = true;
        self.report.mark_partial();
        let marker = error.marker();
        let place = Place::at(self.source, marker.line(), marker.col() + 1, 1);
        let message = match error.kind() {
            granit_parser::ErrorKind::RecursionLimitExceeded => {
                format!("maps and lists are nested deeper than {DEEPEST} levels")
            }
            _ => format!("this is not YAML: {}", error.info()),
        };
        self.report.error(place, message);
        self.open.clear();
    }

    fn finish(self) -> Vec<Rc<Node>> {
        if self.documents.is_empty() && !self.failed {
            self.report.error_about(self.source, "the file is empty").hint(
                "a half-written file must not drop limits, so this is an error; remove the file, or write its `domain`",
            );
        }
        self.documents
    }

    fn open(&mut self, place: Place, anchor: usize, tag: Option<&Tag>, is_map: bool) {
        self.check_tag(tag, place);
        self.open.push(Open {
            place,
            anchor,
            children: Vec::new(),
            is_map,
        });
    }

    fn end(&mut self) {
        let Some(Open {
            place,
            anchor,
            children,
            is_map,
        }) = self.open.pop()
        else {
            return;
        };
        let weight = children
            .iter()
            .fold(1, |sum: u64, child| sum.saturating_add(child.weight));
        let height = 1 + children.iter().map(|child| child.height).max().unwrap_or(0);
        let value = if is_map {
            self.map(children)
        } else {
            Value::List(children.into_iter().map(|child| child.node).collect())
        };
        self.close(Node { place, value }, anchor, weight, height);
    }

    fn alias(&mut self, id: usize, place: Place) {
        let Some(target) = self.anchors.get(&id).cloned() else {
            self.report
                .error(place, "this alias stands inside its own anchor");
            return self.place_broken(place);
        };
        let before = self.aliased;
        self.aliased = before.saturating_add(target.weight);
        if self.aliased > MOST_ALIASED {
            if before > MOST_ALIASED {
                return self.place_broken(place);
            }
            self.report.error(
                place,
                format!("the aliases up to here stand for over {MOST_ALIASED} nodes"),
            );
            return self.place_broken(place);
        }
        if self.open.len() + target.height > DEEPEST {
            let message = format!("maps and lists are nested deeper than {DEEPEST} levels");
            self.report.error(place, message);
            return self.place_broken(place);
        }
        self.put(target);
    }

    fn place_broken(&mut self, place: Place) {
        self.close(
            Node {
                place,
                value: Value::Broken,
            },
            0,
            1,
            0,
        );
    }

    fn close(&mut self, node: Node, anchor: usize, weight: u64, height: usize) {
        let built = Built {
            node: Rc::new(node),
            weight,
            height,
        };
        if anchor != 0 {
            self.anchors.insert(anchor, built.clone());
        }
        self.put(built);
    }

    fn put(&mut self, built: Built) {
        match self.open.last_mut() {
            Some(open) => open.children.push(built),
            None if built.node.is_null() => {}
            None => self.documents.push(built.node),
        }
    }

    fn check_tag(&mut self, tag: Option<&Tag>, place: Place) -> bool {
        let known = tag.is_none_or(Tag::is_yaml_core_schema);
        if let Some(tag) = tag.filter(|_| !known) {
            self.report
                .error(place, format!("the tag `{}` is not known here", tag.original()))
                .hint("remove it");
        }
        known
    }

    /// A map of what stands between its braces: keys and values in turn.
    fn map(&mut self, children: Vec<Built>) -> Value {
        let mut pairs: Vec<(Located<String>, Rc<Node>)> = Vec::with_capacity(children.len() / 2);
        let mut seen: HashMap<String, Place> = HashMap::with_capacity(children.len() / 2);
        let mut merged = None;
        let mut children = children.into_iter();
        while let (Some(key), Some(value)) = (children.next(), children.next()) {
            let place = key.node.place;
            let Value::Scalar(scalar) = &key.node.value else {
                self.report
                    .error(place, format!("a key must be text, found {}", key.node.kind()));
                continue;
            };
            if scalar.is_null() {
                self.report.error(place, "a key is missing before the colon");
                continue;
            }
            if let Some(first) = seen.insert(scalar.text.clone(), place) {
                let message = format!("the key `{}` is given twice", shown(&scalar.text));
                self.report.error(place, message).also(first, "first at");
                continue;
            }
            if scalar.plain && scalar.text == "<<" {
                merged = Some(value.node);
            } else {
                pairs.push((
                    Located {
                        place,
                        value: scalar.text.clone(),
                    },
                    value.node,
                ));
            }
        }
        if let Some(node) = merged {
            self.merge(&node, &mut pairs, &mut seen);
        }
        Value::Map(pairs)
    }

    /// Adds the pairs of the map, or of the list of maps, behind `<<`. The map's own keys win, then the earlier map's.
    fn merge(
        &mut self,
        from: &Node,
        into: &mut Vec<(Located<String>, Rc<Node>)>,
        seen: &mut HashMap<String, Place>,
    ) {
        match &from.value {
            Value::Map(pairs) => {
                for (key, value) in pairs {
                    if !seen.contains_key(&key.value) {
                        seen.insert(key.value.clone(), key.place);
                        into.push((key.clone(), Rc::clone(value)));
                    }
                }
            }
            Value::List(maps) if maps.iter().all(|map| !matches!(map.value, Value::List(_))) => {
                for map in maps {
                    self.merge(map, into, seen);
                }
            }
            Value::Broken => {}
            _ => {
                let message = format!("`<<` takes a map or a list of maps, found {}", from.kind());
                self.report.error(from.place, message);
            }
        }
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, span: &Span) -> Scalar {
    let absent = span.is_empty() && style == ScalarStyle::Plain;
    Scalar {
        text: if absent { String::new() } else { text.to_owned() },
        plain: style == ScalarStyle::Plain && !tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str")),
    }
}

//! The JSON Schema (draft 2020-12) of a policy file, for editors.
//!
//! It is put together by hand from the tables of keys that the reader itself goes by, rather than derived from types: the
//! reader walks a tree whose every part knows its place, so there are no types to derive it from but a mirror of them,
//! which would be one more thing to keep in step. So a key cannot be in one and not in the other, and what is left to
//! hold by a test is that each has a shape.
//!
//! What the schema refuses, `check` refuses too, but for spellings that readers of YAML differ in. The other way round
//! it does not hold: what one key means for another, and one document for the next, is for `check` to say.

use serde_json::{Map, Value, json};

use crate::domain::check::OnStoreFailure;
use crate::domain::limit::{Algorithm, Unit};

use super::keys::Level;

/// The schema of one document.
pub fn schema() -> Value {
    let definitions: Map<String, Value> = Level::ALL
        .into_iter()
        .filter(|level| *level != Level::File)
        .map(|level| (name(level).to_owned(), object(level)))
        .chain([
            ("table".to_owned(), table()),
            ("limits".to_owned(), limits_of_row()),
        ])
        .collect();
    let mut schema = object(Level::File);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Comporta policy");
    schema["$defs"] = Value::Object(definitions);
    schema
}

/// What a level is called among the definitions.
const fn name(level: Level) -> &'static str {
    match level {
        Level::File => "file",
        Level::Defaults => "defaults",
        Level::Node => "node",
        Level::Limit => "limit",
        Level::Item => "item",
        Level::Row => "row",
        Level::Normalize => "normalize",
        Level::ForwardedFor => "forwarded_for",
        Level::Replaces => "replaced",
        Level::OnExcess => "on_excess",
        Level::Accuracy => "accuracy",
        Level::Lease => "lease",
    }
}

/// Keys without which a map of this level means nothing.
const fn required(level: Level) -> &'static [&'static str] {
    match level {
        Level::File => &["domain"],
        Level::Node => &["key"],
        Level::ForwardedFor => &["trusted_hops"],
        Level::Replaces => &["name"],
        Level::OnExcess => &["delay"],
        Level::Accuracy => &["lease"],
        _ => &[],
    }
}

fn object(level: Level) -> Value {
    let properties: Map<String, Value> = level
        .keys()
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), property(key, required(level).contains(key))?)))
        .collect();
    let mut object = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required(level).is_empty() {
        object["required"] = json!(required(level));
    }
    object
}

/// A key's shape with what it is for. Null is no value at all, which only a key that is needed must have.
fn property(key: &str, is_required: bool) -> Option<Value> {
    let shape = shape(key)?;
    let mut property = if is_required {
        shape
    } else {
        json!({ "anyOf": [shape, { "type": "null" }] })
    };
    property["description"] = json!(purpose(key)?);
    Some(property)
}

/// What may stand behind a key, which is the same wherever the key may stand.
fn shape(key: &str) -> Option<Value> {
    Some(match key {
        "domain" | "key" => word(),
        "descriptors" => list_of("node"),
        "plans" => map_of("table"),
        "defaults" => definition("defaults"),
        "compat" => one_of(["reference"]),
        "shard_by" | "value" | "advice" | "name" | "plan" | "plan_entry" => text(),
        "cidrs" => networks(),
        "rate_limit" => definition("limit"),
        "rate_limits" => limits(),
        "shadow_mode" | "quota_mode" | "detailed_metric" | "value_to_metric" | "share_threshold"
        | "counted" | "secret" | "unlimited" => flag(),
        "metadata" => json!({ "type": "object" }),
        "normalize" => definition("normalize"),
        "cost" | "unit_multiplier" | "burst" => whole(1, u32::MAX),
        "charge" => one_of(["all_or_nothing", "each", "always"]),
        "enforce" | "share" => percent(),
        "on_excess" => excess(),
        "on_store_failure" => one_of(OnStoreFailure::ALL.map(OnStoreFailure::name)),
        "accuracy" => accuracy(),
        "rate" => rate(),
        "unit" => any_case(&Unit::ALL.map(Unit::name)),
        "requests_per_unit" => whole(0, u32::MAX),
        "algorithm" => one_of(Algorithm::ALL.map(Algorithm::name)),
        "replaces" => list_of("replaced"),
        "ipv4_prefix" | "trusted_hops" => whole(0, 32),
        "ipv6_prefix" => whole(0, 128),
        "case" => one_of(["lower"]),
        "forwarded_for" => definition("forwarded_for"),
        "delay" | "ttl" => pattern("^[0-9]+m?s$"),
        "lease" => definition("lease"),
        _ => return None,
    })
}

/// What a key is for.
fn purpose(key: &str) -> Option<&'static str> {
    Some(match key {
        "domain" => "The domain, as the gateway sends it.",
        "descriptors" => "The nodes of the next level: where the next entry of a descriptor leads.",
        "plans" => "Tables of named budgets: what a plan buys, by purpose.",
        "defaults" => "What holds for all nodes of the domain that do not say.",
        "compat" => "Decide this domain as envoyproxy/ratelimit does.",
        "shard_by" => "The entry's key by which the domain's counters share a slot of a Redis Cluster.",
        "key" => "The key of the entry that leads here.",
        "value" => "The value that leads here, or a pattern with `*`; any other when absent.",
        "cidrs" => "Instead of `value`: the networks whose addresses lead here; the longest wins.",
        "rate_limit" => "The budget of each caller who arrives here.",
        "rate_limits" => "Several budgets that hold at once, such as 10/second and 1000/day.",
        "shadow_mode" => "Count and show, but refuse nobody.",
        "quota_mode" => "Refuse only when all quotas that a request meets are spent.",
        "detailed_metric" => "Metrics by the values of all entries that lead here.",
        "value_to_metric" => "Metrics by the value of this entry.",
        "share_threshold" => "All values of this pattern, or of these networks, share one counter.",
        "metadata" => "Returned to the gateway with answers that pass.",
        "counted" => "Whether the value is a part of the counter; false for an API key's id.",
        "secret" => "The value is hashed in counters and shown nowhere.",
        "normalize" => "How values of this key are read, on the whole level.",
        "cost" => "Multiplies the hits of what reaches this rule.",
        "advice" => "A sentence for the refused caller.",
        "charge" => "When hits are charged: if the request passes, if they fit, or whatever the verdict.",
        "enforce" => "The share of callers whom the rule can refuse.",
        "on_excess" => "What happens to what does not fit: `reject`, or wait for at most `delay`.",
        "on_store_failure" => {
            "What holds while Redis cannot decide: this instance's share of the budget, pass, refuse, or an error for the gateway."
        }
        "accuracy" => "`exact`, or a lease of hits that an instance spends by itself.",
        "rate" => "So many hits per period: 100/minute, 100/15m.",
        "unit" => "The period, for `requests_per_unit`.",
        "requests_per_unit" => "Hits per `unit`; 0 refuses everything.",
        "unit_multiplier" => "How many of `unit` the period is.",
        "burst" => "The capacity of a token_bucket: what may come at once.",
        "algorithm" => "How hits are counted.",
        "name" => "The name of the limit in answers, headers and counters.",
        "unlimited" => "Everything passes, and nothing is counted.",
        "replaces" => "Limits that are set aside when a request meets both.",
        "plan" => "A table of `plans`; this entry's value names the row.",
        "plan_entry" => "The key of another entry, whose value names the row.",
        "ipv4_prefix" => "IPv4 addresses are counted by networks of this length.",
        "ipv6_prefix" => "IPv6 addresses are counted by networks of this length.",
        "case" => "Capital letters count as small ones.",
        "forwarded_for" => "The value is an X-Forwarded-For list.",
        "trusted_hops" => "How many addresses at the end of the list are those of your own proxies.",
        "delay" => "The longest wait: 15ms, 2s.",
        "lease" => "A block of the budget that an instance spends by itself.",
        "share" => "How much of the budget a lease takes.",
        "ttl" => "How long a lease lasts.",
        _ => return None,
    })
}

fn definition(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn list_of(name: &str) -> Value {
    json!({ "type": "array", "items": definition(name) })
}

fn map_of(name: &str) -> Value {
    json!({ "type": "object", "additionalProperties": definition(name) })
}

/// Any scalar, kept as it is written.
fn text() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

/// Text that is not empty.
fn word() -> Value {
    json!({ "type": ["string", "number", "boolean"], "minLength": 1 })
}

/// Readers differ in which words are booleans.
fn flag() -> Value {
    let words = [
        "yes", "Yes", "YES", "on", "On", "ON", "y", "Y", "no", "No", "NO", "off", "Off", "OFF", "n", "N",
    ];
    json!({ "anyOf": [{ "type": "boolean" }, { "enum": words }] })
}

/// Readers differ in which of these are numbers: `5_000`, `0x10`.
fn whole(least: u32, most: u32) -> Value {
    json!({ "anyOf": [
        { "type": "integer", "minimum": least, "maximum": most },
        { "type": "string", "pattern": r"^([+]?[0-9][0-9_]*|0[xXoObB][0-9a-fA-F_]+)$" },
    ] })
}

fn pattern(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

fn percent() -> Value {
    pattern("^[0-9]+%$")
}

fn one_of<const N: usize>(words: [&str; N]) -> Value {
    json!({ "enum": words.to_vec() })
}

/// The words as they are, so that editors offer them, and in any other case.
fn any_case(words: &[&str]) -> Value {
    let any_case = |word: &&str| -> String {
        let letters = word
            .chars()
            .map(|letter| format!("[{letter}{}]", letter.to_ascii_uppercase()));
        letters.collect()
    };
    let all: Vec<String> = words.iter().map(any_case).collect();
    json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": format!("^({})$", all.join("|")) }] })
}

fn rate() -> Value {
    let mut rate = pattern("^[+]?[0-9][0-9_xXoObBa-fA-F]*/([0-9][0-9_]*[smhdw]|[a-zA-Z]+)$");
    rate["examples"] = json!(["60/minute", "1000/day", "100/15m"]);
    rate
}

fn networks() -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })
}

fn limits() -> Value {
    json!({ "type": "array", "items": definition("item"), "minItems": 1, "maxItems": 8 })
}

fn excess() -> Value {
    json!({ "anyOf": [one_of(["reject", "stale", "degrade", "async"]), definition("on_excess")] })
}

fn accuracy() -> Value {
    json!({ "anyOf": [one_of(["exact"]), definition("accuracy")] })
}

/// A table of plans: rows, and what a plan that is not listed gets.
fn table() -> Value {
    let default = json!({
        "anyOf": [text(), definition("limits")],
        "description": "What a plan that is not listed gets: a row's name, or a row.",
    });
    json!({
        "type": "object",
        "properties": { "default": default },
        "required": ["default"],
        "additionalProperties": definition("limits"),
    })
}

/// A row: a limit, or several that hold at once.
fn limits_of_row() -> Value {
    let several = json!({ "type": "array", "items": definition("row"), "minItems": 1, "maxItems": 8 });
    json!({ "anyOf": [definition("row"), several] })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The object of a level in the schema.
    fn of(level: Level) -> Value {
        match level {
            Level::File => schema(),
            level => schema()["$defs"][name(level)].clone(),
        }
    }

    #[test]
    fn every_level_has_the_keys_of_the_reader_and_no_other() {
        for level in Level::ALL {
            let known: BTreeSet<&str> = level.keys().iter().copied().collect();
            let object = of(level);
            let properties = object["properties"].as_object().expect("properties");
            let described: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
            assert_eq!(known, described, "{}", name(level));
            assert_eq!(object["additionalProperties"], false);
            for (key, property) in properties {
                let description = property["description"].as_str().expect("a description");
                assert!(description.ends_with('.'), "{key}");
            }
            for key in required(level) {
                assert!(known.contains(key), "{key}");
            }
        }
    }

    #[test]
    fn every_reference_leads_to_a_definition() {
        let schema = schema();
        let text = schema.to_string();
        let mut led_to = BTreeSet::new();
        for rest in text.split("#/$defs/").skip(1) {
            let name = rest.split('"').next().expect("a name");
            assert!(schema["$defs"][name].is_object(), "{name}");
            led_to.insert(name.to_owned());
        }
        let defined: BTreeSet<String> = schema["$defs"]
            .as_object()
            .expect("definitions")
            .keys()
            .cloned()
            .collect();
        assert_eq!(led_to, defined);
    }
}

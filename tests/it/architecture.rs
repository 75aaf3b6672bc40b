//! The layers hold: imports point only down the table, each crate stays where it belongs, and nothing below the service
//! reads a clock or waits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::repository;

/// A layer: its name, the layers it may import, and the crates it may use beside the standard library.
struct Layer {
    name: &'static str,
    below: &'static [&'static str],
    crates: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    Layer {
        name: "domain",
        below: &[],
        crates: &["smallvec", "thiserror"],
    },
    Layer {
        name: "clock",
        below: &["domain"],
        crates: &["libc"],
    },
    Layer {
        name: "policy",
        below: &["domain"],
        crates: &POLICY,
    },
    Layer {
        name: "decide",
        below: &["domain"],
        crates: &["smallvec"],
    },
    Layer {
        name: "store",
        below: &["domain", "decide"],
        crates: &STORE,
    },
    Layer {
        name: "store/redis",
        below: &["domain", "decide", "store"],
        crates: &REDIS,
    },
    Layer {
        name: "proto",
        below: &[],
        crates: &["prost", "tonic"],
    },
    Layer {
        name: "service",
        below: &["domain", "clock", "policy", "store", "proto"],
        crates: &SERVICE,
    },
    Layer {
        name: "telemetry",
        below: &["domain", "clock", "policy", "store", "service"],
        crates: &TELEMETRY,
    },
    Layer {
        name: "cli",
        below: &[
            "domain",
            "clock",
            "policy",
            "store",
            "store/redis",
            "service",
            "telemetry",
        ],
        crates: &CLI,
    },
    Layer {
        name: "main",
        below: &["cli"],
        crates: &["mimalloc"],
    },
];

const POLICY: [&str; 9] = [
    "bytes",
    "granit_parser",
    "hashbrown",
    "ipnet",
    "memchr",
    "serde_json",
    "siphasher",
    "smallvec",
    "thiserror",
];
const STORE: [&str; 9] = [
    "hashbrown",
    "itoa",
    "loom",
    "memchr",
    "parking_lot",
    "ring",
    "siphasher",
    "smallvec",
    "thiserror",
];
const REDIS: [&str; 11] = [
    "crc16",
    "fred",
    "futures_util",
    "parking_lot",
    "percent_encoding",
    "redis",
    "rustls",
    "rustls_native_certs",
    "smallvec",
    "thiserror",
    "tokio",
];
const SERVICE: [&str; 26] = [
    "arc_swap",
    "axum",
    "bytes",
    "h2",
    "hashbrown",
    "http",
    "http_body",
    "http_body_util",
    "hyper",
    "hyper_util",
    "itoa",
    "jiff",
    "memchr",
    "parking_lot",
    "prost",
    "prost_types",
    "serde",
    "serde_json",
    "smallvec",
    "thiserror",
    "tokio",
    "tokio_stream",
    "tonic",
    "tonic_health",
    "tonic_reflection",
    "tracing",
];
const TELEMETRY: [&str; 5] = [
    "hashbrown",
    "parking_lot",
    "prometheus_client",
    "tracing",
    "tracing_subscriber",
];
const CLI: [&str; 9] = [
    "bytes",
    "clap",
    "hdrhistogram",
    "jiff",
    "notify",
    "serde_json",
    "thiserror",
    "tokio",
    "tracing",
];

/// What no layer in this list may touch: it takes time as an argument, and neither waits nor reads nor writes.
const PURE: &[&str] = &["domain", "policy", "decide"];
const IMPURE: &[&str] = &[
    "Instant",
    "SystemTime",
    "std::fs",
    "std::env",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "std::thread",
    "async ",
];

/// The only files that know the wire: they put it into our own words, or hand it on to those that do.
const WIRE: &[&str] = &[
    "service/asker",
    "service/baseline",
    "service/client",
    "service/decode",
    "service/encode",
    "service/health",
    "service/json",
    "service/json/read",
    "service/rls",
    "service/server",
];

/// Words that open a path into another crate without naming one.
const OWN_WORDS: &[&str] = &["std", "core", "alloc", "crate", "self", "super", "Self"];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The layer of a file, or of a path of modules: the longest name that fits.
fn layer_of(path: &str) -> Option<&'static Layer> {
    LAYERS
        .iter()
        .filter(|layer| {
            path.strip_prefix(layer.name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
        .max_by_key(|layer| layer.name.len())
}

/// The code of a file without its tests and comments, with every `use` on one line.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let mut joined = String::new();
    for line in lines {
        joined.push_str(line);
        let in_use = joined.rsplit('\n').next().is_some_and(|line| {
            (line.starts_with("use ") || line.starts_with("pub use ")) && !line.ends_with(';')
        });
        joined.push(if in_use { ' ' } else { '\n' });
    }
    joined
}

/// `line` of the file of module `name`, with every path that goes up by `super::` written from the root instead.
fn from_root(line: &str, name: &str) -> String {
    let mut written = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("super::") {
        written.push_str(&rest[..at]);
        let mut module: Vec<&str> = name.split('/').collect();
        rest = &rest[at..];
        while let Some(behind) = rest.strip_prefix("super::") {
            module.pop();
            rest = behind;
        }
        written.push_str("crate::");
        module.iter().for_each(|part| written.extend([*part, "::"]));
    }
    written + rest
}

/// The layers that a line names by `crate::`, those in the first list in braces included.
fn layers_named(line: &str) -> Vec<&'static Layer> {
    let in_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut named = Vec::new();
    for rest in line.split("crate::").skip(1) {
        let (path, behind) = rest.split_at(rest.find(|c| !in_path(c)).unwrap_or(rest.len()));
        let ends: Vec<&str> = match behind.strip_prefix('{') {
            Some(list) => list
                .split([',', '{', '}', ' '])
                .filter(|end| end.starts_with(in_path))
                .collect(),
            None => vec![""],
        };
        for end in ends {
            let end = end.split(|c| !in_path(c)).next().unwrap_or_default();
            named.extend(layer_of(&format!("{path}{end}").replace("::", "/")));
        }
    }
    named
}

/// The first words of paths on a line: crates, or modules of our own.
fn first_words(line: &str) -> BTreeSet<&str> {
    let mut words = BTreeSet::new();
    for (at, _) in line.match_indices("::") {
        let start = line[..at]
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |before| before + 1);
        let word = &line[start..at];
        let continues = line[..start].ends_with("::");
        if !continues && word.starts_with(|c: char| c.is_ascii_lowercase()) {
            words.insert(word);
        }
    }
    words
}

/// The crates we depend on, as code spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest = fs::read_to_string(repository("Cargo.toml")).expect("a manifest");
    let section = manifest.split("[dependencies]\n").nth(1).expect("dependencies");
    let section = section.split("\n[").next().expect("its end");
    section
        .lines()
        .filter_map(|line| line.split([' ', '=']).next())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[test]
fn imports_point_down_and_crates_stay_in_their_layer() {
    let root = repository("src");
    let dependencies = dependencies();
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 30, "where have the sources gone?");
    let mut stray = Vec::new();
    for file in files {
        let path = file
            .strip_prefix(&root)
            .expect("below src")
            .with_extension("")
            .to_string_lossy()
            .into_owned();
        let name = path.strip_suffix("/mod").unwrap_or(&path);
        if name == "lib" {
            continue;
        }
        let Some(layer) = layer_of(name) else {
            stray.push(format!("{name}: belongs to no layer"));
            continue;
        };
        if name.ends_with("/tests")
            || name.contains("/tests/")
            || name.ends_with("/properties")
            || name.contains("/properties/")
        {
            continue;
        }
        let code = code_of(&fs::read_to_string(&file).expect("a source"));
        for line in code.lines() {
            for named in layers_named(&from_root(line, name)) {
                if named.name != layer.name && !layer.below.contains(&named.name) {
                    stray.push(format!("{name} imports {}: {line}", named.name));
                }
                if named.name == "proto" && !WIRE.contains(&name) {
                    stray.push(format!("{name} knows the wire: {line}"));
                }
            }
            for word in first_words(line) {
                let known = OWN_WORDS.contains(&word) || layer.crates.contains(&word);
                if !known && dependencies.contains(word) {
                    stray.push(format!("{name} uses the crate {word}: {line}"));
                }
            }
            for word in IMPURE.iter().filter(|_| PURE.contains(&layer.name)) {
                if line.contains(word) {
                    stray.push(format!("{name} is pure, and has `{word}`: {line}"));
                }
            }
        }
    }
    assert!(stray.is_empty(), "{}", stray.join("\n"));
}

#[test]
fn a_stray_import_is_seen() {
    let named = |line: &str| {
        layers_named(line)
            .iter()
            .map(|layer| layer.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(named("use crate::store::redis::RedisUrl;"), ["store/redis"]);
    assert_eq!(
        named("use crate::{domain::time::Micros, service};"),
        ["domain", "service"]
    );
    assert_eq!(named("let x: crate::policy::Rule = y;"), ["policy"]);
    assert_eq!(
        named("use crate::store::{Store, redis::RedisUrl};"),
        ["store", "store/redis"]
    );
    assert_eq!(
        named(&from_root("use super::redis::Redis;", "store/fallback")),
        ["store/redis"]
    );
    assert_eq!(
        named(&from_root("use super::super::service::limiter;", "decide/group")),
        ["service"]
    );
    assert_eq!(
        from_root("use super::{Store, StoreError};", "store/memory"),
        "use crate::store::{Store, StoreError};"
    );
    assert_eq!(
        first_words("use redis::aio::X; tokio::spawn(f)"),
        BTreeSet::from(["redis", "tokio"])
    );
    assert_eq!(code_of("use a::{\n    b,\n};\n// use c::d;\n").lines().count(), 1);
}

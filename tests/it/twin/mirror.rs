//! The counters as the Rust side holds them: what Redis should hold, byte for byte.

use std::collections::HashMap;

use comporta::decide::group::{Counters, Stored};
use comporta::decide::sliding_log::{Log, Mark};
use comporta::decide::state::{Seen, State};
use comporta::domain::check::Check;
use comporta::domain::limit::Algorithm;
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};

/// Numbers from here on are not exact in Lua's doubles.
pub const INEXACT: u64 = 1 << 53;

#[derive(Default)]
pub struct Mirror {
    strings: HashMap<Vec<u8>, Vec<u8>>,
    logs: HashMap<Vec<u8>, Log>,
    /// What no counter holds, as Redis dumps it.
    odd: HashMap<Vec<u8>, Vec<u8>>,
    lives: HashMap<Vec<u8>, Lives>,
}

/// How long state should live, and between which of Redis's milliseconds it was written, once that is known.
struct Lives {
    millis: u64,
    written: Option<(u64, u64)>,
}

/// A mirror that is asked at a moment.
pub struct MirrorAt<'a>(pub &'a mut Mirror, pub Timestamp);

impl Mirror {
    /// Says what Redis has been made to hold under `key`: `elements` are those of a list.
    pub fn plant(&mut self, key: &[u8], kind: &str, elements: &[Vec<u8>], dump: Vec<u8>) {
        self.forget(key);
        self.lives.remove(key);
        let key = key.to_vec();
        match kind {
            "string" => drop(self.strings.insert(key, elements[0].clone())),
            // The script reads a list by its ends, so those tell a log from what is none.
            "list"
                if [elements.first(), elements.last()]
                    .into_iter()
                    .flatten()
                    .all(|end| is_mark(end)) =>
            {
                let log = Log::from_marks(elements.iter().map(|element| mark(element)));
                self.logs.insert(key, log.expect("not empty"));
            }
            _ => drop(self.odd.insert(key, dump)),
        }
    }

    fn forget(&mut self, key: &[u8]) {
        self.strings.remove(key);
        self.logs.remove(key);
        self.odd.remove(key);
    }

    fn read(&self, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        let is_log = check.limit.algorithm() == Algorithm::SlidingLog;
        match (self.strings.get(check.key), self.logs.get(check.key)) {
            (Some(bytes), _) => State::decode(check.limit, bytes).map_or(Stored::Unreadable, Stored::State),
            (_, Some(log)) if is_log => match log.view(check.limit, asked, now) {
                view if view.used > 0 => Stored::State(State::Log(view)),
                _ => Stored::Nothing,
            },
            (_, Some(_)) => Stored::Unreadable,
            _ if self.odd.contains_key(check.key) => Stored::Unreadable,
            _ => Stored::Nothing,
        }
    }

    /// What Redis holds is what the mirror holds, and as long.
    pub fn assert_holds(&self, key: &[u8], found: &Found, what: &str) {
        match found.kind.as_str() {
            "none" => assert!(
                !self.strings.contains_key(key)
                    && !self.logs.contains_key(key)
                    && !self.odd.contains_key(key),
                "{what}: only Rust has state"
            ),
            "string" => assert_eq!(found.elements.first(), self.strings.get(key), "{what}"),
            "list" if self.logs.contains_key(key) => {
                let marks: Vec<_> = self.logs[key].marks().map(mark_bytes).collect();
                assert_eq!(found.elements, marks, "{what}");
            }
            other => assert_eq!(
                Some(&found.dump),
                self.odd.get(key),
                "{what}: a {other} under a counter's key"
            ),
        }
        if let (Some(lives), true) = (self.lives.get(key), found.kind != "none") {
            let (from, to) = lives.written.expect("a call that has ended");
            let (from, to) = (from + lives.millis, to + lives.millis);
            assert!(
                found.ends.0 <= to && from <= found.ends.1,
                "{what}: ends in {:?}, should in {from} to {to}",
                found.ends
            );
        }
    }

    /// Says that what was written since the last time was written between these two moments.
    pub fn wrote_between(&mut self, from: u64, to: u64) {
        for lives in self.lives.values_mut() {
            lives.written.get_or_insert((from, to));
        }
    }
}

impl Counters for MirrorAt<'_> {
    fn read(&mut self, _: usize, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        self.0.read(check, asked, now)
    }

    fn write(&mut self, _: usize, check: &Check<'_>, seen: &Seen, change: Hits) {
        let key = check.key.to_vec();
        let mut lives = seen.reset_after(check.limit);
        if let State::Log(_) = seen.state {
            let mut log = self.0.logs.remove(&key).unwrap_or_default();
            match change {
                Hits::Take(hits) => log.take(check.limit, hits, seen.now),
                Hits::GiveBack(hits) | Hits::Undo(hits, _) => {
                    match change {
                        Hits::Undo(_, taken) if taken != log.last() => {
                            self.0.logs.insert(key, log);
                            return;
                        }
                        Hits::Undo(_, taken) => log.undo(check.limit, hits, taken, seen.now),
                        _ => log.give_back(check.limit, hits, seen.now),
                    }
                    let last = log.marks().last().expect("the base");
                    lives = last.at.plus(check.limit.period().length()).since(seen.now);
                }
                Hits::Look(_) => log.forget(check.limit, seen.now),
            }
            self.0.forget(&key);
            if log.is_empty() {
                return;
            }
            self.0.logs.insert(key.clone(), log);
        } else {
            self.0.forget(&key);
            if seen.state.is_empty() {
                return;
            }
            let bytes = seen.state.encode().as_bytes().to_vec();
            self.0.strings.insert(key.clone(), bytes);
        }
        let lives = Micros::new(lives.get() + seen.now.since(self.1).get());
        let millis = lives.ceil_millis().max(3_600_000);
        self.0.lives.insert(
            key,
            Lives {
                millis,
                written: None,
            },
        );
    }
}

/// What Redis holds under a key.
pub struct Found {
    kind: String,
    /// A string as its only one.
    elements: Vec<Vec<u8>>,
    dump: Vec<u8>,
    /// Between which milliseconds it ends.
    ends: (u64, u64),
}

impl Found {
    /// What is under `keys`, asked at once.
    pub fn under(connection: &mut redis::Connection, keys: &[Vec<u8>]) -> Vec<Self> {
        let mut pipe = redis::pipe();
        let before = millis(connection);
        for key in keys {
            pipe.cmd("TYPE")
                .arg(key)
                .cmd("PTTL")
                .arg(key)
                .cmd("DUMP")
                .arg(key);
        }
        let found: Vec<redis::Value> = pipe.query(connection).expect("kinds, times to live and dumps");
        let after = millis(connection);
        let mut pipe = redis::pipe();
        let mut kinds = Vec::new();
        for (key, found) in keys.iter().zip(found.chunks(3)) {
            let kind: String = redis::from_redis_value_ref(&found[0]).expect("a kind");
            match kind.as_str() {
                "string" => pipe.cmd("GET").arg(key),
                "list" => pipe.cmd("LRANGE").arg(key).arg(0).arg(-1),
                _ => pipe.cmd("EXISTS").arg(key),
            };
            kinds.push(kind);
        }
        let contents: Vec<redis::Value> = pipe.query(connection).expect("contents");
        kinds
            .into_iter()
            .zip(contents)
            .zip(found.chunks(3))
            .map(|((kind, content), found)| Self {
                elements: match kind.as_str() {
                    "string" => vec![redis::from_redis_value(content).expect("bytes")],
                    "list" => redis::from_redis_value(content).expect("elements"),
                    _ => Vec::new(),
                },
                ends: {
                    let lives: i64 = redis::from_redis_value_ref(&found[1]).expect("milliseconds");
                    let lives = u64::try_from(lives).unwrap_or_default();
                    (before + lives, after + lives)
                },
                dump: redis::from_redis_value_ref::<Option<Vec<u8>>>(&found[2])
                    .expect("a dump")
                    .unwrap_or_default(),
                kind,
            })
            .collect()
    }
}

/// The server's clock.
pub fn millis(connection: &mut redis::Connection) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(connection).expect("the server's time");
    seconds * 1_000 + micros / 1_000
}

pub fn mark_bytes(mark: Mark) -> Vec<u8> {
    let mut bytes = mark.at.as_micros().to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&mark.total.to_be_bytes()[2..]);
    bytes
}

fn is_mark(bytes: &[u8]) -> bool {
    bytes.len() == 13 && number(&bytes[..7]) < INEXACT
}

fn mark(bytes: &[u8]) -> Mark {
    Mark {
        at: Timestamp::from_micros(number(&bytes[..7])),
        total: number(&bytes[7..]),
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

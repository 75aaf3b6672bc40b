//! What may lie under a counter's key though no version of this service puts it there.

use comporta::decide::sliding_log::{Mark, TOTALS};
use comporta::domain::limit::{Algorithm, Limit};
use comporta::domain::time::Timestamp;

use super::dice::Dice;
use super::mirror::{INEXACT, mark_bytes};

/// A value and its kind, as `TYPE` names it.
#[derive(Debug)]
pub struct Garbage {
    pub kind: &'static str,
    /// A string as its only one.
    pub elements: Vec<Vec<u8>>,
}

impl Garbage {
    /// Anything whose reading Rust and Lua must agree on, made to look like state of `limit` about `now`.
    pub fn any(dice: &mut Dice, limit: &Limit, now: u64) -> Self {
        match dice.below(12) {
            0 | 1 => Self::string(arbitrary_bytes(dice)),
            2..=6 if limit.algorithm() != Algorithm::SlidingLog || dice.one_in(4) => {
                Self::string(almost_state(dice, limit, now))
            }
            2..=8 => Self::list(almost_full_log(dice, limit, now)),
            9 => Self::list(list_with_an_odd_end(dice, now)),
            _ => Self {
                kind: dice.pick(&["hash", "set", "zset", "stream"]),
                elements: vec![arbitrary_bytes(dice), dice.bytes(13)],
            },
        }
    }

    /// A list that may be odd anywhere: what a log's binary search runs into depends on where it looks.
    pub fn odd_list(dice: &mut Dice, now: u64) -> Self {
        let length = 1 + dice.below(12);
        let elements = (0..length).map(|_| {
            let at = moment(dice, now);
            let total = dice.below(TOTALS);
            match dice.below(4) {
                0 => arbitrary_bytes(dice),
                1 => mark_bytes(Mark {
                    at: Timestamp::from_micros(at),
                    total,
                }),
                _ => mark_bytes(Mark {
                    at: Timestamp::from_micros(now),
                    total: total % 50,
                }),
            }
        });
        Self::list(elements.collect())
    }

    fn string(bytes: Vec<u8>) -> Self {
        Self {
            kind: "string",
            elements: vec![bytes],
        }
    }

    fn list(elements: Vec<Vec<u8>>) -> Self {
        Self {
            kind: "list",
            elements,
        }
    }

    /// Puts it under `key`.
    pub fn plant(&self, connection: &mut redis::Connection, key: &[u8]) {
        let (first, last) = (&self.elements[0], &self.elements[self.elements.len() - 1]);
        let mut put = match self.kind {
            "string" => redis::cmd("SET"),
            "list" => redis::cmd("RPUSH"),
            "hash" => redis::cmd("HSET"),
            "set" => redis::cmd("SADD"),
            "zset" => redis::cmd("ZADD"),
            "stream" => redis::cmd("XADD"),
            other => panic!("{other}?"),
        };
        put.arg(key);
        match self.kind {
            "hash" => put.arg(first).arg(last),
            "zset" => put.arg(7).arg(first),
            "stream" => put.arg("1-1").arg(first).arg(last),
            _ => put.arg(&self.elements),
        };
        redis::pipe()
            .cmd("DEL")
            .arg(key)
            .ignore()
            .add_command(put)
            .ignore()
            .query::<()>(connection)
            .expect("garbage is in");
    }
}

fn arbitrary_bytes(dice: &mut Dice) -> Vec<u8> {
    let length = if dice.one_in(3) {
        dice.pick(&[0, 12, 13, 17, 26])
    } else {
        dice.below(65)
    };
    dice.bytes(length)
}

/// Near `now`, at the edges of the range, or anything that seven bytes can say.
fn moment(dice: &mut Dice, now: u64) -> u64 {
    match dice.below(8) {
        0 => dice.pick(&[0, 1, INEXACT - 1, INEXACT, (1 << 56) - 1]),
        1 => dice.below(1 << 56),
        2 => now + dice.below(2_000_003),
        3 => now.saturating_sub(dice.below(2_000_003)),
        _ => now.saturating_sub(dice.magnitude(1 << 40)),
    }
}

fn hits(dice: &mut Dice, limit: &Limit) -> u64 {
    match dice.below(4) {
        0 => dice.pick(&[0, 1, (1 << 40) - 1, u64::from(u32::MAX)]),
        1 => dice.magnitude((1 << 40) - 1),
        _ => dice.below(2 * u64::from(limit.largest()) + 2),
    }
}

/// The right length, with parts that may be what no state says.
fn almost_state(dice: &mut Dice, limit: &Limit, now: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |width: usize, number: u64| bytes.extend_from_slice(&number.to_be_bytes()[8 - width..]);
    let start = |dice: &mut Dice| {
        let at = moment(dice, now);
        let period = limit.period().length().get();
        // On the grid, or just beside it.
        at / period * period + dice.pick(&[0, 0, 0, 1, period - 1])
    };
    match limit.algorithm() {
        // In finer parts than the limit's and just below a whole hit, which it is once it is rounded up; ahead of the clock
        // by as much as does not drain.
        Algorithm::TokenBucket | Algorithm::LeakyBucket if dice.one_in(6) => {
            let per = limit.rate().micros + dice.magnitude(1_000_000);
            put(7, now + dice.below(1_000_001));
            put(5, dice.below(u64::from(limit.largest()) + 1));
            put(7, per - 1);
            put(7, per);
        }
        Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::SlidingLog => {
            let per = match dice.below(6) {
                0 => dice.pick(&[0, 1, INEXACT - 1, INEXACT]),
                1 => dice.magnitude(INEXACT + 2),
                2 => dice.magnitude(315_360_000_000_000),
                _ => limit.rate().micros,
            };
            let part = match dice.below(4) {
                0 => per + dice.below(2),
                1 => per.saturating_sub(1),
                _ => dice.below(per.max(1)),
            };
            put(7, moment(dice, now));
            put(5, hits(dice, limit));
            put(7, part);
            put(7, per);
        }
        Algorithm::SlidingWindow => {
            put(7, start(dice));
            put(5, hits(dice, limit));
            put(5, hits(dice, limit));
        }
        Algorithm::FixedWindow => {
            put(7, start(dice));
            put(5, hits(dice, limit));
        }
    }
    bytes
}

/// A log whose running total is about to wrap, or has wrapped. One of its marks may stop counting just now.
fn almost_full_log(dice: &mut Dice, limit: &Limit, now: u64) -> Vec<Vec<u8>> {
    let period = limit.period().length().get();
    let expired = if dice.one_in(2) { period } else { 0 };
    let mut at = now.saturating_sub(expired + dice.magnitude(period));
    let mut total = TOTALS - 1 - dice.below(30);
    let mut marks = Vec::new();
    for _ in 0..1 + dice.below(12) {
        marks.push(mark_bytes(Mark {
            at: Timestamp::from_micros(at),
            total,
        }));
        at = if dice.one_in(3) {
            at.max(now.saturating_sub(period - dice.below(2)))
        } else if at + period < now {
            at + dice.magnitude(now - period - at)
        } else {
            at + dice.magnitude((now + 2_000_000).saturating_sub(at).max(1))
        };
        total = (total + 1 + dice.below(u64::from(limit.count()) / 8 + 8)) % TOTALS;
    }
    marks
}

fn list_with_an_odd_end(dice: &mut Dice, now: u64) -> Vec<Vec<u8>> {
    let mut elements = Garbage::odd_list(dice, now).elements;
    let length = dice.pick(&[0, 1, 12, 14, 26]);
    let odd = if dice.one_in(3) {
        mark_bytes(Mark {
            at: Timestamp::from_micros(INEXACT),
            total: 1,
        })
    } else {
        dice.bytes(length)
    };
    let end = if dice.one_in(2) { 0 } else { elements.len() - 1 };
    elements[end] = odd;
    elements
}

//! Lua decides as Rust does: the same random groups, through a real Redis with time passed in and through the pure
//! functions; verdicts and figures, stored bytes and time to live are the same.

pub mod dice;
mod garbage;
mod mirror;

use comporta::decide::group;
use comporta::domain::check::{Binding, Charge, Check, Group, OnStoreFailure};
use comporta::domain::limit::{Algorithm, Limit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};
use comporta::domain::verdict::Decisions;
use comporta::store::Store;
use comporta::store::redis::codec::{self, Reply};
use comporta::store::redis::{TimeSource, script};
use redis::Value;

use self::dice::Dice;
use self::garbage::Garbage;
use self::mirror::{Found, Mirror, MirrorAt, millis};
use crate::harness;

const START: u64 = 1_790_000_000_000_000;
const DAY: u64 = 86_400_000_000;
const YEAR: u64 = 365 * DAY;
const MARCH_2100: u64 = 4_107_542_400_000_000;

/// A bucket that fills now drains within 100 years, and Lua can still add the two.
const LATEST: u64 = (1 << 53) - 3_200_000_000_000_000;

/// Counters that groups of a run are about.
const PLACES: u64 = 5;

struct Run {
    dice: Dice,
    name: String,
    limits: Vec<Limit>,
    now: u64,
    /// The moment of the step before.
    before: u64,
    /// Whether its groups are decided as the reference does.
    compat: bool,
    mirror: Mirror,
}

/// What one check of a group is about, before it borrows.
struct Wanted {
    place: usize,
    hits: Hits,
    binding: Binding,
    charge: Charge,
}

impl Run {
    fn new(name: &str, seed: u64) -> Self {
        let mut dice = Dice::seeded(seed);
        let limits = (0..PLACES).map(|place| {
            let algorithm = dice.pick(&Algorithm::ALL);
            dice.limit(algorithm, &place.to_string())
        });
        let limits = limits.collect();
        Self {
            limits,
            name: format!("{name}{seed}"),
            compat: dice.one_in(4),
            before: 0,
            now: match dice.below(8) {
                // The first days there are, and the end of a February that leaps in no century but each fourth.
                0 => dice.magnitude(8 * DAY),
                1 => MARCH_2100 - dice.magnitude(400 * DAY),
                2 => dice.below(LATEST),
                _ => START + dice.below(YEAR),
            },
            mirror: Mirror::default(),
            dice,
        }
    }

    fn key(&self, place: usize) -> Vec<u8> {
        format!("{}:{{{place}}}", self.name).into_bytes()
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        (0..self.limits.len()).map(|place| self.key(place)).collect()
    }

    fn any_place(&mut self) -> usize {
        self.dice.below(PLACES) as usize
    }

    fn step_clock(&mut self) {
        let place = self.any_place();
        let period = self.limits[place].period().length().get();
        let dice = &mut self.dice;
        let now = self.now;
        self.before = now;
        self.now = match dice.below(27) {
            0 => now.saturating_sub(dice.below(1_000_001)),
            1 => now.saturating_sub(1_000_000 + dice.below(3)),
            2 => now.saturating_sub(dice.magnitude(YEAR)),
            3 => now + dice.magnitude(YEAR),
            4..=7 => now,
            8 | 9 => now + dice.magnitude(2 * period),
            // To the microsecond where something ends, or where a clock counts as set back from a window's start.
            10 => now + period - dice.below(2),
            11 => (now / period * period).saturating_sub(999_999 + dice.below(3)),
            _ => now + dice.magnitude(5_000_000),
        };
        self.now = self.now.min(LATEST);
    }

    /// Other numbers, another period, and now and then another algorithm over the same key.
    fn sometimes_edit(&mut self) {
        if self.dice.one_in(25) {
            let place = self.any_place();
            let algorithm = if self.dice.one_in(4) {
                self.dice.pick(&Algorithm::ALL)
            } else {
                self.limits[place].algorithm()
            };
            self.limits[place] = self.dice.limit(algorithm, &place.to_string());
        }
    }

    fn sometimes_plant(&mut self, connection: &mut redis::Connection) {
        if self.dice.one_in(8) {
            let place = self.any_place();
            let garbage = Garbage::any(&mut self.dice, &self.limits[place], self.now);
            let key = self.key(place);
            garbage.plant(connection, &key);
            let dump = redis::cmd("DUMP").arg(&key).query(connection).expect("a dump");
            self.mirror.plant(&key, garbage.kind, &garbage.elements, dump);
        }
    }

    /// The checks of one group: each counter once, but that give-backs may stand in front of a take and that those
    /// charged whatever the verdict may come again.
    fn wanted(&mut self) -> Vec<Wanted> {
        let mut places: Vec<usize> = (0..self.limits.len()).collect();
        while places.len() > 1 && self.dice.one_in(2) {
            let drop = self.dice.below(places.len() as u64) as usize;
            places.remove(drop);
        }
        let mut wanted = Vec::new();
        for place in places {
            let limit = &self.limits[place];
            let (binding, charge) = (self.dice.binding(), self.dice.charge(limit.algorithm()));
            if self.dice.one_in(10) {
                let hits = Hits::give_back(self.dice.magnitude(9));
                wanted.push(Wanted {
                    place,
                    hits,
                    binding,
                    charge,
                });
            }
            let times = if charge == Charge::Always && self.dice.one_in(4) {
                2
            } else {
                1
            };
            for _ in 0..times {
                let hits = self.dice.hits(limit, [self.before, self.now]);
                wanted.push(Wanted {
                    place,
                    hits,
                    binding,
                    charge,
                });
            }
        }
        wanted
    }

    fn longest_wait(&mut self) -> Micros {
        Micros::new(self.dice.pick(&[0, 1_000, 150_000, 20_000_000]))
    }

    fn checks<'a>(&'a self, wanted: &[Wanted], keys: &'a [Vec<u8>]) -> Vec<Check<'a>> {
        let check = |wanted: &Wanted| Check {
            key: &keys[wanted.place],
            limit: &self.limits[wanted.place],
            hits: wanted.hits,
            binding: wanted.binding,
            charge: wanted.charge,
            on_store_failure: OnStoreFailure::Local,
        };
        wanted.iter().map(check).collect()
    }

    fn assert_same_bytes(&self, connection: &mut redis::Connection, what: &str) {
        let keys = self.keys();
        for (key, found) in keys.iter().zip(Found::under(connection, &keys)) {
            let what = format!("{what}, {}", String::from_utf8_lossy(key));
            self.mirror.assert_holds(key, &found, &what);
        }
    }
}

#[test]
fn lua_decides_and_stores_what_rust_does() {
    let server = harness::redis::Redis::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut connection = server.connect();
    runtime.block_on(async {
        let store = harness::store::connect(&server, TimeSource::Caller).await;
        for seed in 0..300 {
            let mut run = Run::new("single", seed);
            for step in 0..80 {
                run.step_clock();
                run.sometimes_edit();
                run.sometimes_plant(&mut connection);
                let (wanted, longest_wait, keys) = (run.wanted(), run.longest_wait(), run.keys());
                let mut mirror = std::mem::take(&mut run.mirror);
                let checks = run.checks(&wanted, &keys);
                let group = Group {
                    checks: &checks,
                    longest_wait,
                    compat: run.compat,
                };
                let now = Timestamp::from_micros(run.now);
                let what = format!("seed {seed}, step {step} at {now:?}: {checks:?}");
                let before = millis(&mut connection);
                let theirs = store.decide(&group, now, harness::store::far()).await;
                let theirs = theirs.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(
                    theirs,
                    group::decide(&group, now, &mut MirrorAt(&mut mirror, now)),
                    "{what}"
                );
                mirror.wrote_between(before, millis(&mut connection));
                run.mirror = mirror;
                run.assert_same_bytes(&mut connection, &what);
            }
        }
    });
}

/// The script, or what `tests/mutate-lua` has made of it.
fn script() -> String {
    match std::env::var_os("COMPORTA_SCRIPT") {
        Some(path) => std::fs::read_to_string(path).expect("the script"),
        None => script::SOURCE.to_owned(),
    }
}

/// Has the script decide all `groups` in one call.
fn call(
    connection: &mut redis::Connection,
    script: &str,
    groups: &[Group<'_>],
    now: Timestamp,
) -> redis::RedisResult<Value> {
    let mut command = redis::cmd("EVAL");
    let checks = || groups.iter().flat_map(|group| group.checks);
    command.arg(script).arg(checks().count());
    for check in checks() {
        command.arg(check.key);
    }
    for argument in groups.iter().flat_map(codec::arguments) {
        command.arg(&argument[..]);
    }
    command.arg(now.as_micros()).query(connection)
}

/// The script's answer, read group by group.
fn read(answer: Value, groups: &[Group<'_>]) -> Vec<Decisions> {
    let Value::Array(mut found) = answer else {
        panic!("no list: {answer:?}");
    };
    let now = found.remove(0);
    let mut found = found.into_iter();
    let decisions = groups.iter().map(|group| {
        let of_group = std::iter::once(now.clone()).chain(found.by_ref().take(group.checks.len()));
        let mut reply = Reply::read(Value::Array(of_group.collect()), group.checks.len()).expect("a reply");
        group::decide(group, reply.now, &mut reply)
    });
    let decisions = decisions.collect();
    assert_eq!(found.count(), 0, "more than was asked for");
    decisions
}

#[test]
fn a_batch_is_its_groups_one_after_the_other() {
    let server = harness::redis::Redis::start();
    let (mut connection, script) = (server.connect(), script());
    for seed in 0..300 {
        let mut run = Run::new("batch", seed);
        for step in 0..40 {
            run.step_clock();
            run.sometimes_edit();
            run.sometimes_plant(&mut connection);
            let keys = run.keys();
            let wanted: Vec<_> = (0..1 + run.dice.below(6))
                .map(|_| (run.wanted(), run.longest_wait()))
                .collect();
            let mut mirror = std::mem::take(&mut run.mirror);
            let checks: Vec<_> = wanted
                .iter()
                .map(|(wanted, wait)| (run.checks(wanted, &keys), *wait))
                .collect();
            let groups: Vec<_> = checks
                .iter()
                .map(|(checks, wait)| Group {
                    checks,
                    longest_wait: *wait,
                    compat: run.compat,
                })
                .collect();
            let now = Timestamp::from_micros(run.now);
            let what = format!("seed {seed}, step {step} at {now:?}: {groups:?}");
            let before = millis(&mut connection);
            let answer = call(&mut connection, &script, &groups, now)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            for (place, (theirs, group)) in read(answer, &groups).iter().zip(&groups).enumerate() {
                let ours = group::decide(group, now, &mut MirrorAt(&mut mirror, now));
                assert_eq!(theirs, &ours, "group {place} of {what}");
            }
            mirror.wrote_between(before, millis(&mut connection));
            run.mirror = mirror;
            run.assert_same_bytes(&mut connection, &what);
        }
    }
}

#[test]
fn whatever_lies_in_its_keys_the_script_answers() {
    let server = harness::redis::Redis::start();
    let (mut connection, script) = (server.connect(), script());
    for seed in 0..300 {
        let mut run = Run::new("odd", seed);
        for place in 0..run.limits.len() {
            if run.dice.one_in(2) {
                run.limits[place] = run.dice.limit(Algorithm::SlidingLog, &place.to_string());
            }
        }
        for step in 0..40 {
            run.step_clock();
            let keys = run.keys();
            for key in &keys {
                if run.dice.one_in(2) {
                    Garbage::odd_list(&mut run.dice, run.now).plant(&mut connection, key);
                }
            }
            let wanted: Vec<_> = (0..4).map(|_| run.wanted()).collect();
            let checks: Vec<_> = wanted.iter().map(|wanted| run.checks(wanted, &keys)).collect();
            let groups: Vec<_> = checks
                .iter()
                .map(|checks| Group {
                    checks,
                    longest_wait: Micros::ZERO,
                    compat: run.compat,
                })
                .collect();
            let now = Timestamp::from_micros(run.now);
            let what = format!("seed {seed}, step {step} at {now:?}: {groups:?}");
            let answer = call(&mut connection, &script, &groups, now)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            read(answer, &groups);
        }
    }
}

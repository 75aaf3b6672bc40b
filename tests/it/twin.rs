//! Lua decides as Rust does: the same random groups, through a real Redis with time passed in and through the pure
//! functions; verdicts and figures, stored bytes and time to live are the same.

use std::collections::HashMap;
use std::sync::Arc;

use comporta::decide::group::{self, Counters, Stored};
use comporta::decide::sliding_log::{Log, Mark};
use comporta::decide::state::{Seen, State};
use comporta::domain::check::{Binding, Charge, Check, Group};
use comporta::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::{Micros, Timestamp};
use comporta::store::Store;
use comporta::store::redis::{Redis, TimeSource};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::harness;

/// A seeded source of choices that like the edges of their range.
struct Dice(TestRng);

impl Dice {
    fn seeded(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// 1 to `most`, of any magnitude alike.
    fn magnitude(&mut self, most: u64) -> u64 {
        let bits = self.below(64 - u64::from(most.leading_zeros())) + 1;
        (self.0.next_u64() >> (64 - bits)).clamp(1, most)
    }
}

fn random_limit(dice: &mut Dice, algorithm: Algorithm, name: &str) -> Limit {
    loop {
        let count = match dice.below(12) {
            0 => 0,
            1 => u32::MAX,
            _ => dice.magnitude(u64::from(u32::MAX)) as u32,
        };
        let unit = dice.pick(&Unit::ALL);
        let multiplier = if dice.one_in(2) {
            1
        } else {
            dice.magnitude(315_360_000) as u32
        };
        let delay = match algorithm {
            Algorithm::LeakyBucket => Micros::new(dice.magnitude(10_000_000)),
            Algorithm::TokenBucket if dice.one_in(3) => Micros::new(dice.magnitude(10_000_000)),
            _ => Micros::ZERO,
        };
        let burst =
            (algorithm == Algorithm::TokenBucket && dice.one_in(2)).then(|| dice.magnitude(1 << 32) as u32);
        let limit = Limit::new(LimitSpec {
            name: Arc::from(name),
            named: true,
            count: if dice.one_in(2) { count.min(20) } else { count },
            period: Period { unit, multiplier },
            algorithm,
            burst: burst.map(|burst| burst.max(1)),
            delay,
            calendar: dice.one_in(2),
        });
        if let Ok(limit) = limit {
            return limit;
        }
    }
}

fn random_hits(dice: &mut Dice, limit: &Limit) -> Hits {
    let most = u64::from(limit.largest().max(1));
    match dice.below(10) {
        0 => Hits::Look,
        1 => Hits::give_back(dice.magnitude(2 * most)),
        2 => Hits::take(most),
        3 => Hits::take(dice.magnitude(u64::MAX)),
        4 | 5 => Hits::take(dice.magnitude(most)),
        _ => Hits::take(1 + dice.below(3)),
    }
}

/// The counters as the Rust side holds them: what Redis should hold, byte for byte.
#[derive(Default)]
struct Mirror {
    strings: HashMap<Vec<u8>, Vec<u8>>,
    logs: HashMap<Vec<u8>, Log>,
    ttls: HashMap<Vec<u8>, Micros>,
}

struct MirrorAt<'a>(&'a mut Mirror, Timestamp);

impl Counters for MirrorAt<'_> {
    fn read(&mut self, _: usize, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        if check.limit.algorithm() == Algorithm::SlidingLog {
            if self.0.strings.contains_key(check.key) {
                return Stored::Unreadable;
            }
            return match self
                .0
                .logs
                .get(check.key)
                .map(|log| log.view(check.limit, asked, now))
            {
                Some(view) if view.used > 0 => Stored::State(State::Log(view)),
                _ => Stored::Nothing,
            };
        }
        match self.0.strings.get(check.key) {
            Some(bytes) => State::decode(check.limit, bytes).map_or(Stored::Unreadable, Stored::State),
            None => Stored::Nothing,
        }
    }

    fn write(&mut self, _: usize, check: &Check<'_>, seen: &Seen, change: Hits) {
        let key = check.key.to_vec();
        let mut lives = seen.reset_after(check.limit);
        if let State::Log(_) = seen.state {
            self.0.strings.remove(&key);
            let log = self.0.logs.entry(key.clone()).or_default();
            match change {
                Hits::Take(hits) => log.take(check.limit, hits, seen.now),
                Hits::GiveBack(hits) => {
                    log.give_back(check.limit, hits, seen.now);
                    let last = log.marks().last().expect("the base");
                    lives = last.at.plus(check.limit.period().length()).since(seen.now);
                }
                Hits::Look => log.forget(check.limit, seen.now),
            }
            if log.is_empty() {
                self.0.logs.remove(&key);
                return;
            }
        } else if seen.state.is_empty() {
            self.0.strings.remove(&key);
            return;
        } else {
            self.0
                .strings
                .insert(key.clone(), seen.state.encode().as_bytes().to_vec());
        }
        self.0
            .ttls
            .insert(key, Micros::new(lives.get() + seen.now.since(self.1).get()));
    }
}

fn mark_bytes(mark: Mark) -> Vec<u8> {
    let mut bytes = mark.at.as_micros().to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&mark.total.to_be_bytes()[2..]);
    bytes
}

/// What Redis holds is what the mirror holds.
fn assert_same_bytes(connection: &mut redis::Connection, mirror: &Mirror, key: &[u8], what: &str) {
    let kind: String = redis::cmd("TYPE").arg(key).query(connection).expect("a type");
    match kind.as_str() {
        "none" => {
            assert!(
                !mirror.strings.contains_key(key) && !mirror.logs.contains_key(key),
                "{what}: only Rust has state"
            );
            return;
        }
        "string" => {
            let bytes: Vec<u8> = redis::cmd("GET").arg(key).query(connection).expect("bytes");
            assert_eq!(Some(&bytes), mirror.strings.get(key), "{what}");
        }
        "list" => {
            let marks: Vec<Vec<u8>> = redis::cmd("LRANGE")
                .arg(key)
                .arg(0)
                .arg(-1)
                .query(connection)
                .expect("marks");
            let log = mirror
                .logs
                .get(key)
                .unwrap_or_else(|| panic!("{what}: only Redis has a log"));
            assert_eq!(marks, log.marks().map(mark_bytes).collect::<Vec<_>>(), "{what}");
        }
        other => panic!("{what}: a {other} under a counter's key"),
    }
    let lives: i64 = redis::cmd("PTTL")
        .arg(key)
        .query(connection)
        .expect("a time to live");
    if let Some(ttl) = mirror.ttls.get(key) {
        let wanted = ttl.ceil_millis().max(3_600_000) as i64;
        // Real time went on since it was set.
        assert!(
            lives <= wanted && lives > wanted - 60_000,
            "{what}: lives {lives} ms, should {wanted}"
        );
    }
}

struct Run {
    dice: Dice,
    algorithms: Vec<Algorithm>,
    limits: Vec<Limit>,
    now: u64,
    mirror: Mirror,
}

const START: u64 = 1_790_000_000_000_000;
const YEAR: u64 = 365 * 86_400_000_000;

impl Run {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::seeded(seed);
        let algorithms: Vec<Algorithm> = (0..4).map(|_| dice.pick(&Algorithm::ALL)).collect();
        let limits = algorithms
            .iter()
            .enumerate()
            .map(|(i, algorithm)| random_limit(&mut dice, *algorithm, &i.to_string()));
        let limits = limits.collect::<Vec<_>>();
        Self {
            algorithms,
            limits,
            now: START + dice.below(YEAR),
            mirror: Mirror::default(),
            dice,
        }
    }

    fn step_clock(&mut self) {
        let dice = &mut self.dice;
        self.now = match dice.below(24) {
            0 => self.now - dice.below(1_000_001),
            1 => self.now - 1_000_000 - dice.below(3),
            2 => self.now - dice.magnitude(YEAR),
            3 => self.now + dice.magnitude(YEAR),
            4..=7 => self.now,
            8 | 9 => {
                let limit = &self.limits[dice.below(4) as usize];
                self.now + dice.magnitude(2 * limit.period().length().get())
            }
            _ => self.now + dice.magnitude(5_000_000),
        };
    }

    fn sometimes_edit(&mut self) {
        if self.dice.one_in(40) {
            let place = self.dice.below(4) as usize;
            let algorithm = self.algorithms[place];
            let was = self.limits[place].clone();
            let mut limit = random_limit(&mut self.dice, algorithm, &place.to_string());
            // Another period of a window is another counter.
            while !algorithm.is_bucket() && (limit.period(), limit.grid()) != (was.period(), was.grid()) {
                limit = random_limit_like(&mut self.dice, &was);
            }
            self.limits[place] = limit;
        }
    }

    fn sometimes_plant_garbage(&mut self, connection: &mut redis::Connection, prefix: &str) {
        if !self.dice.one_in(50) {
            return;
        }
        let place = self.dice.below(4) as usize;
        let key = key_of(prefix, place as u64);
        let length = self.dice.pick(&[0, 1, 11, 12, 13, 16, 17, 18, 25, 26, 27, 60]);
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                if self.dice.one_in(2) {
                    0
                } else {
                    self.dice.below(256) as u8
                }
            })
            .collect();
        let _: () = redis::cmd("SET")
            .arg(&key)
            .arg(&bytes)
            .query(connection)
            .expect("garbage is in");
        self.mirror.logs.remove(&key);
        self.mirror.ttls.remove(&key);
        self.mirror.strings.insert(key, bytes);
    }
}

fn random_limit_like(dice: &mut Dice, was: &Limit) -> Limit {
    Limit::new(LimitSpec {
        name: Arc::clone(was.name()),
        named: true,
        count: dice.magnitude(1000) as u32,
        period: was.period(),
        algorithm: was.algorithm(),
        burst: None,
        delay: Micros::ZERO,
        calendar: was.grid() != comporta::domain::limit::Grid::Epoch,
    })
    .expect("a limit like a sound one")
}

fn key_of(prefix: &str, place: u64) -> Vec<u8> {
    format!("{prefix}:{{{place}}}").into_bytes()
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
            let mut run = Run::new(seed);
            for step in 0..80 {
                run.step_clock();
                run.sometimes_edit();
                let prefix = format!("twin{seed}");
                run.sometimes_plant_garbage(&mut connection, &prefix);
                one_group(
                    &mut run,
                    &store,
                    &mut connection,
                    &prefix,
                    &format!("seed {seed}, step {step}"),
                )
                .await;
            }
        }
    });
}

async fn one_group(
    run: &mut Run,
    store: &Redis,
    connection: &mut redis::Connection,
    prefix: &str,
    what: &str,
) {
    let mut places: Vec<u64> = (0..4).collect();
    while places.len() > 1 && run.dice.one_in(2) {
        let drop = run.dice.below(places.len() as u64) as usize;
        places.remove(drop);
    }
    let keys: Vec<Vec<u8>> = places.iter().map(|place| key_of(prefix, *place)).collect();
    let checks: Vec<Check<'_>> = places
        .iter()
        .zip(&keys)
        .map(|(place, key)| {
            let limit = &run.limits[*place as usize];
            let charge = match limit.algorithm() {
                Algorithm::SlidingLog => run.dice.pick(&[Charge::AllOrNothing, Charge::Each]),
                _ => run.dice.pick(&[
                    Charge::AllOrNothing,
                    Charge::AllOrNothing,
                    Charge::Each,
                    Charge::Always,
                ]),
            };
            let binding = run.dice.pick(&[
                Binding::Always,
                Binding::Always,
                Binding::Never,
                Binding::WithAllQuotas,
            ]);
            Check {
                key,
                limit,
                hits: random_hits(&mut run.dice, limit),
                binding,
                charge,
            }
        })
        .collect();
    let longest_wait = Micros::new(run.dice.pick(&[0, 1_000, 150_000, 20_000_000]));
    let group = Group {
        checks: &checks,
        longest_wait,
        compat: run.dice.one_in(4),
    };
    let now = Timestamp::from_micros(run.now);
    let theirs = store.decide(&group, now, harness::store::far()).await;
    let theirs = theirs.unwrap_or_else(|error| panic!("{what}: {error} on {checks:?}"));
    let ours = group::decide(&group, now, &mut MirrorAt(&mut run.mirror, now));
    assert_eq!(theirs, ours, "{what} at {now:?}: {checks:?}");
    for key in &keys {
        assert_same_bytes(
            connection,
            &run.mirror,
            key,
            &format!("{what} at {now:?}: {checks:?}"),
        );
    }
}

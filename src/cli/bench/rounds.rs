//! Servers that take turns, so that whatever else the machine does meets them alike.

use std::time::Duration;

use super::error::BenchError;
use super::load::{Generator, Load};
use super::meter;
use super::redis::Redis;
use super::server::Server;
use super::spread::Spread;
use super::tally::Tally;

/// Odd, so that there is one in the middle.
pub(super) const ROUNDS: u32 = 5;

/// How long a server is asked before it counts, at most: caches, tables and connections to a Redis are then as they stay.
const WARM_UP: Duration = Duration::from_millis(300);

/// How often at most. Errors that do not end by that are counted.
const WARM_UPS: u32 = 20;

/// A server, and how it is asked.
pub(super) struct Contestant<'a> {
    pub(super) name: String,
    pub(super) server: &'a Server,
    /// Where it keeps its counters, if that is another process.
    pub(super) redis: Option<&'a Redis>,
    pub(super) load: Load,
}

impl<'a> Contestant<'a> {
    pub(super) fn new(
        name: impl Into<String>,
        server: &'a Server,
        redis: Option<&'a Redis>,
        load: Load,
    ) -> Self {
        Self {
            name: name.into(),
            server,
            redis,
            load,
        }
    }

    /// Asks for so long.
    pub(super) async fn ask(&self, duration: Duration) -> Result<Round, BenchError> {
        let generator = Generator::connect(&self.load, self.server.address()).await?;
        let cpu = || {
            [
                meter::cpu(self.server.id()),
                self.redis.and_then(Redis::cpu),
                meter::machine_cpu(),
            ]
        };
        let before = cpu();
        let tally = generator.run(duration).await?;
        let after = cpu();
        let [server_cpu, redis_cpu, machine_cpu] =
            [0, 1, 2].map(|at| Some(after[at]?.saturating_sub(before[at]?)));
        Ok(Round {
            tally,
            server_cpu,
            redis_cpu,
            machine_cpu,
        })
    }

    /// Asks for a while that does not count; again while there are errors, since a server may not have reached its Redis.
    pub(super) async fn warm_up(&self, duration: Duration) -> Result<(), BenchError> {
        for _ in 0..WARM_UPS {
            let round = self.ask(WARM_UP.min(duration)).await?;
            if round.tally.errors == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// What became of a contestant in one round.
pub(super) struct Round {
    pub(super) tally: Tally,
    server_cpu: Option<Duration>,
    redis_cpu: Option<Duration>,
    /// Of all processors, for whomever.
    machine_cpu: Option<Duration>,
}

/// A figure of a round; absent where it is not known.
pub(super) type Figure = fn(&Round) -> Option<f64>;

impl Round {
    pub(super) fn calls_per_second(&self) -> Option<f64> {
        self.tally.calls_per_second()
    }

    /// In milliseconds.
    pub(super) fn p50(&self) -> Option<f64> {
        self.tally.latency_ms(0.5)
    }

    /// In milliseconds.
    pub(super) fn p99(&self) -> Option<f64> {
        self.tally.latency_ms(0.99)
    }

    /// In milliseconds.
    pub(super) fn p999(&self) -> Option<f64> {
        self.tally.latency_ms(0.999)
    }

    /// In microseconds per call.
    pub(super) fn server_cpu(&self) -> Option<f64> {
        self.tally.micros_per_call(self.server_cpu)
    }

    /// In microseconds per call.
    pub(super) fn redis_cpu(&self) -> Option<f64> {
        self.tally.micros_per_call(self.redis_cpu)
    }

    /// How many processors somebody else took: a round in which many were taken says little.
    pub(super) fn others(&self) -> Option<f64> {
        let ours = self.server_cpu? + self.redis_cpu.unwrap_or_default() + self.tally.client_cpu?;
        let others = self.machine_cpu?.saturating_sub(ours);
        (!self.tally.took.is_zero()).then(|| others.as_secs_f64() / self.tally.took.as_secs_f64())
    }

    /// In microseconds per call.
    pub(super) fn client_cpu(&self) -> Option<f64> {
        self.tally.micros_per_call(self.tally.client_cpu)
    }
}

/// What became of a contestant.
pub(super) struct Rounds {
    pub(super) name: String,
    rounds: Vec<Round>,
}

impl Rounds {
    pub(super) fn figure(&self, figure: Figure) -> Option<Spread> {
        Spread::of(self.each(figure))
    }

    /// A figure of every round, in order.
    pub(super) fn each(&self, figure: Figure) -> impl Iterator<Item = Option<f64>> {
        self.rounds.iter().map(figure)
    }

    /// A figure as a multiple of that of `other` in the same round.
    pub(super) fn over(&self, other: &Self, figure: Figure) -> Option<Spread> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        Spread::of(pairs.map(|(one, other)| {
            let (one, other) = (figure(one)?, figure(other)?);
            (other > 0.0).then(|| one / other)
        }))
    }

    /// All that was counted.
    pub(super) fn sum(&self) -> Tally {
        let mut sum = Tally::new();
        for round in &self.rounds {
            sum.add_later(&round.tally);
        }
        sum
    }
}

/// Asks each for so long, in rounds; every other round goes the other way, so that nobody always follows the same one.
pub(super) async fn take_turns(
    contestants: Vec<Contestant<'_>>,
    duration: Duration,
) -> Result<Vec<Rounds>, BenchError> {
    let each = duration / ROUNDS;
    for contestant in &contestants {
        contestant.warm_up(each).await?;
    }
    let mut rounds: Vec<Vec<Round>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        let count = contestants.len();
        for at in 0..count {
            let at = if round % 2 == 0 { at } else { count - 1 - at };
            rounds[at].push(contestants[at].ask(each).await?);
        }
    }
    let named = contestants.into_iter().zip(rounds);
    Ok(named
        .map(|(contestant, rounds)| Rounds {
            name: contestant.name,
            rounds,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::verdict::Verdict;

    fn rounds(name: &str, micros: &[u64]) -> Rounds {
        let round = |micros: &u64| {
            let mut tally = Tally::new();
            tally.answered(&Ok(Verdict::UnderLimit), Duration::from_micros(*micros));
            tally.took = Duration::from_secs(1);
            Round {
                tally,
                server_cpu: Some(Duration::from_micros(*micros)),
                redis_cpu: None,
                machine_cpu: Some(Duration::from_millis(500)),
            }
        };
        Rounds {
            name: name.to_owned(),
            rounds: micros.iter().map(round).collect(),
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // Everything was three times as slow in the second round; that tells nothing of either.
        let baseline = rounds("baseline", &[10, 30, 10]);
        let memory = rounds("memory", &[11, 36, 12]);
        let ratio = memory.over(&baseline, Round::server_cpu).expect("known");
        let close = |figure: f64, expected: f64| assert!((figure - expected).abs() < 1e-9, "{figure}");
        close(ratio.median, 1.2);
        close(ratio.least, 1.1);
        close(ratio.most, 1.2);
        assert_eq!(memory.over(&baseline, Round::redis_cpu), None);
        let others = memory.figure(Round::others).expect("known");
        assert!((others.median - 0.5).abs() < 1e-3, "{others:?}");
        assert_eq!(memory.sum().calls(), 3);
        assert_eq!(
            memory.figure(Round::server_cpu).expect("known").show(0),
            "12 (11–36)"
        );
    }
}

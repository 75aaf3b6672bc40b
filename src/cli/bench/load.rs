//! Asks a server as often as it can, or as often as it was told.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::error::BenchError;
use super::keys::Picker;
use super::meter;
use super::pace::{self, Pace};
use super::question::Question;
use super::stream::{Shared, stream};
use super::tally::Tally;
use crate::service::asker::Asker;
use crate::service::random::Random;

/// Who asks what, and how.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) connections: usize,
    /// Calls under way at most, for each connection.
    pub(super) streams: usize,
    pub(super) pace: Pace,
    pub(super) question: Arc<Question>,
    pub(super) keys: Arc<Picker>,
}

/// Those who ask: connected, and waiting for the word to start.
pub(super) struct Generator {
    threads: Vec<Thread>,
    pace: Pace,
}

/// One that asks over its part of the connections.
struct Thread {
    start: oneshot::Sender<Start>,
    ended: oneshot::Receiver<Result<Tally, BenchError>>,
}

/// The word to start.
struct Start {
    from: Instant,
    /// When no more calls are due.
    until: Instant,
    /// When calls that were due and are not sent yet will not be sent any more.
    give_up: Instant,
    /// When calls are due; absent when that is for the streams to say.
    due: Option<UnboundedReceiver<Instant>>,
}

impl Generator {
    /// Connects, on as many threads as half of the processors: the other half is for the server.
    pub(super) async fn connect(load: &Load, server: SocketAddr) -> Result<Self, BenchError> {
        let half = thread::available_parallelism().map_or(1, NonZeroUsize::get) / 2;
        let count = half.clamp(1, load.connections);
        let mut generator = Self {
            threads: Vec::with_capacity(count),
            pace: load.pace,
        };
        let mut connected = Vec::with_capacity(count);
        for number in 0..count {
            let load = Load {
                connections: load.connections / count + usize::from(number < load.connections % count),
                ..load.clone()
            };
            let (tell_ready, ready) = oneshot::channel();
            let (start, started) = oneshot::channel();
            let (tell_end, ended) = oneshot::channel();
            thread::Builder::new()
                .name(format!("asks-{number}"))
                .spawn(move || {
                    let random = Random::new(number as u64);
                    let tally = run(&load, server, random, tell_ready, started);
                    // Nobody waits for it when another one has failed.
                    let _ = tell_end.send(tally);
                })
                .map_err(BenchError::io("start a thread"))?;
            generator.threads.push(Thread { start, ended });
            connected.push(ready);
        }
        for (at, ready) in connected.into_iter().enumerate() {
            if ready.await.is_err() {
                return Err(match generator.threads.swap_remove(at).ended.await {
                    Ok(Err(error)) => error,
                    _ => BenchError::ThreadEnded,
                });
            }
        }
        Ok(generator)
    }

    /// Asks for so long, and then waits for the answers that are missing.
    pub(super) async fn run(self, duration: Duration) -> Result<Tally, BenchError> {
        let from = Instant::now();
        let until = from + duration;
        let (mut schedules, mut ends) = (Vec::new(), Vec::new());
        for thread in self.threads {
            let due = match self.pace {
                Pace::Closed => None,
                Pace::Open(_) => {
                    let (schedule, due) = mpsc::unbounded_channel();
                    schedules.push(schedule);
                    Some(due)
                }
            };
            let start = Start {
                from,
                until,
                give_up: until + duration,
                due,
            };
            // One that is gone says so at its end.
            let _ = thread.start.send(start);
            ends.push(thread.ended);
        }
        let paced = match self.pace {
            Pace::Closed => None,
            Pace::Open(rate) => {
                let paced = pace::start(rate, duration, from, schedules);
                Some(paced.map_err(BenchError::io("start a thread"))?)
            }
        };
        let mut all = Tally::new();
        for ended in ends {
            all.add(&ended.await.map_err(|_| BenchError::ThreadEnded)??);
        }
        if let Some(paced) = paced {
            // It has ended: its schedule has.
            let cpu = paced.join().map_err(|_| BenchError::ThreadEnded)?;
            all.client_cpu = all.client_cpu.zip(cpu).map(|(asked, paced)| asked + paced);
        }
        Ok(all)
    }
}

/// One thread that asks, from its connections to its tally.
fn run(
    load: &Load,
    server: SocketAddr,
    random: Random,
    ready: oneshot::Sender<()>,
    start: oneshot::Receiver<Start>,
) -> Result<Tally, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BenchError::io("start a runtime"))?;
    runtime.block_on(async {
        let mut askers = Vec::with_capacity(load.connections);
        for _ in 0..load.connections {
            askers.push(Asker::connect(server).await?);
        }
        let _ = ready.send(());
        let Ok(start) = start.await else {
            return Ok(Tally::new());
        };
        let before = meter::thread_cpu();
        let mut tally = ask(load, &askers, random, start).await?;
        tally.client_cpu = meter::thread_cpu()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        Ok(tally)
    })
}

async fn ask(load: &Load, askers: &[Asker], random: Random, start: Start) -> Result<Tally, BenchError> {
    let shared = Arc::new(Shared {
        question: Arc::clone(&load.question),
        keys: Arc::clone(&load.keys),
        random,
        until: start.until,
        give_up: start.give_up,
        due: start.due.map(tokio::sync::Mutex::new),
        tally: Mutex::new(Tally::new()),
    });
    let mut streams = JoinSet::new();
    for asker in askers.iter().cycle().take(askers.len() * load.streams) {
        streams.spawn(stream(asker.clone(), Arc::clone(&shared)));
    }
    while let Some(ended) = streams.join_next().await {
        ended.map_err(|_| BenchError::ThreadEnded)??;
    }
    let took = start.from.elapsed();
    let mut tally = shared.tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.took = took;
    Ok(tally.clone())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::super::keys::Keys;
    use super::*;
    use crate::service::baseline::Baseline;

    /// What becomes of a load on a server that admits whatever is asked.
    async fn tally(connections: usize, pace: Pace, keys: Picker, duration: Duration) -> Tally {
        let baseline = Baseline::new().await.expect("a port");
        let server = baseline.grpc_addr();
        let load = Load {
            connections,
            streams: 4,
            pace,
            question: Arc::new(Question::new("edge", &[], "client", 1)),
            keys: Arc::new(keys),
        };
        let asked = async {
            let generator = Generator::connect(&load, server).await?;
            generator.run(duration).await
        };
        tokio::select! {
            served = baseline.run(1) => panic!("{served:?}"),
            tally = asked => tally.expect("a tally"),
        }
    }

    #[tokio::test]
    async fn in_turn_every_caller_is_asked_about_once() {
        let tally = tally(3, Pace::Closed, Picker::in_turn(1000), Duration::from_hours(1)).await;
        assert_eq!((tally.calls(), tally.admitted), (1000, 1000));
        assert!(tally.took > Duration::ZERO);
        assert!(tally.client_cpu.expect("Linux") > Duration::ZERO);
    }

    #[tokio::test]
    async fn however_short_a_round_is_every_stream_asks() {
        let tally = tally(2, Pace::Closed, Picker::new(Keys::Hot), Duration::ZERO).await;
        assert_eq!(tally.calls(), 8);
    }

    #[tokio::test]
    async fn by_a_schedule_every_call_that_was_due_is_accounted_for() {
        let pace = Pace::Open(NonZeroU32::new(2000).expect("not zero"));
        let keys = Picker::new(Keys::Hot);
        let tally = tally(2, pace, keys, Duration::from_millis(200)).await;
        assert_eq!(tally.admitted + tally.unsent, 400);
        assert_eq!((tally.refused, tally.errors), (0, 0));
    }

    #[tokio::test]
    async fn nobody_there_is_an_error() {
        let nowhere = Baseline::new().await.expect("a port").grpc_addr();
        let load = Load {
            connections: 1,
            streams: 1,
            pace: Pace::Closed,
            question: Arc::new(Question::new("edge", &[], "client", 1)),
            keys: Arc::new(Picker::new(Keys::Hot)),
        };
        let Err(error) = Generator::connect(&load, nowhere).await else {
            panic!("connected to nobody");
        };
        assert!(
            error.to_string().starts_with(&format!("cannot reach {nowhere}")),
            "{error}"
        );
    }
}

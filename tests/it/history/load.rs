//! Steady calls to all instances, each written down with its end.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use comporta::domain::time::Micros;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tonic::transport::{Channel, Endpoint};

use super::record::{Call, Zero};
use super::rules::{QUESTIONS, Question, STEADY};
use crate::harness::comporta::Comporta;
use crate::redis_faults::load::ask;

/// Connections to each instance: as many as it has cores, on most machines.
pub const CONNECTIONS: usize = 2;

/// From one call on a connection to its next, whether it has its answer or not.
const BETWEEN_CALLS: Duration = Duration::from_millis(15);

/// One call in so many is [`STEADY`].
const STEADY_AMONG: usize = 4;

/// Calls that are being made.
pub struct Load {
    calls: Arc<Mutex<Vec<Call>>>,
    zero: Zero,
    instances: usize,
    runtime: Option<thread::JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

impl Load {
    /// Begins to call. The last of all is no instance whose answers count, but shows how busy the machine is with other
    /// things: it waits for nobody.
    pub fn start(instances: &[Comporta], control: &Comporta, zero: Zero) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = watch::channel(false);
        let kept = Arc::clone(&calls);
        let addresses: Vec<_> = instances
            .iter()
            .chain([control])
            .map(|comporta| format!("http://{}", comporta.grpc()))
            .collect();
        let runtime = thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime for callers")
                .block_on(async {
                    let mut connections = JoinSet::new();
                    for (instance, address) in addresses.iter().enumerate() {
                        for connection in 0..CONNECTIONS {
                            let endpoint = Endpoint::from_shared(address.clone()).expect("an address");
                            let caller = Caller {
                                channel: endpoint.connect().await.expect("a connection"),
                                instance,
                                connection,
                                zero,
                                calls: Arc::clone(&kept),
                            };
                            connections.spawn(caller.call(stopped.clone()));
                        }
                    }
                    connections.join_all().await;
                });
        });
        Self {
            calls,
            zero,
            instances: instances.len(),
            runtime: Some(runtime),
            stop,
        }
    }

    /// Waits until every connection has answers of the store again, but not for ever. Since when; none if they had not.
    pub fn recovered(&self, ended: Micros) -> Option<Micros> {
        const LONGEST: Micros = Micros::from_secs(12);
        loop {
            let recovery = recovery(&self.calls(), ended, self.instances);
            if recovery.is_some() || self.zero.now().saturating_sub(ended) > LONGEST {
                return recovery;
            }
            thread::sleep(BETWEEN_CALLS);
        }
    }

    /// Ends. All calls to instances, and those to the control, in the order of their ends.
    pub fn stop(mut self) -> (Vec<Call>, Vec<Call>) {
        self.stop.send_replace(true);
        let runtime = self.runtime.take().expect("callers");
        runtime.join().expect("callers that end");
        let calls = std::mem::take(&mut *self.calls());
        calls.into_iter().partition(|call| call.instance < self.instances)
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().expect("the calls")
    }
}

/// From when on every connection had so many calls in a row of which most were decided by the store; on a machine that is
/// busy with other things, it is late now and then. None while one of them had not.
fn recovery(calls: &[Call], ended: Micros, instances: usize) -> Option<Micros> {
    const IN_A_ROW: usize = 10;
    const LATE: usize = 5;
    let mut steady = vec![Vec::new(); instances * CONNECTIONS];
    for call in calls.iter().rev().take_while(|call| call.answered >= ended) {
        if call.instance < instances && call.question.whose == STEADY.whose && call.sent >= ended {
            steady[call.instance * CONNECTIONS + call.connection].push((call.sent, call.is_decided()));
        }
    }
    let recovered = |mut calls: Vec<(Micros, bool)>| {
        calls.sort_unstable();
        let well = |row: &&[(Micros, bool)]| row[0].1 && row.iter().filter(|call| !call.1).count() <= LATE;
        Some(calls.windows(IN_A_ROW).find(well)?[0].0)
    };
    let all: Option<Vec<_>> = steady.into_iter().map(recovered).collect();
    all?.into_iter().max()
}

struct Caller {
    channel: Channel,
    instance: usize,
    connection: usize,
    zero: Zero,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Caller {
    /// Calls until it is told to stop, then waits for what is under way.
    async fn call(self, stopped: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(BETWEEN_CALLS);
        // What a machine that stood still has missed is not made up for in a burst.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut under_way = JoinSet::new();
        // Not all in step.
        let start = 5 * self.instance + 3 * self.connection;
        let mut questions = QUESTIONS.iter().cycle().skip(start);
        for turn in 0_usize.. {
            let due = ticks.tick().await.into_std();
            if *stopped.borrow() {
                break;
            }
            let question = if turn.is_multiple_of(STEADY_AMONG) {
                &STEADY
            } else {
                questions.next().expect("questions without end")
            };
            while under_way.try_join_next().is_some() {}
            under_way.spawn(self.one(question, due));
        }
        under_way.join_all().await;
    }

    fn one(&self, question: &'static Question, due: Instant) -> impl Future<Output = ()> + use<> {
        let (instance, connection, zero) = (self.instance, self.connection, self.zero);
        let (channel, calls) = (self.channel.clone(), Arc::clone(&self.calls));
        let request = question.request();
        async move {
            let sent = zero.now();
            let outcome = ask(channel, request).await;
            let answered = zero.now();
            calls.lock().expect("the calls").push(Call {
                instance,
                connection,
                question,
                due: zero.at(due),
                sent,
                answered,
                outcome,
            });
        }
    }
}

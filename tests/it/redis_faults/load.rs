//! Steady load on an instance, and what became of every call.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use comporta::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use comporta::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost_types::value::Kind;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tonic::transport::{Channel, Endpoint};

use crate::harness::comporta::{Comporta, admitted, request};

/// How long a caller waits.
pub const DEADLINE: Duration = Duration::from_millis(100);

/// Connections to the instance.
pub const CONNECTIONS: usize = 4;

/// Connections to another instance on the same machine, which has no store that could fail.
const CONTROLS: usize = 2;

/// How long it is waited for the store to decide again: much longer than it may take, for a machine that stands still.
const LONGEST: Duration = Duration::from_secs(60);

/// From one call on a connection to its next, whether it has its answer or not.
const BETWEEN_CALLS: Duration = Duration::from_millis(20);

/// Who calls. The first two share every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// One that no limit stops, so that all its calls reach the store.
    Steady,
    /// One that asks for more than it may have.
    Greedy,
    /// One of the other instance.
    Control,
}

/// A call and its end.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which connection it went by.
    pub connection: usize,
    /// Who made it.
    pub caller: Caller,
    /// When.
    pub sent: Instant,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub outcome: Outcome,
}

/// What comes of a call.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A verdict.
    Answered {
        /// It may pass.
        admitted: bool,
        /// It was decided without the store.
        degraded: bool,
    },
    /// None.
    Failed(tonic::Status),
}

impl Call {
    /// Whether it was decided without the store.
    pub fn is_degraded(&self) -> bool {
        matches!(self.outcome, Outcome::Answered { degraded: true, .. })
    }

    /// Whether it was decided by the store.
    pub fn is_decided(&self) -> bool {
        matches!(self.outcome, Outcome::Answered { degraded: false, .. })
    }
}

/// Calls that are being made.
pub struct Load {
    calls: Arc<Mutex<Vec<Call>>>,
    runtime: Option<thread::JoinHandle<()>>,
    stop: watch::Sender<bool>,
    _control: Comporta,
}

/// All calls that were made.
pub struct Record {
    /// To the instance, in the order of their ends.
    pub calls: Vec<Call>,
    /// The time from the end of the fault until every connection had answers of the store again.
    pub recovery: Option<Duration>,
    controls: Vec<Call>,
}

impl Load {
    /// Begins to call.
    pub fn start(comporta: &Comporta) -> Self {
        let control = Comporta::serve_text(&super::policy(), &[]);
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = watch::channel(false);
        let kept = Arc::clone(&calls);
        let addresses = [comporta, &control].map(|comporta| format!("http://{}", comporta.grpc()));
        let runtime = thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime for callers")
                .block_on(async {
                    let mut connections = tokio::task::JoinSet::new();
                    for connection in 0..CONNECTIONS + CONTROLS {
                        let is_control = connection >= CONNECTIONS;
                        let address = addresses[usize::from(is_control)].clone();
                        let endpoint = Endpoint::from_shared(address).expect("an address");
                        let channel = endpoint.connect().await.expect("a connection");
                        connections.spawn(call(channel, connection, Arc::clone(&kept), stopped.clone()));
                    }
                    connections.join_all().await;
                });
        });
        Self {
            calls,
            runtime: Some(runtime),
            stop,
            _control: control,
        }
    }

    /// Waits until every connection has had so many answers that the store gave.
    pub fn wait_for(&self, answers: usize) {
        crate::harness::process::poll("answers of the store", || {
            let calls = self.calls.lock().expect("the calls");
            let of = |connection| {
                let all = calls.iter().filter(|call| call.connection == connection);
                all.filter(|call| call.is_decided()).count()
            };
            (0..CONNECTIONS)
                .all(|connection| of(connection) >= answers)
                .then_some(())
        });
    }

    /// Lets time pass.
    pub fn go_on_for(&self, time: Duration) {
        thread::sleep(time);
    }

    /// The fault has ended at this moment. Waits until every connection has answers of the store again, but not for ever.
    pub fn until_recovered(mut self) -> Record {
        let ended = Instant::now();
        let recovery = loop {
            let recovery = recovery(&self.calls.lock().expect("the calls"), ended);
            if recovery.is_some() || ended.elapsed() > LONGEST {
                break recovery;
            }
            thread::sleep(BETWEEN_CALLS);
        };
        self.stop.send_replace(true);
        let runtime = self.runtime.take().expect("callers");
        runtime.join().expect("callers that end");
        let calls = std::mem::take(&mut *self.calls.lock().expect("the calls"));
        let (controls, calls) = calls.into_iter().partition(|call| call.caller == Caller::Control);
        Record {
            calls,
            recovery,
            controls,
        }
    }
}

/// When all connections had so many calls in a row of which most were decided by the store; on a machine that is busy with
/// other things, it is late now and then. None while one of them had not.
fn recovery(calls: &[Call], ended: Instant) -> Option<Duration> {
    const IN_A_ROW: usize = 20;
    const LATE: usize = 10;
    let of = |connection| {
        let mut steady: Vec<&Call> = calls
            .iter()
            .filter(|call| {
                call.connection == connection && call.caller == Caller::Steady && call.sent >= ended
            })
            .collect();
        steady.sort_by_key(|call| call.sent);
        let well = |calls: &&[&Call]| {
            calls[0].is_decided() && calls.iter().filter(|call| !call.is_decided()).count() <= LATE
        };
        let row = steady.windows(IN_A_ROW).find(well)?;
        Some(row[0].sent - ended)
    };
    (0..CONNECTIONS)
        .map(of)
        .try_fold(Duration::ZERO, |longest, recovery| Some(longest.max(recovery?)))
}

impl Record {
    /// Whether the machine was so busy with other things that figures say little: the other instance, which waits for
    /// nobody, was slow as well.
    pub fn is_noise(&self) -> bool {
        self.slow_controls() > self.controls.len() / 20
    }

    /// How many calls may have no answer in time: none on a machine that has the time for them.
    pub fn most_late(&self) -> usize {
        match self.slow_controls() {
            0 => 0,
            _ if self.is_noise() => self.calls.len(),
            _ => self.calls.len() / 20,
        }
    }

    /// How soon after the end of a fault the store must decide again.
    pub fn soon(&self) -> Duration {
        if self.is_noise() {
            LONGEST
        } else {
            Duration::from_secs(2)
        }
    }

    fn slow_controls(&self) -> usize {
        let is_slow = |control: &&Call| control.took >= DEADLINE / 5;
        self.controls.iter().filter(is_slow).count()
    }

    /// The time within which so many of a hundred calls had their answer.
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut took: Vec<Duration> = self.calls.iter().map(|call| call.took).collect();
        took.sort_unstable();
        took[(took.len() * percent / 100).min(took.len() - 1)]
    }

    /// How many calls there were of that kind.
    pub fn count(&self, is: impl Fn(&Call) -> bool) -> usize {
        self.calls.iter().filter(|call| is(call)).count()
    }
}

/// Calls by one connection until it is told to stop, then waits for what is under way.
async fn call(
    channel: Channel,
    connection: usize,
    calls: Arc<Mutex<Vec<Call>>>,
    stopped: watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(BETWEEN_CALLS);
    // What a machine that stood still has missed is not made up for in a burst.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut under_way: Vec<JoinHandle<()>> = Vec::new();
    let steady = format!("steady={connection}");
    let callers = if connection < CONNECTIONS {
        vec![
            (Caller::Steady, steady),
            (Caller::Greedy, "greedy=all".to_owned()),
        ]
    } else {
        vec![(Caller::Control, steady)]
    };
    for (caller, descriptor) in callers.iter().cycle() {
        let due = ticks.tick().await.into_std();
        if *stopped.borrow() {
            break;
        }
        let question = request(super::DOMAIN, &[descriptor]);
        let (channel, calls, caller) = (channel.clone(), Arc::clone(&calls), *caller);
        under_way.retain(|call| !call.is_finished());
        under_way.push(tokio::spawn(async move {
            // What keeps a control from calling counts as well.
            let sent = if caller == Caller::Control {
                due
            } else {
                Instant::now()
            };
            let outcome = ask(channel, question).await;
            let took = sent.elapsed();
            calls.lock().expect("the calls").push(Call {
                connection,
                caller,
                sent,
                took,
                outcome,
            });
        }));
    }
    for call in under_way {
        call.await.expect("a call");
    }
}

/// Asks, and waits no longer than a caller does.
pub async fn ask(channel: Channel, question: RateLimitRequest) -> Outcome {
    let mut question = tonic::Request::new(question);
    question.set_timeout(DEADLINE);
    match RateLimitServiceClient::new(channel)
        .should_rate_limit(question)
        .await
    {
        Ok(answer) => {
            let answer = answer.into_inner();
            let degraded = degraded(&answer);
            let headers = &answer.response_headers_to_add;
            let says_so = headers.iter().any(|header| header.key == "x-comporta-degraded");
            assert_eq!(says_so, degraded, "{answer:?}");
            Outcome::Answered {
                admitted: admitted(&answer),
                degraded,
            }
        }
        Err(status) => Outcome::Failed(status),
    }
}

/// Whether an answer says that it was decided without the store.
pub fn degraded(answer: &RateLimitResponse) -> bool {
    let metadata = answer.dynamic_metadata.as_ref().expect("metadata");
    match metadata.fields["degraded"].kind {
        Some(Kind::BoolValue(degraded)) => degraded,
        ref other => panic!("neither degraded nor not: {other:?}"),
    }
}

//! The server as a whole: bound first, served later, drained at the end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tonic::service::Routes;

use super::admin::{self, Operators};
use super::health::Health;
use super::limiter::Limiter;
use super::random::Random;
use super::rls::Calls;
use super::threads::Threads;
use super::worker::{self, FINISH, Terms, Worker};
use crate::clock::Clock;
use crate::proto;
use crate::store::Store;

/// How long to wait after a connection could not be accepted: most often the process has too many files open.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(200);

/// How the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Cores that serve calls.
    pub workers: usize,
    /// How long calls are still served after the end was announced, so that gateways can look elsewhere.
    pub drain: Duration,
    /// About how long a gateway's connection is kept; for ever when absent.
    pub connection_age: Option<Duration>,
}

/// Why the server could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is not to be had.
    #[error("cannot listen on {address} (--{flag}): {reason}", reason = describe(.source))]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The flag that names it, without dashes.
        flag: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused a thread or what a runtime needs.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    /// A reflection service could not be made of our own descriptors.
    #[error("cannot describe the service: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// A part of the server ended by itself, so that it would only look alive.
    #[error("the thread {0} ended unexpectedly")]
    ThreadEnded(String),
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            String::from("another process has this port; stop it or choose another address")
        }
        _ => error.to_string(),
    }
}

/// A server whose ports are bound. It serves nothing yet.
pub struct Bound {
    grpc: TcpListener,
    grpc_addr: SocketAddr,
    admin: std::net::TcpListener,
    admin_addr: SocketAddr,
    health: Health,
    /// What every core serves beside the decisions.
    common: Routes,
}

impl Bound {
    /// Binds the port of the gateways and that of the operators.
    ///
    /// # Errors
    /// When one of them is not to be had.
    pub async fn new(grpc: SocketAddr, admin: SocketAddr) -> Result<Self, ServerError> {
        let (health, common) = Health::new().await;
        let common = add_reflection(common)?;
        let (grpc, grpc_addr) = bind(grpc, "grpc").await?;
        let (admin, admin_addr) = bind(admin, "admin").await?;
        Ok(Self {
            grpc,
            grpc_addr,
            admin: admin.into_std()?,
            admin_addr,
            health,
            common,
        })
    }

    /// Where gateways reach the server; the real port, also when 0 was asked for.
    pub const fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// Where operators reach it.
    pub const fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Starts every core and the operators' port. `limiter` makes the limiter of each core, on that core's thread and
    /// inside its runtime; the core whose number follows the last is the operators' port.
    ///
    /// # Errors
    /// When the system refuses what a thread or runtime needs.
    pub fn start<S: Store, C: Clock>(
        self,
        options: &ServerOptions,
        operators: Operators,
        seed: u64,
        limiter: impl Fn(usize) -> Limiter<S, C> + Send + Sync + 'static,
    ) -> Result<Running, ServerError> {
        let mut threads = Threads::new();
        let (stop_admin, stop) = watch::channel(false);
        let (drain, draining) = watch::channel(false);
        let terms = Terms {
            age: options.connection_age,
            draining,
            random: Arc::new(Random::new(seed)),
        };
        let limiter = Arc::new(limiter);
        let cores = options.workers.max(1);
        let for_scripts = Arc::clone(&limiter);
        let (admin, health) = (self.admin, self.health.clone());
        admin::start(
            admin,
            health,
            operators,
            move || for_scripts(cores),
            stop,
            &mut threads,
        )?;
        let mut workers = Vec::with_capacity(cores);
        for core in 0..cores {
            let (limiter, common) = (Arc::clone(&limiter), self.common.clone());
            let terms = terms.clone();
            let serve = move |connections| worker::run(Calls::new(limiter(core), common), connections, terms);
            workers.push(Worker::start(core, &mut threads, serve)?);
        }
        let drain_for = options.drain;
        Ok(Running {
            grpc: self.grpc,
            workers,
            threads,
            health: self.health,
            drain,
            drain_for,
            stop_admin,
        })
    }
}

pub(super) async fn bind(
    address: SocketAddr,
    flag: &'static str,
) -> Result<(TcpListener, SocketAddr), ServerError> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let real = listener.local_addr()?;
        Ok((listener, real))
    };
    bound.await.map_err(|source| ServerError::Bind {
        address,
        flag,
        source,
    })
}

/// Reflection, both the version that clients ask for first and the one that older ones know.
fn add_reflection(routes: Routes) -> Result<Routes, ServerError> {
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(routes
        .add_service(describe().build_v1()?)
        .add_service(describe().build_v1alpha()?))
}

/// A server whose cores are up.
pub struct Running {
    grpc: TcpListener,
    workers: Vec<Worker>,
    threads: Threads,
    health: Health,
    drain: watch::Sender<bool>,
    drain_for: Duration,
    stop_admin: watch::Sender<bool>,
}

impl Running {
    /// Says that calls are wanted.
    pub async fn open(&self) {
        self.health.set(true).await;
    }

    /// Accepts connections until `shutdown`, then drains: says that no calls are wanted, serves those that come all the
    /// same for a while, tells every connection to go elsewhere, and finishes what is in flight.
    ///
    /// # Errors
    /// When a part of the server ends by itself.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        self.serve_until(shutdown).await?;
        self.health.set(false).await;
        tracing::info!(drain = ?self.drain_for, "no calls are wanted any more; serving those that still come");
        self.serve_until(tokio::time::sleep(self.drain_for)).await?;
        self.finish().await;
        Ok(())
    }

    async fn serve_until(&mut self, end: impl Future<Output = ()>) -> Result<(), ServerError> {
        tokio::select! {
            () = end => Ok(()),
            name = self.threads.next_end() => Err(ServerError::ThreadEnded(name)),
            () = accept(&self.grpc, &self.workers) => Ok(()),
        }
    }

    async fn finish(self) {
        let Self {
            grpc,
            workers,
            mut threads,
            drain,
            stop_admin,
            ..
        } = self;
        // Whoever comes now is refused by the system at once, instead of waiting for an answer.
        drop(grpc);
        let open: usize = workers.iter().map(Worker::open).sum();
        tracing::info!(connections = open, "telling connections to go elsewhere");
        drain.send_replace(true);
        stop_admin.send_replace(true);
        let in_time = FINISH + Duration::from_secs(1);
        if tokio::time::timeout(in_time, threads.all_ended()).await.is_err() {
            tracing::warn!("not every core ended in time");
        }
        tracing::info!("done");
    }
}

/// Hands each new connection to the core with the fewest. Gateways keep few connections for long, so which core gets
/// one matters; the system would choose by a hash.
pub(super) async fn accept(listener: &TcpListener, workers: &[Worker]) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => hand_over(stream, workers),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_FAILED_ACCEPT).await;
            }
        }
    }
}

fn hand_over(stream: TcpStream, workers: &[Worker]) {
    // An answer is one small write; waiting to send more with it would only make it late.
    let taken = stream.set_nodelay(true).and_then(|()| stream.into_std());
    match (taken, workers.iter().min_by_key(|worker| worker.open())) {
        (Ok(stream), Some(worker)) => worker.take(stream),
        (Ok(_), None) => {}
        (Err(error), _) => tracing::debug!(%error, "a connection closed before it was served"),
    }
}

#[cfg(test)]
mod tests;

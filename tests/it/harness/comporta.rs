//! Our own binary, as a user starts it, and callers of its gRPC side.

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use comporta::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use comporta::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use comporta::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use comporta::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use comporta::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tempfile::{NamedTempFile, TempDir};
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::process::{PATIENCE, Process, poll};
use super::redis::Redis;

/// The binary, with no settings but those that are given.
pub fn command<A: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_comporta"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("COMPORTA_") {
            command.env_remove(name);
        }
    }
    command
}

/// A server that has said that it is ready.
pub struct Comporta {
    process: Process,
    grpc: String,
    admin: String,
    _folder: TempDir,
    /// Must stay where it is while it is watched.
    _policy_file: Option<NamedTempFile>,
}

impl Comporta {
    /// Serves a policy, with more flags after it, on ports of its own.
    pub fn serve(policy: impl AsRef<Path>, flags: &[&str]) -> Self {
        Self::serve_at("127.0.0.1:0", policy, flags)
    }

    /// The same where gateways look for it already.
    pub fn serve_at(grpc: &str, policy: impl AsRef<Path>, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the ready file");
        let ready_file = folder.path().join("ready.json");
        let mut command = command(["serve"]);
        command
            .arg(policy.as_ref())
            .args(["--grpc", grpc, "--admin", "127.0.0.1:0"]);
        command.arg("--ready-file").arg(&ready_file).args(flags);
        let mut process = Process::spawn(&mut command);
        let ready = process.poll("a ready file", |_| std::fs::read_to_string(&ready_file).ok());
        let ready: serde_json::Value = serde_json::from_str(&ready).expect("JSON in the ready file");
        let address = |name: &str| {
            ready[name]
                .as_str()
                .expect("an address in the ready file")
                .to_owned()
        };
        Self {
            process,
            grpc: address("grpc"),
            admin: address("admin"),
            _folder: folder,
            _policy_file: None,
        }
    }

    /// The same for a policy that is given as text.
    pub fn serve_text(policy: &str, flags: &[&str]) -> Self {
        let file = NamedTempFile::new().expect("a file for the policy");
        std::fs::write(file.path(), policy).expect("the policy is written");
        let mut comporta = Self::serve(file.path(), flags);
        comporta._policy_file = Some(file);
        comporta
    }

    /// The same on a shared store. It would rather fail than decide alone, and has the time to wait for a slow machine.
    pub fn serve_strict(policy: &str, redis: &Redis) -> Self {
        let url = redis.url();
        let flags = [
            ["--store", &url],
            ["--store-budget", "60s"],
            ["--on-store-failure", "error"],
        ];
        Self::serve_text(policy, flags.as_flattened())
    }

    /// Where gateways ask, as `127.0.0.1:PORT`.
    pub fn grpc(&self) -> &str {
        &self.grpc
    }

    /// Where probes and metrics are.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// What `/metrics` says.
    pub fn metrics(&self) -> String {
        super::http::get::<&str>(&self.admin, "/metrics", &[]).body
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        self.process.printed()
    }

    /// Waits until it has printed a line that contains `text`.
    pub fn wait_for_line(&mut self, text: &str) {
        self.process.wait_for_line(text);
    }

    /// How much of the machine's memory it holds.
    pub fn resident_kib(&self) -> u64 {
        self.process.resident_kib()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.process.signal("TERM");
    }

    /// Asks it to read its policy again.
    pub fn hang_up(&self) {
        self.process.signal("HUP");
    }

    /// Stands still, with all connections open.
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Goes on after [`Self::pause`].
    pub fn resume(&self) {
        self.process.signal("CONT");
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Waits until every core has reached the shared store, by looking at a budget of the policy.
    pub fn wait_for_store(&self, domain: &str, descriptor: &str) {
        let mut look = request(domain, &[descriptor]);
        look.descriptors[0].hits_addend = Some(0);
        // A new connection goes to the core that has the fewest.
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let clients: Vec<_> = (0..cores).map(|_| self.client()).collect();
        poll("the store", || {
            let all = clients.iter().all(|client| client.send(look.clone()).is_ok());
            (all && !self.is_degraded()).then_some(())
        });
    }

    /// Whether it says that it decides without the shared store.
    pub fn is_degraded(&self) -> bool {
        let metrics = self.metrics();
        let mut gauges = metrics
            .lines()
            .filter(|line| line.starts_with("comporta_store_degraded{"));
        gauges.any(|line| line.ends_with(" 1"))
    }

    /// A caller with a connection of its own.
    pub fn client(&self) -> Client {
        Client::connect(&self.grpc)
    }
}

/// A gateway's side of the call, one question at a time.
pub struct Client {
    runtime: Runtime,
    channel: Channel,
}

impl Client {
    /// Connects to `127.0.0.1:PORT`.
    pub fn connect(address: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for a client");
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
        let channel = runtime
            .block_on(endpoint.connect())
            .unwrap_or_else(|error| panic!("{address}: {error:?}"));
        Self { runtime, channel }
    }

    /// Sends a request as it is.
    pub fn send(&self, request: RateLimitRequest) -> Result<RateLimitResponse, tonic::Status> {
        let mut request = tonic::Request::new(request);
        // Far above what any answer takes; a server that hangs becomes an error.
        request.set_timeout(PATIENCE);
        let mut client = RateLimitServiceClient::new(self.channel.clone());
        self.runtime
            .block_on(client.should_rate_limit(request))
            .map(tonic::Response::into_inner)
    }

    /// Sends a request, then so many more that it gives up on after `patience`, as a gateway does. What became of the
    /// first, once `then` was called.
    pub fn outlive(
        &self,
        request: &RateLimitRequest,
        others: usize,
        patience: Duration,
        then: impl FnOnce(),
    ) -> Result<RateLimitResponse, tonic::Status> {
        let ask = || {
            let mut client = RateLimitServiceClient::new(self.channel.clone());
            let request = request.clone();
            async move { client.should_rate_limit(request).await }
        };
        self.runtime.block_on(async {
            let first = tokio::spawn(tokio::time::timeout(PATIENCE, ask()));
            let mut given_up = tokio::task::JoinSet::new();
            for _ in 0..others {
                given_up.spawn(tokio::time::timeout(patience, ask()));
            }
            while let Some(answer) = given_up.join_next().await {
                assert!(answer.expect("a call").is_err(), "answered while it stood still");
            }
            // Lets the connection say so.
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            then();
            let answer = first.await.expect("a call").expect("an answer in time");
            answer.map(tonic::Response::into_inner)
        })
    }

    /// One hit on each descriptor, written as the command line takes them: `client=ana,plan=free`.
    pub fn ask(&self, domain: &str, descriptors: &[&str]) -> RateLimitResponse {
        self.send(request(domain, descriptors))
            .unwrap_or_else(|status| panic!("{descriptors:?}: {status:?}"))
    }

    /// Whether one hit on one descriptor is admitted.
    pub fn admits(&self, domain: &str, descriptor: &str) -> bool {
        admitted(&self.ask(domain, &[descriptor]))
    }

    /// What the health service says of `service`.
    pub fn health(&self, service: &str) -> Result<ServingStatus, tonic::Status> {
        let mut client = HealthClient::new(self.channel.clone());
        let question = HealthCheckRequest {
            service: service.to_owned(),
        };
        self.runtime
            .block_on(client.check(question))
            .map(|answer| answer.into_inner().status())
    }
}

/// A request for one hit on each descriptor.
pub fn request(domain: &str, descriptors: &[&str]) -> RateLimitRequest {
    RateLimitRequest {
        domain: domain.to_owned().into(),
        descriptors: descriptors.iter().map(|text| descriptor(text)).collect(),
        hits_addend: 0,
    }
}

/// `client=ana,plan=free`
pub fn descriptor(text: &str) -> RateLimitDescriptor {
    let entries = text.split(',').map(|entry| {
        let (key, value) = entry
            .split_once('=')
            .unwrap_or_else(|| panic!("no `=` in `{entry}`"));
        Entry {
            key: key.to_owned().into(),
            value: value.to_owned().into(),
        }
    });
    RateLimitDescriptor {
        entries: entries.collect(),
        ..RateLimitDescriptor::default()
    }
}

/// Whether the request may pass. An answer that says neither is no answer.
pub fn admitted(answer: &RateLimitResponse) -> bool {
    match answer.overall_code() {
        Code::Ok => true,
        Code::OverLimit => false,
        Code::Unknown => panic!("an answer without a verdict: {answer:?}"),
    }
}

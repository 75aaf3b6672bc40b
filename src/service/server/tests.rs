mod shapes;

use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use super::*;
use crate::clock::ManualClock;
use crate::domain::check::Group;
use crate::domain::descriptor::{Descriptor, Entry};
use crate::domain::quantity::Hits;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::{Decision, Decisions, Reason, Verdict};
use crate::policy::{Policy, PolicySet};
use crate::service::admin::MetricsPage;
use crate::service::client::{AskError, Client, Reply};
use crate::service::connection::Responder;
use crate::service::live::Policies;
use crate::service::observer::{Observer, Tally};
use crate::service::options::LimiterOptions;
use crate::service::unary::Body;
use crate::store::StoreError;
use crate::store::key::Keys;

const POLICY: &str = "domain: edge\ndescriptors:\n  - key: client\n    rate_limit: { rate: 60/minute }\n";

/// What the key of a counter says decides what becomes of it.
#[derive(Clone)]
struct Fake;

impl Store for Fake {
    async fn decide(&self, group: &Group<'_>, _: Timestamp, _: Instant) -> Result<Decisions, StoreError> {
        let named = |name: &str| {
            group.checks[0]
                .key
                .windows(name.len())
                .any(|part| part == name.as_bytes())
        };
        assert!(!named("bug"), "a test's own panic");
        if named("gone") {
            return Err(StoreError::Refused {
                reason: String::from("as the test wants"),
            });
        }
        if named("slow") {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let decision = Decision {
            verdict: Verdict::UnderLimit,
            reason: Reason::Fits,
            remaining: 59,
            retry_after: None,
            next_after: None,
            reset_after: Micros::SECOND,
            delay: Micros::ZERO,
        };
        Ok(Decisions {
            checks: group.checks.iter().map(|_| decision).collect(),
            ..Decisions::default()
        })
    }
}

struct Nobody;

impl Observer for Nobody {
    fn opens(&self, _: u64, _: &[&Policy]) -> Vec<Arc<dyn Tally>> {
        Vec::new()
    }

    fn overrides_ignored(&self, _: u32) {}
}

/// A server in this process.
struct Served {
    address: SocketAddr,
    admin: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), ServerError>>,
}

impl Served {
    async fn start(workers: usize, connection_age: Option<Duration>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let bound = Bound::new(any, any).await.expect("ports");
        let (address, admin) = (bound.grpc_addr(), bound.admin_addr());
        let set =
            PolicySet::parse(&[("policy.yaml", POLICY)]).unwrap_or_else(|problems| panic!("{problems}"));
        let policies = Arc::new(Policies::new(set, Arc::new(Nobody)));
        let options = ServerOptions {
            workers,
            drain: Duration::from_millis(200),
            connection_age,
        };
        let operators = Operators {
            metrics: MetricsPage {
                media_type: "text/plain",
                render: Arc::new(|| Some(String::from("numbers\n"))),
            },
            policy: Arc::new(|| String::from("{}\n")),
            background: Box::pin(std::future::pending()),
        };
        let clock = ManualClock::at(Timestamp::from_micros(1));
        let limiter = move |core| {
            let (policies, clock) = (Arc::clone(&policies), clock.clone());
            Limiter::new(
                core,
                policies,
                Fake,
                clock,
                Keys::new("test"),
                LimiterOptions::default(),
            )
        };
        let running = bound.start(&options, operators, 1, limiter).expect("started");
        running.open().await;
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(running.run(async {
            let _ = stopped.await;
        }));
        Self {
            address,
            admin,
            stop,
            ended,
        }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.address.to_string())
            .await
            .expect("a connection")
    }

    async fn stop(self) -> Result<(), ServerError> {
        self.stop.send(()).expect("a server that runs");
        self.ended.await.expect("no panic")
    }
}

async fn ask(client: &mut Client, name: &'static str) -> Result<Reply, AskError> {
    let entries = smallvec::smallvec![Entry::new("client", name)];
    client
        .ask(
            "edge",
            &[Descriptor {
                entries,
                hits: Hits::Take(1),
                limit: None,
            }],
        )
        .await
}

fn code(failed: Result<Reply, AskError>) -> tonic::Code {
    match failed.expect_err("an error") {
        AskError::Failed { code, .. } => code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn answers_and_ends_when_told() {
    let served = Served::start(2, None).await;
    let reply = ask(&mut served.client().await, "a").await.expect("an answer");
    assert_eq!(
        (reply.verdict, reply.statuses[0].remaining),
        (Verdict::UnderLimit, 59)
    );
    served.stop().await.expect("a good end");
}

#[tokio::test]
async fn one_bad_request_does_not_end_the_server_or_its_connection() {
    let served = Served::start(1, None).await;
    let mut client = served.client().await;
    ask(&mut client, "bug").await.expect_err("no answer");
    ask(&mut client, "a").await.expect("an answer");
    served.stop().await.expect("a good end");
}

#[tokio::test]
async fn what_cannot_be_decided_is_an_error_and_says_so() {
    let served = Served::start(1, None).await;
    let mut client = served.client().await;
    assert_eq!(code(ask(&mut client, "gone").await), tonic::Code::Unavailable);
    assert_eq!(code(client.ask("edge", &[]).await), tonic::Code::InvalidArgument);
    assert_eq!(code(client.ask("", &[]).await), tonic::Code::InvalidArgument);
    served.stop().await.expect("a good end");
}

#[tokio::test]
async fn what_is_in_flight_at_the_end_is_answered() {
    let served = Served::start(1, None).await;
    let mut client = served.client().await;
    // Connected before the end, asked just before the connections are told to go.
    let in_flight = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ask(&mut client, "slow").await
    });
    served.stop().await.expect("a good end");
    in_flight.await.expect("no panic").expect("an answer");
}

#[tokio::test]
async fn connections_are_asked_to_go_when_they_are_old_without_an_error() {
    let served = Served::start(1, Some(Duration::from_millis(50))).await;
    let mut client = served.client().await;
    let until = Instant::now() + Duration::from_millis(400);
    while Instant::now() < until {
        match ask(&mut client, "a").await {
            Ok(_) => {}
            // The client had not sent it when its connection closed, so it says nothing of the server.
            Err(AskError::Failed {
                code: tonic::Code::Cancelled,
                message,
            }) if message == "operation was canceled" => {}
            Err(error) => panic!("{error}"),
        }
    }
    served.stop().await.expect("a good end");
}

#[tokio::test]
async fn an_old_connection_hears_goaway_before_it_closes() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const GOAWAY: u8 = 7;
    let served = Served::start(1, Some(Duration::from_millis(50))).await;
    let mut stream = TcpStream::connect(served.address).await.expect("a connection");
    // The preface and an empty SETTINGS frame: an idle gateway.
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .expect("sent");
    loop {
        let mut head = [0; 9];
        stream
            .read_exact(&mut head)
            .await
            .expect("a frame before the end");
        if head[3] == GOAWAY {
            break;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream
            .read_exact(&mut vec![0; length as usize])
            .await
            .expect("the rest of the frame");
    }
    drop(stream);
    served.stop().await.expect("a good end");
}

#[tokio::test]
async fn wants_no_calls_before_it_is_open_and_after_it_is_told_to_end() {
    let (health, _) = Health::new().await;
    assert!(!health.is_ready());
    let served = Served::start(1, None).await;
    let channel =
        tonic::transport::Endpoint::from_shared(format!("http://{}", served.address)).expect("an address");
    let mut client = HealthClient::new(channel.connect().await.expect("a connection"));
    let mut status = async |service: &str| {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        client
            .check(request)
            .await
            .map(|answer| answer.into_inner().status())
    };
    for name in ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(
            status(name).await.expect("known"),
            ServingStatus::Serving,
            "{name}"
        );
    }
    assert_eq!(
        status("other").await.expect_err("unknown").code(),
        tonic::Code::NotFound
    );
    served.stop.send(()).expect("a server that runs");
    while status("").await.expect("still answered") != ServingStatus::NotServing {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    served.ended.await.expect("no panic").expect("a good end");
}

#[tokio::test]
async fn reflection_shows_the_types_as_envoy_has_them() {
    use prost::Message;
    use prost_types::FileDescriptorProto;
    use prost_types::field_descriptor_proto::Type;

    let served = Served::start(1, None).await;
    let url = format!("http://{}", served.address);
    let channel = tonic::transport::Endpoint::from_shared(url).expect("an address");
    let mut client = ServerReflectionClient::new(channel.connect().await.expect("a connection"));
    let symbol = String::from("envoy.service.ratelimit.v3.RateLimitRequest");
    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::FileContainingSymbol(symbol)),
    };
    let answers = client
        .server_reflection_info(tokio_stream::once(question))
        .await
        .expect("a stream");
    let answer = answers
        .into_inner()
        .next()
        .await
        .expect("an answer")
        .expect("no error")
        .message_response;
    let Some(MessageResponse::FileDescriptorResponse(answer)) = answer else {
        panic!("{answer:?}");
    };
    let file = answer.file_descriptor_proto.first().expect("a file");
    let file = FileDescriptorProto::decode(file.as_slice()).expect("decodes");
    let request = file
        .message_type
        .iter()
        .find(|message| message.name() == "RateLimitRequest")
        .expect("the type");
    assert_eq!(request.field[0].name(), "domain");
    assert_eq!(request.field[0].r#type(), Type::String);
    served.stop().await.expect("a good end");
}

#[derive(Clone)]
struct Silent;

impl Responder for Silent {
    async fn answer(&self, _: http::Request<Incoming>) -> http::Response<Body> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn connections_go_to_the_core_with_the_fewest() {
    let (_drain, draining) = watch::channel(false);
    let terms = Terms {
        age: None,
        draining,
        random: Arc::new(Random::new(1)),
    };
    let mut threads = Threads::new();
    let workers: Vec<_> = (0..3)
        .map(|core| {
            let terms = terms.clone();
            let serve = |connections| worker::run(Silent, connections, terms);
            Worker::start(core, &mut threads, serve).expect("a core")
        })
        .collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut callers = Vec::new();
    for _ in 0..9 {
        callers.push(TcpStream::connect(address).await.expect("a connection"));
        hand_over(listener.accept().await.expect("accepted").0, &workers);
    }
    assert!(workers.iter().all(|worker| worker.open() == 3));
    drop(callers);
    while workers.iter().any(|worker| worker.open() > 0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_thread_that_ends_by_itself_ends_the_server() {
    let mut threads = Threads::new();
    threads
        .spawn(String::from("core-7"), || panic!("a test's own panic"))
        .expect("a thread");
    assert_eq!(threads.next_end().await, "core-7");
    threads.all_ended().await;
}

#[tokio::test]
async fn a_taken_port_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = taken.local_addr().expect("an address");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let error = Bound::new(any, address).await.err().expect("taken").to_string();
    assert!(
        error.starts_with(&format!("cannot listen on {address} (--admin): ")),
        "{error}"
    );
}

#[tokio::test]
async fn the_operators_port_says_what_the_server_says() {
    let served = Served::start(1, None).await;
    let get = async |path: &str| {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = TcpStream::connect(served.admin).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("received");
        answer
    };
    assert!(get("/live").await.starts_with("HTTP/1.1 200"));
    assert!(get("/ready").await.starts_with("HTTP/1.1 200"));
    assert!(get("/metrics").await.ends_with("numbers\n"));
    assert!(get("/other").await.starts_with("HTTP/1.1 404"));
    served.stop().await.expect("a good end");
}

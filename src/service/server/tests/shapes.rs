//! A call is answered alike in whatever shape it arrives: the usual one, which is read here, and all that are left to the
//! library.

use http::header::DATE;
use http::{HeaderMap, Method, Request};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use crate::service::asker;
use crate::service::rls::{LONGEST_CALL, SHOULD_RATE_LIMIT};

/// What a caller sees of an answer.
#[derive(Debug, PartialEq)]
struct Seen {
    head: HeaderMap,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

impl Seen {
    /// How the call ended and what is said about it.
    fn status(&self) -> (&str, &str) {
        let headers = self.trailers.as_ref().unwrap_or(&self.head);
        let text = |name: &str| {
            headers
                .get(name)
                .map_or("", |value| value.to_str().expect("text"))
        };
        (text("grpc-status"), text("grpc-message"))
    }
}

/// A caller that puts a call in frames as it likes.
struct Caller {
    requests: h2::client::SendRequest<Bytes>,
    address: SocketAddr,
}

impl Caller {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (requests, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        Self { requests, address }
    }

    /// Sends `frames`, the last of which ends the call.
    async fn send(&self, headers: &[(&'static str, &'static str)], frames: &[&[u8]]) -> Seen {
        let mut requests = self.requests.clone().ready().await.expect("a connection");
        let uri = format!("http://{}{SHOULD_RATE_LIMIT}", self.address);
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .header("content-type", "application/grpc")
            .body(())
            .expect("a request");
        let (answer, mut asked) = requests.send_request(request, false).expect("sent");
        for (place, frame) in frames.iter().enumerate() {
            let is_last = place + 1 == frames.len();
            asked
                .send_data(Bytes::copy_from_slice(frame), is_last)
                .expect("sent");
        }
        let (mut head, mut answered) = answer.await.expect("an answer").into_parts();
        head.headers.remove(DATE);
        let mut body = Vec::new();
        while let Some(data) = answered.data().await {
            body.extend_from_slice(&data.expect("data"));
        }
        Seen {
            head: head.headers,
            body,
            trailers: answered.trailers().await.expect("trailers or none"),
        }
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[0], &length[..], message].concat()
}

fn question(domain: &str, clients: &[&str]) -> Vec<u8> {
    let descriptors: Vec<_> = clients.iter().map(|client| vec![("client", *client)]).collect();
    asker::question(domain, &descriptors)
}

#[tokio::test]
async fn a_question_is_answered_alike_in_one_piece_and_in_many() {
    let served = Served::start(1, None).await;
    let caller = Caller::connect(served.address).await;
    let many: Vec<String> = (0..100).map(|client| format!("client-{client}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (question, status) in [
        (question("edge", &["a"]), "0"),
        (question("edge", &many), "0"),
        (question("none", &["a"]), "0"),
        (question("edge", &["gone"]), "14"),
        (question("", &["a"]), "3"),
        (question("edge", &[]), "3"),
    ] {
        let usual = caller.send(&[], &[&question]).await;
        assert_eq!(usual.status().0, status, "{usual:?}");
        let (first, second) = question.split_at(question.len() / 2);
        let shapes: [&[&[u8]]; 5] = [
            &[&question, &[]],
            &[&[], &question],
            &[first, second],
            &[&question[..3], &question[3..7], &question[7..], &[]],
            &[&question[..5], &question[5..]],
        ];
        for shape in shapes {
            assert_eq!(caller.send(&[], shape).await, usual, "{shape:?}");
        }
        let compressible = [("grpc-accept-encoding", "gzip"), ("grpc-encoding", "identity")];
        assert_eq!(caller.send(&compressible, &[&question]).await, usual);
        if status == "0" {
            let message = usual.body.get(5..).expect("a message");
            assert_eq!(usual.body, framed(message));
            RateLimitResponse::decode(message).expect("an answer");
        }
    }
    served.stop().await.expect("a good end");
}

#[tokio::test]
async fn what_is_no_message_is_refused_as_the_library_does() {
    let served = Served::start(1, None).await;
    let caller = Caller::connect(served.address).await;
    let question = question("edge", &["a"]);
    let compressed = [&[1], &question[1..]].concat();
    let broken = framed(b"\x0a\xff");
    let twice = [&question[..], &question[..]].concat();
    let check = async |headers: &[_], frames: &[&[u8]], status: &str| {
        let seen = caller.send(headers, frames).await;
        assert_eq!(seen.status().0, status, "{frames:?}: {seen:?}");
        assert_eq!(seen.body, b"", "{frames:?}");
    };
    let gzip = [("grpc-encoding", "gzip")];
    check(&[], &[&[]], "13").await;
    check(&[], &[&question[..7]], "13").await;
    check(&[], &[&compressed], "13").await;
    check(&[], &[&broken], "13").await;
    check(&[], &[&broken[..5], &broken[5..]], "13").await;
    check(&[], &[&[0, 0xff, 0xff, 0xff, 0xff], b"x"], "11").await;
    check(&gzip, &[&compressed], "12").await;
    // Of two messages where one is wanted the first counts.
    let answered = caller.send(&[], &[&question]).await;
    assert_eq!(answered.status().0, "0");
    assert_eq!(caller.send(&[], &[&twice]).await, answered);
    assert_eq!(caller.send(&[], &[&question, &question]).await, answered);
    served.stop().await.expect("a good end");
}

/// A caller that writes frames by itself, as no library would.
struct Raw(TcpStream);

impl Raw {
    async fn connect(address: SocketAddr) -> Self {
        let mut raw = Self(TcpStream::connect(address).await.expect("a connection"));
        raw.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        raw.write(&Self::frame(SETTINGS, 0, 0, &[])).await;
        raw
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("sent");
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes()[..], payload].concat()
    }

    /// The kind and the flags of the next frame.
    async fn read(&mut self) -> (u8, u8) {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("short")];
        self.0.read_exact(&mut payload).await.expect("a frame");
        (head[3], head[4])
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

#[tokio::test]
async fn what_comes_late_for_calls_that_have_ended_ends_no_others() {
    let served = Served::start(1, None).await;
    let mut raw = Raw::connect(served.address).await;
    let headers: Vec<u8> = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", SHOULD_RATE_LIMIT),
        (":authority", "x"),
        ("grpc-timeout", "1m"),
    ]
    .into_iter()
    .flat_map(|(name, value)| {
        let text = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
        [vec![0], text(name), text(value)].concat()
    })
    .collect();
    let mut next = 1;
    for _ in 0..5 {
        let calls: Vec<u32> = (0..300).map(|call| next + 2 * call).collect();
        next += 600;
        for call in &calls {
            raw.write(&Raw::frame(HEADERS, END_HEADERS, *call, &headers))
                .await;
        }
        let mut ended = 0;
        while ended < calls.len() {
            let (kind, flags) = raw.read().await;
            assert_ne!(kind, GOAWAY);
            ended += usize::from(kind == HEADERS && flags & END_STREAM != 0);
        }
        for call in &calls {
            raw.write(&Raw::frame(DATA, END_STREAM, *call, &question("edge", &["a"])))
                .await;
        }
    }
    raw.write(&Raw::frame(PING, 0, 0, &[7; 8])).await;
    loop {
        let (kind, _) = raw.read().await;
        assert_ne!(kind, GOAWAY, "the connection is ended for what came late");
        if kind == PING {
            break;
        }
    }
    drop(raw);
    served.stop().await.expect("a good end");
}

#[tokio::test]
async fn a_call_that_is_decided_too_late_ends_in_time_in_any_shape() {
    let served = Served::start(1, None).await;
    let caller = Caller::connect(served.address).await;
    let question = question("edge", &["slow"]);
    let (first, second) = question.split_at(9);
    for shape in [&[&question[..]][..], &[first, second]] {
        let seen = caller.send(&[("grpc-timeout", "20m")], shape).await;
        assert_eq!(seen.status().0, "4", "{seen:?}");
    }
    served.stop().await.expect("a good end");
}

#[tokio::test]
async fn a_call_whose_message_never_ends_ends_when_its_caller_would_wait_no_longer() {
    let served = Served::start(1, None).await;
    let caller = Caller::connect(served.address).await;
    let mut requests = caller.requests.clone().ready().await.expect("a connection");
    let started = Instant::now();
    for sent in [&[][..], &question("edge", &["a"])] {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{}{SHOULD_RATE_LIMIT}", served.address))
            .header("grpc-timeout", "50m")
            .body(())
            .expect("a request");
        let (answer, mut asked) = requests.send_request(request, false).expect("sent");
        asked
            .send_data(Bytes::copy_from_slice(sent), false)
            .expect("sent");
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.headers()["grpc-status"], "4", "{answer:?}");
    }
    assert!(
        started.elapsed() < LONGEST_CALL,
        "not its own time, but the longest"
    );
    served.stop().await.expect("a good end");
}

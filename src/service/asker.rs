//! Asks a server the same kind of question very often, at as little cost as can be: what is measured is the server.
//!
//! One layer below the client of the library: a question is written beforehand, and of an answer only the verdict is read.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request};
use prost::Message;
use tokio::net::TcpStream;

use super::client::{AskError, read_verdict};
use super::rls::SHOULD_RATE_LIMIT;
use super::unary::{self, PREFIX};
use crate::domain::verdict::Verdict;
use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use crate::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;

/// How much a server may send unasked: more than all answers under way.
const WINDOW: u32 = 1 << 24;

/// What an answer says first; the rest is skipped.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Overall {
    #[prost(enumeration = "Code", tag = "1")]
    overall_code: i32,
}

/// A connection. Clones share it, and may all ask at once.
#[derive(Clone)]
pub struct Asker {
    address: SocketAddr,
    connection: SendRequest<Bytes>,
    head: Request<()>,
}

impl Asker {
    /// Connects. The connection is driven by a task of the runtime that this is called in.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn connect(address: SocketAddr) -> Result<Self, AskError> {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| lost(address, &error))?;
        stream.set_nodelay(true).map_err(|error| lost(address, &error))?;
        let (connection, driver) = h2::client::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(stream)
            .await
            .map_err(|error| lost(address, &error))?;
        // How it ends is told to whoever asks.
        tokio::spawn(driver);
        let head = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{address}{SHOULD_RATE_LIMIT}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(|error| lost(address, &error))?;
        Ok(Self {
            address,
            connection,
            head,
        })
    }

    /// Asks what [`question`] has written.
    ///
    /// # Errors
    /// When there is no verdict: [`AskError::Unreachable`] when there will be none over this connection any more.
    pub async fn ask(&self, question: Bytes) -> Result<Verdict, AskError> {
        let (message, trailers) = self
            .exchange(question)
            .await
            .map_err(|error| lost(self.address, &error))?;
        succeeded(&trailers)?;
        let message = message.get(PREFIX..).ok_or(AskError::NoVerdict)?;
        let overall = Overall::decode(message).map_err(|_| AskError::NoVerdict)?;
        read_verdict(overall.overall_code()).ok_or(AskError::NoVerdict)
    }

    /// What is answered, with the headers that say how it went: those at the end, or where it is the end already at the
    /// beginning.
    async fn exchange(&self, question: Bytes) -> Result<(Bytes, HeaderMap), h2::Error> {
        let mut connection = self.connection.clone().ready().await?;
        let (answer, mut asked) = connection.send_request(self.head.clone(), false)?;
        asked.send_data(question, true)?;
        let (head, mut body) = answer.await?.into_parts();
        let mut message = Bytes::new();
        while let Some(part) = body.data().await {
            let part = part?;
            body.flow_control().release_capacity(part.len())?;
            message = if message.is_empty() {
                part
            } else {
                [message, part].concat().into()
            };
        }
        let trailers = body.trailers().await?;
        Ok((message, trailers.unwrap_or(head.headers)))
    }
}

/// A question about descriptors, each a list of keys and values, as a gateway writes it, with what stands in front of it.
pub fn question(domain: &str, descriptors: &[Vec<(&str, &str)>]) -> Vec<u8> {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let descriptors = descriptors.iter().map(|entries| RateLimitDescriptor {
        entries: entries
            .iter()
            .map(|(key, value)| Entry {
                key: bytes(key),
                value: bytes(value),
            })
            .collect(),
        ..RateLimitDescriptor::default()
    });
    let message = RateLimitRequest {
        domain: bytes(domain),
        descriptors: descriptors.collect(),
        hits_addend: 0,
    };
    unary::framed(|into| {
        // A vector takes as much as there is.
        let _ = message.encode(into);
    })
}

fn lost(address: SocketAddr, error: &dyn std::error::Error) -> AskError {
    AskError::Unreachable {
        address: address.to_string(),
        reason: error.to_string(),
    }
}

fn succeeded(trailers: &HeaderMap) -> Result<(), AskError> {
    let code = trailers.get("grpc-status").ok_or(AskError::NoVerdict)?;
    match tonic::Code::from_bytes(code.as_bytes()) {
        tonic::Code::Ok => Ok(()),
        code => Err(AskError::Failed {
            code,
            message: trailers
                .get("grpc-message")
                .map(|message| String::from_utf8_lossy(message.as_bytes()).into_owned())
                .unwrap_or_default(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::proto::envoy::service::ratelimit::v3::RateLimitResponse;
    use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus;

    #[test]
    fn a_question_is_a_message_behind_its_length() {
        let question = question("edge", &[vec![("client", "ana"), ("plan", "free")]]);
        let (prefix, message) = question.split_at(PREFIX);
        assert_eq!(prefix, [0, 0, 0, 0, u8::try_from(message.len()).expect("short")]);
        let request = RateLimitRequest::decode(message).expect("a request");
        assert_eq!(request.domain, "edge");
        assert_eq!(request.descriptors[0].entries[1].value, "free");
        assert_eq!(request.descriptors[0].hits_addend, None);
    }

    #[test]
    fn an_error_is_none_of_the_connection() {
        let mut trailers = HeaderMap::new();
        assert!(matches!(succeeded(&trailers), Err(AskError::NoVerdict)));
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        assert!(succeeded(&trailers).is_ok());
        trailers.insert("grpc-status", HeaderValue::from_static("14"));
        trailers.insert("grpc-message", HeaderValue::from_static("no store"));
        let error = succeeded(&trailers).expect_err("an error").to_string();
        assert_eq!(error, "the server answered with an error: Unavailable: no store");
    }

    #[test]
    fn of_an_answer_the_verdict_is_read() {
        let answer = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            statuses: vec![DescriptorStatus::default(); 3],
            ..RateLimitResponse::default()
        };
        let overall = Overall::decode(&answer.encode_to_vec()[..]).expect("a message");
        assert_eq!(read_verdict(overall.overall_code()), Some(Verdict::OverLimit));
    }
}

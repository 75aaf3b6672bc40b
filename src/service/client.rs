//! Asks a running server, in our own words.

use std::time::Duration;

use bytes::Bytes;
use tonic::transport::{Channel, Endpoint};

use crate::domain::descriptor::Descriptor;
use crate::domain::quantity::Hits;
use crate::domain::verdict::Verdict;
use crate::proto::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use crate::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// How long to wait for a connection and for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a server.
pub struct Client(RateLimitServiceClient<Channel>);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is nobody at the address.
    #[error("cannot reach {address}: {reason}")]
    Unreachable {
        /// The address as it was given.
        address: String,
        /// What the attempt ended with.
        reason: String,
    },
    /// The server answered with an error instead.
    #[error("the server answered with an error: {code:?}: {message}")]
    Failed {
        /// gRPC's code.
        code: tonic::Code,
        /// The server's words.
        message: String,
    },
    /// The answer has no verdict.
    #[error("the answer has no verdict: this is not a rate limit service")]
    NoVerdict,
}

/// An answer as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether the request may pass.
    pub verdict: Verdict,
    /// One per descriptor.
    pub statuses: Vec<ReplyStatus>,
    /// Headers for the caller, in order.
    pub headers: Vec<(String, String)>,
    /// The body of a refusal; empty when there is none.
    pub body: String,
}

impl Reply {
    /// Whether it says when to come back.
    pub fn says_when(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == "retry-after")
    }
}

/// What is said about one descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyStatus {
    /// Whether it is under its limit.
    pub verdict: Verdict,
    /// The limit; absent where nothing limits.
    pub limit: Option<ReplyLimit>,
    /// Hits that would still pass.
    pub remaining: u32,
    /// Seconds until it would pass or, where it did, until the budget is whole.
    pub reset_secs: Option<i64>,
}

/// A limit as the wire has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyLimit {
    /// Its name; may be empty.
    pub name: String,
    /// Hits per period.
    pub count: u32,
    /// The unit's name on the wire, in lower case.
    pub unit: String,
    /// How many units make the period.
    pub multiplier: u32,
}

impl Client {
    /// Connects to `address`, with or without `http://`.
    ///
    /// # Errors
    /// When it is no address or nobody listens there.
    pub async fn connect(address: &str) -> Result<Self, AskError> {
        let unreachable = |reason: &dyn std::error::Error| AskError::Unreachable {
            address: address.to_owned(),
            reason: innermost(reason),
        };
        let url = if address.contains("://") {
            address.to_owned()
        } else {
            format!("http://{address}")
        };
        let endpoint = Endpoint::from_shared(url).map_err(|error| unreachable(&error))?;
        let endpoint = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE);
        let channel = endpoint.connect().await.map_err(|error| unreachable(&error))?;
        Ok(Self(RateLimitServiceClient::new(channel)))
    }

    /// Asks about `descriptors` of `domain` in one call.
    ///
    /// # Errors
    /// When there is no verdict, whatever the reason.
    pub async fn ask(&mut self, domain: &str, descriptors: &[Descriptor<'_>]) -> Result<Reply, AskError> {
        let request = RateLimitRequest {
            domain: Bytes::copy_from_slice(domain.as_bytes()),
            descriptors: descriptors.iter().map(write_descriptor).collect(),
            hits_addend: 0,
        };
        let answer = self
            .0
            .should_rate_limit(request)
            .await
            .map_err(|status| AskError::Failed {
                code: status.code(),
                message: status.message().to_owned(),
            })?;
        read_reply(answer.get_ref())
    }
}

/// The cause that says most: transports wrap theirs in a general "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn write_descriptor(descriptor: &Descriptor<'_>) -> RateLimitDescriptor {
    let (hits, is_negative_hits) = match descriptor.hits {
        Hits::Take(hits) => (hits, false),
        Hits::Look(_) => (0, false),
        Hits::GiveBack(hits) | Hits::Undo(hits, _) => (hits, true),
    };
    let entries = descriptor
        .entries
        .iter()
        .map(|entry| rate_limit_descriptor::Entry {
            key: Bytes::copy_from_slice(entry.key),
            value: Bytes::copy_from_slice(entry.value),
        });
    RateLimitDescriptor {
        entries: entries.collect(),
        limit: None,
        hits_addend: Some(hits),
        is_negative_hits,
    }
}

fn read_reply(wire: &RateLimitResponse) -> Result<Reply, AskError> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(Reply {
        verdict: read_verdict(wire.overall_code()).ok_or(AskError::NoVerdict)?,
        statuses: wire
            .statuses
            .iter()
            .map(read_status)
            .collect::<Option<_>>()
            .ok_or(AskError::NoVerdict)?,
        headers: wire
            .response_headers_to_add
            .iter()
            .map(|header| (text(&header.key), text(&header.value)))
            .collect(),
        body: text(&wire.raw_body),
    })
}

pub(super) const fn read_verdict(code: Code) -> Option<Verdict> {
    match code {
        Code::Unknown => None,
        Code::Ok => Some(Verdict::UnderLimit),
        Code::OverLimit => Some(Verdict::OverLimit),
    }
}

fn read_status(wire: &DescriptorStatus) -> Option<ReplyStatus> {
    Some(ReplyStatus {
        verdict: read_verdict(wire.code())?,
        limit: wire.current_limit.as_ref().map(|limit| ReplyLimit {
            name: limit.name.clone(),
            count: limit.requests_per_unit,
            unit: limit.unit().as_str_name().to_ascii_lowercase(),
            multiplier: limit.unit_multiplier.unwrap_or(1).max(1),
        }),
        remaining: wire.limit_remaining,
        reset_secs: wire.duration_until_reset.map(|duration| duration.seconds),
    })
}

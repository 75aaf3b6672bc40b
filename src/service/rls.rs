//! The handler of the gRPC method, as thin as can be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, async_trait};

use super::call::{self, Unanswered};
use super::limiter::Limiter;
use crate::clock::Clock;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::store::Store;

/// The largest message that is read: 128 descriptors whose values are as long as a gateway's headers can be.
pub(super) const LARGEST_MESSAGE: usize = 8 << 20;

/// The longest a call may take, whatever its caller would wait.
pub(super) const LONGEST_CALL: Duration = Duration::from_secs(5);

/// Answers `ShouldRateLimit`.
pub(super) struct Handler<S, C>(Arc<Limiter<S, C>>);

/// The service of one core.
pub(super) fn service<S: Store, C: Clock>(limiter: Limiter<S, C>) -> RateLimitServiceServer<Handler<S, C>> {
    RateLimitServiceServer::new(Handler(Arc::new(limiter))).max_decoding_message_size(LARGEST_MESSAGE)
}

#[async_trait]
impl<S: Store, C: Clock> RateLimitService for Handler<S, C> {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let deadline = Instant::now() + time_left(request.metadata());
        match call::answer(&self.0, request.into_inner(), deadline).await {
            Ok(answer) => Ok(Response::new(answer)),
            Err(error @ (Unanswered::Invalid(_) | Unanswered::UnknownDomain { .. })) => {
                Err(Status::invalid_argument(error.to_string()))
            }
            Err(Unanswered::Undecided(error)) => Err(Status::unavailable(error.to_string())),
        }
    }
}

/// How long the caller waits, as it says in `grpc-timeout`, within what a call may take at all.
fn time_left(metadata: &MetadataMap) -> Duration {
    let said = metadata
        .get("grpc-timeout")
        .and_then(|value| parse_timeout(value.as_bytes()));
    said.unwrap_or(LONGEST_CALL).min(LONGEST_CALL)
}

/// One to eight digits and a unit, as the gRPC protocol has it.
fn parse_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let amount = digits
        .iter()
        .fold(0, |amount, digit| amount * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(amount * 3600)),
        b'M' => Some(Duration::from_secs(amount * 60)),
        b'S' => Some(Duration::from_secs(amount)),
        b'm' => Some(Duration::from_millis(amount)),
        b'u' => Some(Duration::from_micros(amount)),
        b'n' => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_timeouts_as_envoy_and_grpc_write_them() {
        let check = |value: &str, expected| assert_eq!(parse_timeout(value.as_bytes()), expected, "{value}");
        check("20m", Some(Duration::from_millis(20)));
        check("2S", Some(Duration::from_secs(2)));
        check("99999999H", Some(Duration::from_hours(99_999_999)));
        for wrong in ["", "m", "20", "-1m", "123456789m", "20x"] {
            check(wrong, None);
        }
    }

    #[test]
    fn nobody_waits_longer_than_a_call_may_take() {
        let mut metadata = MetadataMap::new();
        assert_eq!(time_left(&metadata), LONGEST_CALL);
        metadata.insert("grpc-timeout", "1H".parse().expect("ASCII"));
        assert_eq!(time_left(&metadata), LONGEST_CALL);
        metadata.insert("grpc-timeout", "20m".parse().expect("ASCII"));
        assert_eq!(time_left(&metadata), Duration::from_millis(20));
    }
}

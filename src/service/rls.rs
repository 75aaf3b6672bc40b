//! The gRPC method: calls in the usual shape are answered by the shortest way, all others by the library's.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, Method, Request, Response, Uri, Version};
use hyper::body::Incoming;
use tonic::codegen::Service;
use tonic::service::Routes;
use tonic::{Status, async_trait};

use super::call::{self, Unanswered};
use super::connection::Responder;
use super::decode::{self, usual};
use super::encode;
use super::limiter::Limiter;
use super::unary::{self, Arrived, Body};
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

static GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
static GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Where the method is called.
pub(super) const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// What a core answers: `ShouldRateLimit`, and what all cores have in common.
pub(super) struct Calls<S, C>(Arc<Shared<S, C>>);

struct Shared<S, C> {
    limiter: Arc<Limiter<S, C>>,
    routes: Routes,
}

impl<S: Store, C: Clock> Calls<S, C> {
    /// Answers by `limiter`, and what is asked of `common` services.
    pub(super) fn new(limiter: Limiter<S, C>, common: Routes) -> Self {
        let limiter = Arc::new(limiter);
        let handler = Handler(Arc::clone(&limiter));
        let service = RateLimitServiceServer::new(handler).max_decoding_message_size(LARGEST_MESSAGE);
        let routes = common.add_service(service).prepare();
        Self(Arc::new(Shared { limiter, routes }))
    }
}

impl<S, C> Clone for Calls<S, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Store, C: Clock> Responder for Calls<S, C> {
    /// The future is moved several times before it is polled, so nothing large is kept in it.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send {
        let deadline = Instant::now() + time_left(request.headers());
        let way = Way::of(request);
        async move {
            tokio::time::timeout_at(deadline.into(), self.answer_by(way, deadline))
                .await
                .unwrap_or_else(|_| failed(Status::deadline_exceeded("the call took longer than it may")))
        }
    }
}

/// The ways that a request can go.
enum Way {
    /// A question, as long as it turns out to be a usual one.
    Short(HeaderMap, Incoming),
    /// Whatever else is asked.
    OfLibrary(Box<Request<tonic::body::Body>>),
}

impl Way {
    fn of(request: Request<Incoming>) -> Self {
        if request.uri().path() == SHOULD_RATE_LIMIT && !request.headers().contains_key(&GRPC_ENCODING) {
            let (head, body) = request.into_parts();
            Self::Short(head.headers, body)
        } else {
            Self::OfLibrary(Box::new(request.map(tonic::body::Body::new)))
        }
    }

    /// The library's, for a question that was taken apart.
    fn again(headers: HeaderMap, body: tonic::body::Body) -> Box<Request<tonic::body::Body>> {
        let mut question = Request::new(body);
        *question.method_mut() = Method::POST;
        *question.version_mut() = Version::HTTP_2;
        *question.uri_mut() = Uri::from_static(SHOULD_RATE_LIMIT);
        *question.headers_mut() = headers;
        Box::new(question)
    }
}

/// When the caller of a request waits no longer, for the handler that the library calls.
#[derive(Clone, Copy)]
struct Deadline(Instant);

impl<S: Store, C: Clock> Calls<S, C> {
    async fn answer_by(&self, way: Way, deadline: Instant) -> Response<Body> {
        let (headers, body) = match way {
            Way::Short(headers, body) => (headers, body),
            Way::OfLibrary(request) => return self.route(request, deadline).await,
        };
        let whole = match unary::arrived(body).await {
            Ok(Arrived::Whole(whole)) => whole,
            Ok(Arrived::Otherwise(body)) => return self.route(Way::again(headers, body), deadline).await,
            Err(status) => return failed(status),
        };
        let Some(asked) = usual::request(whole.message()) else {
            let question = Way::again(headers, whole.into_body());
            return self.route(question, deadline).await;
        };
        match call::answer(&self.0.limiter, Ok(asked), deadline).await {
            Ok(answer) => unary::answer(|into| encode::response(&answer, into)),
            Err(error) => failed(status(&error)),
        }
    }

    /// Answers as the library does.
    fn route(
        &self,
        mut request: Box<Request<tonic::body::Body>>,
        deadline: Instant,
    ) -> Pin<Box<impl Future<Output = Response<Body>> + use<S, C>>> {
        request.extensions_mut().insert(Deadline(deadline));
        let answered = self.0.routes.clone().call(*request);
        Box::pin(async move {
            let Ok(response) = answered.await;
            response.map(Body::OfLibrary)
        })
    }
}

fn failed(status: Status) -> Response<Body> {
    status.into_http().map(Body::OfLibrary)
}

fn status(error: &Unanswered) -> Status {
    match error {
        Unanswered::Invalid(_) | Unanswered::UnknownDomain { .. } => {
            Status::invalid_argument(error.to_string())
        }
        Unanswered::Undecided(error) => Status::unavailable(error.to_string()),
    }
}

/// Answers `ShouldRateLimit` where the library reads the question and writes the answer.
struct Handler<S, C>(Arc<Limiter<S, C>>);

#[async_trait]
impl<S: Store, C: Clock> RateLimitService for Handler<S, C> {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, Status> {
        let Deadline(deadline) = *request.extensions().get().expect("`route` has said when");
        call::answer(&self.0, decode::request(request.get_ref()), deadline)
            .await
            .map(|answer| tonic::Response::new(encode::message(&answer)))
            .map_err(|error| status(&error))
    }
}

/// How long the caller waits, as it says in `grpc-timeout`, within what a call may take at all.
fn time_left(headers: &HeaderMap) -> Duration {
    let said = headers
        .get(&GRPC_TIMEOUT)
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
        let mut headers = HeaderMap::new();
        assert_eq!(time_left(&headers), LONGEST_CALL);
        headers.insert("grpc-timeout", "1H".parse().expect("ASCII"));
        assert_eq!(time_left(&headers), LONGEST_CALL);
        headers.insert("grpc-timeout", "20m".parse().expect("ASCII"));
        assert_eq!(time_left(&headers), Duration::from_millis(20));
    }
}

//! A server that decides nothing: it reads the question and answers always the same. What it costs is the price of a call
//! that the library reads, routes and answers.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status, async_trait};

use super::connection::Accepted;
use super::rls::LARGEST_MESSAGE;
use super::server::{ServerError, accept, bind};
use super::threads::Threads;
use super::worker::{Connections, Worker};
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use crate::proto::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// A baseline whose port is bound. It serves nothing yet.
pub struct Baseline {
    grpc: TcpListener,
    grpc_addr: SocketAddr,
}

impl Baseline {
    /// Binds a free port of this machine, for itself alone.
    ///
    /// # Errors
    /// When there is none.
    pub async fn new() -> Result<Self, ServerError> {
        let (grpc, grpc_addr) = bind(SocketAddr::from(([127, 0, 0, 1], 0)), "grpc").await?;
        Ok(Self { grpc, grpc_addr })
    }

    /// Where it is asked.
    pub const fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// Serves on so many cores until the process ends.
    ///
    /// # Errors
    /// When the system refuses a thread or a runtime, or a core ends by itself.
    pub async fn run(self, workers: usize) -> Result<(), ServerError> {
        let mut threads = Threads::new();
        let workers = (0..workers.max(1))
            .map(|core| Worker::start(core, &mut threads, serve))
            .collect::<Result<Vec<_>, _>>()?;
        tokio::select! {
            name = threads.next_end() => Err(ServerError::ThreadEnded(name)),
            () = accept(&self.grpc, &workers) => Ok(()),
        }
    }
}

/// Serves as the library does by itself.
async fn serve(connections: Connections) {
    let service = RateLimitServiceServer::new(Constant).max_decoding_message_size(LARGEST_MESSAGE);
    let accepted = UnboundedReceiverStream::new(connections)
        .map(|(stream, counted)| Ok::<_, io::Error>(Accepted::new(TcpStream::from_std(stream)?, counted)));
    let served = Server::builder()
        .add_service(service)
        .serve_with_incoming(accepted)
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "a core ended");
    }
}

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

struct Constant;

#[async_trait]
impl RateLimitService for Constant {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let statuses = request.get_ref().descriptors.iter().map(|_| status()).collect();
        Ok(Response::new(RateLimitResponse {
            overall_code: Code::Ok.into(),
            statuses,
            ..RateLimitResponse::default()
        }))
    }
}

/// As large as what a real server says of a descriptor.
fn status() -> DescriptorStatus {
    DescriptorStatus {
        code: Code::Ok.into(),
        current_limit: Some(RateLimit {
            name: String::from("route=checkout/plan=gold/client"),
            requests_per_unit: 4_000_000_000,
            unit: Unit::Hour.into(),
            unit_multiplier: None,
        }),
        limit_remaining: 3_999_999_999,
        duration_until_reset: Some(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::asker::{Asker, question};
    use super::*;
    use crate::domain::verdict::Verdict;

    #[tokio::test]
    async fn it_admits_whatever_is_asked() {
        let baseline = Baseline::new().await.expect("a port");
        let address = baseline.grpc_addr();
        let served = async { baseline.run(2).await.expect("it serves") };
        let asked = async {
            let asker = Asker::connect(address).await.expect("a connection");
            for descriptors in [1, 8] {
                let question = question("edge", &vec![vec![("client", "ana")]; descriptors]);
                let verdict = asker.ask(question.into()).await.expect("an answer");
                assert_eq!(verdict, Verdict::UnderLimit);
            }
        };
        tokio::select! {
            () = served => panic!("it ended"),
            () = asked => {}
        }
    }
}

//! One connection of a gateway: how it is counted, how long it lives, how it is let go.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio_stream::StreamExt;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::rls::LONGEST_CALL;

/// So many calls of a connection may be given up before they were even looked at. A gateway has up to 1024 under way and
/// gives them all up when this process stands still for longer than it waits, perhaps more than once; the library would
/// take 20 for an attack and end the connection, and with it every other call.
const MOST_GIVEN_UP: usize = 1 << 14;

/// How many connections a core has.
#[derive(Clone, Debug, Default)]
pub(super) struct Load(Arc<AtomicUsize>);

impl Load {
    /// The connections that are open now.
    pub(super) fn open(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one connection until the answer is dropped.
    pub(super) fn add(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }
}

/// One connection's part in a [`Load`].
#[derive(Debug)]
pub(super) struct Counted(Load);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves one connection until it closes. It is told to go elsewhere, and its calls in flight are finished, when it
/// reaches `age` or when `draining` turns true.
///
/// Tonic serves one connection here, not all: only so does each have an age of its own. Without one, all connections
/// that were made at a roll-out would turn over at once. Tonic's own age with a grace period never says goodbye before it
/// cuts, so neither is used.
pub(super) async fn serve(
    stream: TcpStream,
    counted: Counted,
    routes: Routes,
    age: Option<Duration>,
    mut draining: watch::Receiver<bool>,
) {
    let (tracked, closed) = Tracked::new(stream, counted);
    let goodbye = async move {
        tokio::select! {
            _ = closed => {}
            () = sleep(age) => {}
            // A sender that is gone means that the server is, too.
            _ = draining.wait_for(|draining| *draining) => {}
        }
    };
    // More will not come, but an end would be taken for the end of serving.
    let incoming = tokio_stream::once(Ok::<_, Infallible>(tracked)).chain(tokio_stream::pending());
    let served = Server::builder()
        .timeout(LONGEST_CALL)
        .http2_max_pending_accept_reset_streams(Some(MOST_GIVEN_UP))
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, goodbye)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended badly");
    }
}

async fn sleep(age: Option<Duration>) {
    match age {
        Some(age) => tokio::time::sleep(age).await,
        None => std::future::pending().await,
    }
}

/// A stream that lets it be known when it is dropped: tonic does not say when a connection has closed.
struct Tracked {
    stream: TcpStream,
    _counted: Counted,
    _closed: oneshot::Sender<Infallible>,
}

impl Tracked {
    fn new(stream: TcpStream, counted: Counted) -> (Self, oneshot::Receiver<Infallible>) {
        let (sender, closed) = oneshot::channel();
        (
            Self {
                stream,
                _counted: counted,
                _closed: sender,
            },
            closed,
        )
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl Connected for Tracked {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Tracked {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

/// Not vectored, though a TCP stream could be: a frame of more than 256 bytes would then be written by itself, a system call
/// for each answer, where up to 1 KiB is copied beside others and written with them.
impl AsyncWrite for Tracked {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

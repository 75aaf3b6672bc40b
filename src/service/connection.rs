//! One connection of a gateway: how it is counted, how long it lives, how it is let go.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::unary::Body;

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

/// Answers what is asked over connections. Clones share what they answer from.
pub(super) trait Responder: Clone + Send + 'static {
    /// The answer to one request.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// Serves one connection until it closes. It is told to go elsewhere, and its calls in flight are finished, when it
/// reaches `age` or when `draining` turns true.
pub(super) async fn serve(
    stream: TcpStream,
    counted: Counted,
    responder: impl Responder,
    age: Option<Duration>,
    mut draining: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| {
        let responder = responder.clone();
        async move { Ok::<_, Infallible>(responder.answer(request).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        // A gateway bounds by itself how many calls it has under way; one more of them would wait where nobody sees it.
        .max_concurrent_streams(None)
        .max_pending_accept_reset_streams(MOST_GIVEN_UP)
        // What comes late for calls that have ended counts for as long as the connection lives, and would end it one day
        // with every other call.
        .max_local_error_reset_streams(None)
        .serve_connection(TokioIo::new(Accepted::new(stream, counted)), service);
    let mut connection = pin!(connection);
    let goodbye = async {
        tokio::select! {
            () = sleep(age) => {}
            // A sender that is gone means that the server is, too.
            _ = draining.wait_for(|draining| *draining) => {}
        }
    };
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = goodbye => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

async fn sleep(age: Option<Duration>) {
    match age {
        Some(age) => tokio::time::sleep(age).await,
        None => std::future::pending().await,
    }
}

/// A connection's stream, which counts for its core until it is closed.
pub(super) struct Accepted {
    stream: TcpStream,
    _until_closed: Counted,
}

impl Accepted {
    pub(super) const fn new(stream: TcpStream, counted: Counted) -> Self {
        Self {
            stream,
            _until_closed: counted,
        }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for Accepted {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

/// Not vectored, though a TCP stream could be: a frame of more than 256 bytes would then be written by itself, a system call
/// for each answer, where up to 1 KiB is copied beside others and written with them.
impl AsyncWrite for Accepted {
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

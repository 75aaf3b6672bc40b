//! A unary call of gRPC at the least cost: its one message as it arrived, its one answer as it is written.
//!
//! Only the usual is read here: one uncompressed message, in one piece. All else is put together again and left to the
//! library, which knows every case.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tonic::Status;

/// What stands in front of a message: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

/// As much as most messages need.
const USUAL_MESSAGE: usize = 1024;

/// The most that one frame holds. A frame of less than 1 KiB is copied beside others and written with them; a longer one
/// would cost a system call of its own.
const LARGEST_FRAME: usize = 1023;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// How the message of a call arrived.
pub(super) enum Arrived {
    /// In the usual way.
    Whole(Whole),
    /// Otherwise: the body as if nobody had read in it.
    Otherwise(tonic::body::Body),
}

/// A message and the prefix in front of it.
pub(super) struct Whole(Bytes);

impl Whole {
    fn read(data: &Bytes) -> Option<Self> {
        let (prefix, message) = data.split_first_chunk::<PREFIX>()?;
        let [0, length @ ..] = *prefix else { return None };
        let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
        (length == message.len()).then(|| Self(data.clone()))
    }

    /// The message alone.
    pub(super) fn message(&self) -> &[u8] {
        &self.0[PREFIX..]
    }

    /// As it arrived.
    pub(super) fn into_body(self) -> tonic::body::Body {
        tonic::body::Body::new(Full::new(self.0))
    }
}

/// Waits for the message of a call, and for the end of what the caller has to say.
///
/// # Errors
/// When the caller or its connection is gone.
pub(super) async fn arrived(mut body: Incoming) -> Result<Arrived, Status> {
    let mut whole = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::from_error(Box::new(error)))?;
        match frame.into_data() {
            // Some clients end a call by a frame that holds nothing.
            Ok(data) if data.is_empty() => {}
            Ok(data) => match (whole, Whole::read(&data)) {
                (None, Some(read)) => whole = Some(read),
                (before, _) => {
                    let seen = before.map(|Whole(before)| before).into_iter().chain([data]);
                    return Ok(Arrived::Otherwise(again(seen, body)));
                }
            },
            // Trailers, which say nothing about a question.
            Err(_) => {}
        }
    }
    Ok(whole.map_or_else(|| Arrived::Otherwise(tonic::body::Body::empty()), Arrived::Whole))
}

/// What of a body was `seen` and what is `to_come`.
fn again(seen: impl IntoIterator<Item = Bytes>, to_come: Incoming) -> tonic::body::Body {
    tonic::body::Body::new(Again {
        seen: seen.into_iter().collect(),
        to_come,
    })
}

struct Again {
    seen: VecDeque<Bytes>,
    to_come: Incoming,
}

impl HttpBody for Again {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.seen.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => Pin::new(&mut self.to_come).poll_frame(cx),
        }
    }
}

/// What is answered to a call.
pub(super) enum Body {
    /// A message, what is left of it, and then that the call went well.
    Message(Option<Bytes>),
    /// Whatever the library answers.
    OfLibrary(tonic::body::Body),
}

/// The message that `write` appends, with its prefix.
pub(super) fn framed(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut framed = Vec::with_capacity(USUAL_MESSAGE);
    framed.extend_from_slice(&[0; PREFIX]);
    write(&mut framed);
    let length = u32::try_from(framed.len() - PREFIX).unwrap_or(u32::MAX);
    framed[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    framed
}

/// The answer of a call that went well, with the message that `write` appends.
pub(super) fn answer(write: impl FnOnce(&mut Vec<u8>)) -> Response<Body> {
    let mut response = Response::new(Body::Message(Some(framed(write).into())));
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, grpc);
    response
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.get_mut() {
            Self::Message(left) => Poll::Ready(next_frame(left).map(Ok)),
            Self::OfLibrary(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message(left) => left.is_none(),
            Self::OfLibrary(body) => body.is_end_stream(),
        }
    }
}

fn next_frame(left: &mut Option<Bytes>) -> Option<Frame<Bytes>> {
    let message = left.as_mut()?;
    if message.is_empty() {
        *left = None;
        let went_well = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static("0"))]);
        return Some(Frame::trailers(went_well));
    }
    let data = if message.len() <= LARGEST_FRAME {
        std::mem::take(message)
    } else {
        message.split_to(LARGEST_FRAME)
    };
    Some(Frame::data(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_uncompressed_message_in_one_piece_is_whole() {
        let whole = |data: &'static [u8]| {
            Whole::read(&Bytes::from_static(data)).map(|whole| whole.message().to_vec())
        };
        assert_eq!(whole(b"\0\0\0\0\x02ab").as_deref(), Some(&b"ab"[..]));
        assert_eq!(whole(b"\0\0\0\0\0").as_deref(), Some(&b""[..]));
        for other in [
            &b""[..],
            b"\0\0\0\0",
            b"\0\0\0\0\x02a",
            b"\0\0\0\0\x02abc",
            b"\x01\0\0\0\x02ab",
            b"\0\0\0\x01\x02ab",
            b"\0\xff\xff\xff\xff",
        ] {
            assert_eq!(whole(other), None, "{other:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_is_a_message_in_frames_that_are_copied_and_then_its_status() {
        for length in [0, 1, LARGEST_FRAME - PREFIX, LARGEST_FRAME, 3000] {
            let mut body = answer(|into| into.resize(PREFIX + length, 7)).into_body();
            let mut sent = Vec::new();
            let trailers = loop {
                assert!(!body.is_end_stream());
                match body
                    .frame()
                    .await
                    .expect("a frame")
                    .expect("no error")
                    .into_data()
                {
                    Ok(data) => {
                        assert!(!data.is_empty() && data.len() <= LARGEST_FRAME);
                        sent.extend_from_slice(&data);
                    }
                    Err(trailers) => break trailers.into_trailers().expect("trailers"),
                }
            };
            assert!(body.is_end_stream() && body.frame().await.is_none());
            assert_eq!(
                trailers,
                HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static("0"))])
            );
            let length = u32::try_from(length).expect("short").to_be_bytes();
            assert_eq!(sent[..PREFIX], [&[0], &length[..]].concat());
            assert!(sent[PREFIX..].iter().all(|byte| *byte == 7));
        }
    }
}

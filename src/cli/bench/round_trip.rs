//! What Redis takes by itself: the shortest script there is, asked from here.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};
use std::{io, thread};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::error::BenchError;
use super::pace;
use super::tally::Tally;

const LOAD: &[u8] = b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$8\r\nreturn 1\r\n";

/// What the script answers.
const ANSWER: &[u8] = b":1\r\n";

/// Runs the script so many times a second, for so long, and waits for each from the moment it was sent: how late it was
/// sent is no matter of Redis.
pub(super) async fn measure(
    redis: SocketAddr,
    per_second: NonZeroU32,
    duration: Duration,
) -> Result<Tally, BenchError> {
    let (tell_end, ended) = oneshot::channel();
    // On a thread like those that ask servers.
    thread::Builder::new()
        .name(String::from("asks-redis"))
        .spawn(move || {
            let _ = tell_end.send(run(redis, per_second, duration));
        })
        .map_err(BenchError::io("start a thread"))?;
    let tally = ended.await.map_err(|_| BenchError::ThreadEnded)?;
    tally.map_err(BenchError::io("ask Redis"))
}

fn run(redis: SocketAddr, per_second: NonZeroU32, duration: Duration) -> io::Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut stream = TcpStream::connect(redis).await?;
        stream.set_nodelay(true)?;
        stream.write_all(LOAD).await?;
        // `$40`, the digest, each with its end of line.
        let mut loaded = [0; 47];
        stream.read_exact(&mut loaded).await?;
        let call = [
            b"*4\r\n$7\r\nEVALSHA\r\n",
            &loaded[..],
            b"$1\r\n1\r\n$3\r\nkey\r\n",
        ]
        .concat();
        let (schedule, mut due) = mpsc::unbounded_channel();
        let start = Instant::now();
        pace::start(per_second, duration, start, vec![schedule])?;
        let mut tally = Tally::new();
        let mut answer = [0; ANSWER.len()];
        while due.recv().await.is_some() {
            let sent = Instant::now();
            stream.write_all(&call).await?;
            stream.read_exact(&mut answer).await?;
            if answer != ANSWER {
                return Err(io::ErrorKind::InvalidData.into());
            }
            tally.waited(sent.elapsed());
        }
        Ok(tally)
    })
}

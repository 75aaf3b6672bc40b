//! A network between an instance and its store, and what networks do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// What it does with what is sent. A connection on which something was lost stays silent in that direction, whatever
/// comes after: nobody could make sense of the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Everything comes through.
    Pass,
    /// Replies come so much later.
    Delay(Duration),
    /// Commands come through, replies do not.
    DropReplies,
    /// Nothing comes through; connections stay open, and new ones are made.
    BlackHole,
    /// Connections are reset, and new ones as soon as they are made.
    Cut,
    /// Callers are told that nothing more will come, and may go on sending to nobody.
    HalfClose,
}

/// Between callers and one address at a time.
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    accepted: Arc<AtomicUsize>,
}

#[derive(Clone, Copy)]
struct Weather {
    /// Where new connections lead.
    store: SocketAddr,
    mode: Mode,
    /// Connections with a smaller number are as in a black hole.
    abandoned: usize,
}

impl Weather {
    fn mode_of(&self, number: usize) -> Mode {
        if number < self.abandoned {
            Mode::BlackHole
        } else {
            self.mode
        }
    }
}

impl Proxy {
    /// Starts one in front of `store`, which lets everything through.
    pub fn start(store: &str) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        listener
            .set_nonblocking(true)
            .expect("a socket that does not block");
        let (weather, seen) = watch::channel(Weather {
            store: store.parse().expect("an address"),
            mode: Mode::Pass,
            abandoned: 0,
        });
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime for a proxy")
                .block_on(accept(listener, seen, count));
        });
        Self {
            address,
            weather,
            accepted,
        }
    }

    /// Where callers connect, as `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The same, as `--store` takes it.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Does something else from now on, with the connections there are and with new ones.
    pub fn set(&self, mode: Mode) {
        self.weather.send_modify(|weather| weather.mode = mode);
    }

    /// Leads new connections to `store` from now on. Those there are stay where they are.
    pub fn lead_to(&self, store: &str) {
        let store = store.parse().expect("an address");
        self.weather.send_modify(|weather| weather.store = store);
    }

    /// Lets nothing through any more on the connections there are; they stay open. New ones fare as before.
    pub fn abandon(&self) {
        let accepted = self.connections();
        self.weather.send_modify(|weather| weather.abandoned = accepted);
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Until the proxy is dropped.
async fn accept(
    listener: std::net::TcpListener,
    mut weather: watch::Receiver<Weather>,
    accepted: Arc<AtomicUsize>,
) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    loop {
        let caller = tokio::select! {
            caller = listener.accept() => caller,
            Err(_) = gone(&mut weather) => return,
        };
        let number = accepted.fetch_add(1, Ordering::SeqCst);
        if let Ok((caller, _)) = caller {
            tokio::spawn(join(caller, number, weather.clone()));
        }
    }
}

async fn gone(weather: &mut watch::Receiver<Weather>) -> Result<(), watch::error::RecvError> {
    loop {
        weather.changed().await?;
    }
}

/// One caller's connection.
async fn join(mut caller: TcpStream, number: usize, weather: watch::Receiver<Weather>) {
    let store = weather.borrow().store;
    let Ok(mut store) = TcpStream::connect(store).await else {
        return;
    };
    let mut cutting = weather.clone();
    let cut = tokio::select! {
        // What is cut before anything was sent lets nothing through.
        biased;
        _ = cutting.wait_for(|weather| weather.mode_of(number) == Mode::Cut) => true,
        () = forward(&mut caller, &mut store, number, &weather) => false,
    };
    if cut {
        // Errors say that it is closed already.
        let _ = caller.set_zero_linger();
    }
}

/// Until one of the two is gone.
async fn forward(
    caller: &mut TcpStream,
    store: &mut TcpStream,
    number: usize,
    weather: &watch::Receiver<Weather>,
) {
    for stream in [&*caller, &*store] {
        let _ = stream.set_nodelay(true);
    }
    let (from_caller, to_caller) = caller.split();
    let (from_store, to_store) = store.split();
    let mode = || weather.borrow().mode_of(number);
    let (commands, to_run) = mpsc::unbounded_channel();
    let (replies, to_tell) = mpsc::unbounded_channel();
    let mut closing = weather.clone();
    tokio::select! {
        () = read(from_caller, commands, || match mode() {
            Mode::BlackHole | Mode::HalfClose => None,
            _ => Some(Duration::ZERO),
        }) => {}
        () = read(from_store, replies, || match mode() {
            Mode::BlackHole | Mode::HalfClose | Mode::DropReplies => None,
            Mode::Delay(delay) => Some(delay),
            _ => Some(Duration::ZERO),
        }) => {}
        () = write(to_store, to_run, std::future::pending()) => {}
        () = write(to_caller, to_tell, async {
            let _ = closing.wait_for(|weather| weather.mode_of(number) == Mode::HalfClose).await;
        }) => {}
    }
}

type Late = (Instant, Vec<u8>);

/// Takes what comes, with the time at which it may go on, or with none if it may not.
async fn read(mut from: ReadHalf<'_>, to: mpsc::UnboundedSender<Late>, delay: impl Fn() -> Option<Duration>) {
    let mut lost = false;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        match delay() {
            Some(delay) if !lost => {
                // An error says that the connection is at its end.
                let _ = to.send((Instant::now() + delay, buffer[..count].to_vec()));
            }
            _ => lost = true,
        }
    }
    if lost || delay().is_none() {
        // Nor does the end come through.
        std::future::pending::<()>().await;
    }
}

/// Hands on what has come, each part at its time, until it is told to `end`.
async fn write(
    mut to: WriteHalf<'_>,
    mut from: mpsc::UnboundedReceiver<Late>,
    end: impl Future<Output = ()>,
) {
    let all = async {
        while let Some((due, bytes)) = from.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // The reader decides what its end means.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = all => return,
        () = end => {}
    }
    let _ = to.shutdown().await;
    std::future::pending::<()>().await;
}

/// A counter behind a proxy, and what its caller and the counter itself make of one more.
#[test]
fn does_to_commands_and_replies_what_it_is_told() {
    use std::io::{ErrorKind, Read, Write};

    let redis = super::redis::Redis::start();
    let proxy = Proxy::start(&redis.address());
    let counted = || redis.ask::<Option<u64>>(&["GET", "counter"]).unwrap_or(0);
    // Nobody is told when a command has run whose reply is dropped.
    let counts_to = |count| super::process::poll("a command", || (counted() == count).then_some(()));
    let connect = || {
        let stream = std::net::TcpStream::connect(proxy.address()).expect("a connection");
        let patience = Some(Duration::from_millis(200));
        stream.set_read_timeout(patience).expect("a timeout");
        stream
    };
    let mut buffer = [0; 64];
    // A reply's length, zero for an end, or what kind of error came in its place.
    let mut count = |stream: &mut std::net::TcpStream| {
        stream
            .write_all(b"INCR counter\r\n")
            .map_err(|error| error.kind())?;
        stream.read(&mut buffer).map_err(|error| error.kind())
    };

    let mut stream = connect();
    assert_eq!(count(&mut stream), Ok(4));
    let start = Instant::now();
    proxy.set(Mode::Delay(Duration::from_millis(50)));
    assert_eq!(count(&mut stream), Ok(4));
    assert!(start.elapsed() >= Duration::from_millis(50));

    proxy.set(Mode::DropReplies);
    assert_eq!(count(&mut stream), Err(ErrorKind::WouldBlock));
    counts_to(3);
    proxy.set(Mode::Pass);
    // Out of step for ever, and never with the reply to another command.
    assert_eq!(count(&mut stream), Err(ErrorKind::WouldBlock));
    counts_to(4);

    let mut stream = connect();
    proxy.set(Mode::BlackHole);
    assert_eq!(count(&mut stream), Err(ErrorKind::WouldBlock));
    assert_eq!(count(&mut connect()), Err(ErrorKind::WouldBlock));
    assert_eq!(counted(), 4);
    proxy.set(Mode::Pass);
    assert_eq!(count(&mut stream), Err(ErrorKind::WouldBlock));
    let mut stream = connect();
    assert_eq!(count(&mut stream), Ok(4));
    proxy.abandon();
    assert_eq!(count(&mut stream), Err(ErrorKind::WouldBlock));
    assert_eq!(count(&mut connect()), Ok(4));
    assert_eq!(counted(), 6);

    let mut stream = connect();
    assert_eq!(count(&mut stream), Ok(4));
    proxy.set(Mode::HalfClose);
    assert_eq!(stream.read(&mut [0; 64]).ok(), Some(0));
    assert_eq!(count(&mut stream), Ok(0));
    assert_eq!(counted(), 7);

    proxy.set(Mode::Pass);
    let mut stream = connect();
    assert_eq!(count(&mut stream), Ok(4));
    proxy.set(Mode::Cut);
    let end = stream.read(&mut [0; 64]).map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
    assert!(count(&mut connect()).is_err());
    assert_eq!(counted(), 8);
    assert_eq!(proxy.connections(), 8);

    proxy.set(Mode::Pass);
    let mut stream = connect();
    assert_eq!(count(&mut stream), Ok(4));
    let other = super::redis::Redis::start();
    proxy.lead_to(&other.address());
    assert_eq!(count(&mut connect()), Ok(4));
    assert_eq!(other.ask::<u64>(&["GET", "counter"]), 1);
    assert_eq!(count(&mut stream), Ok(5));
    assert_eq!(counted(), 10);
}

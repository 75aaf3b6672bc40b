//! A primary, its replica, and the sentinels that choose between them.

use std::process::Command;

use tempfile::TempDir;

use super::process::{Process, poll};
use super::redis::{Redis, Setup, connect, listens};

/// What the sentinels call the two.
pub const NAME: &str = "counters";

/// Two servers and three sentinels, all of which know each other.
pub struct Sentinels {
    servers: [Redis; 2],
    sentinels: Vec<Sentinel>,
}

struct Sentinel {
    // Before its folder, in which it writes.
    _process: Process,
    port: u16,
    password: Option<&'static str>,
    folder: TempDir,
}

impl Sentinels {
    /// Without passwords.
    pub fn start() -> Self {
        Self::of(Setup::default(), None)
    }

    /// Servers of that kind, and sentinels with a password of their own.
    pub fn of(setup: Setup, password: Option<&'static str>) -> Self {
        let primary = setup.clone().start();
        let replica = setup.clone().replica_of(&primary).start();
        wait_for_replica(&replica);
        // Only now, for a sentinel asks for replicas when it starts, and again after ten seconds.
        let sentinels = (0..3)
            .map(|_| Sentinel::start(&setup, &primary, password))
            .collect();
        let sentinels = Self {
            servers: [primary, replica],
            sentinels,
        };
        poll("sentinels that know each other", || {
            let knows = |sentinel: &Sentinel| {
                sentinel.says("num-slaves") == "1"
                    && sentinel.says("num-other-sentinels") == "2"
                    && sentinel.says("flags") == "master"
            };
            sentinels.sentinels.iter().all(knows).then_some(())
        });
        sentinels
    }

    /// Where they are, as `--store` takes it, without any password.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.sentinels.iter().map(Sentinel::address).collect();
        let scheme = self.servers[0].scheme();
        format!("{scheme}-sentinel://{}/{NAME}", addresses.join(","))
    }

    /// A server: at first 0 is the primary and 1 its replica.
    pub fn server(&self, place: usize) -> &Redis {
        &self.servers[place]
    }

    /// A server, to end it or bring it back.
    pub fn server_mut(&mut self, place: usize) -> &mut Redis {
        &mut self.servers[place]
    }

    /// Which server all sentinels name the primary, which takes writes; none while there is none.
    pub fn primary(&self) -> Option<usize> {
        let named = |place: usize| {
            let address = self.servers[place].address();
            self.sentinels.iter().all(|sentinel| sentinel.names() == address)
        };
        let takes_writes = |place: usize| {
            let server = &self.servers[place];
            server.is_up() && server.info("role") == "master"
        };
        [0, 1]
            .into_iter()
            .find(|place| named(*place) && takes_writes(*place))
    }

    /// Waits until the sentinels have made server `place` the primary.
    pub fn wait_for_primary(&self, place: usize) {
        poll("another primary", || {
            (self.primary() == Some(place)).then_some(())
        });
    }

    /// Makes a user of all sentinels.
    pub fn add_user(&self, name: &str, password: &str) {
        for sentinel in &self.sentinels {
            let () = sentinel.ask(&["ACL", "SETUSER", name, "on", &format!(">{password}"), "+@all"]);
        }
    }

    /// Asks the sentinels to exchange the two, while both are there. The new primary's place.
    pub fn fail_over(&self) -> usize {
        let next = 1 - self.primary().expect("a primary");
        let () = self.sentinels[0].ask(&["SENTINEL", "FAILOVER", NAME]);
        self.wait_for_primary(next);
        next
    }
}

/// Waits until it has what its primary has.
fn wait_for_replica(server: &Redis) {
    poll("a replica", || {
        (server.info("master_link_status") == "up").then_some(())
    });
}

impl Sentinel {
    fn start(setup: &Setup, primary: &Redis, password: Option<&'static str>) -> Self {
        let address = primary.address();
        let (host, port) = address.split_once(':').expect("an address");
        let mut text = format!(
            "sentinel monitor {NAME} {host} {port} 2
sentinel down-after-milliseconds {NAME} 1000
sentinel failover-timeout {NAME} 5000
"
        );
        if let Some(password) = primary.password() {
            text += &format!("sentinel auth-pass {NAME} {password}\n");
        }
        if let Some(password) = password {
            text += &format!("requirepass {password}\nsentinel sentinel-pass {password}\n");
        }
        loop {
            // It writes what it learns into its file.
            let folder = tempfile::tempdir().expect("a folder for a sentinel");
            let file = folder.path().join("sentinel.conf");
            std::fs::write(&file, &text).expect("its file is written");
            let port = super::free_port();
            let mut process = Process::spawn(
                Command::new("redis-server")
                    .arg(file)
                    .arg("--sentinel")
                    .args(setup.listening(port, folder.path()))
                    .current_dir(folder.path()),
            );
            if listens(&mut process, "+monitor master") {
                let sentinel = Self {
                    _process: process,
                    port,
                    password,
                    folder,
                };
                // They find each other sooner, and a machine that stood still keeps them from nothing for half a minute.
                for time in ["PUBLISH-PERIOD", "INFO-PERIOD", "TILT-PERIOD"] {
                    let () = sentinel.ask(&["SENTINEL", "DEBUG", time, "500"]);
                }
                return sentinel;
            }
        }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What it says of the primary.
    fn says(&self, name: &str) -> String {
        let all: std::collections::HashMap<String, String> = self.ask(&["SENTINEL", "MASTER", NAME]);
        all.get(name).cloned().unwrap_or_default()
    }

    /// Where it says that the primary is.
    fn names(&self) -> String {
        let (host, port): (String, String) = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
        format!("{host}:{port}")
    }

    fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let mut connection = connect(self.folder.path(), self.password);
        redis::cmd(command[0])
            .arg(&command[1..])
            .query(&mut connection)
            .unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }
}

/// Otherwise a test might wait for what never comes, or take a failover for done that is not.
#[test]
fn sentinels_exchange_servers_when_asked_and_when_the_primary_is_gone() {
    // The replica has it before anything happens.
    let keep = |sentinels: &Sentinels| {
        let mut both = redis::pipe();
        both.cmd("SET")
            .arg("kept")
            .arg(1)
            .ignore()
            .cmd("WAIT")
            .arg(1)
            .arg(10_000);
        let acknowledged = both.query(&mut sentinels.server(0).connect());
        assert_eq!(acknowledged, Ok((1,)));
    };
    let plain = Sentinels::start();
    assert_eq!(plain.primary(), Some(0));
    keep(&plain);
    assert_eq!(plain.fail_over(), 1);
    assert_eq!(plain.server(1).ask::<String>(&["GET", "kept"]), "1");
    assert!(plain.url().ends_with(&format!("/{NAME}")));

    let mut guarded = Sentinels::of(Setup::default().password("one"), Some("another"));
    keep(&guarded);
    guarded.server_mut(0).kill();
    guarded.wait_for_primary(1);
    assert_eq!(guarded.server(1).ask::<String>(&["GET", "kept"]), "1");
}

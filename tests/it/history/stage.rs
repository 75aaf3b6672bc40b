//! Three instances, each with a network of its own to one Redis, which has a replica.

use std::thread;
use std::time::{Duration, Instant};

use comporta::domain::time::{Micros, Timestamp};

use super::INSTANCES;
use super::record::{Span, Zero};
use super::rules::policy;
use super::schedule::{Fault, Step};
use crate::harness::comporta::Comporta;
use crate::harness::process::poll;
use crate::harness::proxy::{Mode, Proxy};
use crate::harness::redis::Redis;

/// From one closing of connections, or forgetting of scripts, to the next.
const AGAIN: Duration = Duration::from_millis(100);

pub struct Stage {
    servers: [Redis; 2],
    /// Which of them decides.
    primary: usize,
    networks: Vec<Proxy>,
    pub instances: Vec<Comporta>,
}

impl Stage {
    /// Starts all of them. The instances are `told` how many they are, or hear it from each other; they know it when this
    /// is done.
    pub fn start(told: bool) -> Self {
        let servers = [Redis::start(), Redis::start()];
        replicate(&servers[1], &servers[0]);
        let networks: Vec<_> = (0..INSTANCES)
            .map(|_| Proxy::start(&servers[0].address()))
            .collect();
        let count = INSTANCES.to_string();
        let serve = |network: &Proxy| {
            let (url, told) = (
                network.url(),
                if told { &["--instances", &count][..] } else { &[] },
            );
            Comporta::serve_text(&policy(), &[&["--store", &url], told].concat())
        };
        let instances: Vec<_> = networks.iter().map(serve).collect();
        let gauge = format!("comporta_instances {INSTANCES}");
        for comporta in &instances {
            poll("all instances", || {
                comporta.metrics().contains(&gauge).then_some(())
            });
        }
        Self {
            servers,
            primary: 0,
            networks,
            instances,
        }
    }

    /// Has a step happen, at its time after `start`. When Redis lost what it knew, if it did, and when the step ended.
    pub fn endure(&mut self, step: &Step, start: Instant, zero: Zero) -> (Option<Span>, Micros) {
        sleep_until(start + step.at);
        let from = zero.now();
        if let Some(partition) = step.partition {
            self.set_networks(|instance| partition.cut_off[instance].then_some(partition.mode));
        }
        if let Some(fault) = step.fault {
            self.begin(fault);
        }
        let promoted = zero.now();
        let end = start + step.end();
        while Instant::now() < end {
            match step.fault {
                Some(Fault::ConnectionsKilled) => {
                    let _: u64 = self.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
                }
                Some(Fault::ScriptsFlushed) => self.ask(&["SCRIPT", "FLUSH"]),
                _ => {}
            }
            sleep_until(end.min(Instant::now() + AGAIN));
        }
        match step.fault {
            Some(Fault::Killed) => self.servers[self.primary].restart(),
            Some(Fault::Stopped) => self.servers[self.primary].resume(),
            _ => {}
        }
        self.set_networks(|_| Some(Mode::Pass));
        let lost = |to| Some(Span { from, to });
        let loss = match step.fault {
            Some(Fault::Killed) => lost(zero.now()),
            Some(Fault::Demoted) => lost(promoted),
            _ => None,
        };
        (loss, zero.now())
    }

    fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Killed => self.servers[self.primary].kill(),
            Fault::Stopped => self.servers[self.primary].pause(),
            Fault::HandedOver => {
                poll("a handing over", || {
                    let mut connection = self.servers[self.primary].connect();
                    redis::cmd("FAILOVER").query::<()>(&mut connection).ok()
                });
                poll("an exchange", || {
                    (self.roles() == ["slave", "master"]).then_some(())
                });
                self.follow();
            }
            Fault::Demoted => {
                let [primary, replica] = self.places();
                // What it has not sent by now is lost; before that it has all of what it is to be promoted with.
                wait_for_replica(&self.servers[replica]);
                replicate(&self.servers[primary], &self.servers[replica]);
                let () = self.servers[replica].ask(&["REPLICAOF", "NO", "ONE"]);
                self.follow();
            }
            Fault::ConnectionsKilled | Fault::ScriptsFlushed => {}
        }
    }

    /// What the clock of Redis showed at the zero of another clock, at least and at most.
    pub fn epoch(&self, zero: Zero) -> [Timestamp; 2] {
        let before = zero.now();
        let now = self.servers[self.primary].now();
        [zero.now(), before].map(|since| Timestamp::from_micros(now - since.get()))
    }

    /// The primary and its replica.
    const fn places(&self) -> [usize; 2] {
        [self.primary, 1 - self.primary]
    }

    /// What the two say they are.
    fn roles(&self) -> [String; 2] {
        self.places().map(|place| self.servers[place].info("role"))
    }

    /// New connections lead to what was the replica.
    fn follow(&mut self) {
        self.primary = 1 - self.primary;
        for network in &self.networks {
            network.lead_to(&self.servers[self.primary].address());
        }
    }

    fn set_networks(&self, mode: impl Fn(usize) -> Option<Mode>) {
        for (instance, network) in self.networks.iter().enumerate() {
            if let Some(mode) = mode(instance) {
                network.set(mode);
            }
        }
    }

    fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        self.servers[self.primary].ask(command)
    }
}

fn replicate(server: &Redis, primary: &Redis) {
    let address = primary.address();
    let (host, port) = address.split_once(':').expect("an address");
    let () = server.ask(&["REPLICAOF", host, port]);
}

/// Waits until it has what its primary has.
fn wait_for_replica(server: &Redis) {
    poll("a replica", || {
        (server.info("master_link_status") == "up").then_some(())
    });
}

fn sleep_until(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}

//! Says over Redis that this instance is alive, and hears how many are: the number by which budgets are divided once Redis
//! is gone. Over a connection of its own, so that no decision waits for it, nor it for one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::connect::{self, CONNECTING, Entry};
use super::meaning::Meaning;
use super::request::Failure;
use super::script::Script;
use super::target::RedisTarget;
use crate::store::instances::Instances;
use crate::store::key::Keys;
use crate::store::random;

/// How often an instance is heard.
const BETWEEN_BEATS: Duration = Duration::from_secs(2);

/// How long it counts as alive without another word: two beats may be lost.
const LIFETIME: Duration = Duration::from_secs(7);

/// So many beats are heard within a lifetime.
const BEATS_OF_A_LIFETIME: usize = 4;

const SOURCE: &str = include_str!("../../../lua/heartbeat.lua");

/// This instance's heart.
pub struct Heartbeat {
    target: Arc<RedisTarget>,
    script: Script,
    /// The one key under which all instances with the same prefix are heard.
    key: Vec<u8>,
    /// Nobody else's.
    name: String,
    heard: Heard,
    instances: Instances,
}

impl Heartbeat {
    /// A heart that beats in the Redis at `target` beside the counters of `keys`. `instances` is told what is heard.
    pub fn new(target: Arc<RedisTarget>, keys: &Keys, instances: Instances) -> Self {
        Self {
            target,
            script: Script::new(SOURCE),
            key: keys.instances(),
            name: format!("{:016x}", random()),
            heard: Heard::default(),
            instances,
        }
    }

    /// Beats until it is dropped, and says `beaten` each time that Redis has heard it. While Redis is gone, the number is
    /// that of the last beats before. Should not even one have got through, `unheard` is told why, once.
    pub async fn run(mut self, beaten: impl Fn(), unheard: impl Fn(&str)) -> Infallible {
        let mut was_told = self.instances.is_fixed();
        loop {
            let reason = self.beat_until_it_fails(&beaten).await;
            if self.heard.0.is_empty() && !was_told {
                was_told = true;
                unheard(&reason);
            }
            sleep(BETWEEN_BEATS / 2).await;
        }
    }

    async fn beat_until_it_fails(&mut self, beaten: impl Fn()) -> String {
        let mut address = match connect::find(self.target.layout(), &self.target).await {
            Ok(address) => address,
            Err(reason) => return reason,
        };
        // In a cluster, one node sends to the one that has the key.
        for _ in 0..2 {
            let mut connection = match connect::to(&self.target, &address).await {
                Ok(connection) => connection,
                Err(reason) => return reason,
            };
            loop {
                match timeout(CONNECTING, self.beat(&mut connection)).await {
                    Ok(Ok(alive)) => {
                        self.instances.heard(self.heard.note(alive));
                        beaten();
                    }
                    Ok(Err(failure)) => match failure.meaning {
                        Meaning::Elsewhere { host, port, .. } => {
                            address = address.told(&host, port);
                            break;
                        }
                        _ => return failure.reason,
                    },
                    Err(_) => return format!("no answer within {CONNECTING:?}"),
                }
                sleep(BETWEEN_BEATS).await;
            }
        }
        format!("sent on from node to node, last to {address}")
    }

    async fn beat(&self, connection: &mut MultiplexedConnection) -> Result<u32, Failure> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(1).arg(&self.key[..]).arg(&self.name);
            command.arg(u64::try_from(LIFETIME.as_millis()).unwrap_or(u64::MAX));
            command
        };
        match self.script.run(connection, Entry::Plain, command).await {
            Ok((Value::Int(alive), _)) => Ok(u32::try_from(alive).unwrap_or(u32::MAX)),
            Ok(_) => Err(Failure {
                meaning: Meaning::Refused,
                reason: String::from("an answer that is no number"),
            }),
            Err(error) => Err(Failure::of(&error)),
        }
    }
}

/// What the beats of one lifetime heard. A Redis that comes back empty hears the others only one by one: the most counts.
#[derive(Default)]
struct Heard(VecDeque<u32>);

impl Heard {
    fn note(&mut self, alive: u32) -> u32 {
        self.0.push_back(alive);
        if self.0.len() > BEATS_OF_A_LIFETIME {
            self.0.pop_front();
        }
        self.0.iter().copied().max().unwrap_or(alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_heard_within_a_lifetime_count() {
        let mut heard = Heard::default();
        let counts: Vec<_> = [1, 3, 3, 1, 1, 1, 2, 2, 2, 2]
            .map(|alive| heard.note(alive))
            .into();
        assert_eq!(counts, [1, 3, 3, 3, 3, 3, 2, 2, 2, 2]);
    }
}

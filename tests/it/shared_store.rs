//! Several instances, one Redis: together they admit what one would.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use comporta::proto::envoy::service::ratelimit::v3::RateLimitResponse;

use crate::harness::comporta::{Client, Comporta, admitted, request};
use crate::harness::http;
use crate::harness::process::poll;
use crate::harness::proxy::Proxy;
use crate::harness::redis::Redis;
use crate::harness::repository;

/// A strict instance whose store has answered.
fn strict(policy: &str, redis: &Redis) -> Comporta {
    let comporta = Comporta::serve_strict(policy, redis);
    comporta.wait_for_store("edge", "client=nobody");
    comporta
}

#[test]
fn sixteen_callers_of_one_hot_key_get_what_the_limit_grants_to_the_last_hit() {
    const BURST: u64 = 100;
    const PER_SECOND: u64 = 50;
    let policy = format!(
        "
domain: edge
descriptors:
  - key: client
    rate_limit: {{ rate: {PER_SECOND}/second, burst: {BURST} }}
"
    );
    let redis = Redis::start();
    let comportas = [strict(&policy, &redis), strict(&policy, &redis)];
    let callers: Vec<_> = (0..16).map(|caller| comportas[caller % 2].client()).collect();

    // The store's clock on either side of the first hit: the bucket was full until then.
    let before_first = redis.now();
    assert!(callers[0].admits("edge", "client=hot"));
    let after_first = redis.now();

    let (passed, refused) = thread::scope(|scope| {
        let hammering: Vec<_> = callers
            .iter()
            .map(|caller| scope.spawn(|| hammer(caller)))
            .collect();
        let counts = hammering
            .into_iter()
            .map(|thread| thread.join().expect("a caller"));
        counts.fold((1, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
    });
    assert!(refused > 0, "{passed} calls were too few to meet the limit");

    // And on either side of a last look at what is left. What was admitted and what is left are what the limit grants
    // for the time between; less one hit at most, for a part of a hit is not shown.
    let before_look = redis.now();
    let mut look = request("edge", &["client=hot"]);
    look.descriptors[0].hits_addend = Some(0);
    let left = u64::from(remaining(&callers[0].send(look).expect("a look")));
    let after_look = redis.now();

    let granted = |micros: u64| BURST + PER_SECOND * micros / 1_000_000;
    let most = granted(after_look - before_first);
    let least = granted(before_look - after_first) - 1;
    assert!(
        passed + left <= most,
        "{passed} passed and {left} are left, of {most}"
    );
    assert!(
        passed + left >= least,
        "{passed} passed and {left} are left, of at least {least}"
    );
}

/// Asks for three seconds, as fast as it can. How many passed, and how many did not.
fn hammer(caller: &Client) -> (u64, u64) {
    let start = Instant::now();
    let mut count = (0, 0);
    while start.elapsed() < Duration::from_secs(3) {
        if caller.admits("edge", "client=hot") {
            count.0 += 1;
        } else {
            count.1 += 1;
        }
    }
    count
}

#[test]
fn noisy_neighbours_change_nothing() {
    let policy = "
domain: edge
descriptors:
  - key: client
    rate_limit: { rate: 20/day, burst: 20 }
";
    let redis = Redis::start();
    for comporta in [Comporta::serve_text(policy, &[]), strict(policy, &redis)] {
        let quiet = |turn: u32| {
            let answer = comporta.client().ask("edge", &["client=quiet"]);
            assert!(admitted(&answer), "{turn}");
            assert_eq!(remaining(&answer), 19 - turn);
        };
        quiet(0);
        thread::scope(|scope| {
            for noisy in 0..50 {
                let client = comporta.client();
                scope.spawn(move || {
                    let descriptor = format!("client=noisy-{noisy}");
                    let passed = (0..100).filter(|_| client.admits("edge", &descriptor)).count();
                    assert_eq!(passed, 20, "{descriptor}");
                });
            }
            for turn in 1..20 {
                quiet(turn);
            }
        });
        assert!(!comporta.client().admits("edge", "client=quiet"));
    }
}

#[test]
fn every_key_has_an_end_and_an_idle_store_empties_itself() {
    let policy = "
domain: edge
descriptors:
  - key: client
    rate_limit: { rate: 5/2s, burst: 5 }
  - key: sliding
    rate_limit: { rate: 5/2s, algorithm: sliding_window }
  - key: fixed
    rate_limit: { rate: 5/2s, algorithm: fixed_window }
";
    let redis = Redis::start();
    let comporta = strict(policy, &redis);
    let client = comporta.client();
    for name in 0..20 {
        for key in ["client", "sliding", "fixed"] {
            client.ask("edge", &[&format!("{key}={name}")]);
        }
    }
    let mut connection = redis.connect();
    let keys = redis.keys();
    assert!(!keys.is_empty());
    for key in keys {
        let ttl: i64 = redis::cmd("PTTL")
            .arg(&key)
            .query(&mut connection)
            .expect("a TTL");
        // -2: gone already; -1 would be for ever.
        assert_ne!(ttl, -1, "{} never ends", String::from_utf8_lossy(&key));
    }
    poll("an empty store", || redis.keys().is_empty().then_some(()));
}

#[test]
fn keys_begin_with_the_prefix() {
    let redis = Redis::start();
    let comporta = Comporta::serve(
        repository("deploy/policy.yaml"),
        &["--store", &redis.url(), "--key-prefix", "edge-1"],
    );
    comporta.wait_for_store("edge", "client=nobody,plan=free");
    comporta.client().ask("edge", &["client=ana,plan=free"]);
    let keys = redis.keys();
    assert_eq!(keys.len(), 1);
    assert!(
        keys[0].starts_with(b"edge-1:"),
        "{}",
        String::from_utf8_lossy(&keys[0])
    );
}

#[test]
fn a_store_that_is_not_there_at_the_start_does_not_keep_it_from_serving() {
    let policy = "
domain: edge
descriptors:
  - key: client
    rate_limit: { rate: 20/day, burst: 20 }
";
    let mut redis = Redis::start();
    redis.kill();
    let mut comporta = Comporta::serve_text(policy, &["--store", &redis.url(), "--instances", "2"]);
    comporta.wait_for_line(&redis.address());
    // Half of the budget, for there are two of us.
    let client = comporta.client();
    let passed = (0..30).filter(|_| client.admits("edge", "client=ana")).count();
    assert_eq!(passed, 10);

    redis.restart();
    poll("the first key in the store", || {
        client.ask("edge", &["client=ben"]);
        (!redis.keys().is_empty()).then_some(())
    });
}

const DAILY: &str = "
domain: edge
descriptors:
  - key: client
    rate_limit: { rate: 20/day, burst: 20 }
";

#[test]
fn a_connection_that_is_lost_while_idle_is_made_again_before_anybody_asks() {
    let redis = Redis::start();
    let mut comporta = strict(DAILY, &redis);
    // The connection for that look does not come back.
    comporta.wait_for_line("examined the shared store");
    let client = comporta.client();
    assert!(client.admits("edge", "client=ana"));

    let connections = || {
        let list: String = redis::cmd("CLIENT")
            .arg(&["LIST", "TYPE", "normal"])
            .query(&mut redis.connect())
            .expect("the clients");
        let ids = list.lines().filter_map(|client| client.split(' ').next());
        ids.map(str::to_owned).collect::<HashSet<_>>()
    };
    let before = connections();
    let _: u64 = redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "normal"])
        .query(&mut redis.connect())
        .expect("clients killed");
    // All that were there, but for the two of this test that listed and killed.
    poll("new connections", || {
        (connections().difference(&before).count() >= before.len()).then_some(())
    });
    assert!(client.admits("edge", "client=ana"));
}

#[test]
fn a_connection_that_went_silent_is_replaced() {
    let redis = Redis::start();
    let proxy = Proxy::start(&redis.address());
    let flags = ["--store", &proxy.url(), "--on-store-failure", "error"];
    let comporta = Comporta::serve_text(DAILY, &flags);
    comporta.wait_for_store("edge", "client=nobody");
    // As when a network forgets connections, or the machine behind an address is another one now.
    proxy.abandon();
    comporta.wait_for_store("edge", "client=nobody");
}

#[test]
fn a_store_that_takes_no_writes_is_not_asked_by_a_connection_for_every_call() {
    const CALLS: usize = 1_000;
    let redis = Redis::start();
    let mut connection = redis.connect();
    let mut replicate = |host: &str, port: &str| {
        let command = ["REPLICAOF", host, port];
        let ok: String = redis::cmd(command[0])
            .arg(&command[1..])
            .query(&mut connection)
            .expect("an answer");
        assert_eq!(ok, "OK");
    };
    let made = || -> usize {
        let stats: String = redis::cmd("INFO")
            .arg("stats")
            .query(&mut redis.connect())
            .expect("the statistics");
        stats
            .lines()
            .find_map(|line| line.strip_prefix("total_connections_received:"))
            .and_then(|number| number.trim().parse().ok())
            .expect("a number")
    };
    let comporta = Comporta::serve_text(DAILY, &["--store", &redis.url(), "--workers", "1"]);
    comporta.wait_for_store("edge", "client=nobody");
    // Nobody is there to be a replica of, which makes it one all the same.
    replicate("127.0.0.1", "1");
    let before = made();
    let client = comporta.client();
    for _ in 0..CALLS {
        client.ask("edge", &["client=ana"]);
    }
    // One a second at most, once it has failed a few times.
    let made = made() - before;
    assert!(made < CALLS / 10, "{made} connections for {CALLS} calls");
    replicate("NO", "ONE");
    comporta.wait_for_store("edge", "client=nobody");
}

#[test]
fn a_store_that_hangs_is_an_error_and_never_an_empty_answer() {
    // An empty message would let the request pass, even through a gateway that is told to refuse on errors.
    let redis = Redis::start();
    let flags = [
        "--store",
        &redis.url(),
        "--store-budget",
        "100ms",
        "--on-store-failure",
        "error",
    ];
    let comporta = Comporta::serve(repository("deploy/policy.yaml"), &flags);
    comporta.wait_for_store("edge", "client=nobody,plan=free");
    let client = comporta.client();

    redis.pause();
    for _ in 0..10 {
        let error = client
            .send(request("edge", &["client=ana,plan=free"]))
            .expect_err("no store");
        assert_eq!(error.code(), tonic::Code::Unavailable, "{error:?}");
    }
    let metrics = comporta.metrics();
    let none = "comporta_store_errors_total{kind=\"timeout\"} 0\n";
    assert!(!metrics.contains(none), "{metrics}");
    // It is not a reason to take the instance out: all of them would be, at once.
    assert_eq!(http::get::<&str>(comporta.admin(), "/ready", &[]).status, 200);

    redis.resume();
    poll("the store again", || {
        client.send(request("edge", &["client=ana,plan=free"])).ok()
    });
}

#[test]
fn what_was_used_outlives_the_instance_that_counted_it() {
    let policy = "
domain: edge
descriptors:
  - key: client
    rate_limit: { rate: 20/day, burst: 20 }
";
    let redis = Redis::start();
    let mut first = strict(policy, &redis);
    assert_eq!(remaining(&first.client().ask("edge", &["client=ana"])), 19);
    first.kill();
    assert_eq!(
        remaining(&strict(policy, &redis).client().ask("edge", &["client=ana"])),
        18
    );
}

fn remaining(answer: &RateLimitResponse) -> u32 {
    answer.statuses[0].limit_remaining
}

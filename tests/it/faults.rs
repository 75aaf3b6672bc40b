//! Faults that limiters have had and that must not happen here, where a scenario cannot say them: they need two
//! connections, a clock that runs by itself or a look into Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comporta::domain::limit::{Algorithm, Limit, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::Timestamp;
use comporta::domain::verdict::{Decision, Verdict};
use comporta::store::redis::TimeSource;
use comporta::store::{Store, StoreObserver};

use crate::harness::comporta::{Client, Comporta, admitted, request};
use crate::harness::process::PATIENCE;
use crate::harness::redis::Redis;
use crate::harness::store::{bucket, check, connect, connect_observed, far, group, limit};

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::TokenBucket,
    Algorithm::SlidingWindow,
    Algorithm::FixedWindow,
    Algorithm::SlidingLog,
];

/// Some moment, half past a minute.
const NOW: Timestamp = Timestamp::from_micros(1_790_000_010_000_000);

async fn hit<S: Store>(store: &S, key: &str, limit: &Limit, now: Timestamp) -> Decision {
    store
        .decide(&group(&[check(key.as_bytes(), limit, Hits::take(1))]), now, far())
        .await
        .expect("a decision")
        .checks[0]
}

fn passed(decision: &Decision) -> u32 {
    u32::from(decision.verdict == Verdict::UnderLimit)
}

/// The milliseconds that a key has left: -1 for ever, -2 gone.
fn ttl(connection: &mut redis::Connection, key: &[u8]) -> i64 {
    redis::cmd("PTTL").arg(key).query(connection).expect("a TTL")
}

#[test]
fn rates_above_one_in_a_nanosecond_refuse_nobody_on_two_connections() {
    let policy = "
domain: edge
descriptors:
  - { key: bucket, rate_limit: { rate: 4294967295/second, burst: 4294967295 } }
  - { key: window, rate_limit: { rate: 4294967295/second } }
";
    let redis = Redis::start();
    let shared = Comporta::serve_text(policy, &["--store", &redis.url(), "--store-budget", "60s"]);
    shared.wait_for_store("edge", "bucket=nobody");
    for comporta in [Comporta::serve_text(policy, &[]), shared] {
        let (one, other) = (comporta.client(), comporta.client());
        let ask = |client: &Client| {
            for _ in 0..500 {
                let answer = client.ask("edge", &["bucket=a", "window=a"]);
                assert!(admitted(&answer));
                // Never below what a thousand calls can have taken: it does not wrap.
                for status in answer.statuses {
                    assert!(status.limit_remaining >= u32::MAX - 1_000, "{status:?}");
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| ask(&one));
            scope.spawn(|| ask(&other));
        });
    }
}

#[test]
fn a_call_that_can_never_fit_says_so_and_names_the_capacity() {
    let policy = "
domain: edge
descriptors:
  - { key: client, rate_limit: { rate: 1/minute, burst: 5, name: small } }
";
    let comporta = Comporta::serve_text(policy, &[]);
    let mut ten = request("edge", &["client=a"]);
    ten.hits_addend = 10;
    let answer = comporta.client().send(ten).expect("an answer");
    assert!(!admitted(&answer));
    assert!(
        answer
            .response_headers_to_add
            .iter()
            .all(|header| header.key != "retry-after"),
        "{answer:?}"
    );
    let body = String::from_utf8_lossy(&answer.raw_body).into_owned();
    assert!(
        body.contains("more than the 5 hits that the limit small can ever hold"),
        "{body}"
    );
    assert!(!body.contains("retry_after"), "{body}");
}

#[tokio::test]
async fn instances_whose_clocks_differ_grant_one_budget() {
    const BURST: u64 = 150;
    let redis = Redis::start();
    let limit = bucket(150, Unit::Second, 150);
    let stores = [
        connect(&redis, TimeSource::Store).await,
        connect(&redis, TimeSource::Store).await,
    ];
    let before = redis.now();
    let start = Instant::now();
    let mut granted = 0;
    while start.elapsed() < Duration::from_secs(2) {
        for (store, ahead) in stores.iter().zip([0, 1_000_000]) {
            // What the instances believe the time to be; the second is a second ahead.
            let believed = Timestamp::from_micros(before + ahead);
            granted += u64::from(passed(&hit(store, "shared", &limit, believed).await));
        }
    }
    let elapsed = redis.now() - before;
    let most = BURST + 150 * elapsed / 1_000_000;
    assert!(granted <= most, "{granted} of {most}");
}

#[tokio::test]
async fn a_flood_over_many_connections_gets_the_limit_and_no_more() {
    let redis = Redis::start();
    let mut stores = Vec::new();
    for _ in 0..20 {
        stores.push(connect(&redis, TimeSource::Caller).await);
    }
    for algorithm in ALGORITHMS {
        let limit = Arc::new(limit(algorithm, 100, Unit::Minute));
        let admitted = Arc::new(AtomicU32::new(0));
        let mut calls = tokio::task::JoinSet::new();
        for call in 0..2000 {
            let (store, limit, admitted) = (
                stores[call % stores.len()].clone(),
                Arc::clone(&limit),
                Arc::clone(&admitted),
            );
            calls.spawn(async move {
                let decision = hit(&store, algorithm.name(), &limit, NOW).await;
                admitted.fetch_add(passed(&decision), Ordering::Relaxed);
            });
        }
        calls.join_all().await;
        assert_eq!(admitted.load(Ordering::Relaxed), 100, "{algorithm:?}");
    }
}

#[tokio::test]
async fn calls_of_one_pipeline_do_not_overwrite_each_other() {
    let redis = Redis::start();
    let store = connect(&redis, TimeSource::Store).await;
    // By the store's own clock all of them come within a few microseconds; the window is long enough for any machine.
    let limit = Arc::new(limit(Algorithm::SlidingLog, 5, Unit::Hour));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (store, limit) = (store.clone(), Arc::clone(&limit));
        calls.spawn(async move { passed(&hit(&store, "log", &limit, NOW).await) });
    }
    assert_eq!(calls.join_all().await.iter().sum::<u32>(), 5);
}

/// Counts what could not be read, and nothing else.
#[derive(Default)]
struct Unreadable(AtomicU32);

impl StoreObserver for Unreadable {
    fn unreadable(&self, counters: u32) {
        self.0.fetch_add(counters, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_planted_counter_without_an_end_blocks_nobody_and_is_counted() {
    let redis = Redis::start();
    let observer = Arc::new(Unreadable::default());
    let store = connect_observed(&redis, TimeSource::Store, Arc::clone(&observer) as Arc<_>).await;
    let mut connection = redis.connect();
    for (healed, algorithm) in (1..).zip(ALGORITHMS) {
        let key = algorithm.name();
        let () = redis::cmd("SET")
            .arg(key)
            .arg("1000000")
            .query(&mut connection)
            .expect("planted");
        let limit = limit(algorithm, 10, Unit::Minute);
        let decision = hit(&store, key, &limit, NOW).await;
        assert_eq!(
            (decision.verdict, decision.remaining),
            (Verdict::UnderLimit, 9),
            "{key}"
        );
        assert!(ttl(&mut connection, key.as_bytes()) > 0, "{key} has no end");
        assert_eq!(observer.0.load(Ordering::SeqCst), healed, "{key}");
    }
}

#[tokio::test]
async fn a_spent_counter_that_lost_its_end_blocks_for_two_windows_at_most() {
    let redis = Redis::start();
    let store = connect(&redis, TimeSource::Store).await;
    let mut connection = redis.connect();
    for algorithm in ALGORITHMS {
        let key = algorithm.name();
        let limit = limit(algorithm, 2, Unit::Second);
        for _ in 0..3 {
            hit(&store, key, &limit, NOW).await;
        }
        let _: u32 = redis::cmd("PERSIST")
            .arg(key)
            .query(&mut connection)
            .expect("an answer");
        // A sliding window sees the one before it, too.
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        let decision = hit(&store, key, &limit, NOW).await;
        assert_eq!(
            (decision.verdict, decision.remaining),
            (Verdict::UnderLimit, 1),
            "{key}"
        );
        assert!(ttl(&mut connection, key.as_bytes()) > 0, "{key} has no end");
    }
}

#[tokio::test]
async fn a_count_and_its_window_change_together() {
    const STARTS: usize = 10;
    let redis = Redis::start();
    let store = connect(&redis, TimeSource::Store).await;
    let limit = limit(Algorithm::FixedWindow, 5, Unit::Second);
    let mut connection = redis.connect();
    // Asked without a pause, so that calls fall on either side of the moment at which a key ends. By the store's clock
    // before and after a call it is known in which window it was decided, where it is not on an edge.
    let names = [
        "straddle-a",
        "straddle-b",
        "straddle-c",
        "straddle-d",
        "straddle-e",
    ];
    let mut seen = [(0, 0); 5];
    let (mut starts, start) = (0, Instant::now());
    while starts < STARTS {
        assert!(start.elapsed() < PATIENCE, "{starts} windows were seen to start");
        for (name, (window, count)) in names.into_iter().zip(&mut seen) {
            let before = second(&mut connection);
            let decision = hit(&store, name, &limit, NOW).await;
            let after = second(&mut connection);
            if before != after {
                (*window, *count) = (after, 0);
                continue;
            }
            if before > *window {
                assert_eq!(
                    (decision.verdict, decision.remaining),
                    (Verdict::UnderLimit, 4),
                    "{name}"
                );
                (*window, *count, starts) = (before, 0, starts + 1);
            }
            *count += passed(&decision);
            assert!(*count <= 5, "{name}: {count}");
        }
    }
}

/// The second of the store's own clock.
fn second(connection: &mut redis::Connection) -> u64 {
    let (second, _): (u64, u64) = redis::cmd("TIME").query(connection).expect("the time");
    second
}

#[tokio::test]
async fn no_state_outlives_its_use() {
    let redis = Redis::start();
    let store = connect(&redis, TimeSource::Store).await;
    let mut connection = redis.connect();
    for algorithm in ALGORITHMS {
        let key = algorithm.name();
        let decision = hit(&store, key, &limit(algorithm, 60, Unit::Hour), NOW).await;
        let left = ttl(&mut connection, key.as_bytes());
        let most = i64::try_from(decision.reset_after.ceil_millis()).expect("a time");
        assert!((1..=most).contains(&left), "{key}: {left} ms of {most}");
        assert!(most <= 7_200_000, "{key}: {most} ms");
    }
}

#[tokio::test]
async fn no_key_is_left_without_an_end() {
    let redis = Redis::start();
    let store = connect(&redis, TimeSource::Store).await;
    let names: Vec<String> = (0..20_000).map(|value| format!("value-{value}")).collect();
    for (algorithm, names) in ALGORITHMS.into_iter().zip(names.chunks(5_000)) {
        // The largest number of callers, each at one hit a second; and some that stay for longer.
        for (unit, names) in [(Unit::Second, &names[..4_000]), (Unit::Hour, &names[4_000..])] {
            let limit = limit(algorithm, 1, unit);
            for names in names.chunks(100) {
                let checks: Vec<_> = names
                    .iter()
                    .map(|name| check(name.as_bytes(), &limit, Hits::take(1)))
                    .collect();
                store
                    .decide(&group(&checks), NOW, far())
                    .await
                    .expect("a decision");
            }
        }
    }
    let mut connection = redis.connect();
    let keys = redis.keys();
    assert!(keys.len() >= 4_000, "{} keys", keys.len());
    for key in keys {
        assert_ne!(
            ttl(&mut connection, &key),
            -1,
            "{}",
            String::from_utf8_lossy(&key)
        );
    }
}

#[tokio::test]
async fn a_call_is_one_command_and_its_end_is_written_with_it() {
    const CALLS: u64 = 2_000;
    let redis = Redis::start();
    let store = connect(&redis, TimeSource::Store).await;
    let mut connection = redis.connect();
    let limit = bucket(1_000_000, Unit::Second, 1_000_000);
    hit(&store, "warm", &limit, NOW).await;
    let () = redis::cmd("CONFIG")
        .arg("RESETSTAT")
        .query(&mut connection)
        .expect("reset");
    for _ in 0..CALLS {
        hit(&store, "counted", &limit, NOW).await;
    }
    let said: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut connection)
        .expect("counts");
    let calls = |command: &str| {
        said.lines()
            .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")))
            .and_then(|rest| rest.split(',').next()?.parse().ok())
            .unwrap_or(0)
    };
    assert_eq!(calls("evalsha"), CALLS, "{said}");
    assert_eq!(calls("set"), CALLS, "one write a call: {said}");
    assert_eq!(
        calls("expire") + calls("pexpire") + calls("pexpireat"),
        0,
        "{said}"
    );
}

//! Instances hear each other through Redis, and divide budgets by their number once it is gone.

use crate::harness::cluster::Cluster;
use crate::harness::comporta::Comporta;
use crate::harness::process::poll;
use crate::harness::redis::Redis;

const POLICY: &str = "
domain: edge
descriptors:
  - { key: client, rate_limit: { rate: 30/hour } }
";

fn wait_until_heard(comporta: &Comporta, count: u32) {
    let gauge = format!("comporta_instances {count}");
    poll("a number of instances", || {
        comporta.metrics().lines().any(|line| line == gauge).then_some(())
    });
}

#[test]
fn instances_divide_what_they_admit_without_redis() {
    let mut redis = Redis::start();
    let all: Vec<_> = (0..3)
        .map(|_| Comporta::serve_text(POLICY, &["--store", &redis.url()]))
        .collect();
    for comporta in &all {
        wait_until_heard(comporta, 3);
    }
    redis.kill();
    for comporta in &all {
        let client = comporta.client();
        let admitted = (0..30).filter(|_| client.admits("edge", "client=a")).count();
        assert_eq!(admitted, 10);
    }
}

#[test]
fn what_was_said_holds_whatever_is_heard() {
    let redis = Redis::start();
    let told = Comporta::serve_text(POLICY, &["--store", &redis.url(), "--instances", "5"]);
    let hears = Comporta::serve_text(POLICY, &["--store", &redis.url()]);
    wait_until_heard(&hears, 2);
    wait_until_heard(&told, 5);
}

#[test]
fn prefixes_keep_services_in_one_redis_apart() {
    let redis = Redis::start();
    let ours = Comporta::serve_text(POLICY, &["--store", &redis.url(), "--key-prefix", "ours"]);
    let theirs = Comporta::serve_text(POLICY, &["--store", &redis.url(), "--key-prefix", "theirs"]);
    for key in ["ours:1:{instances}", "theirs:1:{instances}"] {
        poll("a heartbeat", || {
            (redis.ask::<u32>(&["ZCARD", key]) == 1).then_some(())
        });
        assert!(redis.ask::<i64>(&["PTTL", key]) > 0, "it has an end");
    }
    wait_until_heard(&ours, 1);
    wait_until_heard(&theirs, 1);
}

#[test]
fn instances_are_heard_in_a_cluster() {
    let cluster = Cluster::of(3, 0);
    let all = [(); 2].map(|()| Comporta::serve_text(POLICY, &["--store", &cluster.url()]));
    for comporta in &all {
        wait_until_heard(comporta, 2);
    }
}

#[test]
fn one_that_cannot_be_heard_says_so_once() {
    let port = crate::harness::free_port();
    let mut alone = Comporta::serve_text(POLICY, &["--store", &format!("redis://127.0.0.1:{port}")]);
    alone.wait_for_line("no heartbeat reaches Redis");
}

#[test]
fn what_somebody_else_left_in_its_place_is_replaced() {
    let redis = Redis::start();
    let one = Comporta::serve_text(POLICY, &["--store", &redis.url()]);
    wait_until_heard(&one, 1);
    let () = redis.ask(&["SET", "comporta:1:{instances}", "x"]);
    let other = Comporta::serve_text(POLICY, &["--store", &redis.url()]);
    wait_until_heard(&other, 2);
    wait_until_heard(&one, 2);
}

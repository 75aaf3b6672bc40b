//! What one instance is told of another, over every kind of Redis.

use std::time::Duration;

use crate::harness::certificates::Certificates;
use crate::harness::cluster::Cluster;
use crate::harness::comporta::{Comporta, admitted, request};
use crate::harness::process::poll;
use crate::harness::read;
use crate::harness::redis::{Redis, Setup};
use crate::harness::sentinels::Sentinels;

const POLICY: &str = "
domain: edge
descriptors:
  - { key: client, rate_limit: { rate: 2/hour, algorithm: fixed_window } }
";

/// Listens until a notice has surely come through: notices are never waited for, so an instance may be up before it
/// hears any.
fn spend(comporta: &Comporta, client: &str) {
    let client = format!("client={client}");
    let gateway = comporta.client();
    poll("a budget that is spent", || {
        (!gateway.admits("edge", &client)).then_some(())
    });
}

fn give_back(comporta: &Comporta, client: &str) {
    let mut request = request("edge", &[&format!("client={client}")]);
    request.descriptors[0].hits_addend = Some(1);
    request.descriptors[0].is_negative_hits = true;
    let answer = comporta.client().send(request).expect("an answer");
    assert!(admitted(&answer));
}

/// Gives hits back by one instance that another remembers as spent. The other must hear of it: what it remembers would
/// hold for up to an hour.
fn one_hears_what_the_other_gave_back(flags: &[&str]) {
    // What is slow on a busy machine is not what these tests are about.
    let flags = [flags, &["--store-budget", "10s"]].concat();
    let one = Comporta::serve_text(POLICY, &flags);
    let other = Comporta::serve_text(POLICY, &flags);
    for comporta in [&one, &other] {
        comporta.wait_for_store("edge", "client=nobody");
    }
    // The first notices may be said before anybody listens.
    let mut round = 0;
    poll("a notice", || {
        round += 1;
        let client = format!("c{round}");
        spend(&one, &client);
        spend(&other, &client);
        give_back(&one, &client);
        std::thread::sleep(Duration::from_millis(100));
        other
            .client()
            .admits("edge", &format!("client={client}"))
            .then_some(())
    });
}

#[test]
fn what_comes_back_to_one_instance_is_heard_by_the_others() {
    let redis = Redis::start();
    one_hears_what_the_other_gave_back(&["--store", &redis.url()]);
}

#[test]
fn it_is_heard_by_a_user_with_the_rights_that_the_readme_names() {
    let redis = Redis::start();
    let readme = read("README.md");
    let (_, rule) = readme.split_once("`ACL SETUSER ").expect("the rights");
    let (rule, _) = rule.split_once('`').expect("their end");
    let () = redis.ask(
        &["ACL", "SETUSER"]
            .into_iter()
            .chain(rule.split(' '))
            .collect::<Vec<_>>(),
    );
    one_hears_what_the_other_gave_back(&["--store", &redis.url_of("comporta", "PASSWORD")]);
}

#[test]
fn it_is_heard_over_a_socket() {
    let redis = Redis::start();
    one_hears_what_the_other_gave_back(&["--store", &redis.socket_url()]);
}

#[test]
fn it_is_heard_over_tls() {
    let certificates = Certificates::issue();
    let redis = Setup::default().tls(&certificates).start();
    let ca = certificates.authority();
    let [certificate, key] = certificates.of("client");
    let flags = [
        "--store-ca",
        &ca,
        "--store-cert",
        &certificate,
        "--store-key",
        &key,
    ];
    one_hears_what_the_other_gave_back(&[&["--store", &redis.url()], &flags[..]].concat());
}

#[test]
fn it_is_heard_in_a_cluster() {
    let cluster = Cluster::of(3, 0);
    one_hears_what_the_other_gave_back(&["--store", &cluster.url()]);
}

#[test]
fn it_is_heard_by_way_of_sentinels() {
    let sentinels = Sentinels::start();
    one_hears_what_the_other_gave_back(&["--store", &sentinels.url()]);
}

#[test]
fn it_is_heard_again_once_redis_is_back() {
    let mut redis = Redis::start();
    let flags = ["--store", &redis.url()];
    let one = Comporta::serve_text(POLICY, &flags);
    redis.kill();
    redis.restart();
    one.wait_for_store("edge", "client=nobody");
    one_hears_what_the_other_gave_back(&flags);
}

#[test]
fn an_operator_who_resets_counters_says_so() {
    let redis = Redis::start();
    let comporta = Comporta::serve_text(POLICY, &["--store", &redis.url()]);
    comporta.wait_for_store("edge", "client=nobody");
    spend(&comporta, "a");
    for key in redis.keys() {
        let () = redis.ask(&["DEL", std::str::from_utf8(&key).expect("text")]);
    }
    poll("somebody who listens", || {
        let listeners: u32 = redis.ask(&["PUBLISH", "comporta:1:{notices}", "operator reset"]);
        (listeners > 0).then_some(())
    });
    poll("a budget that is whole again", || {
        comporta.client().admits("edge", "client=a").then_some(())
    });
}

#[test]
fn a_reload_that_is_asked_of_one_is_asked_of_all() {
    let redis = Redis::start();
    let flags = ["--store", &redis.url()];
    let one = Comporta::serve_text(POLICY, &flags);
    let mut other = Comporta::serve_text(POLICY, &flags);
    let listeners = || {
        let listeners: Vec<redis::Value> = redis.ask(&["PUBSUB", "NUMSUB", "comporta:1:{notices}"]);
        (listeners.last() == Some(&redis::Value::Int(2))).then_some(())
    };
    poll("two who listen", listeners);
    one.hang_up();
    other.wait_for_line("in force already");
}

#[test]
fn what_a_server_repeats_of_a_password_is_not_logged() {
    let redis = Setup::default()
        .password("hunter2")
        .with(&["--rename-command", "HELLO", ""])
        .start();
    let mut comporta = Comporta::serve_text(POLICY, &["--store", &redis.url(), "--log-level", "trace"]);
    comporta.wait_for_line("notices do not arrive");
    let printed = comporta.printed();
    assert!(!printed.contains("hunter2"), "{printed}");
}

#[test]
fn a_server_that_is_no_redis_brings_nobody_down() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_with_nested_lists(stream));
        }
    });
    let comporta = Comporta::serve_text(POLICY, &["--store", &format!("redis://{address}")]);
    let client = comporta.client();
    assert!(client.admits("edge", "client=a"));
    // Long enough for every part of it to have tried.
    poll("a second attempt", || {
        (comporta.printed().matches("Parse").count() > 0).then_some(())
    });
    assert!(client.admits("edge", "client=a"));
}

/// A list in a list in a list, deeper than any stack.
fn answer_with_nested_lists(mut stream: std::net::TcpStream) {
    use std::io::{Read as _, Write as _};
    let mut asked = [0; 1024];
    if stream.read(&mut asked).is_ok() {
        let _ = stream.write_all("*1\r\n".repeat(20_000).as_bytes());
        let _ = stream.read(&mut asked);
    }
}

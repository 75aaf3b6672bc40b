//! `secret: true`: counted like any other value, and found nowhere.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use comporta::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use comporta::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use prost::Message;

use crate::harness::comporta::{Comporta, admitted, command, request};
use crate::harness::process::poll;
use crate::harness::redis::Redis;

/// In every value that nobody may see, those of the policy included.
const SECRET: &str = "s3cr3t";

const POLICY: &str = "
domain: edge
plans:
  api: { s3cr3t-gold: { rate: 20/day }, default: { rate: 10/day } }
descriptors:
  - key: client
    rate_limit: { rate: 20/day }
  - key: api_key
    secret: true
    rate_limits: [{ rate: 3/day }, { rate: 100/day, burst: 50, name: bucket }]
    descriptors:
      - key: route
        rate_limit: { rate: 2/day, algorithm: sliding_log }
  - key: api_key
    value: s3cr3t-exact
    rate_limit: { rate: 2/day, algorithm: fixed_window }
  - key: api_key
    value: s3cr3t-family-*
    share_threshold: true
    rate_limit: { rate: 1/day }
  - key: api_key
    value: s3cr3t-family-hidden-*
    rate_limit: { rate: 1/day }
  - key: account
    detailed_metric: false
    descriptors:
      - key: api_key
        counted: false
        rate_limit: { rate: 5/day }
  - key: tier
    descriptors:
      - key: api_key
        rate_limit: { plan: api }
";

fn file(folder: &Path, name: &str, bytes: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("written");
    path.to_str().expect("a path in UTF-8").to_owned()
}

fn serve(redis: &Redis, secret: &str) -> Comporta {
    let url = redis.url();
    let flags = [
        ["--store", &url],
        ["--store-budget", "60s"],
        ["--on-store-failure", "error"],
        ["--log-level", "trace"],
        ["--key-secret-file", secret],
    ];
    let comporta = Comporta::serve_text(POLICY, flags.as_flattened());
    comporta.wait_for_store("edge", "client=nobody");
    comporta
}

/// Everything that Redis is told, by its own account.
fn monitor(redis: &Redis) -> Arc<Mutex<Vec<u8>>> {
    let address = redis.url().trim_start_matches("redis://").to_owned();
    let mut stream = TcpStream::connect(address).expect("a connection to Redis");
    stream.write_all(b"MONITOR\r\n").expect("the command");
    let mut lines = BufReader::new(stream);
    let mut ok = String::new();
    lines.read_line(&mut ok).expect("an answer");
    assert_eq!(ok, "+OK\r\n");
    let told = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&told);
    thread::spawn(move || {
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            keep.lock().expect("what was told").append(&mut line);
        }
    });
    told
}

/// All keys and values.
fn dump(redis: &Redis) -> Vec<u8> {
    let mut connection = redis.connect();
    let mut all = Vec::new();
    for key in redis.keys() {
        let kind: String = redis::cmd("TYPE")
            .arg(&key)
            .query(&mut connection)
            .expect("a type");
        let values: Vec<Vec<u8>> = if kind == "list" {
            redis::cmd("LRANGE")
                .arg(&key)
                .arg(0)
                .arg(-1)
                .query(&mut connection)
                .expect("a list")
        } else {
            vec![
                redis::cmd("GET")
                    .arg(&key)
                    .query(&mut connection)
                    .expect("a string"),
            ]
        };
        all.extend([key, values.concat()].concat());
        all.push(b'\n');
    }
    all
}

fn assert_not_told(what: &str, told: &[u8]) {
    let at = told
        .windows(SECRET.len())
        .position(|window| window == SECRET.as_bytes());
    if let Some(at) = at {
        let around = &told[at.saturating_sub(200)..told.len().min(at + 200)];
        panic!("{what}: {}", String::from_utf8_lossy(around));
    }
}

fn overriding(descriptor: &str) -> RateLimitRequest {
    let mut asked = request("edge", &[descriptor]);
    asked.descriptors[0].limit = Some(RateLimitOverride {
        requests_per_unit: 4,
        unit: 2,
        unit_multiplier: None,
    });
    asked
}

#[test]
fn a_secret_value_is_counted_and_found_nowhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = file(folder.path(), "secret", "the server's own s3cr3t\n");
    let redis = Redis::start();
    let told = monitor(&redis);
    let comporta = serve(&redis, &secret);
    let client = comporta.client();
    let long = format!("api_key=s3cr3t{}", "x".repeat(100));
    let mut answers = Vec::new();
    for (descriptor, passing) in [
        ("api_key=s3cr3t-1", 3),
        ("api_key=s3cr3t-2", 3),
        (long.as_str(), 3),
        ("api_key=s3cr3t-exact", 2),
        ("api_key=s3cr3t-family-1", 1),
        ("api_key=s3cr3t-family-2", 0),
        ("api_key=s3cr3t-1,route=a", 2),
        ("account=a,api_key=s3cr3t-1", 5),
        ("account=a,api_key=s3cr3t-2", 0),
        ("tier=a,api_key=s3cr3t-gold", 20),
    ] {
        let passed = (0..=passing)
            .map(|_| client.ask("edge", &[descriptor]))
            .inspect(|answer| answers.push(answer.clone()))
            .filter(admitted)
            .count();
        assert_eq!(passed, passing, "{descriptor}");
    }
    // With a limit of its own: at a rule, where a rule is further down, and where there is none at all.
    for descriptor in [
        "api_key=s3cr3t-9",
        "account=a,api_key=s3cr3t-9",
        "other=a,api_key=s3cr3t-9",
    ] {
        answers.push(client.send(overriding(descriptor)).expect("an answer"));
    }
    answers.push(client.ask(
        "edge",
        &["api_key=s3cr3t-1,nothing=here", "nothing=here,api_key=s3cr3t-1"],
    ));
    answers.push(client.ask("s3cr3t-1", &["api_key=s3cr3t-1"]));
    for answer in answers {
        assert_not_told("the answer", &answer.encode_to_vec());
        assert_not_told("the answer", format!("{answer:?}").as_bytes());
    }
    let keys = redis.keys();
    assert!(keys.len() >= 10, "{}", keys.len());
    assert_not_told("Redis", &dump(&redis));
    poll("what Redis was told", || {
        told.lock().expect("what was told").len().gt(&5_000).then_some(())
    });
    assert_not_told("MONITOR", &told.lock().expect("what was told"));
    assert_not_told("metrics", comporta.metrics().as_bytes());
    let printed = comporta.printed();
    assert!(
        printed.contains("never matches") && printed.contains("TRACE"),
        "{printed}"
    );
    // The domain was the gateway's to name, and only that is said.
    assert_not_told("the log", printed.replace("domain=\"s3cr3t-1\"", "").as_bytes());
}

#[test]
fn one_secret_makes_one_counter_of_all_instances_and_another_makes_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = file(folder.path(), "one", "sixteen bytes, one way\n");
    // The end of the line is no part of it.
    let same = file(folder.path(), "same", "sixteen bytes, one way");
    let other = file(folder.path(), "other", "sixteen bytes, another way\n");
    let redis = Redis::start();
    let [one, same, other] = [one, same, other].map(|secret| serve(&redis, &secret));
    let left = |comporta: &Comporta, descriptor: &str| {
        comporta.client().ask("edge", &[descriptor]).statuses[0].limit_remaining
    };
    assert_eq!(left(&one, "api_key=s3cr3t-1"), 2);
    assert_eq!(left(&same, "api_key=s3cr3t-1"), 1);
    assert_eq!(left(&other, "api_key=s3cr3t-1"), 2);
    assert_eq!(left(&one, "client=ana"), 19);
    assert_eq!(
        left(&other, "client=ana"),
        18,
        "what is not secret is one counter all the same"
    );
}

#[test]
fn a_secret_that_is_missing_or_weak_keeps_it_from_starting_and_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = file(folder.path(), "policy.yaml", POLICY);
    let weak = file(folder.path(), "weak", "hunter2\n");
    let store = ["--store", "redis://127.0.0.1:1"];
    let said = |flags: &[&str]| {
        let ran = command(["serve", "--grpc=127.0.0.1:0", "--admin=127.0.0.1:0", &policy])
            .args(flags)
            .output()
            .expect("it runs");
        assert_eq!(ran.status.code(), Some(1));
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!said.contains("hunter2") && !said.contains(SECRET), "{said}");
        said.replace(folder.path().to_str().expect("a path in UTF-8"), "FOLDER")
    };
    let missing = said(&store);
    for part in [
        "`api_key` of the domain `edge` is secret",
        "--key-secret-file",
        "the same for all instances",
        "16 bytes",
    ] {
        assert!(missing.contains(part), "{missing}");
    }
    let short = said(&["--key-secret-file", &weak]);
    assert!(
        short.contains("FOLDER/weak holds 7 bytes, and at least 16 are needed"),
        "{short}"
    );
    let gone = said(&["--key-secret-file", &format!("{weak}er")]);
    assert!(gone.contains("cannot read FOLDER/weaker: No such file"), "{gone}");
}

#[test]
fn in_memory_a_secret_of_its_own_will_do() {
    let comporta = Comporta::serve_text(POLICY, &[]);
    let client = comporta.client();
    let passed = (0..5)
        .filter(|_| client.admits("edge", "api_key=s3cr3t-1"))
        .count();
    assert_eq!(passed, 3);
    assert!(client.admits("edge", "api_key=s3cr3t-2"));
}

#[test]
fn all_counters_of_one_client_share_a_slot_where_the_domain_is_sharded_by_it() {
    let policy = "
domain: edge
shard_by: client
descriptors:
  - key: client
    rate_limit: { rate: 20/day }
    descriptors:
      - key: route
        rate_limits: [{ rate: 20/day, name: day }, { rate: 10/hour, name: hour }]
  - key: route
    descriptors:
      - key: client
        rate_limit: { rate: 20/day }
      - key: verb
        rate_limit: { rate: 20/day }
";
    let redis = Redis::start();
    let comporta = Comporta::serve_strict(policy, &redis);
    comporta.wait_for_store("edge", "client=nobody");
    let client = comporta.client();
    for turn in 1..=2 {
        let answer = client.ask(
            "edge",
            &[
                "client=ana",
                "client=ana,route=a",
                "client=ana,route=b",
                "route=a,client=ana",
                "route=a,verb=get",
            ],
        );
        let left: Vec<u32> = answer
            .statuses
            .iter()
            .map(|status| status.limit_remaining)
            .collect();
        assert_eq!(left, [20 - turn, 10 - turn, 10 - turn, 20 - turn, 20 - turn]);
    }
    let (anas, others): (Vec<_>, Vec<_>) = redis
        .keys()
        .into_iter()
        .partition(|key| key.windows(3).any(|window| window == b"ana"));
    assert_eq!((anas.len(), others.len()), (6, 1));
    assert!(anas.iter().all(|key| tag(key) == tag(&anas[0])), "{anas:?}");
    assert_ne!(tag(&others[0]), tag(&anas[0]));
}

/// What a cluster takes the slot from.
fn tag(key: &[u8]) -> &[u8] {
    key.split(|byte| matches!(byte, b'{' | b'}'))
        .nth(1)
        .expect("braces")
}

#[test]
fn explaining_shows_neither_what_is_asked_nor_what_the_policy_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = file(folder.path(), "policy.yaml", POLICY);
    for descriptor in [
        "api_key=s3cr3t-exact",
        "api_key=s3cr3t-any,route=r",
        "api_key=s3cr3t-family-1",
        "api_key=s3cr3t-family-hidden-1,route=r",
        "account=a,api_key=s3cr3t",
        "api_key=s3cr3t,rout=r",
    ] {
        for json in [&[][..], &["--json"]] {
            let explained = command(["explain", &policy, descriptor])
                .args(json)
                .output()
                .expect("it starts");
            let said = String::from_utf8_lossy(&explained.stdout);
            assert!(said.contains("(secret)"), "{descriptor}: {said}");
            let (question, answer) = said.split_once('\n').expect("several lines");
            assert!(!answer.contains(SECRET), "{descriptor}: {question}\n{answer}");
        }
    }
}

#[test]
fn a_reload_brings_no_secret_to_a_shared_store_without_its_file() {
    let (folder, redis) = (tempfile::tempdir().expect("a folder"), Redis::start());
    let harmless = "domain: edge\ndescriptors: [{key: client, rate_limit: {rate: 20/day}}]\n";
    let policy = file(folder.path(), "policy.yaml", harmless);
    let mut comporta = Comporta::serve(&policy, &["--store", &redis.url()]);
    file(folder.path(), "policy.yaml", POLICY);
    comporta.wait_for_line("--key-secret-file");
    poll("a rejected reload", || {
        comporta
            .metrics()
            .contains("comporta_policy_reload_failed 1\n")
            .then_some(())
    });
}

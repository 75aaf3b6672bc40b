//! `comporta bench`: everything it starts, it counts. How fast this machine is, is no matter here.

use std::fs;
use std::net::TcpStream;

use serde_json::Value;

use crate::harness::comporta::command;
use crate::harness::process::Process;
use crate::harness::redis::Redis;

/// What it measured.
fn bench(flags: &[&str]) -> Value {
    let output = command(["bench", "--duration", "300ms", "--json"])
        .args(flags)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name} of {of}"))
}

/// Who was measured. All calls are accounted for, none failed, and figures lie between those of the rounds.
fn names_of_sound_servers(report: &Value) -> Vec<&str> {
    let servers = report["servers"].as_array().expect("servers");
    let sound = |server: &Value| {
        let verdicts = count(server, "admitted") + count(server, "refused");
        assert!(verdicts > 0, "{server}");
        assert_eq!(count(server, "calls"), verdicts + count(server, "errors"));
        assert_eq!(count(server, "errors"), 0, "{server}");
        for figure in ["calls_per_second", "p50_ms", "p99_ms", "p999_ms", "server_cpu_us"] {
            let [least, median, most] =
                ["least", "median", "most"].map(|part| server[figure][part].as_f64().expect(figure));
            assert!(least <= median && median <= most, "{figure}: {server}");
        }
    };
    servers.iter().for_each(sound);
    servers
        .iter()
        .map(|server| server["name"].as_str().expect("a name"))
        .collect()
}

/// No server admitted more of one caller's calls than its limit promises.
fn assert_promises_are_kept(report: &Value) {
    for accuracy in report["accuracy"].as_array().expect("accuracy") {
        assert!(count(accuracy, "admitted") > 0, "{accuracy}");
        assert!(
            count(accuracy, "admitted") <= count(accuracy, "promised"),
            "{accuracy}"
        );
        assert_eq!(
            count(accuracy, "calls"),
            count(accuracy, "admitted") + count(accuracy, "refused"),
            "{accuracy}"
        );
    }
}

#[test]
fn memory_is_held_against_the_baseline() {
    let report = bench(&["--store", "memory", "--keys", "zipf:1000"]);
    assert_eq!(names_of_sound_servers(&report), ["baseline", "memory"]);
    assert_promises_are_kept(&report);
    let ratios = report["ratios"].as_array().expect("ratios");
    assert_eq!(ratios.len(), 1);
    assert_eq!(
        (&ratios[0]["of"], &ratios[0]["to"]),
        (&Value::from("memory"), &Value::from("baseline"))
    );
    assert!(ratios[0]["server_cpu"]["median"].as_f64().expect("a ratio") > 0.0);
    assert_eq!(report["asked"]["loop"], "closed");
    assert_eq!(report["asked"]["keys"], "zipf:1000");
}

#[test]
fn a_redis_that_it_starts_is_measured_too() {
    let report = bench(&["--store", "redis", "--connections", "2", "--streams", "4"]);
    assert_eq!(names_of_sound_servers(&report), ["baseline", "memory", "redis"]);
    assert_promises_are_kept(&report);
    assert!(report["servers"][1]["redis_cpu_us"].is_null());
    let of_redis = report["servers"][2]["redis_cpu_us"]["median"].as_f64();
    assert!(of_redis.expect("of a Redis of its own it is known") > 0.0);
    assert_eq!(report["accuracy"].as_array().expect("accuracy").len(), 2);
}

#[test]
fn a_redis_that_is_there_is_asked() {
    let redis = Redis::start();
    let report = bench(&["--store", &redis.url(), "--keys", "hot"]);
    assert_eq!(names_of_sound_servers(&report), ["baseline", "memory", "redis"]);
    assert_promises_are_kept(&report);
}

#[test]
fn by_a_schedule_every_call_that_was_due_is_accounted_for() {
    let report = bench(&["--store", "memory", "--rate", "500"]);
    for server in report["servers"].as_array().expect("servers") {
        // 60 ms in each of five rounds.
        assert_eq!(count(server, "calls") + count(server, "unsent"), 150, "{server}");
    }
    assert_eq!(report["asked"]["loop"], "open");
}

#[test]
fn what_it_started_ends_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = command(["bench", "--duration", "1h", "--store", "memory"]);
    let mut bench = Process::spawn(command.env("TMPDIR", folder.path()));
    let address = bench.poll("a server", |_| {
        let below = fs::read_dir(&folder).ok()?.next()?.ok()?.path();
        let ready: Value = serde_json::from_slice(&fs::read(below.join("memory.json")).ok()?).ok()?;
        Some(ready["grpc"].as_str()?.to_owned())
    });
    assert!(TcpStream::connect(&address).is_ok());
    bench.signal("TERM");
    assert_eq!(bench.wait().code(), Some(1), "{}", bench.printed());
    assert!(TcpStream::connect(&address).is_err());
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 0);
}

#[test]
fn a_password_in_what_is_no_address_is_not_repeated() {
    let output = command(["bench", "--store", "redis://:hunter2@h:port"])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--store") && !said.contains("hunter2"), "{said}");
}

#[test]
fn the_table_has_every_row_and_its_bar() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("costs.md");
    let mut bench = command(["bench", "--duration", "100ms", "--store", "redis", "--table"]);
    let output = bench.arg(&path).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let table = fs::read_to_string(path).expect("written");
    let bars: Vec<_> = table
        .lines()
        .filter_map(|line| line.split('|').nth(2))
        .map(str::trim)
        .filter(|bar| bar.starts_with(['≤', '≥']))
        .collect();
    let expected = [
        "≤ 16 MiB",
        "≤ 1.35",
        "≤ 1.35",
        "≥ 0.85",
        "≤ 1.50",
        "≤ 1.35",
        "≤ 1.35",
        "≤ 1.10",
        "≤ 0.70",
        "≤ 1.80",
        "≤ 0.25 ms",
        "≤ 1.10",
        "≤ 1.25",
        "≤ 180 MiB",
    ];
    assert_eq!(bars, expected, "{table}");
    // Of calls by a schedule a busy machine may have sent none in time.
    let mut unknown = table.lines().filter(|line| line.contains("not known"));
    assert!(unknown.all(|line| line.starts_with("| at ")), "{table}");
    assert!(table.contains("| promised at most |"), "{table}");
}

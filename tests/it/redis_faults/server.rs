//! Redis itself: killed, hung, emptied, full, demoted.

use std::thread;
use std::time::Duration;

use super::load::{Call, Load, degraded};
use super::{DOMAIN, Fault, MANY, loaded, policy, serve};
use crate::harness::comporta::Comporta;
use crate::harness::redis::{Redis, Setup};

#[test]
fn killed_and_back_without_its_memory() {
    let mut redis = Redis::start();
    let (comporta, load) = loaded(&redis.url());
    redis.kill();
    load.go_on_for(Duration::from_secs(2));
    redis.restart();
    let record = load.until_recovered();
    Fault {
        losses: 1,
        ..Fault::new("killed, back empty")
    }
    .check(&comporta, &record);
}

#[test]
fn stopped_and_continued() {
    let redis = Redis::start();
    let (comporta, load) = loaded(&redis.url());
    redis.pause();
    load.go_on_for(Duration::from_secs(5));
    redis.resume();
    let record = load.until_recovered();
    // It is known after a few that nobody answers, and nobody else waits for that.
    let waited = "comporta_store_errors_total{kind=\"timeout\"} ";
    let metrics = comporta.metrics();
    let waited: usize = metrics
        .lines()
        .find_map(|line| line.strip_prefix(waited)?.parse().ok())
        .unwrap_or_else(|| panic!("{metrics}"));
    let degraded = record.count(Call::is_degraded);
    assert!(waited < degraded / 5, "{waited} of {degraded}");
    Fault::new("stopped, for 5 s").check(&comporta, &record);
}

#[test]
fn scripts_flushed_again_and_again() {
    let redis = Redis::start();
    let (comporta, load) = loaded(&redis.url());
    for _ in 0..40 {
        let () = redis.ask(&["SCRIPT", "FLUSH"]);
        load.go_on_for(Duration::from_millis(50));
    }
    let record = load.until_recovered();
    Fault {
        is_felt: false,
        ..Fault::new("scripts flushed 40 times")
    }
    .check(&comporta, &record);
}

#[test]
fn connections_killed_again_and_again() {
    let redis = Redis::start();
    let (comporta, load) = loaded(&redis.url());
    for _ in 0..10 {
        let _: u64 = redis.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        load.go_on_for(Duration::from_millis(200));
    }
    let record = load.until_recovered();
    Fault {
        is_felt: false,
        ..Fault::new("connections killed 10 times")
    }
    .check(&comporta, &record);
}

#[test]
fn demoted_to_a_replica_and_promoted() {
    let (redis, other) = (Redis::start(), Redis::start());
    let (comporta, load) = loaded(&redis.url());
    let address = other.address();
    let (host, port) = address.split_once(':').expect("an address");
    let () = redis.ask(&["REPLICAOF", host, port]);
    load.go_on_for(Duration::from_secs(2));
    // What it knew was replaced by what the other knows: nothing.
    let () = redis.ask(&["REPLICAOF", "NO", "ONE"]);
    let record = load.until_recovered();
    Fault {
        losses: 1,
        ..Fault::new("a read-only replica")
    }
    .check(&comporta, &record);
}

#[test]
fn out_of_memory() {
    let redis = Setup::default()
        .with(&["--maxmemory-policy", "noeviction"])
        .start();
    let (comporta, load) = loaded(&redis.url());
    let () = redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    load.go_on_for(Duration::from_secs(2));
    let () = redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    let record = load.until_recovered();
    Fault::new("out of memory").check(&comporta, &record);
}

#[test]
fn busy_with_a_script_of_somebody_else() {
    let server = Setup::default().with(&["--lua-time-limit", "50"]).start();
    let (comporta, load) = loaded(&server.url());
    let mut connection = server.connect();
    let script = thread::spawn(move || {
        let endless = redis::cmd("EVAL")
            .arg("while true do end")
            .arg(0)
            .query::<()>(&mut connection);
        assert!(endless.is_err(), "it was killed");
    });
    load.go_on_for(Duration::from_secs(2));
    let () = server.ask(&["SCRIPT", "KILL"]);
    script.join().expect("it ends");
    let record = load.until_recovered();
    Fault::new("busy with another's script").check(&comporta, &record);
}

#[test]
fn loading_what_it_had_saved() {
    let server = Setup::default()
        .with(&["--enable-debug-command", "local"])
        .with(&["--loading-process-events-interval-bytes", "1024"])
        .start();
    let (comporta, load) = loaded(&server.url());
    let () = server.ask(&["DEBUG", "POPULATE", "1000", "filler", "100"]);
    // Microseconds for each key: two seconds for all.
    let () = server.ask(&["CONFIG", "SET", "key-load-delay", "2000"]);
    let () = server.ask(&["DEBUG", "RELOAD"]);
    let record = load.until_recovered();
    Fault::new("loading for 2 s").check(&comporta, &record);
}

#[test]
fn there_only_after_a_while() {
    let mut redis = Redis::start();
    redis.kill();
    let comporta = serve(&redis.url());
    let load = Load::start(&comporta);
    load.go_on_for(Duration::from_secs(3));
    redis.restart();
    let record = load.until_recovered();
    Fault::new("not there at the start, for 3 s").check(&comporta, &record);
}

#[test]
fn a_script_that_was_flushed_is_sent_once_more() {
    const CALLS: u32 = 1_000;
    let redis = Redis::start();
    let flags = ["--store", &redis.url(), "--store-budget", "60s", "--workers", "1"];
    let comporta = Comporta::serve_text(&policy(), &flags);
    comporta.wait_for_store(DOMAIN, "steady=nobody");
    let () = redis.ask(&["SCRIPT", "FLUSH"]);
    let () = redis.ask(&["CONFIG", "RESETSTAT"]);
    let client = comporta.client();
    for call in 1..=CALLS {
        let answer = client.ask(DOMAIN, &["steady=0"]);
        assert_eq!(answer.statuses[0].limit_remaining, MANY - call);
        assert!(!degraded(&answer));
    }
    let said: String = redis.ask(&["INFO", "commandstats"]);
    let sent: Option<u32> = said.lines().find_map(|line| {
        let (calls, _) = line.strip_prefix("cmdstat_eval:calls=")?.split_once(',')?;
        calls.parse().ok()
    });
    // And one by which instances hear each other.
    assert!(matches!(sent, Some(1 | 2)), "{said}");
}

#[test]
fn memory_stays_as_it_is_while_nobody_answers() {
    const CALLS: usize = 2_000;
    let redis = Redis::start();
    let comporta = serve(&redis.url());
    comporta.wait_for_store(DOMAIN, "steady=nobody");
    redis.pause();
    let ask = || {
        thread::scope(|scope| {
            for caller in 0..16 {
                let client = comporta.client();
                scope.spawn(move || {
                    for _ in 0..CALLS / 16 {
                        client.ask(DOMAIN, &[&format!("steady={caller}")]);
                    }
                });
            }
        });
        comporta.resident_kib()
    };
    ask();
    let (before, after) = (ask(), [ask(), ask()]);
    // A call that went on waiting would be kept with all that it asked.
    assert!(after[1] < before + 4_096, "{before} KiB, then {after:?}");
}

//! The command as a person or a script uses it: what it prints where, and how it ends.

use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;

use crate::harness::comporta::{Client, Comporta, command};
use crate::harness::process::poll;
use crate::harness::repository;

/// How it ended and what it printed on which stream.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(arguments: &[&str]) -> Run {
    let output = command(arguments)
        .current_dir(repository(""))
        .output()
        .expect("it starts");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_taken_port_ends_it_and_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    for (flag, other) in [("--grpc", "--admin"), ("--admin", "--grpc")] {
        let run = run(&[
            "serve",
            "deploy/policy.yaml",
            flag,
            &address,
            other,
            "127.0.0.1:0",
        ]);
        assert_ne!(run.code, Some(0));
        assert!(run.stderr.contains(&address), "{}", run.stderr);
        assert_eq!(run.stdout, "");
    }
}

#[test]
fn serving_nothing_says_what_to_pass() {
    let run = run(&["serve"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("POLICY"), "{}", run.stderr);
}

#[test]
fn serving_a_bad_policy_says_where_it_is_bad() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        "domain: edge\ndescriptors:\n  - key: a\n    rate_limits: 3\n",
    )
    .expect("written");
    let path = file.path().to_str().expect("a path in UTF-8");
    for command in ["serve", "check"] {
        let run = run(&[command, path]);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!([run.stdout, run.stderr].concat().contains(&format!("{path}:4:")));
    }
}

#[test]
fn a_ready_file_takes_nobodys_place() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let policy = std::fs::read(repository("deploy/policy.yaml")).expect("the policy");
    std::fs::write(path("policy.yaml"), &policy).expect("written");
    std::fs::create_dir(path("folder")).expect("made");
    std::os::unix::fs::symlink("/dev/null", path("device")).expect("linked");
    for ready_file in ["policy.yaml", "folder", "device"] {
        let ready_file = path(ready_file);
        let run = run(&[
            "serve",
            &path("policy.yaml"),
            "--grpc",
            &address,
            "--ready-file",
            &ready_file,
        ]);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(
            run.stderr.contains(&format!("cannot write {ready_file}: ")),
            "{}",
            run.stderr
        );
    }
    assert_eq!(std::fs::read(path("policy.yaml")).expect("still there"), policy);
    assert!(std::fs::symlink_metadata(path("device")).is_ok());
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 3);
}

#[test]
fn check_reads_what_a_pipe_says() {
    let mut check = command(["check", "/dev/stdin"]);
    check.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = check.spawn().expect("it starts");
    let policy = std::fs::read(repository("deploy/policy.yaml")).expect("the policy");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(&policy).expect("written");
    drop(pipe);
    let output = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("5 rules"), "{said}");
}

#[test]
fn a_file_without_an_end_is_nothing_to_read() {
    for arguments in [
        &["check", "/dev/zero"][..],
        &["test", "/dev/zero"],
        &["serve", "deploy/policy.yaml", "--key-secret-file", "/dev/zero"],
    ] {
        let run = run(arguments);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        let said = run.stdout + &run.stderr;
        assert!(said.contains("/dev/zero: "), "{said}");
        assert!(said.contains("larger than 64 MiB"), "{said}");
    }
}

#[test]
fn more_workers_than_any_machine_has_are_a_mistake() {
    let run = run(&["serve", "deploy/policy.yaml", "--workers", "4294967295"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("--workers"), "{}", run.stderr);
}

#[test]
fn a_policy_that_delays_is_checked_but_not_served() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        "domain: d\ndescriptors:\n  - key: a\n    on_excess: { delay: 15ms }\n    rate_limit: { rate: 100/1s, burst: 5 }\n",
    )
    .expect("written");
    let path = file.path().to_str().expect("a path in UTF-8");
    assert_eq!(run(&["check", path]).code, Some(0));
    let served = run(&["serve", path]);
    assert_eq!(served.code, Some(1));
    assert_eq!(
        served.stderr,
        format!(
            "{path}:3:10: the rule a delays calls, and this version cannot hold replies: it can be checked, but not \
             served: write `on_excess: reject` until it can\n"
        )
    );
}

#[test]
fn check_counts_the_rules_of_a_good_policy() {
    let run = run(&["check", "deploy/policy.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("5 rules"), "{}", run.stdout);
}

#[test]
fn a_missing_policy_is_named() {
    for command in ["serve", "check"] {
        let run = run(&[command, "no/such/policy.yaml"]);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!([run.stdout, run.stderr].concat().contains("no/such/policy.yaml"));
    }
}

#[test]
fn call_ends_with_the_verdict() {
    let comporta = Comporta::serve(repository("deploy/policy.yaml"), &[]);
    let call = |more: &[&str]| {
        let mut arguments = vec![
            "call",
            comporta.grpc(),
            "edge",
            "client=ana,route_class=expensive,plan=free",
        ];
        arguments.extend_from_slice(more);
        run(&arguments)
    };
    // One in the bucket; half a minute until the next.
    let first = call(&[]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(first.stdout.lines().count(), 1, "{}", first.stdout);
    let second = call(&[]);
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    assert!(
        second.stdout.contains("client/route_class=expensive/plan"),
        "{}",
        second.stdout
    );
    // A look at a spent budget is a refusal, too; giving back is not.
    assert_eq!(call(&["--hits", "0"]).code, Some(1));
    assert_eq!(call(&["--hits", "-1"]).code, Some(0));
    assert_eq!(call(&[]).code, Some(0));
    assert_eq!(call(&["--times", "2"]).code, Some(1));
}

#[test]
fn call_says_when_it_could_not_ask() {
    let nobody = crate::harness::free_port();
    for arguments in [
        vec!["call", &format!("127.0.0.1:{nobody}"), "edge", "client=ana"],
        vec!["call", "127.0.0.1:1", "edge", "no entry"],
        vec!["call"],
    ] {
        let run = run(&arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert_ne!(run.stderr, "");
        assert_eq!(run.stdout, "");
    }
}

#[test]
fn the_ready_line_names_the_real_addresses() {
    let mut comporta = Comporta::serve(repository("deploy/policy.yaml"), &[]);
    for address in [comporta.grpc().to_owned(), comporta.admin().to_owned()] {
        assert!(!address.ends_with(":0"));
        comporta.wait_for_line(&address);
    }
}

#[test]
fn it_serves_on_when_nobody_reads_its_log_any_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let ready_file = folder.path().join("ready.json");
    let mut serve = command(["serve", "deploy/policy.yaml"]);
    serve
        .args(["--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--ready-file"])
        .arg(&ready_file)
        .current_dir(repository(""))
        .stderr(Stdio::piped());
    let mut child = serve.spawn().expect("it starts");
    drop(child.stderr.take());
    let ready = poll("a ready file", || std::fs::read_to_string(&ready_file).ok());
    let ready: serde_json::Value = serde_json::from_str(&ready).expect("JSON");
    let client = Client::connect(ready["grpc"].as_str().expect("an address"));
    // A domain that nobody knows is worth a line.
    assert!(client.admits("nowhere", "client=ana"));
    assert!(client.admits("edge", "client=ana,plan=free"));
    child.kill().expect("it still runs");
    child.wait().expect("its end");
}

#[test]
fn settings_can_come_from_the_environment() {
    let mut serve = command(["serve", "deploy/policy.yaml"]);
    serve
        .current_dir(repository(""))
        .env("COMPORTA_GRPC", "not an address");
    let output = serve.output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("not an address"), "{stderr}");
}

//! What `explain` says, word for word: `tests/explain/NAME.txt` holds commands, each behind a `$`, and what they print.
//! With `COMPORTA_BLESS=1` the texts are written instead of compared.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::harness::comporta::command;
use crate::harness::repository;

/// What a command prints, and how it ends where that is not well.
fn printed(line: &str) -> String {
    let line = line.replacen("comporta", "\"$COMPORTA\"", 1);
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(repository("tests/explain"))
        .env("COMPORTA", command([""; 0]).get_program())
        .output()
        .expect("sh starts");
    let mut printed = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    match output.status.code() {
        Some(0) => {}
        code => writeln!(printed, "(ends with {})", code.expect("a code")).expect("written"),
    }
    printed
}

#[test]
fn explanations_are_in_these_words() {
    let mut differing = Vec::new();
    for entry in fs::read_dir(repository("tests/explain")).expect("the explanations") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let wanted = fs::read_to_string(&path).expect("a readable file");
        let commands = wanted.lines().filter_map(|line| line.strip_prefix("$ "));
        let texts: Vec<String> = commands
            .map(|line| format!("$ {line}\n{}", printed(line)))
            .collect();
        let said = texts.join("\n");
        if std::env::var_os("COMPORTA_BLESS").is_some() {
            fs::write(&path, &said).expect("written");
        } else if said != wanted {
            differing.push(format!(
                "{}:\n--- expected\n{wanted}--- said\n{said}",
                path.display()
            ));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn explanations_are_there_for_programs_too() {
    let json = |arguments: &str| -> serde_json::Value {
        let printed = printed(&format!(
            "comporta explain policy.yaml {arguments} --domain edge --json"
        ));
        let object = printed.lines().next().expect("a line");
        serde_json::from_str(object).expect("JSON")
    };
    let met = json("client=ana,plan=pro --instances 4");
    assert_eq!(met["rule"]["path"], "client/plan");
    assert_eq!(met["rule"]["line"], 10);
    assert_eq!(met["path"][1]["match"], "any");
    assert_eq!(met["path"][1]["names_the_plan"], true);
    assert_eq!(met["limits"][0]["worst_case"]["at_once"], 90);
    assert_eq!(met["limits"][0]["worst_case"]["within"][0]["most"], 690);
    assert_eq!(met["limits"][1]["algorithm"], "fixed_window");
    assert_eq!(met["stopped"], serde_json::Value::Null);
    assert_eq!(met["rule"]["on_store_failure"], serde_json::Value::Null);
    assert_eq!(met["limits"][0]["on_store_failure"], "local");
    let denied = json("log_in=ana --on-store-failure allow");
    assert_eq!(denied["rule"]["on_store_failure"], "deny");
    assert_eq!(denied["limits"][0]["on_store_failure"], "deny");
    let missed = json("plan=pro,client=ana");
    assert_eq!(missed["rule"], serde_json::Value::Null);
    assert_eq!(missed["stopped"]["after"], 0);
    assert_eq!(missed["stopped"]["why"], "leads_nowhere");
    assert_eq!(missed["nearest"][0]["rule"], "client/plan");
    assert_eq!(
        missed["nearest"][0]["differences"][0],
        "order: send (client, plan)"
    );
}

#[test]
fn more_instances_than_share_a_budget_are_a_mistake() {
    let explain = |instances: &str| {
        printed(&format!(
            "comporta explain policy.yaml client=ana --instances {instances}"
        ))
    };
    assert!(!explain("1024").contains("no whole number"));
    for wrong in ["0", "1025"] {
        let said = explain(wrong);
        assert!(said.contains("no whole number from 1 to 1024"), "{said}");
        assert!(said.ends_with("(ends with 2)\n"), "{said}");
    }
}

/// The key that is told is the one in the store.
#[test]
fn the_counter_is_where_it_is_said_to_be() {
    let server = crate::harness::redis::Redis::start();
    let comporta = crate::harness::comporta::Comporta::serve(
        repository("deploy/policy.yaml"),
        &["--store", &server.url()],
    );
    comporta.wait_for_store("edge", "client=nobody,plan=free");
    let call = command(["call", comporta.grpc(), "edge", "client=ana,plan=free"])
        .output()
        .expect("it starts");
    assert!(call.status.success());
    let explained = command(["explain", "deploy/policy.yaml", "client=ana,plan=free"])
        .current_dir(repository(""))
        .output()
        .expect("it starts");
    let explained = String::from_utf8(explained.stdout).expect("text");
    let key = explained
        .lines()
        .find_map(|line| line.trim().strip_prefix("counter"))
        .expect("a counter")
        .trim();
    let port = server.url().rsplit(':').next().expect("a port").to_owned();
    let keys = Command::new("redis-cli")
        .args(["-p", &port, "--scan"])
        .output()
        .expect("redis-cli starts");
    let keys = String::from_utf8(keys.stdout).expect("text");
    assert!(keys.lines().any(|line| line == key), "{key} is not among\n{keys}");
}

//! What lies in `deploy/` is valid as it stands.

use std::path::Path;
use std::process::Command;

use crate::harness::comporta::command;
use crate::harness::{envoy, installed, read, repository};

/// Runs a program to its end, which must be a good one.
fn succeeds(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{printed}",
        output.status
    );
    printed
}

fn check(policy: &Path) -> String {
    succeeds(command(["check"]).arg(policy))
}

#[test]
fn envoy_accepts_its_configurations() {
    for file in ["deploy/envoy.yaml", "deploy/envoy-headers.yaml"] {
        succeeds(
            Command::new(envoy::binary())
                .args([
                    "--mode",
                    "validate",
                    "--disable-hot-restart",
                    "--log-level",
                    "error",
                    "--config-path",
                ])
                .arg(repository(file)),
        );
    }
}

#[test]
fn the_policy_is_good() {
    // Two for clients, two for acme, one for those that nobody knows.
    let printed = check(&repository("deploy/policy.yaml"));
    assert_eq!(printed, "ok: 5 rules in 1 domain\n");
}

#[test]
fn kubernetes_accepts_its_manifests() {
    succeeds(
        Command::new(installed("kubernetes-validate"))
            .arg("--strict")
            .arg(repository("deploy/kubernetes.yaml")),
    );
}

#[test]
fn the_policy_of_the_manifests_is_good() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        block(&read("deploy/kubernetes.yaml"), "policy.yaml: |"),
    )
    .expect("written");
    check(file.path());
}

#[test]
fn kubernetes_waits_longer_than_the_drain() {
    let manifests = read("deploy/kubernetes.yaml");
    let number_after = |text: &str| -> u64 {
        let (_, rest) = manifests.split_once(text).unwrap_or_else(|| panic!("no {text}"));
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits
            .parse()
            .unwrap_or_else(|_| panic!("no number after {text}"))
    };
    // What is between them is for calls that are under way at the end of the drain.
    assert!(number_after("terminationGracePeriodSeconds: ") >= number_after("COMPORTA_DRAIN, value: ") + 15);
    assert_eq!(
        number_after("replicas: "),
        number_after("COMPORTA_INSTANCES, value: \"")
    );
}

#[test]
fn the_image_is_built_by_the_book() {
    succeeds(Command::new(installed("hadolint")).arg(repository("deploy/Dockerfile")));
}

#[test]
fn the_image_is_given_all_that_the_build_reads() {
    let ignored = read("deploy/Dockerfile.dockerignore");
    let context = tempfile::tempdir().expect("a folder");
    for path in [
        "Cargo.lock",
        "Cargo.toml",
        "build.rs",
        "deploy/policy.yaml",
        "lua",
        "proto",
        "src",
    ] {
        assert!(repository(path).exists(), "{path}");
        assert!(
            ignored.lines().any(|line| line.strip_prefix('!') == Some(path)),
            "{path} is left out"
        );
        let target = context.path().join(path);
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("created");
        succeeds(Command::new("cp").arg("-R").args([&repository(path), &target]));
    }
    // Cargo reads the whole manifest before it builds a part of it, and nothing that it names may be missing. What was
    // built here needs the same packages, so none is fetched.
    succeeds(
        Command::new(env!("CARGO"))
            .args(["fetch", "--locked", "--offline", "--target"])
            .arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
            .current_dir(&context),
    );
}

/// The indented lines after `heading`, without their indentation.
fn block(text: &str, heading: &str) -> String {
    let mut lines = text.lines().skip_while(|line| line.trim() != heading);
    let indent = indentation(lines.next().unwrap_or_else(|| panic!("no {heading}")));
    let lines: Vec<_> = lines
        .take_while(|line| line.trim().is_empty() || indentation(line) > indent)
        .collect();
    let inner = indentation(lines[0]);
    lines
        .iter()
        .map(|line| format!("{}\n", line.get(inner..).unwrap_or_default()))
        .collect()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

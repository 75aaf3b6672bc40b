//! The README does what it says: its commands are run from top to bottom, and its policies are checked.
//!
//! Fenced `sh` blocks are commands, `text` is what the commands before it print (`…` stands for anything), and `yaml` is
//! a policy or tests of one. A command of a kind that nobody has thought of here fails.

use std::process::Command;

use crate::harness::comporta::{Comporta, command};
use crate::harness::envoy::Envoy;
use crate::harness::redis::Redis;
use crate::harness::{installed, read, repository};

/// A fenced block.
struct Block {
    language: String,
    text: String,
}

fn blocks(markdown: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in markdown.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block {
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block that does not end");
    blocks
}

/// The reader's terminals.
#[derive(Default)]
struct Terminals {
    comporta: Option<Comporta>,
    envoy: Option<Envoy>,
    redis: Option<Redis>,
}

impl Terminals {
    /// Does what a line says. Returns what it prints, where that is of interest.
    fn run(&mut self, line: &str) -> String {
        if let Some(arguments) = line.strip_prefix("cargo run --release -- serve ") {
            self.serve(&self.here(arguments));
        } else if let Some(file) = line.strip_prefix("target/venv/bin/envoy -c deploy/") {
            // One at a time, as they would be on the reader's ports.
            self.envoy = None;
            self.envoy = Some(Envoy::start(
                file,
                self.comporta.as_ref().expect("a service for Envoy to ask"),
            ));
        } else if line.starts_with("redis-server") {
            self.redis = Some(Redis::start());
        } else if line == "tests/run" {
            assert!(repository(line).is_file());
        } else if let Some(rest) = line.strip_prefix("docker build -f ") {
            let file = rest.split(' ').next().expect("a file");
            run(Command::new(installed("hadolint")).arg(repository(file)));
        } else if let Some(file) = line.strip_prefix("kubectl apply -f ") {
            run(Command::new(installed("kubernetes-validate"))
                .arg("--strict")
                .arg(repository(file)));
        } else if line == "target/release/comporta bench" {
            // How fast it is says nothing here.
            return self.shell("\"$COMPORTA\" bench --duration 100ms");
        } else if let Some(arguments) = line.strip_prefix("target/release/comporta ") {
            return self.shell(&format!("\"$COMPORTA\" {arguments}"));
        } else if line.starts_with("curl ") || line.starts_with("for ") || line.starts_with("redis-cli ") {
            return self.shell(line);
        } else {
            panic!("what does `{line}` do?");
        }
        String::new()
    }

    /// Starts the service; in the place of the one before it, if there was one.
    fn serve(&mut self, arguments: &str) {
        let mut arguments = arguments.split(' ');
        let policy = repository(arguments.next().expect("a policy"));
        let flags: Vec<_> = arguments.collect();
        let place = self.comporta.take().map(|mut before| {
            before.terminate();
            assert_eq!(before.wait().code(), Some(0));
            before.grpc().to_owned()
        });
        let comporta = Comporta::serve_at(place.as_deref().unwrap_or("127.0.0.1:0"), policy, &flags);
        comporta.wait_for_store("edge", "client=nobody,plan=free");
        self.comporta = Some(comporta);
    }

    fn shell(&self, line: &str) -> String {
        let line = self.here(line);
        // `call` has its own way to say no, so how it ends is not looked at; what it prints is.
        let output = Command::new("sh")
            .args(["-c", &line])
            .current_dir(repository(""))
            .env("COMPORTA", command([""; 0]).get_program())
            .output()
            .expect("sh starts");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            !printed.is_empty(),
            "`{line}` prints nothing: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        printed
    }

    /// The same line with the places where things are here.
    fn here(&self, line: &str) -> String {
        let mut line = line.to_owned();
        if let Some(comporta) = &self.comporta {
            line = line
                .replace("127.0.0.1:8081", comporta.grpc())
                .replace("localhost:8080", comporta.admin());
        }
        if let Some(envoy) = &self.envoy {
            line = line.replace("localhost:10000", envoy.edge());
        }
        if let Some(redis) = &self.redis {
            let port = redis.url().rsplit(':').next().expect("a port").to_owned();
            line = line
                .replace("redis://127.0.0.1:6379", &redis.url())
                .replace("redis-cli ", &format!("redis-cli -p {port} "));
        }
        line
    }
}

/// Runs a program to its end, which must be a good one.
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    printed
}

/// Whether the text is what was expected, where `…` in a line stands for anything in that line, and a line of only `…`
/// for any number of lines.
fn matches(expected: &[&str], printed: &[&str]) -> bool {
    match (expected.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), _) => (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..])),
        (Some((first, expected)), Some((line, printed))) => {
            line_matches(first, line.trim_end()) && matches(expected, printed)
        }
        _ => false,
    }
}

fn line_matches(expected: &str, line: &str) -> bool {
    match expected.split_once('…') {
        None => expected == line,
        Some((start, rest)) => line.strip_prefix(start).is_some_and(|line| {
            (0..=line.len())
                .filter(|place| line.is_char_boundary(*place))
                .any(|place| line_matches(rest, &line[place..]))
        }),
    }
}

#[test]
fn the_commands_do_what_the_readme_says() {
    let mut terminals = Terminals::default();
    let mut printed = String::new();
    for block in blocks(&read("README.md")) {
        match block.language.as_str() {
            "sh" => {
                let lines = block.text.replace("\\\n", " ");
                printed = lines.lines().map(|line| terminals.run(line)).collect();
            }
            "text" => {
                let expected: Vec<_> = block.text.lines().collect();
                let printed: Vec<_> = printed.lines().collect();
                assert!(
                    matches(&expected, &printed),
                    "expected:\n{}\nprinted:\n{printed:#?}",
                    block.text
                );
            }
            "yaml" if block.text.starts_with("policy:") => test_beside_a_policy(&block.text),
            "yaml" => {
                let file = tempfile::NamedTempFile::new().expect("a file");
                std::fs::write(file.path(), block.text).expect("written");
                let printed = run(command(["check"]).arg(file.path()));
                assert!(printed.starts_with("ok: "), "{printed}");
            }
            other => panic!("a block in `{other}`"),
        }
    }
}

/// Runs a file of tests in a folder with the policy that it names.
fn test_beside_a_policy(tests: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("policy.yaml"), read("deploy/policy.yaml")).expect("written");
    std::fs::write(folder.path().join("tests.yaml"), tests).expect("written");
    let printed = run(command(["test", "tests.yaml"]).current_dir(&folder));
    assert!(printed.starts_with("ok: "), "{printed}");
}

#[test]
fn links_lead_somewhere() {
    for file in ["README.md", "CHANGELOG.md"] {
        for link in read(file).split("](").skip(1) {
            let target = link.split(')').next().expect("an end");
            let inside = !target.contains("://");
            assert!(!inside || repository(target).exists(), "{file}: {target}");
        }
    }
}

#[test]
fn expected_text_leaves_room_where_it_says_so() {
    assert!(matches(&["a … c", "…", "z"], &["a b c", "1", "2", "z"]));
    assert!(matches(&["…", "z"], &["z"]));
    assert!(!matches(&["a … c"], &["a b d"]));
    assert!(!matches(&["a"], &["a", "b"]));
}

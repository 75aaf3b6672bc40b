//! A real Envoy with a configuration of `deploy/`, on ports of its own.

use std::process::Command;

use tempfile::TempDir;

use super::comporta::Comporta;
use super::http::{self, Response};
use super::process::{PATIENCE, Process};

/// In front of one Comporta.
pub struct Envoy {
    process: Process,
    admin: String,
    edge: String,
    _folder: TempDir,
}

impl Envoy {
    /// Starts one with `deploy/<file>`, asking `comporta`.
    pub fn start(file: &str, comporta: &Comporta) -> Self {
        Self::start_edited(file, comporta, |configuration| configuration)
    }

    /// The same, with more changes to the configuration.
    pub fn start_edited(file: &str, comporta: &Comporta, edit: impl FnOnce(String) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a folder for Envoy");
        let configuration = edit(rewrite(&super::read(&format!("deploy/{file}")), comporta.grpc()));
        let path = folder.path().join("envoy.yaml");
        std::fs::write(&path, configuration).expect("the configuration is written");
        let admin_file = folder.path().join("admin");

        let mut process = Process::spawn(
            Command::new(binary())
                .arg("--config-path")
                .arg(&path)
                .arg("--admin-address-path")
                .arg(&admin_file)
                // Several Envoys at once, without shared memory; one worker, so that one connection to Comporta.
                .args([
                    "--disable-hot-restart",
                    "--concurrency",
                    "1",
                    "--log-level",
                    "warn",
                ]),
        );
        let admin = process.poll("an admin address", |_| {
            std::fs::read_to_string(&admin_file)
                .ok()
                .filter(|address| !address.is_empty())
        });
        process.poll("being ready", |_| {
            http::try_get::<&str>(&admin, "/ready", &[])
                .ok()
                .filter(|answer| answer.status == 200)
        });
        let edge = listener(
            &http::get::<&str>(&admin, "/listeners?format=json", &[]).body,
            "edge",
        );
        Self {
            process,
            admin,
            edge,
            _folder: folder,
        }
    }

    /// Asks for `path` as a caller would.
    pub fn get<V: AsRef<[u8]>>(&self, path: &str, headers: &[(&str, V)]) -> Response {
        http::get(&self.edge, path, headers)
    }

    /// Where callers connect.
    pub fn edge(&self) -> &str {
        &self.edge
    }

    /// A counter of Envoy's own, zero when there is none.
    pub fn counter(&self, name: &str) -> u64 {
        let stats = http::get::<&str>(&self.admin, &format!("/stats?filter=^{name}$"), &[]).body;
        stats
            .trim()
            .rsplit(' ')
            .next()
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    }

    /// What it has printed so far: its access log, too.
    pub fn printed(&self) -> String {
        self.process.printed()
    }
}

/// Free ports instead of fixed ones, and a limiter that is waited for: on a slow machine an answer may take longer than
/// a gateway would wait, and then a request that nobody decided about must not look like one that may pass.
fn rewrite(configuration: &str, comporta: &str) -> String {
    let port = comporta.rsplit(':').next().expect("a port in an address");
    let patience = format!("timeout: {}s", PATIENCE.as_secs());
    let changes = [
        ("port_value: 10000 ", "port_value: 0 ".to_owned()),
        ("port_value: 9901 ", "port_value: 0 ".to_owned()),
        ("port_value: 8081 ", format!("port_value: {port} ")),
        ("timeout: 0.02s", patience.clone()),
        ("connect_timeout: 0.25s", format!("connect_{patience}")),
        ("failure_mode_deny: false", "failure_mode_deny: true".to_owned()),
    ];
    changes
        .iter()
        .fold(configuration.to_owned(), |configuration, (from, to)| {
            replace_once(&configuration, from, to)
        })
}

/// Replaces what must be there once.
pub fn replace_once(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "`{from}` is not there once");
    text.replace(from, to)
}

/// The program: `ENVOY_BIN`, else the one that `tests/run` has installed.
pub fn binary() -> std::path::PathBuf {
    std::env::var_os("ENVOY_BIN").map_or_else(|| super::installed("envoy"), Into::into)
}

fn listener(json: &str, name: &str) -> String {
    let listeners: serde_json::Value = serde_json::from_str(json).expect("a list of listeners");
    let found = listeners["listener_statuses"]
        .as_array()
        .and_then(|all| all.iter().find(|status| status["name"] == name))
        .unwrap_or_else(|| panic!("no listener {name} in {listeners}"));
    let address = &found["local_address"]["socket_address"];
    format!(
        "{}:{}",
        address["address"].as_str().expect("its address"),
        address["port_value"]
    )
}

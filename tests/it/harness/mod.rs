//! Starts the real programs: our own binary, a Redis server and an Envoy, each on ports of its own, and ends them with
//! the test that asked for them.

pub mod comporta;
pub mod envoy;
pub mod http;
pub mod process;
pub mod redis;
pub mod store;
pub mod yaml;

use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A file of the repository, read.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A program that `tests/run` has installed beside the build.
pub fn installed(program: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("target/tmp lies in target");
    let path = target.join("venv/bin").join(program);
    assert!(
        path.exists(),
        "{} is not there; `tests/run` installs it",
        path.display()
    );
    path
}

/// A port that nobody listens on at this moment. Whoever takes it must be ready to find it taken after all.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its number").port()
}

/// A token that `deploy/envoy.yaml` knows how to verify, as a header: `ana-free`, see `tests/data/jwt/make`.
pub fn bearer(name: &str) -> (&'static str, String) {
    (
        "authorization",
        format!(
            "Bearer {}",
            read(&format!("tests/data/jwt/{name}.jwt")).trim_end()
        ),
    )
}

//! Starts the real programs: our own binary, a Redis server and an Envoy, each on ports of its own, and ends them with
//! the test that asked for them.

pub mod allocator;
pub mod certificates;
pub mod cluster;
pub mod comporta;
pub mod envoy;
pub mod http;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod sentinels;
pub mod store;
pub mod yaml;

use std::hash::{BuildHasher, Hasher, RandomState};
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

/// A file of a Python package that `tests/run` has installed.
pub fn installed_in_package(file: &str) -> PathBuf {
    let library = installed("python").with_file_name("../lib");
    let versions = std::fs::read_dir(&library).expect("what was installed");
    versions
        .map(|version| version.expect("a version of Python").path())
        .map(|version| version.join("site-packages").join(file))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{file} is not there; `tests/run` installs it"))
}

/// A port that nobody listens on at this moment. Whoever takes it must be ready to find it taken after all.
///
/// It is none of those that the system gives to connections: a server that was ended and comes back in its place would
/// now and then find it taken by one of them. And ten thousand further, where the nodes of a cluster speak to each other,
/// it is none of them either.
pub fn free_port() -> u16 {
    loop {
        let random = RandomState::new().build_hasher().finish();
        let port = 10_000 + u16::try_from(random % 12_000).expect("it is below 12,000");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
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

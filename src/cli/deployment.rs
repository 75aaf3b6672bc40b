//! From what was typed about a Redis to what connects to it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::redis::{Certificates, Credentials, RedisTarget, RedisUrl};

/// Where counters live, and how to get in.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreArgs {
    /// Where counters live: in this process, or in a Redis that all instances share. The URL is redis://, redis+unix://,
    /// redis-cluster:// or redis-sentinel://, or one of them with `rediss` for TLS
    #[arg(
        long,
        value_name = "memory|redis://[USER:PASSWORD@]HOST[:PORT][/DB]",
        env = "COMPORTA_STORE",
        hide_env_values = true,
        default_value = "memory"
    )]
    pub store: String,

    /// A file with the password for Redis, where it should not stand in the URL
    #[arg(long, value_name = "PATH", env = "COMPORTA_STORE_PASSWORD_FILE")]
    pub store_password_file: Option<PathBuf>,

    /// A file with the authorities that Redis is trusted by, as PEM; the system's when not given
    #[arg(long, value_name = "PATH", env = "COMPORTA_STORE_CA")]
    pub store_ca: Option<PathBuf>,

    /// A file with the certificate that is shown to Redis, as PEM
    #[arg(
        long,
        value_name = "PATH",
        env = "COMPORTA_STORE_CERT",
        requires = "store_key"
    )]
    pub store_cert: Option<PathBuf>,

    /// A file with that certificate's key, as PEM
    #[arg(
        long,
        value_name = "PATH",
        env = "COMPORTA_STORE_KEY",
        requires = "store_cert"
    )]
    pub store_key: Option<PathBuf>,

    /// The user that sentinels ask for, where it is not the default one
    #[arg(long, value_name = "NAME", env = "COMPORTA_SENTINEL_USER")]
    pub sentinel_user: Option<String>,

    /// A file with the password that sentinels ask for
    #[arg(long, value_name = "PATH", env = "COMPORTA_SENTINEL_PASSWORD_FILE")]
    pub sentinel_password_file: Option<PathBuf>,
}

/// The Redis that `args` speak of; none where counters live in this process.
///
/// # Errors
/// Every mistake, each beside the flag that it is about. They say nothing of what was typed for `--store`: it may have been
/// a password.
pub fn target(args: &StoreArgs) -> Result<Option<Arc<RedisTarget>>, Vec<String>> {
    let mut mistakes = Vec::new();
    let url = match args.store.as_str() {
        "memory" => None,
        url => RedisUrl::parse(url)
            .map_err(|error| mistakes.push(format!("--store: neither `memory` nor a Redis: {error}")))
            .ok(),
    };
    let mut file = |flag: &str, path: &Option<PathBuf>| {
        let path = path.as_ref()?;
        read(path)
            .map_err(|mistake| mistakes.push(format!("--{flag}: {mistake}")))
            .ok()
    };
    let password = file("store-password-file", &args.store_password_file);
    let authority = file("store-ca", &args.store_ca);
    let certificate = file("store-cert", &args.store_cert);
    let key = file("store-key", &args.store_key);
    let sentinel_password = file("sentinel-password-file", &args.sentinel_password_file);
    let mut text = |flag: &str, bytes: Option<Vec<u8>>| {
        let text = String::from_utf8(bytes?)
            .map_err(|_| mistakes.push(format!("--{flag}: the file is not UTF-8")))
            .ok()?;
        // Editors end files with a line.
        Some(text.trim_end_matches(['\r', '\n']).to_owned())
    };
    let password = text("store-password-file", password);
    let sentinel = Credentials {
        user: args.sentinel_user.clone(),
        password: text("sentinel-password-file", sentinel_password),
    };
    let certificates = Certificates {
        authority,
        client: certificate.zip(key),
    };
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let Some(url) = url else { return Ok(None) };
    RedisTarget::new(url, password, certificates, sentinel)
        .map(|target| Some(Arc::new(target)))
        .map_err(|error| vec![format!("--store: {error}")])
}

/// A file that holds something, and no more than a certificate or a password is.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    const LARGEST: u64 = 1 << 20;
    let shown = path.display();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot read {shown}: {error}"))?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("{shown} is larger than anything that belongs there"));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(format!("{shown} is empty"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        store: StoreArgs,
    }

    fn parsed(arguments: &[&str]) -> Result<Option<Arc<RedisTarget>>, Vec<String>> {
        let line = Line::try_parse_from([&["it"], arguments].concat()).expect("flags");
        target(&line.store)
    }

    #[test]
    fn a_password_may_stand_in_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        fs::write(&path, "p#a@%\n").expect("written");
        let path = path.to_str().expect("a path");
        let target = parsed(&["--store=rediss://limiter@h:1/2", "--store-password-file", path])
            .expect("settings")
            .expect("a Redis");
        assert_eq!(target.url().to_string(), "rediss://***@h:1/2");
        let mistakes = parsed(&["--store=redis://u:hunter2@h", "--store-password-file", path])
            .expect_err("a mistake")
            .join("\n");
        assert!(mistakes.contains("give it once"), "{mistakes}");
        assert!(!mistakes.contains("hunter2"), "{mistakes}");
    }

    #[test]
    fn files_that_cannot_be_what_they_are_for_are_mistakes() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).expect("written");
            path.to_str().expect("a path").to_owned()
        };
        let (empty, noise) = (file("empty", b" \n"), file("noise", b"no certificate"));
        let huge = file("huge", &vec![b'x'; (1 << 20) + 1]);
        for (flag, path, word) in [
            ("--store-password-file", &empty, "is empty"),
            ("--store-password-file", &huge, "is larger"),
            ("--store-ca", &noise, "no certificate"),
        ] {
            let mistakes = parsed(&["--store=rediss://h", flag, path])
                .expect_err("a mistake")
                .concat();
            assert!(mistakes.contains(word), "{flag} {path}: {mistakes}");
        }
    }

    #[test]
    fn every_mistake_is_told() {
        let mistakes = parsed(&[
            "--store=redis:://u:hunter2@h",
            "--store-ca=/nowhere/ca.pem",
            "--sentinel-password-file=/nowhere/password",
        ])
        .expect_err("mistakes");
        assert_eq!(mistakes.len(), 3, "{mistakes:?}");
        assert!(!mistakes.concat().contains("hunter2"), "{mistakes:?}");
        assert!(
            mistakes[1].starts_with("--store-ca: cannot read /nowhere/ca.pem"),
            "{mistakes:?}"
        );
    }

    #[test]
    fn in_this_process_nothing_is_asked_for() {
        assert!(parsed(&[]).expect("settings").is_none());
    }
}

//! The secret by which secret values are hashed: read from a file that all instances share, or made up where nobody
//! needs to know it.

use std::io;
use std::path::{Path, PathBuf};

use super::settings::{Settings, StoreSettings};
use super::sources;
use crate::policy::PolicySet;
use crate::store::key::Keys;

/// As many bytes as cannot be guessed.
const SHORTEST: usize = 16;

/// Why no counter's key can be written.
#[derive(Debug, thiserror::Error)]
pub enum KeySecretError {
    /// The file is not there, or not for us.
    #[error("--key-secret-file: cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is in the file can be guessed.
    #[error(
        "--key-secret-file: {} holds {length} bytes, and at least {SHORTEST} are needed, the end of its line not counted; \
         write, say, `openssl rand -hex 32 > FILE` and give the same file to all instances",
        path.display()
    )]
    TooShort {
        /// The file.
        path: PathBuf,
        /// How many bytes it holds.
        length: usize,
    },
    /// The policy has secret values, and each instance would count them by itself.
    #[error(
        "`{key}` of the domain `{domain}` is secret, and its values are hashed in the counters that all instances share: pass \
         --key-secret-file FILE with a secret of at least {SHORTEST} bytes, the same for all instances (make one by \
         `openssl rand -hex 32 > FILE`)"
    )]
    Missing {
        /// The first domain with such a key.
        domain: String,
        /// The key.
        key: String,
    },
}

/// How counters are named.
///
/// # Errors
/// When the secret cannot be used.
pub fn keys(settings: &Settings) -> Result<Keys, KeySecretError> {
    match &settings.key_secret_file {
        Some(path) => Ok(Keys::with_secret(&settings.key_prefix, &read(path)?)),
        None => Ok(Keys::new(&settings.key_prefix)),
    }
}

/// Whether `policies` can be served: what is secret needs a secret that all instances share, if counters are.
///
/// # Errors
/// What to do where it cannot.
pub fn check(policies: &PolicySet, settings: &Settings) -> Result<(), KeySecretError> {
    if settings.key_secret_file.is_some() || matches!(settings.store, StoreSettings::Memory) {
        return Ok(());
    }
    let secret = policies
        .policies()
        .iter()
        .find_map(|policy| Some((policy.domain(), policy.secret_keys().first()?)));
    secret.map_or(Ok(()), |(domain, key)| {
        Err(KeySecretError::Missing {
            domain: domain.escape_ascii().to_string(),
            key: key.escape_ascii().to_string(),
        })
    })
}

/// The bytes of a file, but for the end of its last line.
fn read(path: &Path) -> Result<Vec<u8>, KeySecretError> {
    let unreadable = |source| KeySecretError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut secret = sources::read_bounded(path).map_err(unreadable)?;
    if secret.last() == Some(&b'\n') {
        secret.pop();
        if secret.last() == Some(&b'\r') {
            secret.pop();
        }
    }
    if secret.len() < SHORTEST {
        return Err(KeySecretError::TooShort {
            path: path.to_owned(),
            length: secret.len(),
        });
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_end_of_the_line_is_no_part_of_a_secret_and_a_short_one_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        let said = |bytes: &[u8]| {
            fs::write(&path, bytes).expect("written");
            read(&path).map_err(|error| error.to_string())
        };
        let sixteen = b"0123456789abcdef".to_vec();
        assert_eq!(said(b"0123456789abcdef"), Ok(sixteen.clone()));
        assert_eq!(said(b"0123456789abcdef\n"), Ok(sixteen.clone()));
        assert_eq!(said(b"0123456789abcdef\r\n"), Ok(sixteen));
        assert_eq!(said(b"0123456789abcdef\n\n").map(|secret| secret.len()), Ok(17));
        let short = said(b"0123456789abcde\n").expect_err("too short");
        assert!(
            short.contains("holds 15 bytes, and at least 16 are needed"),
            "{short}"
        );
        assert!(short.contains("the same file to all instances"), "{short}");
        assert!(!short.contains("0123"), "{short}");
        fs::remove_file(&path).expect("removed");
        let gone = read(&path).expect_err("not there").to_string();
        assert!(gone.starts_with("--key-secret-file: cannot read "), "{gone}");
    }
}

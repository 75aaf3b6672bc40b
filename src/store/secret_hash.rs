//! Hashes of counter keys under a secret of the process: no caller can make two keys meet.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::random;

/// The secret, ready to hash.
#[derive(Clone, Copy)]
pub(super) struct SecretHash(pub(super) SipHasher13);

impl SecretHash {
    /// A secret that nobody knows.
    pub(super) fn new() -> Self {
        Self(SipHasher13::new_with_keys(random(), random()))
    }

    /// What stands for `key`.
    pub(super) fn of(&self, key: &[u8]) -> u128 {
        self.of_parts(|hasher| hasher.write(key))
    }

    /// What stands for all that `write` writes.
    pub(super) fn of_parts(&self, write: impl FnOnce(&mut SipHasher13)) -> u128 {
        let mut hasher = self.0;
        write(&mut hasher);
        hasher.finish128().as_u128()
    }
}

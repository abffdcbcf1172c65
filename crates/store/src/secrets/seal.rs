//! Sealing: AES-256-GCM under a key that is kept outside the database (S3.10).
//!
//! A sealed value is a random nonce and the ciphertext. The row that it belongs to is authenticated
//! with it, so that whoever can write to the database cannot give one secret another's value. A key
//! is known by an id that is made from it; the id stands beside what it has sealed.

use std::collections::BTreeMap;
use std::fmt;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use sayso_run::Digest;
use thiserror::Error;

const NONCE_BYTES: usize = 12;

/// Characters of a key's id.
const ID_CHARS: usize = 16;

/// The keys of stored secrets: the one that seals, and those before it, which still open.
#[derive(Clone)]
pub struct SecretKeys {
    current: String,
    keys: BTreeMap<String, Aes256Gcm>,
}

impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<&String> = self.keys.keys().collect();
        write!(
            f,
            "SecretKeys {{ current: {:?}, all: {ids:?} }}",
            self.current
        )
    }
}

/// Why a value could not be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SealError {
    /// It was sealed under a key that is not configured here.
    #[error("it is sealed under the key `{0}`, which is not configured here")]
    UnknownKey(String),
    /// It was changed, or belongs to another row.
    #[error("it was changed in the database, or belongs to another secret")]
    Broken,
    /// The operating system gives no randomness.
    #[error("the operating system gives no randomness")]
    Randomness,
}

/// Where a sealed value belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) name: &'a str,
}

impl Place<'_> {
    /// None of the three can hold a NUL.
    fn bytes(&self) -> Vec<u8> {
        ["sayso.secret", self.namespace, self.agent, self.name]
            .join("\0")
            .into_bytes()
    }
}

impl SecretKeys {
    /// The key that seals from now on, and keys that sealed before.
    pub fn new(current: &[u8; 32], previous: &[[u8; 32]]) -> SecretKeys {
        let all = std::iter::once(current).chain(previous);
        let keys = all.map(|key| (id(key), Aes256Gcm::new(key.into())));
        SecretKeys {
            current: id(current),
            keys: keys.collect(),
        }
    }

    /// The id of the key that seals.
    pub fn current(&self) -> &str {
        &self.current
    }

    pub(crate) fn seal(&self, place: Place<'_>, value: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SealError::Randomness)?;
        let key = &self.keys[&self.current];
        let bound = place.bytes();
        let payload = Payload {
            msg: value,
            aad: &bound,
        };
        let sealed = key
            .encrypt(&Nonce::from(nonce), payload)
            .expect("a value of 64 KiB is short enough");
        Ok([nonce.as_slice(), &sealed].concat())
    }

    pub(crate) fn open(
        &self,
        place: Place<'_>,
        key: &str,
        sealed: &[u8],
    ) -> Result<String, SealError> {
        let known = self.keys.get(key);
        let known = known.ok_or_else(|| SealError::UnknownKey(key.to_owned()))?;
        let (nonce, rest) = sealed
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or(SealError::Broken)?;
        let bound = place.bytes();
        let payload = Payload {
            msg: rest,
            aad: &bound,
        };
        let opened = known.decrypt(&Nonce::from(*nonce), payload);
        let opened = opened.map_err(|_| SealError::Broken)?;
        String::from_utf8(opened).map_err(|_| SealError::Broken)
    }
}

fn id(key: &[u8; 32]) -> String {
    let mut hex = Digest::of_parts(&[b"sayso.secret.key", key]).to_hex();
    hex.truncate(ID_CHARS);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> = Place {
        namespace: "shop",
        agent: "",
        name: "KEY",
    };

    /// S3.10: what is sealed opens under the same key and in its own row alone.
    #[test]
    fn s3_10_a_sealed_value_opens_in_its_own_row_alone() {
        let keys = SecretKeys::new(&[1; 32], &[]);
        let sealed = keys.seal(PLACE, b"hunter2").unwrap();
        assert!(!sealed.windows(7).any(|part| part == b"hunter2"));
        assert_ne!(sealed, keys.seal(PLACE, b"hunter2").unwrap());
        let id = keys.current();
        assert_eq!(keys.open(PLACE, id, &sealed).as_deref(), Ok("hunter2"));
        let other = Place {
            agent: "desk",
            ..PLACE
        };
        assert_eq!(keys.open(other, id, &sealed), Err(SealError::Broken));
        let mut changed = sealed.clone();
        changed[NONCE_BYTES] ^= 1;
        assert_eq!(keys.open(PLACE, id, &changed), Err(SealError::Broken));
        assert_eq!(keys.open(PLACE, id, &sealed[..5]), Err(SealError::Broken));
    }

    /// S3.10: a key that was followed by another still opens, and one that nobody has does not.
    #[test]
    fn s3_10_a_previous_key_still_opens() {
        let old = SecretKeys::new(&[1; 32], &[]);
        let sealed = old.seal(PLACE, b"hunter2").unwrap();
        let new = SecretKeys::new(&[2; 32], &[[1; 32]]);
        assert_ne!(new.current(), old.current());
        assert_eq!(
            new.open(PLACE, old.current(), &sealed).as_deref(),
            Ok("hunter2")
        );
        let alone = SecretKeys::new(&[2; 32], &[]);
        let unknown = SealError::UnknownKey(old.current().to_owned());
        assert_eq!(alone.open(PLACE, old.current(), &sealed), Err(unknown));
        assert!(!format!("{new:?}").contains("[1, 1"));
    }
}

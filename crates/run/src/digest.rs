use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::id::{CallId, RunId};

/// A SHA-256; written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// Text that is not 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a digest is 64 hex digits, not `{0}`")]
pub struct NotADigest(String);

impl Digest {
    /// The digest that stands before the first step of a timeline.
    pub const ZERO: Digest = Digest([0; 32]);

    /// The digest of one piece of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of several parts. Each part goes in with its length before it, so no two
    /// different lists of parts give the same bytes.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// From 32 raw bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 hex digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", &self.to_hex()[..12])
    }
}

impl TryFrom<String> for Digest {
    type Error = NotADigest;
    fn try_from(text: String) -> Result<Self, NotADigest> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(&text, &mut bytes).map_err(|_| NotADigest(text))?;
        Ok(Self(bytes))
    }
}

impl std::str::FromStr for Digest {
    type Err = NotADigest;
    fn from_str(text: &str) -> Result<Self, NotADigest> {
        text.to_owned().try_into()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_hex()
    }
}

/// What makes two calls the same call: the tool and the exact argument bytes (S4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(Digest);

impl Fingerprint {
    /// The fingerprint of a call.
    pub fn of(tool: &str, args: &str) -> Self {
        Self(Digest::of_parts(&[
            b"sayso.fingerprint",
            tool.as_bytes(),
            args.as_bytes(),
        ]))
    }
}

/// What an approval is bound to: run, call, tool, the tool's definition (schema; server, or method
/// and URL) and the exact argument bytes (S6.1). Only that can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallDigest(Digest);

impl CallDigest {
    /// The digest of a call. `definition` is the digest of the tool's definition.
    pub fn of(run: &RunId, call: &CallId, tool: &str, definition: &Digest, args: &str) -> Self {
        Self(Digest::of_parts(&[
            b"sayso.call",
            run.as_str().as_bytes(),
            call.as_str().as_bytes(),
            tool.as_bytes(),
            definition.as_bytes(),
            args.as_bytes(),
        ]))
    }

    /// The plain digest.
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl From<Digest> for CallDigest {
    fn from(digest: Digest) -> Self {
        Self(digest)
    }
}

impl fmt::Display for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cannot_be_shifted_into_one_another() {
        assert_ne!(
            Digest::of_parts(&[b"ab", b"c"]),
            Digest::of_parts(&[b"a", b"bc"])
        );
        assert_ne!(Digest::of_parts(&[b"ab"]), Digest::of_parts(&[b"ab", b""]));
    }

    /// S6.1: every part of the binding changes the digest.
    #[test]
    fn a_call_digest_covers_every_part() {
        let (run, call, definition) = (
            RunId::new("run_1").unwrap(),
            CallId::of(1, 1),
            Digest::of(b"d"),
        );
        let base = CallDigest::of(&run, &call, "a.b", &definition, "{}");
        let others = [
            CallDigest::of(
                &RunId::new("run_2").unwrap(),
                &call,
                "a.b",
                &definition,
                "{}",
            ),
            CallDigest::of(&run, &CallId::of(1, 2), "a.b", &definition, "{}"),
            CallDigest::of(&run, &call, "a.c", &definition, "{}"),
            CallDigest::of(&run, &call, "a.b", &Digest::of(b"e"), "{}"),
            CallDigest::of(&run, &call, "a.b", &definition, "{ }"),
        ];
        assert!(others.iter().all(|other| *other != base));
    }
}

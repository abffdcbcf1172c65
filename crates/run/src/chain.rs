//! The hash chain of a timeline (S2.3).
//!
//! A step's hash covers the hash before it, its sequence number, time, actor, type with version and
//! the SHA-256 of its content. The content itself is not hashed again, so a redacted export, which
//! leaves contents out and keeps their SHA-256, still verifies. At steps where the run pauses or
//! ends the hash is sealed with an HMAC whose key is kept outside the database: whoever can write
//! to the database can make a new chain, but not its seals.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;

use crate::actor::Actor;
use crate::digest::Digest;
use crate::id::RunId;
use crate::step::{Step, StepKind};
use crate::time::Timestamp;

/// The key that seals chains, with its id.
#[derive(Clone)]
pub struct ChainKey {
    id: String,
    secret: [u8; 32],
}

impl ChainKey {
    /// A key of 32 bytes; the id is stored with each seal.
    pub fn new(id: impl Into<String>, secret: [u8; 32]) -> Self {
        Self {
            id: id.into(),
            secret,
        }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn mac(&self, run: &str, hash: &Digest) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(run.as_bytes());
        mac.update(hash.as_bytes());
        mac
    }

    /// Seals the head of a chain.
    pub fn seal(&self, chain: &str, hash: &Digest) -> Seal {
        Seal {
            key: self.id.clone(),
            mac: Digest::from_bytes(self.mac(chain, hash).finalize().into_bytes().into()),
        }
    }

    fn holds(&self, chain: &str, hash: &Digest, seal: &Seal) -> bool {
        self.mac(chain, hash)
            .verify_slice(seal.mac.as_bytes())
            .is_ok()
    }
}

/// Never prints the secret.
impl std::fmt::Debug for ChainKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChainKey({})", self.id)
    }
}

/// Every key that sealed something, by id: the current one and earlier ones.
#[derive(Debug, Clone, Default)]
pub struct ChainKeys(BTreeMap<String, ChainKey>);

impl FromIterator<ChainKey> for ChainKeys {
    fn from_iter<T: IntoIterator<Item = ChainKey>>(keys: T) -> Self {
        Self(keys.into_iter().map(|key| (key.id.clone(), key)).collect())
    }
}

/// An HMAC-SHA256 over run and hash, and the key that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Id of the key.
    pub key: String,
    /// The HMAC.
    pub mac: Digest,
}

/// The end of a chain so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Sequence number of the last step; zero before the first.
    pub seq: u64,
    /// Time of the last step.
    pub at: Timestamp,
    /// Hash of the last step.
    pub hash: Digest,
}

impl Head {
    /// Before the first step.
    pub const START: Head = Head {
        seq: 0,
        at: Timestamp::from_micros(0),
        hash: Digest::ZERO,
    };
}

/// A step with its place in the chain, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded<S = Step> {
    /// 1, 2, 3, without gaps.
    pub seq: u64,
    /// When; never earlier than the step before.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// The step.
    pub step: S,
    /// SHA-256 of the stored content.
    pub content_sha256: Digest,
    /// The chain's hash.
    pub hash: Digest,
    /// The seal, at steps that have one.
    pub seal: Option<Seal>,
}

impl Recorded {
    /// Puts a step at the end of a chain. A time before the head's is moved up to it.
    pub fn chain(
        head: &Head,
        run: &RunId,
        at: Timestamp,
        actor: Actor,
        step: Step,
        key: &ChainKey,
    ) -> (Self, String) {
        let content = step.encode();
        let content_sha256 = Digest::of(content.as_bytes());
        let (seq, at, kind) = (head.seq + 1, at.max(head.at), step.kind());
        let hash = link(
            &head.hash,
            seq,
            at,
            &actor,
            kind.as_str(),
            kind.version(),
            &content_sha256,
        );
        let seal = kind.is_sealed().then(|| key.seal(run.as_str(), &hash));
        (
            Self {
                seq,
                at,
                actor,
                step,
                content_sha256,
                hash,
                seal,
            },
            content,
        )
    }

    /// Whether the step, stored in this version of its type, has the hash that follows from the step
    /// before and its own fields. Contents and seals are [`verify`]'s to check.
    pub fn follows(&self, head: &Head, version: u16) -> bool {
        let kind = self.step.kind().as_str();
        let (at, actor, content) = (self.at, &self.actor, &self.content_sha256);
        self.hash == link(&head.hash, self.seq, at, actor, kind, version, content)
    }

    /// The chain's head after this step.
    pub fn head(&self) -> Head {
        Head {
            seq: self.seq,
            at: self.at,
            hash: self.hash,
        }
    }
}

fn link(
    previous: &Digest,
    seq: u64,
    at: Timestamp,
    actor: &Actor,
    kind: &str,
    version: u16,
    content: &Digest,
) -> Digest {
    Digest::of_parts(&[
        previous.as_bytes(),
        &seq.to_be_bytes(),
        &at.micros().to_be_bytes(),
        actor.to_string().as_bytes(),
        kind.as_bytes(),
        &version.to_be_bytes(),
        content.as_bytes(),
    ])
}

/// A step as stored, for verification: it need not be understood, and its content may be missing.
#[derive(Debug, Clone)]
pub struct StoredLink {
    /// Sequence number.
    pub seq: u64,
    /// Time.
    pub at: Timestamp,
    /// Actor.
    pub actor: Actor,
    /// Type.
    pub kind: String,
    /// Version of the type.
    pub version: u16,
    /// The content; none in a redacted export.
    pub content: Option<String>,
    /// SHA-256 of the content.
    pub content_sha256: Digest,
    /// The chain's hash.
    pub hash: Digest,
    /// The seal.
    pub seal: Option<Seal>,
}

/// The first step that breaks a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("step {seq} is broken: {why}")]
pub struct Broken {
    /// Sequence number that was expected where it breaks.
    pub seq: u64,
    /// What is wrong.
    pub why: String,
}

/// Checks a whole timeline: numbers without gaps, times that never run backwards, contents, hashes
/// and seals. Answers with the head, or names the first broken step.
pub fn verify<'a>(
    run: &RunId,
    steps: impl IntoIterator<Item = &'a StoredLink>,
    keys: &ChainKeys,
) -> Result<Head, Broken> {
    walk(steps, |head, step| {
        check_link(head, step)?;
        check_seal(run, step, keys)
    })
}

/// Checks a timeline but its seals: whoever lacks the keys can tell that nothing was altered by
/// mistake, and not that nobody has made the whole chain anew.
pub fn verify_links<'a>(steps: impl IntoIterator<Item = &'a StoredLink>) -> Result<Head, Broken> {
    walk(steps, check_link)
}

fn walk<'a>(
    steps: impl IntoIterator<Item = &'a StoredLink>,
    check: impl Fn(&Head, &StoredLink) -> Result<(), String>,
) -> Result<Head, Broken> {
    let mut head = Head::START;
    for step in steps {
        let seq = head.seq + 1;
        check(&head, step).map_err(|why| Broken { seq, why })?;
        head = Head {
            seq: step.seq,
            at: step.at,
            hash: step.hash,
        };
    }
    Ok(head)
}

fn check_link(head: &Head, step: &StoredLink) -> Result<(), String> {
    if step.seq != head.seq + 1 {
        return Err(format!("its number is {}", step.seq));
    }
    if step.at < head.at {
        return Err("its time is before that of the step before".into());
    }
    if let Some(content) = &step.content
        && Digest::of(content.as_bytes()) != step.content_sha256
    {
        return Err("its content was changed".into());
    }
    if step.hash
        != link(
            &head.hash,
            step.seq,
            step.at,
            &step.actor,
            &step.kind,
            step.version,
            &step.content_sha256,
        )
    {
        return Err("its hash does not follow from the step before and its own fields".into());
    }
    Ok(())
}

fn check_seal(run: &RunId, step: &StoredLink, keys: &ChainKeys) -> Result<(), String> {
    let must_seal = StepKind::ALL
        .iter()
        .any(|kind| kind.as_str() == step.kind && kind.is_sealed());
    match &step.seal {
        None if must_seal => Err("its seal is missing".into()),
        None => Ok(()),
        Some(seal) => match keys.0.get(&seal.key) {
            None => Err(format!(
                "its seal was made with key `{}`, which is not configured",
                seal.key
            )),
            Some(key) if key.holds(run.as_str(), &step.hash, seal) => Ok(()),
            Some(_) => Err("its seal does not fit".into()),
        },
    }
}

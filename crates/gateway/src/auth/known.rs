//! What is known of tokens in use, and for how long it is good.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use sayso_service::error::Coded;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::authenticator::{CAPACITY, FORGET_AFTER, FRESH, PATIENCE};
use super::{Caller, SecretHash};

/// One token in use.
pub(super) struct Held {
    pub(super) caller: Caller,
    pub(super) streams: AtomicUsize,
    pub(super) ended: CancellationToken,
    pub(super) why: OnceLock<Coded>,
}

impl Held {
    pub(super) fn new(caller: Caller) -> Arc<Held> {
        Arc::new(Held {
            caller,
            streams: AtomicUsize::new(0),
            ended: CancellationToken::new(),
            why: OnceLock::new(),
        })
    }

    /// Ends its streams. The first reason stands.
    fn end(&self, why: Coded) {
        self.why.get_or_init(|| why);
        self.ended.cancel();
    }

    fn has_streams(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({})", self.caller.token)
    }
}

struct Entry {
    held: Arc<Held>,
    /// The number at which the row was read.
    version: u64,
    /// When it was last known to be good, once the number has moved on.
    good_at: Instant,
    used_at: Instant,
}

/// The tokens, and the number up to which they are known.
#[derive(Default)]
pub(super) struct Known {
    /// The number, and when the question was sent that it answers.
    version: Option<(u64, Instant)>,
    /// Answers to questions from before this do not count.
    forgotten_at: Option<Instant>,
    entries: HashMap<SecretHash, Entry>,
}

impl Known {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number, if it was asked for a moment ago.
    pub(super) fn fresh_version(&self) -> Option<u64> {
        let (version, asked_at) = self.version?;
        let forgotten = self.forgotten_at.is_some_and(|at| at >= asked_at);
        (!forgotten && asked_at.elapsed() < FRESH).then_some(version)
    }

    /// The token, if all that is needed to let it in is known.
    pub(super) fn fresh(&mut self, hash: &SecretHash) -> Option<Arc<Held>> {
        let version = self.fresh_version()?;
        self.at(hash, version)
    }

    /// The token as read at this number.
    pub(super) fn at(&mut self, hash: &SecretHash, version: u64) -> Option<Arc<Held>> {
        let entry = self.entries.get_mut(hash)?;
        entry.used_at = Instant::now();
        (entry.version == version).then(|| Arc::clone(&entry.held))
    }

    /// The token, if it was good until a little while ago: for when the database cannot tell.
    pub(super) fn tolerable(&self, hash: &SecretHash) -> Option<Arc<Held>> {
        let entry = self.entries.get(hash)?;
        (self.good_at(entry).elapsed() < PATIENCE).then(|| Arc::clone(&entry.held))
    }

    fn good_at(&self, entry: &Entry) -> Instant {
        match self.version {
            Some((version, asked_at)) if version == entry.version => asked_at,
            Some(_) | None => entry.good_at,
        }
    }

    /// Takes the answer to a question about the number.
    pub(super) fn confirm(&mut self, version: u64, asked_at: Instant) {
        if let Some((before, good_at)) = self.version
            && before != version
        {
            let current = self.entries.values_mut();
            for entry in current.filter(|entry| entry.version == before) {
                entry.good_at = good_at;
            }
        }
        self.version = Some((version, asked_at));
    }

    /// No answer so far counts any more.
    pub(super) fn forget(&mut self) {
        self.forgotten_at = Some(Instant::now());
    }

    /// Takes a token as it was read at this number. Streams that it already has stay with it.
    pub(super) fn insert(&mut self, hash: SecretHash, caller: Caller, version: u64) -> Arc<Held> {
        let now = Instant::now();
        if let Some(entry) = self.entries.get_mut(&hash)
            && entry.held.caller == caller
        {
            entry.version = version;
            entry.used_at = now;
            return Arc::clone(&entry.held);
        }
        if self.entries.len() >= CAPACITY {
            self.prune_unused(now);
        }
        let held = Held::new(caller);
        let entry = Entry {
            held: Arc::clone(&held),
            version,
            good_at: now,
            used_at: now,
        };
        self.entries.insert(hash, entry);
        held
    }

    /// Forgets a token and ends its streams.
    pub(super) fn end(&mut self, hash: &SecretHash, why: Coded) {
        if let Some(entry) = self.entries.remove(hash) {
            entry.held.end(why);
        }
    }

    /// Tokens with open streams.
    pub(super) fn with_streams(&self) -> Vec<(SecretHash, Arc<Held>)> {
        let entries = self.entries.iter();
        entries
            .filter(|(_, entry)| entry.held.has_streams())
            .map(|(hash, entry)| (*hash, Arc::clone(&entry.held)))
            .collect()
    }

    /// Forgets what nobody has used for a while.
    pub(super) fn prune(&mut self) {
        self.entries.retain(|_, entry| {
            entry.used_at.elapsed() < FORGET_AFTER || Arc::strong_count(&entry.held) > 1
        });
    }

    /// Forgets everything that is not in use at this moment, because there is too much of it.
    fn prune_unused(&mut self, now: Instant) {
        self.entries.retain(|_, entry| {
            Arc::strong_count(&entry.held) > 1 || now.duration_since(entry.used_at) < FRESH
        });
    }
}

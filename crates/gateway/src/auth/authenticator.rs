//! Tells whom a token belongs to, without a look into the database for every call.
//!
//! The database keeps a number that every revocation raises, in the transaction of the revocation.
//! What is known here of a token is true for as long as that number stands, so one tiny query
//! answers for all tokens at once. An answer is used for [`FRESH`]; while streams are open the
//! number is read every [`LOOK_EVERY`], whoever calls or does not. So a revoked token is refused
//! within a second everywhere, streams included, and an idle stream costs nothing of its own.
//!
//! The order matters where a token is read for the first time: the number first, then the row. A
//! revocation between the two is in the row; one after the row raises the number above the one that
//! the entry carries, and the entry is read again.
//!
//! If the database cannot tell, what was known goes on for [`PATIENCE`] and no longer: after that
//! every call and every open stream is refused with `token.unverifiable` until it can tell again.

use std::fmt;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sayso_service::error::Coded;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::known::{Held, Known};
use super::source::{CannotTell, TokenSource};
use super::{Caller, SecretHash, refusal, secret};

/// How long an answer of the database is good for.
pub(super) const FRESH: Duration = Duration::from_millis(500);
/// How often the database is asked while streams are open.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// How long the database may fail to tell before everything is refused.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// How long a failed question is not asked again by the next caller.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// How long a token that nobody uses is remembered.
pub(super) const FORGET_AFTER: Duration = Duration::from_secs(10 * 60);
/// How many tokens are remembered before those not in use are forgotten.
pub(super) const CAPACITY: usize = 10_000;

/// Verifies tokens. Clones share what is known.
#[derive(Clone)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

struct Inner {
    source: Box<dyn TokenSource>,
    known: Mutex<Known>,
    /// Held while the number is asked for: whoever waits for it finds the answer, or the failure.
    asking: tokio::sync::Mutex<Option<(Instant, CannotTell)>>,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authenticator({} tokens)", self.known().len())
    }
}

/// A verified token. What it allows may end while it is held: a stream watches
/// [`OpenStream::ended`].
#[derive(Clone, Debug)]
pub struct Lease {
    held: Arc<Held>,
}

impl Lease {
    /// Whom it speaks for.
    pub fn caller(&self) -> &Caller {
        &self.held.caller
    }

    /// Registers an open stream; while it lives the token is watched over.
    pub fn open(&self) -> OpenStream {
        self.held.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream {
            held: Arc::clone(&self.held),
        }
    }
}

/// An open stream of a token.
#[derive(Debug)]
pub struct OpenStream {
    held: Arc<Held>,
}

impl OpenStream {
    /// Resolves with the reason once the token does not allow the stream any more: revoked, expired
    /// or not verifiable.
    pub async fn ended(&self) -> Coded {
        self.held.ended.cancelled().await;
        let why = self.held.why.get().cloned();
        why.unwrap_or_else(refusal::revoked)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.held.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the database says of a token.
type Told = Result<Arc<Held>, Coded>;

impl Authenticator {
    pub(crate) fn new(source: impl TokenSource) -> Authenticator {
        Authenticator {
            inner: Arc::new(Inner {
                source: Box::new(source),
                known: Mutex::default(),
                asking: tokio::sync::Mutex::new(None),
            }),
        }
    }

    /// Whom this secret belongs to, if that is known without asking: `None` says that
    /// [`Authenticator::verify`] has to.
    pub(super) fn verify_now(&self, secret: &str) -> Option<Result<Lease, Coded>> {
        let Some(hash) = secret::hash_of(secret) else {
            return Some(Err(refusal::invalid()));
        };
        let held = self.known().fresh(&hash)?;
        Some(self.unexpired(held))
    }

    /// Whom this secret belongs to.
    ///
    /// # Errors
    ///
    /// `token.invalid`, `token.expired`, `token.revoked`, or `token.unverifiable` if the database
    /// could not tell for five seconds.
    pub async fn verify(&self, secret: &str) -> Result<Lease, Coded> {
        let hash = secret::hash_of(secret).ok_or_else(refusal::invalid)?;
        self.verify_hash(&hash).await
    }

    /// Whom the token with this hash belongs to, for a session that remembers no more of it; as
    /// fresh as [`Authenticator::verify`], and with the same refusals.
    pub(crate) async fn verify_hash(&self, hash: &SecretHash) -> Result<Lease, Coded> {
        match self.told(hash).await {
            Ok(told) => self.unexpired(told?),
            Err(CannotTell(_)) => {
                let known = self.known().tolerable(hash);
                self.unexpired(known.ok_or_else(refusal::unverifiable)?)
            }
        }
    }

    /// No answer so far counts any more: a token was just revoked here.
    pub(crate) fn forget(&self) {
        self.known().forget();
    }

    /// Watches over the tokens of open streams until `shutdown`.
    pub(crate) async fn run(&self, shutdown: CancellationToken) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => self.watch_over_streams().await,
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Every change under this lock leaves it whole, whatever panics elsewhere.
        let known = self.inner.known.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    fn unexpired(&self, held: Arc<Held>) -> Result<Lease, Coded> {
        if self.has_expired(&held) {
            Err(refusal::expired())
        } else {
            Ok(Lease { held })
        }
    }

    fn has_expired(&self, held: &Held) -> bool {
        let expires_at = held.caller.expires_at;
        expires_at.is_some_and(|at| at <= self.inner.source.now())
    }

    async fn told(&self, hash: &SecretHash) -> Result<Told, CannotTell> {
        let version = self.version().await?;
        let known = self.known().at(hash, version);
        match known {
            Some(held) => Ok(Ok(held)),
            None => self.read(hash, version).await,
        }
    }

    /// The number, asked for at most once for all who wait.
    async fn version(&self) -> Result<u64, CannotTell> {
        let mut failed = self.inner.asking.lock().await;
        if let Some(version) = self.known().fresh_version() {
            return Ok(version);
        }
        if let Some((at, why)) = &*failed
            && at.elapsed() < ASK_AGAIN_AFTER
        {
            return Err(why.clone());
        }
        let asked_at = Instant::now();
        match within(self.inner.source.version()).await {
            Ok(version) => {
                *failed = None;
                self.known().confirm(version, asked_at);
                Ok(version)
            }
            Err(why) => {
                tracing::warn!("{why}");
                *failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    /// Reads a token's row. `version` was read before.
    async fn read(&self, hash: &SecretHash, version: u64) -> Result<Told, CannotTell> {
        let stored = within(self.inner.source.token(hash)).await?;
        let mut known = self.known();
        let refused = match stored {
            Some(token) if !token.revoked => {
                return Ok(Ok(known.insert(*hash, token.caller, version)));
            }
            Some(_) => refusal::revoked(),
            None => refusal::invalid(),
        };
        known.end(hash, refused.clone());
        Ok(Err(refused))
    }

    async fn watch_over_streams(&self) {
        let open = {
            let mut known = self.known();
            known.prune();
            known.with_streams()
        };
        for (hash, held) in open {
            if self.has_expired(&held) {
                self.known().end(&hash, refusal::expired());
            } else if self.told(&hash).await.is_err() {
                let mut known = self.known();
                if known.tolerable(&hash).is_none() {
                    known.end(&hash, refusal::unverifiable());
                }
            }
        }
    }
}

async fn within<T>(question: impl Future<Output = Result<T, CannotTell>>) -> Result<T, CannotTell> {
    let unanswered = |_| Err(CannotTell("the database does not answer".to_owned()));
    timeout(ANSWER_WITHIN, question)
        .await
        .unwrap_or_else(unanswered)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use async_trait::async_trait;
    use sayso_run::{Namespace, PrincipalId, Timestamp, Trust};
    use tokio::time::{advance, sleep};

    use super::super::source::StoredToken;
    use super::super::{Scope, Scopes, TokenSecret};
    use super::*;

    #[derive(Clone, Default)]
    struct Table(Arc<Mutex<Rows>>);

    #[derive(Default)]
    struct Rows {
        version: u64,
        tokens: HashMap<SecretHash, StoredToken>,
        away: bool,
        questions: usize,
        now: i64,
    }

    impl Table {
        fn rows(&self) -> MutexGuard<'_, Rows> {
            self.0.lock().unwrap()
        }

        fn add(&self, name: &str, expires_at: Option<i64>) -> TokenSecret {
            let secret = TokenSecret::generate().unwrap();
            let caller = Caller {
                token: format!("tok_{name}"),
                namespace: Namespace::new("shop").unwrap(),
                principal: PrincipalId::new(name).unwrap(),
                scopes: Scopes::of(&[Scope::Read]),
                trust: Trust::Trusted,
                expires_at: expires_at.map(Timestamp::from_micros),
            };
            let token = StoredToken {
                caller,
                revoked: false,
            };
            self.rows().tokens.insert(secret.hash(), token);
            secret
        }

        fn revoke(&self, secret: &TokenSecret) {
            let mut rows = self.rows();
            rows.version += 1;
            rows.tokens.get_mut(&secret.hash()).unwrap().revoked = true;
        }
    }

    #[async_trait]
    impl TokenSource for Table {
        async fn version(&self) -> Result<u64, CannotTell> {
            let mut rows = self.rows();
            rows.questions += 1;
            match rows.away {
                true => Err(CannotTell("away".to_owned())),
                false => Ok(rows.version),
            }
        }

        async fn token(&self, hash: &SecretHash) -> Result<Option<StoredToken>, CannotTell> {
            let mut rows = self.rows();
            rows.questions += 1;
            match rows.away {
                true => Err(CannotTell("away".to_owned())),
                false => Ok(rows.tokens.get(hash).cloned()),
            }
        }

        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.rows().now)
        }
    }

    async fn code(auth: &Authenticator, secret: &TokenSecret) -> String {
        match auth.verify(secret.expose()).await {
            Ok(lease) => lease.caller().principal.to_string(),
            Err(refused) => refused.code.into_owned(),
        }
    }

    fn running(table: &Table) -> (Authenticator, tokio_util::sync::DropGuard) {
        let auth = Authenticator::new(table.clone());
        let shutdown = CancellationToken::new();
        let (watch, stop) = (auth.clone(), shutdown.clone());
        tokio::spawn(async move { watch.run(stop).await });
        (auth, shutdown.drop_guard())
    }

    /// S6.11: many calls cost one question each half second, whatever number of tokens they carry.
    #[tokio::test(start_paused = true)]
    async fn s6_11_calls_do_not_ask_the_database() {
        let table = Table::default();
        let auth = Authenticator::new(table.clone());
        let tokens = [table.add("ann", None), table.add("bob", None)];
        for token in &tokens {
            code(&auth, token).await;
        }
        let before = table.rows().questions;
        for _ in 0..1000 {
            assert_eq!(code(&auth, &tokens[0]).await, "ann");
            assert_eq!(code(&auth, &tokens[1]).await, "bob");
            assert!(auth.verify_now(tokens[0].expose()).unwrap().is_ok());
        }
        assert_eq!(table.rows().questions, before);
        advance(FRESH).await;
        assert!(auth.verify_now(tokens[0].expose()).is_none());
        assert_eq!(code(&auth, &tokens[0]).await, "ann");
        assert_eq!(code(&auth, &tokens[1]).await, "bob");
        assert_eq!(table.rows().questions, before + 1);
    }

    /// S6.11: revoked within a second, calls and open streams; expired at once.
    #[tokio::test(start_paused = true)]
    async fn s6_11_a_revoked_token_ends_calls_and_streams_within_a_second() {
        let table = Table::default();
        let (auth, _stop) = running(&table);
        let (gone, stays) = (table.add("ann", None), table.add("bob", None));
        let stream = auth.verify(gone.expose()).await.unwrap().open();
        let other = auth.verify(stays.expose()).await.unwrap().open();
        sleep(Duration::from_secs(3)).await;
        table.revoke(&gone);
        let ended = timeout(Duration::from_secs(1), stream.ended()).await;
        assert_eq!(ended.expect("within a second").code, "token.revoked");
        assert_eq!(code(&auth, &gone).await, "token.revoked");
        assert_eq!(code(&auth, &stays).await, "bob");
        let open = timeout(Duration::from_secs(60), other.ended()).await;
        open.expect_err("the other stream goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn s6_11_expiry_ends_calls_and_streams() {
        let table = Table::default();
        let (auth, _stop) = running(&table);
        let token = table.add("ann", Some(1_000));
        let stream = auth.verify(token.expose()).await.unwrap().open();
        table.rows().now = 1_000;
        assert_eq!(code(&auth, &token).await, "token.expired");
        let ended = timeout(Duration::from_secs(1), stream.ended()).await;
        assert_eq!(ended.expect("within a second").code, "token.expired");
    }

    /// S6.11: an instance that cannot tell for five seconds refuses, and goes on when it can.
    #[tokio::test(start_paused = true)]
    async fn s6_11_what_cannot_be_verified_for_five_seconds_is_refused() {
        let table = Table::default();
        let (auth, _stop) = running(&table);
        let (token, unseen) = (table.add("ann", None), table.add("bob", None));
        let stream = auth.verify(token.expose()).await.unwrap().open();
        table.rows().away = true;
        sleep(Duration::from_secs(4)).await;
        assert_eq!(code(&auth, &token).await, "ann");
        assert_eq!(code(&auth, &unseen).await, "token.unverifiable");
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(code(&auth, &token).await, "token.unverifiable");
        assert_eq!(stream.ended().await.code, "token.unverifiable");
        table.rows().away = false;
        sleep(ASK_AGAIN_AFTER).await;
        assert_eq!(code(&auth, &token).await, "ann");
    }

    /// A revocation that happened on this instance is known to its next call.
    #[tokio::test(start_paused = true)]
    async fn s6_11_a_revocation_here_is_known_at_once() {
        let table = Table::default();
        let auth = Authenticator::new(table.clone());
        let token = table.add("ann", None);
        assert_eq!(code(&auth, &token).await, "ann");
        table.revoke(&token);
        assert_eq!(code(&auth, &token).await, "ann", "half a second is allowed");
        advance(Duration::from_millis(1)).await;
        auth.forget();
        advance(Duration::from_millis(1)).await;
        assert_eq!(code(&auth, &token).await, "token.revoked");
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_tokens_are_invalid_and_cost_no_look_up_if_they_cannot_be_ours() {
        let table = Table::default();
        let auth = Authenticator::new(table.clone());
        let unknown = TokenSecret::generate().unwrap();
        assert_eq!(code(&auth, &unknown).await, "token.invalid");
        let before = table.rows().questions;
        let refused = auth.verify("sayso_nonsense").await.unwrap_err();
        assert_eq!(refused.code, "token.invalid");
        assert_eq!(table.rows().questions, before);
    }
}

//! The connections of this process, made on first use and closed when idle.
//!
//! A slot's lock makes connecting single: whoever comes while a connection is being made gets it, or
//! the error of that attempt; only who comes after a failure tries again. A connection that broke is
//! replaced by the next who asks. A slot leaves the map only while the map alone knows it, so there
//! is never a connection that [`Pool::close`] does not find.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use sayso_run::{AgentName, Digest, Namespace, RevisionId, RunId};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, ServerSpec};

/// What a connection belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: Namespace,
    pub(crate) agent: AgentName,
    pub(crate) revision: RevisionId,
    pub(crate) server: String,
    /// Set where each run has its own (`perRun: true`).
    pub(crate) run: Option<RunId>,
    /// Of the secrets that the server was given: with others it is started anew.
    pub(crate) secrets: Option<Digest>,
}

/// A server cannot be reached, or does not answer as MCP says.
#[derive(Debug, Clone, Error)]
#[error("`{server}`: {why}")]
pub(crate) struct ConnectError {
    pub(crate) server: String,
    pub(crate) why: String,
}

impl ConnectError {
    pub(crate) fn new(server: &str, why: &str) -> Self {
        Self {
            server: server.to_owned(),
            why: why.to_owned(),
        }
    }
}

/// The limits on connections.
#[derive(Debug, Clone)]
pub(crate) struct PoolLimits {
    /// From the start of a process to the end of the handshake.
    pub(crate) connect: Duration,
    /// For all pages of `tools/list`.
    pub(crate) list: Duration,
    /// After this without use a connection is closed.
    pub(crate) idle: Duration,
    /// The same for connections of one run.
    pub(crate) idle_per_run: Duration,
}

#[derive(Default)]
struct Slot {
    state: tokio::sync::Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    connection: Option<Arc<Pooled>>,
    failure: Option<(Instant, ConnectError)>,
}

struct Pooled {
    connection: Connection,
    used: Mutex<Instant>,
}

impl Pooled {
    fn idle_for(&self) -> Duration {
        locked(&self.used).elapsed()
    }
}

/// A connection in use: not closed for being idle while this lives.
pub(crate) struct Lease(Arc<Pooled>);

impl Deref for Lease {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0.connection
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *locked(&self.0.used) = Instant::now();
    }
}

/// All connections.
pub(crate) struct Pool {
    limits: PoolLimits,
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
    sweeping: AtomicBool,
    closed: CancellationToken,
}

impl Pool {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Self {
            limits,
            slots: Mutex::new(HashMap::new()),
            sweeping: AtomicBool::new(false),
            closed: CancellationToken::new(),
        }
    }

    /// The connection of this key, made if there is none that lives.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        key: Key,
        spec: ServerSpec<'_>,
    ) -> Result<Lease, ConnectError> {
        let asked = Instant::now();
        let slot = locked(&self.slots).entry(key).or_default().clone();
        let mut state = slot.state.lock().await;
        if self.closed.is_cancelled() {
            return Err(shutting_down(spec));
        }
        if let Some(pooled) = &state.connection
            && pooled.connection.is_alive()
        {
            return Ok(Lease(pooled.clone()));
        }
        if let Some((when, failure)) = &state.failure
            && *when > asked
        {
            return Err(failure.clone());
        }
        if let Some(broken) = state.connection.take() {
            broken.connection.close().await;
        }
        self.sweep_from_now_on();
        let opened = tokio::select! {
            opened = Connection::open(spec, &self.limits) => opened,
            () = self.closed.cancelled() => Err(shutting_down(spec)),
        };
        match opened {
            Ok(connection) => {
                let pooled = Arc::new(Pooled {
                    connection,
                    used: Mutex::new(Instant::now()),
                });
                state.failure = None;
                state.connection = Some(pooled.clone());
                Ok(Lease(pooled))
            }
            Err(error) => {
                tracing::warn!(
                    server = error.server,
                    why = error.why,
                    "an MCP server cannot be reached"
                );
                state.failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Closes the connections that belong to one run alone.
    pub(crate) async fn release(&self, run: &RunId) {
        self.close_where(|key| key.run.as_ref() == Some(run)).await;
    }

    /// Closes everything, in use or not; nothing is opened after this.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        self.close_where(|_| true).await;
    }

    async fn close_where(&self, which: impl Fn(&Key) -> bool) {
        let slots: Vec<Arc<Slot>> = locked(&self.slots)
            .iter()
            .filter(|(key, _)| which(key))
            .map(|(_, slot)| slot.clone())
            .collect();
        let closing = slots.iter().map(|slot| async {
            let pooled = slot.state.lock().await.connection.take();
            if let Some(pooled) = pooled {
                pooled.connection.close().await;
            }
        });
        futures::future::join_all(closing).await;
        drop(slots);
        self.forget_empty();
    }

    fn sweep_from_now_on(self: &Arc<Self>) {
        if self.sweeping.swap(true, Ordering::SeqCst) {
            return;
        }
        let (pool, closed) = (Arc::downgrade(self), self.closed.clone());
        let shortest = self.limits.idle.min(self.limits.idle_per_run);
        let pause = (shortest / 2).clamp(Duration::from_millis(10), Duration::from_secs(30));
        tokio::spawn(sweep(pool, closed, pause));
    }

    async fn close_idle(&self) {
        let slots: Vec<(Duration, Arc<Slot>)> = locked(&self.slots)
            .iter()
            .map(|(key, slot)| (self.idle_limit(key), slot.clone()))
            .collect();
        for (limit, slot) in slots {
            // A slot that is locked is in use.
            let Ok(mut state) = slot.state.try_lock() else {
                continue;
            };
            let idle = state.connection.as_ref().is_some_and(|pooled| {
                let in_use = Arc::strong_count(pooled) > 1;
                !in_use && (pooled.idle_for() >= limit || !pooled.connection.is_alive())
            });
            if idle && let Some(pooled) = state.connection.take() {
                pooled.connection.close().await;
            }
        }
        self.forget_empty();
    }

    fn idle_limit(&self, key: &Key) -> Duration {
        match key.run {
            Some(_) => self.limits.idle_per_run,
            None => self.limits.idle,
        }
    }

    fn forget_empty(&self) {
        locked(&self.slots).retain(|_, slot| {
            let known_elsewhere = Arc::strong_count(slot) > 1;
            known_elsewhere
                || slot
                    .state
                    .try_lock()
                    .map_or(true, |state| state.connection.is_some())
        });
    }
}

async fn sweep(pool: Weak<Pool>, closed: CancellationToken, pause: Duration) {
    loop {
        tokio::select! {
            () = closed.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let Some(pool) = pool.upgrade() else { return };
        pool.close_idle().await;
    }
}

fn shutting_down(spec: ServerSpec<'_>) -> ConnectError {
    ConnectError::new(spec.name, "this process is shutting down")
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Takes wake-ups, claims runs and drives them.
//!
//! A wake-up names a run. It is acknowledged once the claim has committed, or once it is clear that
//! there is nothing to claim: nothing is owed, or a live worker holds the run, which cannot park
//! without seeing the new sequence number. If it is this worker that holds the run, the hold is
//! nudged. Losing a wake-up loses time, never work: the scheduler's sweep wakes what stays ready.
//!
//! The process is one **worker** at a time: a row with a boot id that it renews once a second. If
//! that row is marked dead, every hold of it is lost; the executor then begins again as a new worker,
//! and what comes of calls already sent is still recorded.

mod attend;
mod config;
mod holds;
mod policy;
mod work;

use std::sync::Arc;

use sayso_bus::Bus;
use sayso_driver::{Driver, Models, Tools};
use sayso_herald::Herald;
use sayso_run::ChainKey;
use sayso_service::health::Health;
use sayso_service::peer::Peer;
use sayso_store::{Heartbeat, HeartbeatError, RegisterError, Store};
use tokio_util::sync::CancellationToken;

pub use attend::attend;
pub use config::ExecutorConfig;
pub use holds::{Entry, Holds};
use policy::PolicyClient;

/// What an executor is made of.
#[derive(Debug)]
pub struct Parts<M, T> {
    /// Where timelines live.
    pub store: Store,
    /// Brings wake-ups.
    pub bus: Arc<dyn Bus>,
    /// Tells the world.
    pub herald: Arc<Herald>,
    /// The policy service.
    pub policy: Peer,
    /// The models.
    pub models: Arc<M>,
    /// The tools.
    pub tools: Arc<T>,
    /// Seals timelines.
    pub key: ChainKey,
    /// Settings.
    pub config: ExecutorConfig,
}

/// The service, built but not running.
#[derive(Debug)]
pub struct Executor<M, T> {
    parts: Parts<M, T>,
    policy: Arc<PolicyClient>,
}

impl<M: Models, T: Tools> Executor<M, T> {
    /// Puts the parts together; touches nothing.
    pub fn build(parts: Parts<M, T>) -> Self {
        let policy = Arc::new(PolicyClient::new(parts.policy.clone()));
        Self { parts, policy }
    }

    /// Registers this service's checks: while work cannot be received, it is not ready (B80).
    pub fn check_health(&self, health: &Health) {
        let bus = Arc::clone(&self.parts.bus);
        health.check("bus", move || {
            let bus = Arc::clone(&bus);
            async move {
                let health = bus.health().await;
                health.problem().map_or(Ok(()), Err)
            }
        });
    }

    /// Works until `shutdown`, then hands every run back and returns. Calls in flight are waited
    /// for; whoever runs the service sets the deadline.
    ///
    /// # Errors
    ///
    /// Only if this worker cannot be registered at all.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), HeartbeatError> {
        while !shutdown.is_cancelled() {
            let Some(heartbeat) = self.register(&shutdown).await? else {
                break;
            };
            let driver = Arc::new(Driver {
                journal: Arc::new(self.parts.store.clone()),
                models: Arc::clone(&self.parts.models),
                tools: Arc::clone(&self.parts.tools),
                policy: Arc::clone(&self.policy),
                herald: Arc::clone(&self.parts.herald),
                key: self.parts.key.clone(),
                worker: heartbeat.worker().clone(),
                fence: heartbeat.fence(),
                delegation: self.parts.config.delegation,
                tells_content: self.parts.config.tells_content,
            });
            let lost = work::work(&driver, &self.parts, &heartbeat, &shutdown).await;
            if lost {
                tracing::warn!(worker = %heartbeat.worker(), "this worker was marked dead; a new one begins");
            }
            if let Err(error) = heartbeat.end().await {
                tracing::warn!(%error, "the worker could not be ended; the sweep marks it dead");
            }
        }
        Ok(())
    }

    /// Registers a new worker, waiting for a database that is away.
    async fn register(
        &self,
        shutdown: &CancellationToken,
    ) -> Result<Option<Heartbeat>, HeartbeatError> {
        loop {
            match Heartbeat::start(&self.parts.store, &self.parts.config.name).await {
                Ok(heartbeat) => return Ok(Some(heartbeat)),
                Err(error) if is_retryable(&error) => {
                    tracing::warn!(%error, "the worker cannot be registered yet");
                    tokio::select! {
                        () = shutdown.cancelled() => return Ok(None),
                        () = tokio::time::sleep(config::RETRY) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether registering again may work.
fn is_retryable(error: &HeartbeatError) -> bool {
    match error {
        HeartbeatError::Register(RegisterError::Database(error)) => error.is_retryable(),
        HeartbeatError::Register(RegisterError::BadName(_)) | HeartbeatError::Thread(_) => false,
    }
}

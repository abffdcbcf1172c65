//! A process's workers, one after another: each is a row with a boot id that is renewed once a second.
//! If that row is marked dead, every hold of it is lost; the process then begins again as a new worker,
//! and what comes of calls already sent is still recorded.

use std::sync::Arc;
use std::time::Duration;

use sayso_bus::Bus;
use sayso_driver::{DelegationLimits, Driver, Herald, Models, Policy, Tools};
use sayso_run::ChainKey;
use sayso_store::{Heartbeat, HeartbeatError, RegisterError, Store};
use tokio_util::sync::CancellationToken;

use crate::work;

/// How long to wait before a dependency that is away is tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// Settings of a process's workers.
#[derive(Debug, Clone)]
pub struct WorkersConfig {
    /// The worker's name: a new start of the same name ends the leases of the old one.
    pub name: String,
    /// How many runs are driven at once.
    pub concurrency: usize,
    /// How deep and wide runs may start others (S3.6).
    pub delegation: DelegationLimits,
    /// Whether traces carry arguments and results (S10.3).
    pub tells_content: bool,
}

/// What takes wake-ups, claims runs and drives them.
#[derive(Debug)]
pub struct Workers<M, T, P, H> {
    /// Where timelines live.
    pub store: Store,
    /// Brings wake-ups.
    pub bus: Arc<dyn Bus>,
    /// Tells the world.
    pub herald: Arc<H>,
    /// Revisions and roles.
    pub policy: Arc<P>,
    /// The models.
    pub models: Arc<M>,
    /// The tools.
    pub tools: Arc<T>,
    /// Seals timelines.
    pub key: ChainKey,
    /// Settings.
    pub config: WorkersConfig,
}

impl<M: Models, T: Tools, P: Policy, H: Herald> Workers<M, T, P, H> {
    /// Works until `shutdown`, then hands every run back and returns. Calls in flight are waited
    /// for; whoever runs the process sets the deadline.
    ///
    /// # Errors
    ///
    /// Only if a worker cannot be registered at all.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), HeartbeatError> {
        while !shutdown.is_cancelled() {
            let Some(heartbeat) = self.register(&shutdown).await? else {
                break;
            };
            let driver = Arc::new(Driver {
                journal: Arc::new(self.store.clone()),
                models: Arc::clone(&self.models),
                tools: Arc::clone(&self.tools),
                policy: Arc::clone(&self.policy),
                herald: Arc::clone(&self.herald),
                key: self.key.clone(),
                worker: heartbeat.worker().clone(),
                fence: heartbeat.fence(),
                delegation: self.config.delegation,
                tells_content: self.config.tells_content,
            });
            let (bus, places) = (&*self.bus, self.config.concurrency);
            let lost = work::work(&driver, bus, places, &heartbeat, &shutdown).await;
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
            match Heartbeat::start(&self.store, &self.config.name).await {
                Ok(heartbeat) => return Ok(Some(heartbeat)),
                Err(error) if is_retryable(&error) => {
                    tracing::warn!(%error, "the worker cannot be registered yet");
                    tokio::select! {
                        () = shutdown.cancelled() => return Ok(None),
                        () = tokio::time::sleep(RETRY) => {}
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

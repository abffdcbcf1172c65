//! Takes wake-ups, claims runs and drives them.
//!
//! A wake-up names a run. It is acknowledged once the claim has committed, or once it is clear that
//! there is nothing to claim: nothing is owed, or a live worker holds the run, which cannot park
//! without seeing the new sequence number. If it is this worker that holds the run, the hold is
//! nudged. Losing a wake-up loses time, never work: the scheduler's sweep wakes what stays ready.
//!
//! The work is [`Workers`]'s, which embedded agents share; this service brings policy from its own
//! service, asked at most once a second.

mod policy;

use std::sync::Arc;

use sayso_bus::Bus;
use sayso_driver::{Models, Tools};
use sayso_engine::{Workers, WorkersConfig};
use sayso_herald::Herald;
use sayso_run::ChainKey;
use sayso_service::health::Health;
use sayso_service::peer::Peer;
use sayso_store::{HeartbeatError, Store};
use tokio_util::sync::CancellationToken;

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
    pub config: WorkersConfig,
}

/// The service, built but not running.
#[derive(Debug)]
pub struct Executor<M, T>(Workers<M, T, PolicyClient, Herald>);

impl<M: Models, T: Tools> Executor<M, T> {
    /// Puts the parts together; touches nothing.
    pub fn build(parts: Parts<M, T>) -> Self {
        Self(Workers {
            store: parts.store,
            bus: parts.bus,
            herald: parts.herald,
            policy: Arc::new(PolicyClient::new(parts.policy)),
            models: parts.models,
            tools: parts.tools,
            key: parts.key,
            config: parts.config,
        })
    }

    /// Registers this service's checks: while work cannot be received, it is not ready (B80).
    pub fn check_health(&self, health: &Health) {
        let bus = Arc::clone(&self.0.bus);
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
        self.0.run(shutdown).await
    }
}

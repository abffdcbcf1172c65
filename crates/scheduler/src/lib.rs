//! Admits runs, and watches over everything that could be forgotten.
//!
//! Starts, cancels and retries are appended here. Beside that the scheduler sweeps: it marks workers
//! dead whose row has not changed for three seconds of its own monotonic time, wakes runs that stay
//! ready, expires approvals, publishes events that nobody acknowledged, and fails runs that have been
//! without a worker for too long (the reaper, S4.5); and it starts the runs of schedules that are due
//! (S8.5). Several schedulers do the same work without
//! harm: every sweep ends in an append that only one of them wins.

mod api;
mod budgets;
mod rounds;
mod ticks;

use std::sync::Arc;

use sayso_bus::Bus;
use sayso_engine::SweepConfig;
use sayso_herald::Herald;
use sayso_run::ChainKey;
use sayso_service::health::Health;
use sayso_store::Store;
use sayso_wire::internal::scheduler_service_server::SchedulerServiceServer;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

/// What a scheduler is made of. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Scheduler {
    pub(crate) store: Store,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) herald: Arc<Herald>,
    pub(crate) key: ChainKey,
    pub(crate) config: SweepConfig,
}

impl Scheduler {
    /// Puts the parts together; touches nothing.
    pub fn build(
        store: Store,
        bus: Arc<dyn Bus>,
        herald: Arc<Herald>,
        key: ChainKey,
        config: SweepConfig,
    ) -> Self {
        Self {
            store,
            bus,
            herald,
            key,
            config,
        }
    }

    /// The internal API.
    pub fn routes(&self) -> Routes {
        Routes::new(SchedulerServiceServer::new(api::Api(self.clone())))
    }

    /// Registers this service's checks.
    pub fn check_health(&self, health: &Health) {
        let store = self.store.clone();
        health.check("database", move || {
            let store = store.clone();
            async move { store.ping().await.map_err(|error| error.to_string()) }
        });
        let bus = Arc::clone(&self.bus);
        health.check("bus", move || {
            let bus = Arc::clone(&bus);
            async move { bus.health().await.problem().map_or(Ok(()), Err) }
        });
    }

    /// What writing to a timeline takes.
    pub(crate) fn pen(&self) -> (&Store, &Herald, &ChainKey) {
        (&self.store, &self.herald, &self.key)
    }

    /// Sweeps until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = rounds::sweep(&self) => {}
            () = shutdown.cancelled() => {}
        }
    }
}

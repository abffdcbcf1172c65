//! Agents, revisions and roles: validates, deploys and serves compiled revisions.
//!
//! A bundle is checked whole by `sayso_rules` and deployed whole: the revision, the agent that now
//! points at it and the role that it names are one transaction, or nothing. A revision is named by
//! the hash of its bundle and never changes, so the same bundle deployed twice is one revision, and
//! whoever has one may keep it (S1.3). The role is the agent's and may change under it: it is read
//! from the database at every question and kept nowhere here, so an answer is as old as the question
//! (S3.9); the time of the question is told with it, by the database's clock. Executors keep it for a second, and run nothing while nobody answers (S5.13).

mod answers;
mod api;
pub mod cases;
mod changes;
mod check;
mod deploy;
mod edit;
pub mod explain;
mod granted;
mod read;
mod refuse;
mod replay;
mod roles;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use sayso_service::health::Health;
use sayso_store::Store;
use sayso_tools::ArgumentCheck;
use sayso_wire::internal::judgement_service_server::JudgementServiceServer;
use sayso_wire::internal::policy_service_server::PolicyServiceServer;
use sayso_wire::internal::role_service_server::RoleServiceServer;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

pub use refuse::bundle as refuse_bundle;

/// The largest request that is decoded, in bytes: a bundle of the largest size and what is around
/// it, with room for a larger bundle to be refused by name.
const LARGEST_REQUEST: usize = 4 * 1024 * 1024;

/// Between two looks at the database's clock: clocks of machines run apart by milliseconds in this.
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);

/// The policy service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) store: Store,
    pub(crate) arguments: Arc<ArgumentCheck>,
}

impl Policy {
    /// Puts the parts together; touches nothing.
    pub fn build(store: Store) -> Self {
        Self {
            store,
            arguments: Arc::default(),
        }
    }

    /// The internal API.
    pub fn routes(&self) -> Routes {
        let api = || api::Api(self.clone());
        let policy = PolicyServiceServer::new(api());
        Routes::new(policy.max_decoding_message_size(LARGEST_REQUEST))
            .add_service(RoleServiceServer::new(api()))
            .add_service(
                JudgementServiceServer::new(api()).max_decoding_message_size(LARGEST_REQUEST),
            )
            .prepare()
    }

    /// Registers this service's checks.
    pub fn check_health(&self, health: &Health) {
        let store = self.store.clone();
        health.check("database", move || {
            let store = store.clone();
            async move { store.ping().await.map_err(|error| error.to_string()) }
        });
    }

    /// Keeps the database's clock in view until `shutdown`: answers tell their age by it. While the
    /// database is away the time goes on from the last look.
    pub async fn run(self, shutdown: CancellationToken) {
        let looks = async {
            loop {
                tokio::time::sleep(BETWEEN_LOOKS).await;
                if let Err(error) = self.store.sync_clock().await {
                    tracing::debug!(%error, "the database's clock cannot be read");
                }
            }
        };
        shutdown.run_until_cancelled(looks).await;
    }
}

//! The inbox: what people say to runs. Decisions and messages, taken together or not at all (S6.4).
//!
//! Whether a decision is taken is the run's word (`RunState::decide`), never this service's: here it
//! is only carried to the timeline, at the sequence number that was seen, before the approval
//! expires by the database's clock. Feedback (S7.2) and the approval's row are written by the same
//! append. An edit (S6.7) is made here from the exact bytes and judged by policy; it is the run's word
//! again that takes it, at exactly the step at which it was judged.

mod api;
mod edit;

use std::sync::Arc;

use sayso_herald::Herald;
use sayso_run::ChainKey;
use sayso_service::health::Health;
use sayso_service::peer::Peer;
use sayso_store::Store;
use sayso_tools::Secrets;
use sayso_wire::internal::approval_hub_service_server::ApprovalHubServiceServer;
use tonic::service::Routes;

/// The approval hub. Cheap to clone; it has no work of its own beside answering.
#[derive(Clone)]
pub struct ApprovalHub {
    pub(crate) store: Store,
    pub(crate) herald: Arc<Herald>,
    pub(crate) key: ChainKey,
    /// Judges edits.
    pub(crate) policy: Peer,
    /// What readers of an edit are not shown.
    pub(crate) secrets: Arc<dyn Secrets>,
}

impl std::fmt::Debug for ApprovalHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApprovalHub")
    }
}

impl ApprovalHub {
    /// Puts the parts together; touches nothing.
    pub fn build(
        store: Store,
        herald: Arc<Herald>,
        key: ChainKey,
        policy: Peer,
        secrets: Arc<dyn Secrets>,
    ) -> Self {
        Self {
            store,
            herald,
            key,
            policy,
            secrets,
        }
    }

    /// The internal API.
    pub fn routes(&self) -> Routes {
        Routes::new(ApprovalHubServiceServer::new(api::Api(self.clone())))
    }

    /// Registers this service's checks.
    pub fn check_health(&self, health: &Health) {
        let store = self.store.clone();
        health.check("database", move || {
            let store = store.clone();
            async move { store.ping().await.map_err(|error| error.to_string()) }
        });
    }
}

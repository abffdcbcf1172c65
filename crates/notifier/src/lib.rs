//! Deliveries: signed webhooks, retries and agent logs (S8.1).
//!
//! The append that holds a call writes a row of `deliveries` in the same transaction, if the bundle
//! has `permissions.notify`. The notifier works from these rows alone: it takes what is due, posts
//! it, and records what came of it. Several share the work by claiming rows; one that dies loses
//! nothing. Events on the bus only hurry it.
//!
//! A receiver gets, for each new pending approval, a POST with
//!
//! | header | |
//! |---|---|
//! | `X-Sayso-Event` | `approval.pending` |
//! | `webhook-id` | the same at every retry; to drop what came before |
//! | `webhook-timestamp` | when this try was made, in seconds since 1970 |
//! | `X-Sayso-Signature` | with a secret: `sha256=` and the hex HMAC-SHA256 of the body |
//! | `webhook-signature` | with a secret: as Standard Webhooks has it |
//!
//! and the body `{"type":"approval.pending","approval":{…}}`, the same bytes at every retry. Any 2xx
//! is success; redirects are not followed; bodies of answers are not read.
//!
//! What fails goes to the agent's log under `notify.retrying`, `notify.failed` or
//! `notify.secret_missing`. Neither secrets nor more of a URL than its origin are ever written down:
//! paths and queries of webhooks are often secrets themselves.

mod announcement;
mod config;
mod deliver;
mod plan;
mod post;
mod push;
mod rounds;

use std::fmt;
use std::sync::Arc;

use sayso_bus::Bus;
use sayso_service::health::Health;
use sayso_store::Store;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use uuid::Uuid;

pub use config::NotifierConfig;

/// Why a notifier cannot be built.
#[derive(Debug, Error)]
#[error("no HTTP client can be made")]
pub struct BuildError(#[source] reqwest::Error);

/// The notifier. Cheap to clone.
#[derive(Clone)]
pub struct Notifier {
    pub(crate) store: Store,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) config: Arc<NotifierConfig>,
    pub(crate) client: reqwest::Client,
    pub(crate) push_client: reqwest::Client,
    /// Names this start of a notifier as the holder of what it claims.
    pub(crate) boot: Uuid,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier")
            .field("config", &self.config)
            .field("boot", &self.boot)
            .finish()
    }
}

impl Notifier {
    /// Puts the parts together; touches nothing.
    ///
    /// # Errors
    ///
    /// When the TLS of this system cannot be used.
    pub fn build(
        store: Store,
        bus: Arc<dyn Bus>,
        config: NotifierConfig,
    ) -> Result<Self, BuildError> {
        let client = post::client(config.timeout).map_err(BuildError)?;
        let push_client = push::client(config.timeout, config.private_receivers);
        Ok(Self {
            store,
            bus,
            config: Arc::new(config),
            client,
            push_client: push_client.map_err(BuildError)?,
            boot: Uuid::now_v7(),
        })
    }

    /// The internal API: none. Nobody asks the notifier for anything.
    pub fn routes(&self) -> Routes {
        Routes::default()
    }

    /// Registers this service's checks. The bus is none of them: without it the notifier is only
    /// slower.
    pub fn check_health(&self, health: &Health) {
        let store = self.store.clone();
        health.check("database", move || {
            let store = store.clone();
            async move { store.ping().await.map_err(|error| error.to_string()) }
        });
    }

    /// Delivers until `shutdown`, then lets what is under way end for a moment.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::join!(
            rounds::go_round(&self, &shutdown),
            push::go_round(&self, &shutdown),
        );
    }
}

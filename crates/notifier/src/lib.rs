//! Deliveries to bundles' URLs and to targets of namespaces: signed webhooks, e-mail, incoming webhooks
//! as Slack has them; retries and agent logs (S8.1, S8.2).
//!
//! The append that holds a call, fails a run or escalates an approval writes rows of `deliveries` in
//! the same transaction: one for `permissions.notify` of the bundle, one for each target of the
//! namespace that takes such news, one for the target that a rule has reminded (S6.12). The notifier
//! works from these rows alone: it takes what is due, sends it, and records what came of it. Several
//! share the work by claiming rows; one that dies loses nothing. Events on the bus only hurry it.
//!
//! A webhook gets a POST with
//!
//! | header | |
//! |---|---|
//! | `X-Sayso-Event` | `approval.pending`, `approval.escalated`, `run.failed` or `target.test` |
//! | `webhook-id` | the same at every retry; to drop what came before |
//! | `webhook-timestamp` | when this try was made, in seconds since 1970 |
//! | `X-Sayso-Signature` | with a secret: `sha256=` and the hex HMAC-SHA256 of the body |
//! | `webhook-signature` | with a secret: as Standard Webhooks has it |
//!
//! and the body `{"type":"approval.pending","approval":{…}}` (or `"run":{…}`), the same bytes at every
//! retry. Any 2xx is success; redirects are not followed; bodies of answers are not read. A letter
//! that the mail server answers 4xx is tried again, one that it answers 5xx is not.
//!
//! What fails goes to the agent's log under `notify.retrying`, `notify.failed`,
//! `notify.secret_missing`, `notify.target_missing` or `notify.no_mail_server`. Neither secrets nor more of a URL than its origin are ever written down:
//! paths and queries of webhooks are often secrets themselves.

mod announcement;
mod api;
mod channel;
mod config;
mod deliver;
mod mail;
mod message;
mod plan;
mod post;
mod rounds;
mod slack;

use std::fmt;
use std::sync::Arc;

use sayso_bus::Bus;
use sayso_service::health::Health;
use sayso_store::Store;
use sayso_wire::internal::notifier_service_server::NotifierServiceServer;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use uuid::Uuid;

pub use config::NotifierConfig;
use mail::Mailer;

/// Why a notifier cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The TLS of this system cannot be used.
    #[error("no HTTP client can be made")]
    Http(#[source] reqwest::Error),
    /// The same, for the way to the mail server.
    #[error("no connection to the mail server can be prepared")]
    Mail(#[source] lettre::transport::smtp::Error),
}

/// The notifier. Cheap to clone.
#[derive(Clone)]
pub struct Notifier {
    pub(crate) store: Store,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) config: Arc<NotifierConfig>,
    pub(crate) client: reqwest::Client,
    pub(crate) mailer: Option<Mailer>,
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
        let client = post::client(config.timeout).map_err(BuildError::Http)?;
        let mailer = config
            .smtp
            .as_ref()
            .map(|smtp| Mailer::new(smtp, config.timeout));
        Ok(Self {
            store,
            bus,
            config: Arc::new(config),
            client,
            mailer: mailer.transpose().map_err(BuildError::Mail)?,
            boot: Uuid::now_v7(),
        })
    }

    /// The internal API.
    pub fn routes(&self) -> Routes {
        Routes::new(NotifierServiceServer::new(api::Api(self.clone())))
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
        rounds::go_round(&self, &shutdown).await;
    }
}

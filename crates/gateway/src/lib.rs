//! The public edge: gRPC, gRPC-web, HTTP/JSON and the web pages.
//!
//! [`Gateway::build`] puts the parts together and touches nothing; [`Gateway::run`] does what has to
//! be done beside answering. `sayso` serves [`Gateway::routes`] and [`Gateway::router`] on one port,
//! through `sayso_service::serve`, or calls the routes in its own process.
//!
//! Reads go straight to the store. Writes go to whoever owns them: the scheduler starts, cancels
//! and retries runs, the approval hub takes decisions and messages, the policy service deploys.
//! The gateway itself owns tokens, principals and the audit log.
//!
//! | module | holds |
//! |---|---|
//! | `api` | the public services, one file each |
//! | [`auth`] | tokens, scopes, and the one table of which method needs which (S6.11) |
//! | [`tokens`] | makes and revokes tokens |
//! | `audit` | writes down who changed what, and refused decisions (S10.8) |
//! | `console` | the web pages |
//! | `http` | the public services over HTTP and JSON (S6.13) |
//! | [`mcp`] | the public services as an MCP server (S6.13) |
//! | `hooks` | webhooks that start runs (S8.5) |
//! | `watch` | many watchers over one subscription (S2.4) |
//! | `request`, `page`, `refuse`, `show` | what comes in, pages, errors, what goes out |

mod api;
mod audit;
pub mod auth;
mod config;
mod console;
mod current;
mod hooks;
mod http;
pub mod mcp;
mod page;
mod reflection;
mod refuse;
mod request;
mod show;
pub mod tokens;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use axum::Router;
use sayso_bus::Bus;
use sayso_run::{ChainKey, ChainKeys};
use sayso_service::config::SecretSource;
use sayso_service::health::Health;
use sayso_service::peer::Peer;
use sayso_store::{SecretKeys, Store};
use sayso_wire::internal::approval_hub_service_client::ApprovalHubServiceClient;
use sayso_wire::internal::judgement_service_client::JudgementServiceClient;
use sayso_wire::internal::notifier_service_client::NotifierServiceClient;
use sayso_wire::internal::policy_service_client::PolicyServiceClient;
use sayso_wire::internal::role_service_client::RoleServiceClient;
use sayso_wire::internal::scheduler_service_client::SchedulerServiceClient;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use auth::Authenticator;
pub use config::GatewayConfig;
use current::CurrentRevisions;
pub use http::BadRule;
use http::Door;
use http::cors::Cors;
use watch::Watching;

/// What a gateway is made of.
#[derive(Debug)]
pub struct GatewayParts {
    /// Where timelines and tables live.
    pub store: Store,
    /// Brings events and provisional text.
    pub bus: Arc<dyn Bus>,
    /// Starts, cancels and retries runs.
    pub scheduler: Peer,
    /// Takes decisions and messages.
    pub hub: Peer,
    /// Checks and deploys bundles.
    pub policy: Peer,
    /// Tries targets out.
    pub notifier: Peer,
    /// Seals the audit log.
    pub key: ChainKey,
    /// Every key that sealed something that is verified here; the current one among them.
    pub keys: ChainKeys,
    /// Settings.
    pub config: GatewayConfig,
}

/// Why a gateway cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The descriptors of the API do not fit together: a fault of the build.
    #[error("the API cannot be described to clients")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// A method cannot stand over HTTP where its rule says: a fault of the build.
    #[error("the API cannot be served over HTTP")]
    Http(#[from] BadRule),
}

/// The service, built. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
    routes: Routes,
    door: Door,
}

/// What every handler works with.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) auth: Authenticator,
    pub(crate) current: CurrentRevisions,
    pub(crate) watching: Watching,
    pub(crate) key: ChainKey,
    pub(crate) keys: ChainKeys,
    pub(crate) secrets: BTreeMap<String, SecretSource>,
    pub(crate) cors: Cors,
    /// How this server is called beside its addresses.
    pub(crate) names: Vec<String>,
    pub(crate) secret_keys: Option<SecretKeys>,
    scheduler: Peer,
    hub: Peer,
    policy: Peer,
    notifier: Peer,
}

impl Shared {
    pub(crate) fn scheduler(&self) -> SchedulerServiceClient<Peer> {
        SchedulerServiceClient::new(self.scheduler.clone())
    }

    pub(crate) fn hub(&self) -> ApprovalHubServiceClient<Peer> {
        let client = ApprovalHubServiceClient::new(self.hub.clone());
        client.max_encoding_message_size(usize::MAX)
    }

    pub(crate) fn policy(&self) -> PolicyServiceClient<Peer> {
        PolicyServiceClient::new(self.policy.clone())
    }

    /// Its answers may tell of many calls, and requests hold a bundle and its cases.
    pub(crate) fn judgements(&self) -> JudgementServiceClient<Peer> {
        let client = JudgementServiceClient::new(self.policy.clone());
        client.max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn notifier(&self) -> NotifierServiceClient<Peer> {
        NotifierServiceClient::new(self.notifier.clone())
    }

    pub(crate) fn roles(&self) -> RoleServiceClient<Peer> {
        RoleServiceClient::new(self.policy.clone())
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gateway")
    }
}

impl Gateway {
    /// Puts the parts together; touches nothing.
    ///
    /// # Errors
    ///
    /// When the API cannot be described to clients or served over HTTP: a fault of the build.
    pub fn build(parts: GatewayParts) -> Result<Gateway, BuildError> {
        let GatewayParts {
            store,
            bus,
            scheduler,
            hub,
            policy,
            notifier,
            key,
            keys,
            config,
        } = parts;
        let shared = Arc::new(Shared {
            auth: Authenticator::new(store.clone()),
            current: CurrentRevisions::default(),
            watching: Watching::new(store.clone(), bus, config.look_every),
            store,
            key,
            keys,
            secrets: config.secrets,
            cors: Cors::new(config.allowed_origins),
            names: config.names,
            secret_keys: config.secret_keys,
            scheduler,
            hub,
            policy,
            notifier,
        });
        let services = api::routes(&shared);
        let door = Door::new(services.clone(), &shared.auth, shared.cors.clone())?;
        let routes = reflection::add_to(services)?.prepare();
        Ok(Gateway {
            shared,
            routes,
            door,
        })
    }

    /// The public API over gRPC and gRPC-web, behind its own authentication, and reflection.
    pub fn routes(&self) -> Routes {
        self.routes.clone()
    }

    /// What is answered over plain HTTP.
    pub fn router(&self) -> Router {
        let mcp = mcp::router(self.routes(), &self.shared.auth, &self.shared.names);
        console::router(&self.shared)
            .merge(hooks::router(&self.shared))
            .merge(mcp)
            .merge(self.door.router())
    }

    /// Who may call, for whoever checks sessions of another kind.
    pub fn auth(&self) -> &Authenticator {
        &self.shared.auth
    }

    /// Registers this service's checks and the names of its gRPC services. Without the bus runs are
    /// still read and watched, only later: it is no reason to be given no calls.
    pub fn check_health(&self, health: &Health) {
        let store = self.shared.store.clone();
        health.check("database", move || {
            let store = store.clone();
            async move { store.ping().await.map_err(|error| error.to_string()) }
        });
        for service in api::SERVICES {
            health.service(service);
        }
    }

    /// How many streams watch something here: runs, and approvals.
    pub fn watchers(&self) -> (usize, usize) {
        self.shared.watching.watchers()
    }

    /// Listens to the bus for those who watch and watches over the tokens of open streams, until
    /// `shutdown`; then ends every stream.
    pub async fn run(&self, shutdown: CancellationToken) {
        tokio::join!(
            self.shared.auth.run(shutdown.clone()),
            self.shared.watching.run(shutdown),
        );
    }
}

//! The six services over the adapters of a process, and the clients by which they meet.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use sayso_approval_hub::ApprovalHub;
use sayso_driver::DelegationLimits;
use sayso_engine::{SweepConfig, ToolStorage, WorkersConfig};
use sayso_executor::{Executor, Parts};
use sayso_gateway::{Gateway, GatewayConfig, GatewayParts};
use sayso_models::Registry;
use sayso_notifier::{Notifier, NotifierConfig};
use sayso_policy::Policy;
use sayso_scheduler::Scheduler;
use sayso_service::config::Config;
use sayso_service::internal::SignInternal;
use sayso_service::peer::Peer;
use sayso_tools::{Toolbox, ToolboxSettings};

use super::secrets::{SecretStorage, secret_keys};
use super::{Adapters, chain_keys, models};

/// Clients of the services that others call.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    pub(crate) scheduler: Peer,
    pub(crate) hub: Peer,
    pub(crate) policy: Peer,
    pub(crate) notifier: Peer,
}

impl Peers {
    /// Over TCP, by the addresses of the configuration; calls are signed as `service`.
    pub(crate) fn remote(config: &Config, adapters: &Adapters, service: &str) -> Self {
        let signer = SignInternal::new(service, &adapters.cluster_key);
        let services = &config.services;
        Self {
            scheduler: Peer::remote(&services.scheduler.connect, signer.clone()),
            hub: Peer::remote(&services.approval_hub.connect, signer.clone()),
            policy: Peer::remote(&services.policy.connect, signer.clone()),
            notifier: Peer::remote(&services.notifier.connect, signer),
        }
    }
}

/// Builds services; none of them runs yet.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    pub(crate) config: Config,
    pub(crate) adapters: Adapters,
}

impl Services {
    pub(crate) fn gateway(&self, peers: Peers) -> anyhow::Result<Gateway> {
        let adapters = self.adapters.clone();
        let parts = GatewayParts {
            store: adapters.store,
            bus: adapters.bus,
            scheduler: peers.scheduler,
            hub: peers.hub,
            policy: peers.policy,
            notifier: peers.notifier,
            keys: chain_keys(&adapters.chain_key),
            key: adapters.chain_key,
            config: GatewayConfig {
                secrets: self.config.notify.secrets.clone(),
                allowed_origins: self.allowed_origins(),
                names: self.gateway_names(),
                secret_keys: secret_keys(&self.config),
                ..GatewayConfig::default()
            },
        };
        Gateway::build(parts).context("the gateway cannot be built")
    }

    fn allowed_origins(&self) -> Vec<String> {
        let origins = self.config.http.allowed_origins.iter();
        origins.map(|origin| origin.as_str().to_owned()).collect()
    }

    /// How the gateway is called: by those who reach it over MCP, and by its siblings.
    fn gateway_names(&self) -> Vec<String> {
        let allowed = self.config.mcp.allowed_hosts.iter();
        let connect = self.config.services.gateway.connect.iter();
        allowed
            .map(|name| name.as_str().to_owned())
            .chain(connect.filter_map(|address| address.uri().host().map(str::to_owned)))
            .collect()
    }

    pub(crate) fn scheduler(&self) -> Scheduler {
        let Adapters {
            store,
            bus,
            herald,
            chain_key,
            ..
        } = self.adapters.clone();
        Scheduler::build(store, bus, herald, chain_key, SweepConfig::default())
    }

    pub(crate) fn hub(&self, policy: Peer) -> ApprovalHub {
        let Adapters {
            store,
            herald,
            chain_key,
            ..
        } = self.adapters.clone();
        let secrets = SecretStorage::new(store.clone(), &self.config);
        ApprovalHub::build(store, herald, chain_key, policy, Arc::new(secrets))
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy::build(self.adapters.store.clone())
    }

    pub(crate) fn notifier(&self, public: SocketAddr) -> anyhow::Result<Notifier> {
        let Adapters { store, bus, .. } = self.adapters.clone();
        let told = self.config.http.public_url.clone();
        let config = NotifierConfig {
            secret_keys: secret_keys(&self.config),
            smtp: self.config.smtp.clone(),
            ..NotifierConfig::new(
                told.unwrap_or_else(|| format!("http://{public}")),
                self.config.notify.secrets.clone(),
            )
        };
        Notifier::build(store, bus, config).context("the notifier cannot be built")
    }

    /// The toolbox of an executor; to be closed when the executor has ended.
    pub(crate) fn toolbox(&self) -> Arc<Toolbox> {
        let storage = Arc::new(ToolStorage(self.adapters.store.clone()));
        let settings = ToolboxSettings {
            max_calls: usize::try_from(self.config.executor.tool_concurrency).unwrap_or(usize::MAX),
            ..ToolboxSettings::default()
        };
        let secrets = SecretStorage::new(self.adapters.store.clone(), &self.config);
        Arc::new(Toolbox::new(
            &settings,
            Arc::clone(&storage) as _,
            storage,
            Arc::new(secrets),
        ))
    }

    pub(crate) fn executor(
        &self,
        policy: Peer,
        tools: Arc<Toolbox>,
    ) -> anyhow::Result<Executor<Registry, Toolbox>> {
        let Adapters {
            store,
            bus,
            herald,
            chain_key,
            ..
        } = self.adapters.clone();
        let concurrency = usize::try_from(self.config.executor.concurrency).unwrap_or(usize::MAX);
        Ok(Executor::build(Parts {
            store,
            bus,
            herald,
            policy,
            models: Arc::new(models::registry(&self.config)?),
            tools,
            key: chain_key,
            config: WorkersConfig {
                name: self.executor_name(),
                concurrency,
                delegation: DelegationLimits {
                    depth: self.config.executor.delegation_depth,
                    live_children: self.config.executor.live_children,
                },
                tells_content: self.config.telemetry.content,
            },
        }))
    }

    /// The configured name, or the host's with the port, so that a restart ends the old worker.
    fn executor_name(&self) -> String {
        if let Some(name) = &self.config.executor.name {
            return name.clone();
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        let host = if host.is_empty() { "executor" } else { host };
        format!("{host}-{}", self.config.services.executor.listen.port())
    }
}

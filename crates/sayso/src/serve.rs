//! `sayso serve SERVICE`: one service in a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use sayso_service::config::{Config, Need};
use sayso_service::health::Health;
use sayso_service::internal::VerifyInternal;
use sayso_service::metrics::Metrics;
use sayso_service::serve::{self, Server};
use sayso_service::telemetry;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::wiring::{Adapters, Peers, Services};

/// One of the six.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Service {
    /// The public edge: gRPC, gRPC-web and the pages.
    Gateway,
    /// Admits runs and watches over workers.
    Scheduler,
    /// Drives runs.
    Executor,
    /// Agents, revisions and roles.
    Policy,
    /// Decisions and messages.
    ApprovalHub,
    /// Webhooks.
    Notifier,
}

impl Service {
    /// The name, as the command line has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Service::Gateway => "gateway",
            Service::Scheduler => "scheduler",
            Service::Executor => "executor",
            Service::Policy => "policy",
            Service::ApprovalHub => "approval-hub",
            Service::Notifier => "notifier",
        }
    }

    fn needs(self) -> Vec<Need> {
        let mut needs = vec![Need::Database, Need::Bus, Need::ClusterKey, Need::ChainKey];
        if self == Service::Executor {
            needs.push(Need::Models);
        }
        needs
    }
}

/// Serves until SIGTERM or SIGINT, then drains (S10.2).
pub(crate) async fn run(service: Service, config: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let config = Config::load(config.as_deref())?;
    config.require(&service.needs())?;
    let telemetry = telemetry::init(&config.telemetry, service.name())?;
    let shutdown = CancellationToken::new();
    serve::signals(shutdown.clone())?;
    if let Some(adapters) = Adapters::apart(&config, service.name(), &shutdown).await? {
        let services = Services { config, adapters };
        run_one(service, &services, shutdown).await?;
        services.adapters.close().await;
    }
    telemetry.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

async fn run_one(
    service: Service,
    services: &Services,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let health = Health::new();
    match service {
        Service::Gateway => gateway(services, health, shutdown).await,
        Service::Scheduler => {
            let scheduler = services.scheduler();
            scheduler.check_health(&health);
            let routes = scheduler.routes();
            internal(
                service,
                services,
                routes,
                health,
                &shutdown,
                scheduler.run(shutdown.clone()),
            )
            .await
        }
        Service::Policy => {
            let policy = services.policy();
            policy.check_health(&health);
            let routes = policy.routes();
            internal(
                service,
                services,
                routes,
                health,
                &shutdown,
                policy.run(shutdown.clone()),
            )
            .await
        }
        Service::ApprovalHub => {
            let peers = Peers::remote(&services.config, &services.adapters, "approval-hub");
            let hub = services.hub(peers.policy);
            hub.check_health(&health);
            internal(service, services, hub.routes(), health, &shutdown, async {}).await
        }
        Service::Notifier => {
            let notifier = services.notifier(services.config.services.gateway.listen)?;
            notifier.check_health(&health);
            let routes = notifier.routes();
            internal(
                service,
                services,
                routes,
                health,
                &shutdown,
                notifier.run(shutdown.clone()),
            )
            .await
        }
        Service::Executor => executor(services, health, shutdown).await,
    }
}

async fn gateway(
    services: &Services,
    health: Health,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let config = &services.config;
    let gateway = services.gateway(Peers::remote(config, &services.adapters, "gateway"))?;
    gateway.check_health(&health);
    let listener = serve::bind(config.services.gateway.listen).await?;
    let server = Server::public(gateway.routes(), gateway.router(), health, Metrics::new())
        .grace(config.grace)
        .max_streams(config.limits.max_streams);
    tracing::info!(address = %config.services.gateway.listen, "the gateway serves");
    tokio::join!(
        server.run(listener, shutdown.clone()),
        gateway.run(shutdown)
    );
    Ok(())
}

async fn executor(
    services: &Services,
    health: Health,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let tools = services.toolbox();
    let peers = Peers::remote(&services.config, &services.adapters, "executor");
    let executor = services.executor(peers.policy, tools.clone())?;
    executor.check_health(&health);
    let work = {
        let shutdown = shutdown.clone();
        async move {
            let worked = executor.run(shutdown.clone()).await;
            // Without a worker there is nothing left to serve.
            shutdown.cancel();
            tools.close().await;
            worked
        }
    };
    let worked = internal(
        Service::Executor,
        services,
        Routes::default(),
        health,
        &shutdown,
        work,
    )
    .await?;
    Ok(worked?)
}

/// Serves an internal port beside the service's own work, until both have ended. The work may take
/// the grace time to end, and is then left where it is: whatever it held is taken up by others.
async fn internal<W: Future>(
    service: Service,
    services: &Services,
    routes: Routes,
    health: Health,
    shutdown: &CancellationToken,
    work: W,
) -> anyhow::Result<W::Output> {
    let config = &services.config;
    let endpoints = match service {
        Service::Gateway => &config.services.gateway,
        Service::Scheduler => &config.services.scheduler,
        Service::Executor => &config.services.executor,
        Service::Policy => &config.services.policy,
        Service::ApprovalHub => &config.services.approval_hub,
        Service::Notifier => &config.services.notifier,
    };
    let listener = serve::bind(endpoints.listen).await?;
    let verify = VerifyInternal::new(&services.adapters.cluster_key);
    let server = Server::internal(&verify, routes, health, Metrics::new())
        .grace(config.grace)
        .max_streams(config.limits.max_streams);
    tracing::info!(service = service.name(), address = %endpoints.listen, "the service serves");
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(config.grace).await;
    };
    let work = async {
        tokio::select! {
            worked = work => Some(worked),
            () = deadline => None,
        }
    };
    let ((), worked) = tokio::join!(server.run(listener, shutdown.clone()), work);
    worked.map_or_else(
        || {
            Err(anyhow::anyhow!(
                "the grace time passed before everything was handed back"
            ))
        },
        Ok,
    )
}

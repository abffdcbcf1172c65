//! `sayso up`: everything in one process, its data in one folder, no other server (S10.1).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use sayso_gateway::auth::TokenSecret;
use sayso_run::Digest;
use sayso_service::config::{Config, Model, Provider};
use sayso_service::health::Health;
use sayso_service::internal::{SignInternal, VerifyInternal};
use sayso_service::metrics::Metrics;
use sayso_service::peer::Peer;
use sayso_service::serve::{self, Server};
use sayso_service::telemetry;
use sayso_store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tower::Layer;

use crate::wiring::tokens::{TokenRequest, create};
use crate::wiring::{Adapters, Peers, Services, chain_key};

/// The namespace that exists from the start.
const NAMESPACE: &str = "default";
/// The principal of the local admin token.
const LOCAL_ADMIN: &str = "local-admin";

/// What `sayso up` is told.
#[derive(Debug, Clone)]
pub(crate) struct UpOptions {
    /// The folder that holds everything; made if it is missing.
    pub(crate) data_dir: PathBuf,
    /// A configuration file, for models and tiers above all.
    pub(crate) config: Option<PathBuf>,
    /// Where the gateway listens; port 0 takes a free one.
    pub(crate) listen: SocketAddr,
    /// A script that plays the model of the tier `balanced`.
    pub(crate) models_script: Option<PathBuf>,
    /// No logs.
    pub(crate) quiet: bool,
}

/// Everything, running.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where the gateway is reached.
    pub(crate) address: SocketAddr,
    /// The local admin token.
    pub(crate) admin_token: String,
    /// The database.
    pub(crate) store: Store,
    adapters: Adapters,
    telemetry: Option<telemetry::Guard>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    /// Held as long as this process uses the folder.
    _lock: File,
}

/// Starts everything.
pub(crate) async fn start(options: UpOptions) -> anyhow::Result<Running> {
    std::fs::create_dir_all(&options.data_dir)
        .with_context(|| format!("the folder {} cannot be made", options.data_dir.display()))?;
    let lock = lock(&options.data_dir)?;
    let config = configure(&options)?;
    let telemetry = if options.quiet {
        None
    } else {
        Some(telemetry::init(&config.telemetry, "up")?)
    };
    let shutdown = CancellationToken::new();
    let Some(adapters) = Adapters::embedded(&config, &shutdown).await? else {
        bail!("stopped")
    };
    let admin_token = admin_token(&adapters.store, &config, &options.data_dir).await?;
    let listener = serve::bind(options.listen).await?;
    let address = listener.local_addr()?;
    let services = Services {
        config,
        adapters: adapters.clone(),
    };
    let tasks = TaskTracker::new();
    spawn(&services, listener, address, &shutdown, &tasks)?;
    tasks.close();
    Ok(Running {
        address,
        admin_token,
        store: adapters.store.clone(),
        adapters,
        telemetry,
        shutdown,
        tasks,
        _lock: lock,
    })
}

impl Running {
    /// Drains, then lets go of the folder.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.wait().await;
        drop(self.store);
        self.adapters.close().await;
        if let Some(telemetry) = self.telemetry {
            telemetry.shutdown().await;
        }
    }
}

/// Starts everything, says how to use it, and waits for SIGTERM or SIGINT.
pub(crate) async fn run(options: UpOptions) -> anyhow::Result<ExitCode> {
    let data_dir = options.data_dir.clone();
    let running = start(options).await?;
    let stop = CancellationToken::new();
    serve::signals(stop.clone())?;
    println!("sayso is up at http://{}", running.address);
    println!("  data    {}", data_dir.display());
    println!(
        "  admin   {}/admin.token (used by this command on this machine)",
        data_dir.display()
    );
    println!();
    println!("Nobody decides their own request. Make a token for whoever approves:");
    println!("  sayso token create --name alice --scope approver --scope read");
    stop.cancelled().await;
    println!("stopping");
    running.stop().await;
    Ok(ExitCode::SUCCESS)
}

fn spawn(
    services: &Services,
    listener: tokio::net::TcpListener,
    address: SocketAddr,
    shutdown: &CancellationToken,
    tasks: &TaskTracker,
) -> anyhow::Result<()> {
    let key = &services.adapters.cluster_key;
    let local = |routes: Routes, caller: &str| {
        Peer::local(
            VerifyInternal::new(key).layer(routes.prepare()),
            SignInternal::new(caller, key),
        )
    };
    let (scheduler, policy) = (services.scheduler(), services.policy());
    let hub = services.hub(local(policy.routes(), "approval-hub"));
    let health = Health::new();
    scheduler.check_health(&health);
    let notifier = services.notifier(address)?;
    let gateway = services.gateway(Peers {
        scheduler: local(scheduler.routes(), "gateway"),
        hub: local(hub.routes(), "gateway"),
        policy: local(policy.routes(), "gateway"),
        notifier: local(notifier.routes(), "gateway"),
    })?;
    gateway.check_health(&health);
    let tools = services.toolbox();
    let executor = services.executor(local(policy.routes(), "executor"), Arc::clone(&tools))?;
    executor.check_health(&health);
    let server = Server::public(gateway.routes(), gateway.router(), health, Metrics::new())
        .grace(services.config.grace)
        .max_streams(services.config.limits.max_streams);
    tasks.spawn(server.run(listener, shutdown.clone()));
    let stop = shutdown.clone();
    tasks.spawn(async move { gateway.run(stop).await });
    tasks.spawn(scheduler.run(shutdown.clone()));
    tasks.spawn(policy.run(shutdown.clone()));
    tasks.spawn(notifier.run(shutdown.clone()));
    let (stop, grace) = (shutdown.clone(), services.config.grace);
    tasks.spawn(async move {
        let deadline = async {
            stop.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            worked = executor.run(stop.clone()) => {
                if let Err(error) = worked {
                    tracing::error!(%error, "the executor cannot work");
                }
            }
            () = deadline => tracing::warn!("the grace time passed before every run was handed back"),
        }
        tools.close().await;
    });
    Ok(())
}

fn configure(options: &UpOptions) -> anyhow::Result<Config> {
    let mut config = Config::embedded(&options.data_dir, options.config.as_deref())?;
    if let Some(script) = &options.models_script {
        let model = Model {
            provider: Provider::Scripted,
            base_url: None,
            model: "scripted".into(),
            api_key: None,
            script: Some(script.clone()),
            max_tokens: 8192,
            context: 128_000,
            price: None,
        };
        config.models.insert("scripted".into(), model);
        config
            .tiers
            .insert("balanced".into(), vec!["scripted".into()]);
    }
    Ok(config)
}

/// Two processes in one folder would be two writers of one timeline.
fn lock(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("{} cannot be opened", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            bail!(
                "another sayso uses the folder {}: stop it, or name another with --data",
                data_dir.display()
            )
        }
        Err(std::fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", path.display()))
        }
    }
}

/// The local admin token: the one in the folder if it still opens the door, or a new one.
async fn admin_token(store: &Store, config: &Config, data_dir: &Path) -> anyhow::Result<String> {
    let path = data_dir.join("admin.token");
    if let Ok(text) = std::fs::read_to_string(&path)
        && let Some(secret) = TokenSecret::parse(text.trim())
        && let Some(token) = store
            .tokens()
            .find(&Digest::from_bytes(secret.hash()))
            .await?
        && token.is_valid(sayso_driver::Journal::now(store))
    {
        return Ok(secret.expose().to_owned());
    }
    let number = store.tokens().version().await?;
    let request = TokenRequest {
        namespace: NAMESPACE.into(),
        name: format!("{LOCAL_ADMIN}-{number}"),
        principal: Some(LOCAL_ADMIN.into()),
        scopes: vec!["admin".into()],
        trust: None,
        lifetime: Some(sayso_gateway::tokens::LONGEST_LIFETIME),
    };
    let secret = create(store, &chain_key(config)?, request).await?;
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    file.write_all(secret.as_bytes())?;
    Ok(secret)
}

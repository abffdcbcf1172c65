//! What a process needs before it can run any service: its database, its bus and its keys.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use sayso_bus::Bus;
use sayso_bus::local::{LocalBus, LocalConfig};
use sayso_bus::nats::{NatsAuth, NatsBus, NatsConfig};
use sayso_herald::Herald;
use sayso_run::{ChainKey, ChainKeys};
use sayso_service::config::{Config, Database, Key, NatsLogin};
use sayso_store::{Store, StoreConfig};
use tokio_util::sync::CancellationToken;

/// How long to wait before a dependency that is away at the start is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The database, the bus and the keys of one process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Adapters {
    pub(crate) store: Store,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) herald: Arc<Herald>,
    pub(crate) chain_key: ChainKey,
    pub(crate) cluster_key: Key,
}

impl Adapters {
    /// For a service that runs apart: Postgres (or any database) and NATS. A dependency that is away
    /// is waited for; `None` if the process is told to stop meanwhile.
    pub(crate) async fn apart(
        config: &Config,
        service: &str,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Option<Self>> {
        let Some(store) = open_store(config, service, shutdown).await? else {
            return Ok(None);
        };
        let bus: Arc<dyn Bus> = Arc::new(
            NatsBus::connect(nats(config, service)?)
                .await
                .context("the bus cannot be used")?,
        );
        Self::of(config, store, bus).map(Some)
    }

    /// For everything in one process: the bus is within it.
    pub(crate) async fn embedded(
        config: &Config,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Option<Self>> {
        let Some(store) = open_store(config, "sayso", shutdown).await? else {
            return Ok(None);
        };
        let bus: Arc<dyn Bus> = Arc::new(LocalBus::new(LocalConfig::default()));
        Self::of(config, store, bus).map(Some)
    }

    fn of(config: &Config, store: Store, bus: Arc<dyn Bus>) -> anyhow::Result<Self> {
        let herald = Herald::start(store.clone(), Arc::clone(&bus));
        let cluster_key = config
            .cluster
            .key
            .clone()
            .ok_or_else(|| anyhow!("cluster.key is not set"))?;
        Ok(Self {
            store,
            bus,
            herald,
            chain_key: chain_key(config)?,
            cluster_key,
        })
    }

    /// Tells the world what is still to be told, then lets go of the database.
    pub(crate) async fn close(self) {
        self.herald.stop().await;
        self.store.close().await;
    }
}

/// The key that seals timelines and the audit log.
pub(crate) fn chain_key(config: &Config) -> anyhow::Result<ChainKey> {
    let key = config
        .chain
        .key
        .as_ref()
        .ok_or_else(|| anyhow!("chain.key is not set"))?;
    Ok(ChainKey::new(config.chain.key_id.clone(), *key.bytes()))
}

/// Every key that may have sealed something.
pub(crate) fn chain_keys(key: &ChainKey) -> ChainKeys {
    [key.clone()].into_iter().collect()
}

/// The URL of the configured database.
pub(crate) fn database_url(config: &Config) -> anyhow::Result<String> {
    match config
        .database
        .as_ref()
        .ok_or_else(|| anyhow!("database.url is not set"))?
    {
        Database::Postgres(url) => Ok(url.expose().to_owned()),
        Database::Sqlite(path) => Ok(sqlite_url(path)),
    }
}

fn sqlite_url(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

async fn open_store(
    config: &Config,
    service: &str,
    shutdown: &CancellationToken,
) -> anyhow::Result<Option<Store>> {
    let url = database_url(config)?;
    loop {
        let settings = StoreConfig {
            application: format!("sayso {service}"),
            ..StoreConfig::default()
        };
        match Store::open(&url, settings).await {
            Ok(store) => return Ok(Some(store)),
            Err(error) if error.is_retryable() => {
                tracing::error!(code = error.code(), %error, "the database is away; it is tried again");
                tokio::select! {
                    () = tokio::time::sleep(RETRY) => {}
                    () = shutdown.cancelled() => return Ok(None),
                }
            }
            Err(error) => {
                let code = error.code();
                return Err(anyhow::Error::new(error)
                    .context(format!("[{code}] the database cannot be used")));
            }
        }
    }
}

/// How the configured broker is reached.
pub(crate) fn nats(config: &Config, service: &str) -> anyhow::Result<NatsConfig> {
    let nats = config
        .nats
        .as_ref()
        .ok_or_else(|| anyhow!("nats.url is not set"))?;
    let auth = match &nats.login {
        NatsLogin::None => NatsAuth::None,
        NatsLogin::User { user, password } => NatsAuth::Password {
            user: user.clone(),
            password: password.expose().to_owned(),
        },
        NatsLogin::Token(token) => NatsAuth::Token(token.expose().to_owned()),
        NatsLogin::CredentialsFile(path) => NatsAuth::Credentials(path.clone()),
    };
    Ok(NatsConfig {
        servers: nats.urls.clone(),
        auth,
        name: format!("sayso-{service}"),
        ..NatsConfig::default()
    })
}

use std::collections::BTreeMap;
use std::time::Duration;

use sayso_service::config::SecretSource;
use sayso_store::SecretKeys;

use crate::a2a::A2aConfig;

/// How the gateway behaves. The defaults are those of the design; tests shorten them.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// Between two looks at the numbers of all watched runs: how long a step whose event was lost
    /// without anybody noticing may stay unseen by a watcher.
    pub look_every: Duration,
    /// The installation's secrets that sign calls of webhooks, by the names that bundles use: for
    /// names that are not stored. Each is looked up when it is needed, so one that comes later is
    /// found.
    pub secrets: BTreeMap<String, SecretSource>,
    /// Whose pages may call the API from a browser: origins such as `https://ops.example.org`, or `*`
    /// for any.
    pub allowed_origins: Vec<String>,
    /// The names by which this server is called over MCP, beside its addresses and `localhost`.
    pub names: Vec<String>,
    /// What stored secrets are encrypted with; none if there can be none.
    pub secret_keys: Option<SecretKeys>,
    /// How it is an A2A server.
    pub a2a: A2aConfig,
}

impl Default for GatewayConfig {
    fn default() -> GatewayConfig {
        GatewayConfig {
            look_every: Duration::from_secs(5),
            secrets: BTreeMap::new(),
            allowed_origins: Vec::new(),
            names: Vec::new(),
            secret_keys: None,
            a2a: A2aConfig::default(),
        }
    }
}

use std::time::Duration;

/// How the gateway behaves. The defaults are those of the design; tests shorten them.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// Between two looks at the numbers of all watched runs: how long a step whose event was lost
    /// without anybody noticing may stay unseen by a watcher.
    pub look_every: Duration,
}

impl Default for GatewayConfig {
    fn default() -> GatewayConfig {
        GatewayConfig {
            look_every: Duration::from_secs(5),
        }
    }
}

//! Where the broker is and how to behave towards it.

use std::{fmt, path::PathBuf, time::Duration};

use async_nats::{ConnectOptions, ServerAddr};

use crate::BusError;

/// Who we are to the broker.
#[derive(Clone, Default)]
pub enum NatsAuth {
    /// Nobody in particular; a URL may still hold a user and password.
    #[default]
    None,
    /// A token.
    Token(String),
    /// A user and password.
    Password {
        /// The user's name.
        user: String,
        /// The password.
        password: String,
    },
    /// A `.creds` file: a JWT and its key.
    Credentials(PathBuf),
    /// The seed of an nkey.
    Nkey(String),
}

impl fmt::Debug for NatsAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NatsAuth::None => f.write_str("None"),
            NatsAuth::Token(_) => f.write_str("Token(…)"),
            NatsAuth::Password { user, .. } => write!(f, "Password({user}, …)"),
            NatsAuth::Credentials(path) => write!(f, "Credentials({})", path.display()),
            NatsAuth::Nkey(_) => f.write_str("Nkey(…)"),
        }
    }
}

/// Settings of a [`NatsBus`](super::NatsBus).
#[derive(Clone)]
pub struct NatsConfig {
    /// `nats://host:port` or `tls://host:port`, any number of one cluster.
    pub servers: Vec<String>,
    /// Who we are.
    pub auth: NatsAuth,
    /// PEM files of authorities to trust beside the system's.
    pub root_certificates: Vec<PathBuf>,
    /// Our name in the broker's connection list.
    pub name: String,
    /// A delivery that is not answered for this long is delivered again. It is a property of the
    /// shared consumer: the process that connected last sets it.
    pub ack_wait: Duration,
    /// How many unanswered deliveries one work queue may hold.
    pub max_outstanding: usize,
    /// Copies of the streams in a cluster; `None` leaves what is there (one, when created).
    pub replicas: Option<usize>,
    /// How long an answer of the broker is waited for.
    pub request_timeout: Duration,
    /// How often the broker shows that a quiet pull is alive. A pull that is silent for two and a
    /// half of these is looked into.
    pub heartbeat: Duration,
    /// How long [`connect`](super::NatsBus::connect) waits for a broker before it leaves the rest
    /// to the background.
    pub connect_wait: Duration,
    /// How many messages may wait in one feed before it loses some.
    pub feed_capacity: usize,
}

impl Default for NatsConfig {
    /// One broker on this machine without authentication; deliveries again after 30 s, 64
    /// outstanding; answers within 5 s; heartbeats each second; 2 s for the first connection.
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".to_owned()],
            auth: NatsAuth::None,
            root_certificates: Vec::new(),
            name: "sayso".to_owned(),
            ack_wait: Duration::from_secs(30),
            max_outstanding: 64,
            replicas: None,
            request_timeout: Duration::from_secs(5),
            heartbeat: Duration::from_secs(1),
            connect_wait: Duration::from_secs(2),
            feed_capacity: 65_536,
        }
    }
}

impl fmt::Debug for NatsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URLs may hold passwords.
        f.debug_struct("NatsConfig")
            .field("servers", &self.servers.len())
            .field("auth", &self.auth)
            .field("name", &self.name)
            .field("ack_wait", &self.ack_wait)
            .field("max_outstanding", &self.max_outstanding)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

fn unusable(setting: &'static str, reason: impl fmt::Display) -> BusError {
    BusError::Setting {
        setting,
        reason: reason.to_string(),
    }
}

impl NatsConfig {
    /// The servers' addresses.
    pub(super) fn addresses(&self) -> Result<Vec<ServerAddr>, BusError> {
        if self.servers.is_empty() {
            return Err(unusable("the broker's URL", "there is none"));
        }
        self.servers
            .iter()
            .map(|url| {
                url.parse().map_err(|error| {
                    let place = url
                        .rsplit_once('@')
                        .map_or(url.as_str(), |(_, place)| place);
                    unusable("the broker's URL", format_args!("{place:?}: {error}"))
                })
            })
            .collect()
    }

    /// Refuses numbers that would make the bus stand still.
    pub(super) fn check(&self) -> Result<(), BusError> {
        if self.max_outstanding == 0 {
            return Err(unusable("max_outstanding", "it has to be at least 1"));
        }
        if self
            .replicas
            .is_some_and(|replicas| !(1..=5).contains(&replicas))
        {
            return Err(unusable("replicas", "it has to be 1 to 5"));
        }
        for (setting, value) in [
            ("ack_wait", self.ack_wait),
            ("request_timeout", self.request_timeout),
            ("heartbeat", self.heartbeat),
        ] {
            if value < Duration::from_millis(10) {
                return Err(unusable(setting, "it has to be at least 10 ms"));
            }
        }
        // The broker takes a heartbeat of at most half a pull's lifetime.
        if self.heartbeat * 2 > super::PULL_EXPIRES {
            return Err(unusable("heartbeat", "it has to be at most 15 s"));
        }
        Ok(())
    }

    /// The client's options, but for the callbacks.
    pub(super) async fn options(&self) -> Result<ConnectOptions, BusError> {
        // A feed's or puller's buffer lives in the client; a puller's must hold all it asked for,
        // twice, for a pull may outlive the connection it was sent on.
        let buffer = self.feed_capacity.max(self.max_outstanding * 2 + 64);
        let mut options = ConnectOptions::new()
            .name(&self.name)
            .retry_on_initial_connect()
            .max_reconnects(None)
            .connection_timeout(Duration::from_secs(2))
            .request_timeout(Some(self.request_timeout))
            // A broker that hangs with its connection open is noticed after three of these.
            .ping_interval(Duration::from_secs(2))
            .subscription_capacity(buffer)
            .reconnect_delay_callback(reconnect_delay);
        for path in &self.root_certificates {
            options = options.add_root_certificates(path.clone());
        }
        match &self.auth {
            NatsAuth::None => Ok(options),
            NatsAuth::Token(token) => Ok(options.token(token.clone())),
            NatsAuth::Password { user, password } => {
                Ok(options.user_and_password(user.clone(), password.clone()))
            }
            NatsAuth::Nkey(seed) => Ok(options.nkey(seed.clone())),
            NatsAuth::Credentials(path) => options.credentials_file(path).await.map_err(|error| {
                let reason = format_args!("{}: {error}", path.display());
                unusable("the broker's credentials file", reason)
            }),
        }
    }
}

/// At once, then slower, at most every second: "within seconds of the broker being back" (B80).
fn reconnect_delay(attempts: usize) -> Duration {
    match attempts {
        0 | 1 => Duration::ZERO,
        _ => Duration::from_millis((10_u64 << attempts.min(7)).min(1_000)),
    }
}

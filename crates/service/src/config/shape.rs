//! What the configuration holds, typed. The keys, their units and defaults are
//! documented in `defaults.yaml`.

use sayso_run::Price;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::mail::MailAddress;
use super::secret::{Key, Secret, SecretSource};
use super::section::ConfigErrors;
use super::values::{Address, ByteSize, HostName, Origin};

/// The configuration of a process, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where runs live; see [`Need::Database`].
    pub database: Option<Database>,
    /// The bus; see [`Need::Bus`].
    pub nats: Option<Nats>,
    /// Where each service listens and is reached.
    pub services: Services,
    /// What signs the calls between services.
    pub cluster: Cluster,
    /// What makes timelines unforgeable.
    pub chain: Chain,
    /// What seals stored secrets, and what is redacted.
    pub secrets: Secrets,
    /// How much an executor does at once.
    pub executor: Executor,
    /// Models by name.
    pub models: BTreeMap<String, Model>,
    /// Chains of model names by tier; every name is in `models`.
    pub tiers: BTreeMap<String, Vec<String>>,
    /// What the notifier needs.
    pub notify: Notify,
    /// The mail server; none if no e-mail is sent.
    pub smtp: Option<Smtp>,
    /// The API over HTTP.
    pub http: Http,
    /// The gateway as an MCP server.
    pub mcp: Mcp,
    /// Limits at the edge of a service.
    pub limits: Limits,
    /// Logs and traces.
    pub telemetry: Telemetry,
    /// How long draining may take.
    pub grace: Duration,
}

/// Something that some processes cannot do without, for [`Config::require`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `database.url`.
    Database,
    /// `nats.url`.
    Bus,
    /// `cluster.key` or `cluster.key_file`.
    ClusterKey,
    /// `chain.key` or `chain.key_file`.
    ChainKey,
    /// At least one model.
    Models,
}

impl Config {
    /// Checks that everything in `needs` is configured.
    ///
    /// # Errors
    ///
    /// All that is missing, by key.
    pub fn require(&self, needs: &[Need]) -> Result<(), ConfigErrors> {
        let mut missing = ConfigErrors::none();
        for need in needs {
            match need {
                Need::Database if self.database.is_none() => missing.add(
                    "database.url",
                    "must be set: postgres://user:password@host:5432/name, or sqlite://path",
                ),
                Need::Bus if self.nats.is_none() => {
                    missing.add("nats.url", "must be set: nats://host:4222");
                }
                Need::ClusterKey if self.cluster.key.is_none() => missing.add(
                    "cluster.key",
                    "must be set, the same for every service: 64 hex digits (openssl rand -hex 32), or cluster.key_file",
                ),
                Need::ChainKey if self.chain.key.is_none() => missing.add(
                    "chain.key",
                    "must be set, the same for every service: 64 hex digits (openssl rand -hex 32), or chain.key_file",
                ),
                Need::Models if self.models.is_empty() => {
                    missing.add("models", "must name at least one model");
                }
                Need::Database
                | Need::Bus
                | Need::ClusterKey
                | Need::ChainKey
                | Need::Models => {}
            }
        }
        missing.into_result(())
    }
}

/// Where runs live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// A Postgres URL, password and all.
    Postgres(Secret),
    /// The file of a SQLite database.
    Sqlite(PathBuf),
}

/// How to reach the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nats {
    /// Servers, at least one.
    pub urls: Vec<String>,
    /// How to log in.
    pub login: NatsLogin,
}

/// How to log in to the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatsLogin {
    /// Not at all, or by what the URL holds.
    None,
    /// By name and password.
    User {
        /// The name.
        user: String,
        /// The password.
        password: Secret,
    },
    /// By a token.
    Token(Secret),
    /// By a credentials file (JWT and nkey seed).
    CredentialsFile(PathBuf),
}

/// Where each service listens and is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Services {
    /// The public edge.
    pub gateway: Endpoints,
    /// Admits runs and keeps time.
    pub scheduler: Endpoints,
    /// Drives runs.
    pub executor: Endpoints,
    /// Serves compiled policy.
    pub policy: Endpoints,
    /// Holds the approvals.
    pub approval_hub: Endpoints,
    /// Sends what is to be sent.
    pub notifier: Endpoints,
}

/// One service's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// What it binds.
    pub listen: SocketAddr,
    /// Where the others reach it: at least one; calls are spread over several.
    pub connect: Vec<Address>,
}

/// What signs the calls between services.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The key; see [`Need::ClusterKey`].
    pub key: Option<Key>,
}

/// What makes the hash chain of timelines unforgeable.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The key; see [`Need::ChainKey`].
    pub key: Option<Key>,
    /// The name under which hashes remember their key.
    pub key_id: String,
}

/// What seals stored secrets, and what is redacted (S3.10).
#[derive(Clone, Debug)]
pub struct Secrets {
    /// The key that seals; none if nothing can be stored.
    pub key: Option<Key>,
    /// Keys that sealed before, and still open.
    pub previous: Vec<Key>,
    /// Names under which values are redacted, beside those that every installation has.
    pub redact: Vec<String>,
}

/// How much an executor does at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executor {
    /// Its name, unique among executors; `None`: made from host and port.
    pub name: Option<String>,
    /// Runs driven at once.
    pub concurrency: u32,
    /// Tool calls in flight at once.
    pub tool_concurrency: u32,
    /// How many runs deep agents may start agents (S3.6).
    pub delegation_depth: u32,
    /// How many children of one run may be live at once (S3.6).
    pub live_children: u32,
}

/// A model that agents can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Whose wire format it speaks.
    pub provider: Provider,
    /// Where it is reached, ending in `/`; `None` for a scripted model alone.
    pub base_url: Option<String>,
    /// The provider's name for it.
    pub model: String,
    /// Its API key, if it takes one; resolved by whoever calls the model.
    pub api_key: Option<SecretSource>,
    /// The file of turns of a scripted model.
    pub script: Option<PathBuf>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// The context limit, in tokens.
    pub context: u32,
    /// What a million of its tokens cost; needed under a spending cap (S4.6).
    pub price: Option<Price>,
}

/// Whose wire format a model speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI's chat completions, and all that are compatible.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// A file of turns.
    Scripted,
}

/// What the notifier needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// Secrets that sign what is sent, by name.
    pub secrets: BTreeMap<String, SecretSource>,
}

/// The mail server that e-mail goes out through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smtp {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is kept from others.
    pub security: SmtpSecurity,
    /// The name and the password to log in with.
    pub login: Option<(String, SecretSource)>,
    /// The sender.
    pub from: MailAddress,
}

/// How a connection to a mail server is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// TLS from the first byte.
    Tls,
    /// TLS after the greeting, or nothing is sent.
    StartTls,
    /// In the clear.
    None,
}

impl SmtpSecurity {
    /// The port that servers listen on for it.
    pub const fn port(self) -> u16 {
        match self {
            SmtpSecurity::Tls => 465,
            SmtpSecurity::StartTls => 587,
            SmtpSecurity::None => 25,
        }
    }
}

/// The API over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Where people reach the pages, without a slash at its end; none if nobody said.
    pub public_url: Option<String>,
    /// Whose pages may call it from a browser.
    pub allowed_origins: Vec<Origin>,
}

/// The gateway as an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mcp {
    /// Names by which it may be called, beside those in `services.gateway.connect`.
    pub allowed_hosts: Vec<HostName>,
}

/// Limits at the edge of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request.
    pub max_request_bytes: ByteSize,
    /// Calls and streams open at once on one connection.
    pub max_streams: u32,
}

/// Logs and traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// The OTLP collector, over gRPC.
    pub otlp_endpoint: Option<String>,
    /// The share of traces exported, 0 to 1.
    pub sampling: f64,
    /// For people or for machines.
    pub log_format: LogFormat,
    /// A level or directives.
    pub log_filter: String,
    /// Whether content (prompts, answers, arguments, results) is exported.
    pub content: bool,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

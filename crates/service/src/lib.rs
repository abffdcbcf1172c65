//! What every service of sayso shares, and nothing about any of them: how it
//! is configured, observed, probed, authenticated to its siblings, started and
//! drained. It knows neither the services, nor storage, nor the bus, nor the
//! protobuf messages of sayso.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | one documented defaults file, the user's file, `SAYSO_…` variables; every mistake reported at once (`S10.4`) |
//! | [`telemetry`] | logs, traces, OTLP export, W3C trace context in and out (`S10.3`) |
//! | [`metrics`] | counters, gauges and histograms, rendered as OpenMetrics (`S10.2`) |
//! | [`health`] | named checks behind `/livez`, `/readyz` and gRPC health (`S10.2`) |
//! | [`internal`] | short-lived signed tokens for calls between services |
//! | [`peer`] | one client type for a sibling, in this process or over TCP |
//! | [`serve`] | one port for gRPC and HTTP, start, drain and hard deadline (`S10.2`) |
//! | [`address`] | which addresses are of the public internet |
//! | [`signature`] | signatures of webhooks, made and verified (`S8.1`, `S8.5`) |
//! | [`error`] | coded errors to and from gRPC statuses with rich details (`S10.5`) |
//!
//! # A service in six lines
//!
//! ```no_run
//! # use sayso_service::{config::Config, health::Health, internal::VerifyInternal,
//! #     metrics::Metrics, serve::{self, Server}, telemetry};
//! # use tokio_util::sync::CancellationToken;
//! # async fn run(routes: tonic::service::Routes) -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::load(None)?;
//! let telemetry = telemetry::init(&config.telemetry, "scheduler")?;
//! let shutdown = CancellationToken::new();
//! serve::signals(shutdown.clone())?;
//! let verify = VerifyInternal::new(config.cluster.key.as_ref().ok_or("no cluster.key")?);
//! let listener = serve::bind(config.services.scheduler.listen).await?;
//! Server::internal(&verify, routes, Health::new(), Metrics::new())
//!     .grace(config.grace)
//!     .run(listener, shutdown)
//!     .await;
//! telemetry.shutdown().await;
//! # Ok(())
//! # }
//! ```

pub mod address;
pub mod config;
pub mod error;
mod guard;
pub mod health;
pub mod internal;
pub mod metrics;
pub mod peer;
pub mod serve;
pub mod signature;
pub mod telemetry;

/// Any error that crosses a boundary where its type no longer matters.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

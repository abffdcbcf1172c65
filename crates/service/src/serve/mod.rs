//! One port for everything: gRPC over HTTP/2 without TLS, pages and JSON over
//! HTTP/1.1 or HTTP/2, and the probes (`S10.2`).
//!
//! # Who answers
//!
//! | request | answered by |
//! |---|---|
//! | `content-type: application/grpc…`, path `/grpc.health.v1.Health/…` | [`Health`] |
//! | `content-type: application/grpc…` | the service |
//! | `/livez`, `/readyz`, `/metrics` | [`Health`], [`Metrics`] |
//! | anything else | the service's pages, else 404 |
//!
//! Probes carry no credentials, so they stand outside any authentication; on an
//! internal port everything else is behind
//! [`VerifyInternal`].
//!
//! # Stopping
//!
//! When the token is cancelled: no new connections; readiness fails; every
//! connection is told to go away, which lets calls that are under way finish.
//! Open streams have no end of their own, so waiting for them would take for
//! ever: services give each stream the same token, and after the grace time
//! whatever is still open is cut (its handler is dropped, its caller sees a
//! reset). [`Server::run`] returns only when nothing of it is left.
//!
//! The loop is ours, straight on hyper, because both ready-made ones leave
//! something out: axum's waits for open streams without limit, tonic's cannot
//! end the connections that it started.

mod accept;
mod dispatch;
mod signals;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use http::{Request, Response};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::service::Routes;
use tower::{Layer, Service};

use crate::health::Health;
use crate::internal::{Verified, VerifyInternal};
use crate::metrics::Metrics;

pub use signals::signals;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// The grace time and the streams of a connection, unless said otherwise: as in
/// the configuration's defaults.
const GRACE: Duration = Duration::from_secs(10);
const MAX_STREAMS: u32 = 4096;

/// A port that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("cannot listen on {0}")]
    Bind(SocketAddr, #[source] io::Error),
}

/// Binds an address; port 0 takes a free one.
///
/// # Errors
///
/// When the address is taken or is not this host's.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let bound = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // A restart must not wait for the connections of the one before.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|error| ServeError::Bind(address, error))
}

/// What a port serves.
#[derive(Clone, Debug)]
pub struct Server<G> {
    grpc: G,
    pages: Router,
    health: Health,
    metrics: Metrics,
    grace: Duration,
    max_streams: u32,
}

impl Server<Verified<Routes>> {
    /// An internal port: signed gRPC calls alone, and the probes.
    pub fn internal(
        verify: &VerifyInternal,
        routes: Routes,
        health: Health,
        metrics: Metrics,
    ) -> Server<Verified<Routes>> {
        let pages = Router::new();
        Server::public(verify.layer(routes.prepare()), pages, health, metrics)
    }
}

impl<G> Server<G> {
    /// A public port: `grpc` answers all gRPC (and gRPC-web) requests, `pages`
    /// all others but the probes. Both bring their own authentication. `pages`
    /// must not have routes for `/livez`, `/readyz`, `/metrics`.
    pub fn public(grpc: G, pages: Router, health: Health, metrics: Metrics) -> Server<G> {
        Server {
            grpc,
            pages: health.pages(metrics.clone()).merge(pages),
            health,
            metrics,
            grace: GRACE,
            max_streams: MAX_STREAMS,
        }
    }

    /// How long stopping may take; 10 s unless said.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Server<G> {
        self.grace = grace;
        self
    }

    /// Calls and streams open at once on a connection; 4,096 unless said. More
    /// wait at the client.
    #[must_use]
    pub fn max_streams(mut self, max_streams: u32) -> Server<G> {
        self.max_streams = max_streams;
        self
    }

    /// Serves the port until `shutdown` is cancelled and everything is finished
    /// or cut, at most the grace time later.
    ///
    /// What fails on one connection is that connection's alone, and a listener
    /// that cannot accept for a moment (out of file descriptors) is tried again.
    pub async fn run(self, listener: TcpListener, shutdown: CancellationToken)
    where
        G: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
        G::Error: Into<crate::BoxError>,
        G::Future: Send + 'static,
    {
        let health = self.health.clone();
        let dispatch = dispatch::Dispatch::new(self.grpc, self.pages, &self.health, &self.metrics);
        let accept = accept::Accept {
            dispatch,
            grace: self.grace,
            max_streams: self.max_streams,
        };
        accept.run(listener, shutdown, move || health.drain()).await;
    }
}

//! Accepts connections, serves each in a task of its own, and ends them all.

use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;

use super::dispatch::Dispatch;

/// How long a client may take to send its request line and headers (HTTP/1.1).
const HEADER_PATIENCE: Duration = Duration::from_secs(20);

/// Quiet connections are asked whether they live, and given up without answer.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_PATIENCE: Duration = Duration::from_secs(10);

/// Header blocks that are accepted: errors carry details in headers.
const MAX_HEADERS: u32 = 64 * 1024;

/// How long to leave a listener alone that could not accept.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Accept<G> {
    pub(super) dispatch: Dispatch<G>,
    pub(super) grace: Duration,
    pub(super) max_streams: u32,
}

impl<G> Accept<G>
where
    G: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
    G::Error: Into<crate::BoxError>,
    G::Future: Send + 'static,
{
    /// Serves until `shutdown`, calls `draining`, and ends what is open.
    pub(super) async fn run(
        self,
        listener: TcpListener,
        shutdown: CancellationToken,
        draining: impl FnOnce(),
    ) {
        let builder = self.builder();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(_ended) = connections.join_next(), if !connections.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _from)) => {
                        let connection = connection(&builder, stream, self.dispatch.clone());
                        connections.spawn(until(connection, shutdown.clone()));
                    }
                    Err(error) => {
                        tracing::warn!("cannot accept a connection: {error}");
                        let _either = tokio::time::timeout(PAUSE, shutdown.cancelled()).await;
                    }
                },
            }
        }
        draining();
        drop(listener);
        let finished = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, finished).await.is_err() {
            let open = connections.len();
            tracing::info!("cutting {open} connections that are open after the grace time");
            connections.shutdown().await;
        }
    }

    fn builder(&self) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_PATIENCE);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_PATIENCE)
            .max_concurrent_streams(self.max_streams)
            .max_header_list_size(MAX_HEADERS);
        builder
    }
}

type Connection<G> = hyper_util::server::conn::auto::Connection<
    'static,
    TokioIo<TcpStream>,
    Dispatch<G>,
    TokioExecutor,
>;

fn connection<G>(
    builder: &Builder<TokioExecutor>,
    stream: TcpStream,
    dispatch: Dispatch<G>,
) -> Connection<G>
where
    Dispatch<G>: hyper::service::Service<Request<Incoming>, Response = Response<Body>>,
    <Dispatch<G> as hyper::service::Service<Request<Incoming>>>::Error: Into<crate::BoxError>,
    <Dispatch<G> as hyper::service::Service<Request<Incoming>>>::Future: Send + 'static,
{
    // Answers are small and waited for: send them at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY was refused: {error}");
    }
    builder
        .serve_connection(TokioIo::new(stream), dispatch)
        .into_owned()
}

/// Serves a connection to its end, and asks it to end when told to stop.
async fn until<G>(connection: Connection<G>, shutdown: CancellationToken)
where
    Dispatch<G>: hyper::service::Service<Request<Incoming>, Response = Response<Body>>,
    <Dispatch<G> as hyper::service::Service<Request<Incoming>>>::Error: Into<crate::BoxError>,
    <Dispatch<G> as hyper::service::Service<Request<Incoming>>>::Future: Send + 'static,
{
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients go away as they please.
        tracing::debug!("a connection ended: {error}");
    }
}

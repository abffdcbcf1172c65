//! One HTTP/2 connection to one instance of a service, made when it is needed
//! and made again when it broke.
//!
//! Straight on hyper: a request goes from the caller to the connection's task
//! and back, without the worker task that a general client puts in between.

use std::fmt;
use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use http::uri::{PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::sync::Arc;
use tokio::net::TcpStream;
use tonic::body::Body;

use crate::config::Address;

/// How long a connection may take to be made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// Quiet connections are asked whether they live, and given up without answer.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_PATIENCE: Duration = Duration::from_secs(5);

/// How long an instance that could not be reached comes last.
const LATELY: Duration = Duration::from_millis(500);

/// Header blocks that are accepted: errors carry details in headers.
const MAX_HEADERS: u32 = 64 * 1024;

/// Bytes that an answer and all answers together may be ahead of their reader.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

type Sender = http2::SendRequest<Body>;

/// A connection to one address.
pub(super) struct Link {
    address: Address,
    sender: ArcSwapOption<Sender>,
    connecting: tokio::sync::Mutex<()>,
    failed_at: Mutex<Option<Instant>>,
    /// Which of the host's addresses is tried first.
    resolved: AtomicUsize,
}

/// A call that was not answered.
pub(super) enum Failure {
    /// It was certainly not received; here it is back.
    NotSent {
        request: Box<Request<Body>>,
        error: ConnectError,
    },
    /// It may have been received.
    Lost(hyper::Error),
}

/// A connection that cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("resolving its name: {0}")]
    Resolve(io::Error),
    #[error("its name has no address")]
    NoAddress,
    #[error("connecting: {0}")]
    Connect(io::Error),
    #[error("no connection within {} s", CONNECT_PATIENCE.as_secs())]
    TimedOut,
    #[error("HTTP/2: {0}")]
    Handshake(hyper::Error),
    #[error("its connection was closing")]
    Closing,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

impl Link {
    pub(super) fn new(address: Address) -> Link {
        Link {
            address,
            sender: ArcSwapOption::empty(),
            connecting: tokio::sync::Mutex::new(()),
            failed_at: Mutex::new(None),
            resolved: AtomicUsize::new(0),
        }
    }

    /// Whether a connection could not be made a moment ago.
    pub(super) fn failed_lately(&self) -> bool {
        let failed_at = self
            .failed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        failed_at.is_some_and(|at| at.elapsed() < LATELY)
    }

    /// Sends a request and waits for the headers of its answer.
    pub(super) async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Failure> {
        self.aim(&mut request);
        // A connection that was closing hands the request back: once more on a
        // fresh one.
        for _ in 0..2 {
            let mut sender = match self.connected().await {
                Ok(sender) => sender,
                Err(error) => {
                    return Err(Failure::NotSent {
                        request: Box::new(request),
                        error,
                    });
                }
            };
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(response.map(Body::new)),
                Err(mut failed) => match failed.take_message() {
                    Some(back) => request = back,
                    None => return Err(Failure::Lost(failed.into_error())),
                },
            }
        }
        Err(Failure::NotSent {
            request: Box::new(request),
            error: ConnectError::Closing,
        })
    }

    /// HTTP/2 wants the whole address; generated clients give the path.
    fn aim(&self, request: &mut Request<Body>) {
        let path = request.uri().path_and_query().cloned();
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = self.address.uri().authority().cloned();
        parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        *request.uri_mut() = Uri::from_parts(parts).expect("scheme, authority and path are there");
    }

    async fn connected(&self) -> Result<Sender, ConnectError> {
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        // One connects; the others wait and use what it made.
        let _connecting = self.connecting.lock().await;
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        let made = match tokio::time::timeout(CONNECT_PATIENCE, self.connect()).await {
            Ok(made) => made,
            Err(_elapsed) => Err(ConnectError::TimedOut),
        };
        *self
            .failed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = made.is_err().then(Instant::now);
        let sender = made?;
        self.sender.store(Some(Arc::new(sender.clone())));
        Ok(sender)
    }

    fn open(&self) -> Option<Sender> {
        let sender = self.sender.load();
        let sender = sender.as_deref()?;
        (!sender.is_closed()).then(|| sender.clone())
    }

    async fn connect(&self) -> Result<Sender, ConnectError> {
        let stream = self.dial().await?;
        stream.set_nodelay(true).map_err(ConnectError::Connect)?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_PATIENCE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(ConnectError::Handshake)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection to a sibling ended: {error}");
            }
        });
        Ok(sender)
    }

    /// Connects to the host's addresses in turn, starting at another one each
    /// time: behind one name may be several instances, some of them gone.
    async fn dial(&self) -> Result<TcpStream, ConnectError> {
        let uri = self.address.uri();
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(80);
        let found = tokio::net::lookup_host((host, port)).await;
        let found: Vec<_> = found.map_err(ConnectError::Resolve)?.collect();
        let first = self.resolved.fetch_add(1, Ordering::Relaxed);
        let mut failed = ConnectError::NoAddress;
        for n in 0..found.len() {
            let address = found[(first + n) % found.len()];
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = ConnectError::Connect(error),
            }
        }
        Err(failed)
    }
}

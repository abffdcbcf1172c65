//! A tiny gRPC service to be served: the generated health service and client
//! under another name (the real one answers outside of authentication).

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt};
use http::{Request, Uri};
use sayso_service::config::{Address, Key};
use sayso_service::error::{Coded, Kind};
use sayso_service::health::Health;
use sayso_service::internal::{InternalCaller, SignInternal, VerifyInternal};
use sayso_service::metrics::Metrics;
use sayso_service::peer::Peer;
use sayso_service::serve::{self, Server};
use sayso_service::telemetry::propagate;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health as Service, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::ServiceExt;

const REAL: &str = "/grpc.health.v1.Health/";
const NAME: &str = "/test.Probe/";

/// What the service does is asked for by the request's name.
#[derive(Clone, Default)]
pub(crate) struct Probe {
    pub(crate) calls: Arc<AtomicUsize>,
    /// Streams that are open.
    pub(crate) open: Arc<AtomicUsize>,
    /// A `wait` call has begun.
    pub(crate) begun: Arc<Notify>,
    /// Lets a `wait` call end.
    pub(crate) release: Arc<Notify>,
}

struct Open(Arc<AtomicUsize>);

impl Open {
    fn count(open: &Arc<AtomicUsize>) -> Open {
        open.fetch_add(1, Ordering::SeqCst);
        Open(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tonic::async_trait]
impl Service for Probe {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let caller = request.extensions().get::<InternalCaller>().cloned();
        match request.get_ref().service.as_str() {
            "panic" => panic!("the handler's secret"),
            "hang" => std::future::pending().await,
            "wait" => {
                self.begun.notify_one();
                self.release.notified().await;
            }
            "refuse" => {
                let mut coded = Coded::new(Kind::Invalid, "bundle.invalid", "Fix the fields.");
                for n in 0..2000 {
                    coded = coded.field(format!("rules[{n}].tool"), "no such tool");
                }
                return Err(coded.into());
            }
            _ => {}
        }
        let mut response = Response::new(HealthCheckResponse { status: 1 });
        if let Some(caller) = caller {
            let caller = caller.service.parse().expect("a metadata value");
            response.metadata_mut().insert("caller", caller);
        }
        if let Some(trace) = propagate::traceparent() {
            let trace = trace.parse().expect("a metadata value");
            response.metadata_mut().insert("trace-seen", trace);
        }
        Ok(response)
    }

    /// An endless stream that listens to nothing; after one item it panics if
    /// it was asked to.
    async fn watch(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let open = Open::count(&self.open);
        let first = futures::stream::iter([Ok(HealthCheckResponse { status: 1 })]);
        let panics = request.get_ref().service == "panic";
        let rest = futures::stream::poll_fn(move |_| {
            let _held = &open;
            assert!(!panics, "the stream's secret");
            std::task::Poll::Pending
        });
        Ok(Response::new(Box::pin(first.chain(rest))))
    }
}

fn rename<B>(mut request: Request<B>, from: &str, to: &str) -> Request<B> {
    let mut parts = request.uri().clone().into_parts();
    let path = request.uri().path().replace(from, to);
    parts.path_and_query = Some(path.parse().expect("a path"));
    *request.uri_mut() = Uri::from_parts(parts).expect("a URI");
    request
}

impl Probe {
    pub(crate) fn routes(&self) -> Routes {
        let service = HealthServer::new(self.clone());
        let service = service.map_request(|request| rename(request, NAME, REAL));
        axum::Router::new()
            .route_service("/test.Probe/{*rest}", service)
            .into()
    }
}

/// A generated client of the probe.
pub(crate) fn client(
    peer: Peer,
) -> HealthClient<
    impl tower::Service<
        Request<Body>,
        Response = http::Response<Body>,
        Error = std::convert::Infallible,
        Future: Send,
    > + Clone
    + Send,
> {
    HealthClient::new(peer.map_request(|request| rename(request, REAL, NAME)))
}

pub(crate) fn ask(service: &str) -> tonic::Request<HealthCheckRequest> {
    tonic::Request::new(HealthCheckRequest {
        service: service.to_owned(),
    })
}

/// A served probe.
pub(crate) struct Served {
    pub(crate) probe: Probe,
    pub(crate) key: Key,
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: CancellationToken,
    pub(crate) ended: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(grace: Duration) -> Served {
        Served::at(
            SocketAddr::from(([127, 0, 0, 1], 0)),
            Key::generate(),
            grace,
        )
        .await
    }

    pub(crate) async fn at(address: SocketAddr, key: Key, grace: Duration) -> Served {
        let listener = serve::bind(address).await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let probe = Probe::default();
        let metrics = Metrics::new();
        let shutdown = CancellationToken::new();
        let verify = VerifyInternal::new(&key);
        let health = Health::new();
        health.service("test.Probe");
        let server = Server::internal(&verify, probe.routes(), health, metrics.clone());
        let ended = tokio::spawn(server.grace(grace).run(listener, shutdown.clone()));
        Served {
            probe,
            key,
            address,
            metrics,
            shutdown,
            ended,
        }
    }

    pub(crate) fn address(&self) -> Address {
        Address::parse(&self.address.to_string()).expect("an address")
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer::remote(&[self.address()], self.signer())
    }

    pub(crate) fn signer(&self) -> SignInternal {
        SignInternal::new("tests", &self.key)
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.ended.await.expect("no panic");
    }
}

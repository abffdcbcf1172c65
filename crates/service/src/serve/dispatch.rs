//! Sends each request to whoever answers it, inside its span and its guards.

use std::convert::Infallible;
use std::time::Instant;

use axum::Router;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use tonic::Code;
use tonic::body::Body;
use tonic::service::Routes;
use tower::{Service, ServiceExt};
use tracing::{Instrument, Span};

use crate::guard;
use crate::health::Health;
use crate::metrics::{Histograms, Metrics, SECONDS};
use crate::telemetry::propagate;

const HEALTH: &str = "/grpc.health.v1.Health/";

/// What answers on a port.
#[derive(Clone)]
pub(super) struct Dispatch<G> {
    grpc: G,
    health: Routes,
    pages: Router,
    seconds: Histograms,
}

impl<G> Dispatch<G> {
    pub(super) fn new(grpc: G, pages: Router, health: &Health, metrics: &Metrics) -> Dispatch<G> {
        Dispatch {
            grpc,
            health: Routes::new(health.grpc()).prepare(),
            pages,
            seconds: metrics.histogram(
                "sayso_rpc_seconds",
                "Time from a gRPC request's headers to the headers of its answer.",
                &["method", "code"],
                SECONDS,
            ),
        }
    }
}

impl<G> hyper::service::Service<Request<Incoming>> for Dispatch<G>
where
    G: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
    G::Error: Into<crate::BoxError>,
    G::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = crate::BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, crate::BoxError>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if !is_grpc(request.headers()) {
            let pages = self.pages.clone();
            return Box::pin(async move {
                let answered: Result<_, Infallible> = pages.oneshot(request).await;
                Ok(answered?.map(Body::new))
            });
        }
        let request = request.map(Body::new);
        if request.uri().path().starts_with(HEALTH) {
            let health = self.health.clone();
            return Box::pin(async move { Ok(health.oneshot(request).await?) });
        }
        let grpc = self.grpc.clone();
        let seconds = self.seconds.clone();
        let span = span(&request);
        Box::pin(
            async move {
                let path = request.uri().path().to_owned();
                let begun = Instant::now();
                let deadline = guard::deadline(request.headers());
                let call = async { grpc.oneshot(request).await.map_err(Into::into) };
                let response = guard::answer(deadline, call).await?;
                observe(&seconds, &path, begun, response.headers());
                Ok(response)
            }
            .instrument(span),
        )
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// The span of a call, in the trace of its caller.
fn span<B>(request: &Request<B>) -> Span {
    let path = request.uri().path();
    let span = tracing::info_span!(
        "rpc",
        otel.name = path.trim_start_matches('/'),
        otel.kind = "server",
        rpc.system = "grpc",
    );
    if !span.is_disabled() {
        propagate::follow(&span, propagate::extract(request.headers()));
    }
    span
}

/// Measures a call. A status in the headers is a refusal; without one the call
/// went through (or answers in a stream, whose end is not waited for). Paths of
/// methods that do not exist come from strangers: they share one label.
fn observe(seconds: &Histograms, path: &str, begun: Instant, headers: &HeaderMap) {
    let code = match headers.get("grpc-status") {
        None => Code::Ok,
        Some(value) => Code::from_bytes(value.as_bytes()),
    };
    let method = match code {
        Code::Unimplemented | Code::Unauthenticated => "other",
        _ => path.trim_start_matches('/'),
    };
    let took = begun.elapsed().as_secs_f64();
    seconds.with(&[method, &format!("{code:?}")]).observe(took);
}

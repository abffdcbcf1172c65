//! The public API over HTTP and JSON (S6.13): `/v1/…` and `/openapi.json`.
//!
//! Each method stands where its `google.api.http` option says ([`table`]). A request becomes the
//! method's message ([`incoming`], [`query`]) and is handed to the very services that answer gRPC, in
//! this process, with its token ([`call`]): authentication, scopes, four-eyes and the audit of refused
//! decisions are theirs, and nothing is decided here. Answers are canonical protobuf JSON ([`unary`]),
//! streams are server-sent events ([`stream`]), refusals are problems ([`problem`]).
//!
//! The token is looked at before the body is read, so that strangers make nobody parse megabytes; the
//! service looks again.
//!
//! | status | when |
//! |---|---|
//! | 200 | done, or the stream begins |
//! | 204 | `OPTIONS`; the header `Allow` says what is answered |
//! | 4xx, 5xx | a problem: the code says which, `docs/api.md` what to do |

pub(crate) mod call;
pub(crate) mod cors;
pub(crate) mod incoming;
mod openapi;
pub(crate) mod problem;
mod query;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod template;
mod unary;
mod unique;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, options};
use bytes::Bytes;
use futures::{StreamExt, stream as streams};
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use prost::Message;
use prost_reflect::{DynamicMessage, Value};
use sayso_service::peer::Peer;
use sayso_service::telemetry::propagate;
use tokio::sync::oneshot;
use tonic::service::Routes;
use tracing::Instrument;

use crate::api::SERVICES;
use crate::auth::{Authenticator, admit};
use call::Calls;
use cors::Cors;
use incoming::{Dialect, Incoming};
use problem::Problem;
use table::{PlaceBody, Table};

pub use table::BadRule;

/// Types of bodies that are taken as bytes.
const BYTES: [&str; 3] = [
    "application/x-ndjson",
    "application/jsonl",
    "application/octet-stream",
];

/// What a browser is told of gRPC-web.
const POST: HeaderValue = HeaderValue::from_static("POST");

/// The API's door for HTTP.
#[derive(Clone)]
pub(crate) struct Door {
    inner: Arc<Inner>,
}

struct Inner {
    table: Table,
    calls: Calls,
    auth: Authenticator,
    cors: Cors,
    description: Bytes,
}

impl Door {
    /// A door to these services.
    ///
    /// # Errors
    ///
    /// When a method cannot stand where its rule says: a fault of the build.
    pub(crate) fn new(services: Routes, auth: &Authenticator, cors: Cors) -> Result<Door, BadRule> {
        let table = Table::of(table::PACKAGE)?;
        Ok(Door {
            inner: Arc::new(Inner {
                description: openapi::document(&table).to_string().into(),
                table,
                calls: Calls::new(Peer::unsigned(services)),
                auth: auth.clone(),
                cors,
            }),
        })
    }

    /// The routes.
    pub(crate) fn router(&self) -> Router {
        let mut router = Router::new()
            .route("/v1", any(answer))
            .route("/v1/", any(answer))
            .route("/v1/{*path}", any(answer))
            .route("/openapi.json", get(description));
        // Browsers ask before they call over gRPC-web.
        for service in SERVICES {
            router = router.route(&format!("/{service}/{{method}}"), options(before_grpc_web));
        }
        router.with_state(self.clone())
    }
}

async fn answer(State(door): State<Door>, request: Request) -> Response {
    let span = tracing::info_span!(
        "http",
        otel.name = %format_args!("{} /v1", request.method()),
        otel.kind = "server",
    );
    if !span.is_disabled() {
        propagate::follow(&span, propagate::extract(request.headers()));
    }
    door.answer(request).instrument(span).await
}

/// The API's description; it needs no token, for the API is no secret.
async fn description(State(door): State<Door>, headers: HeaderMap) -> Response {
    let json = [(CONTENT_TYPE, "application/json")];
    let mut response = (json, door.inner.description.clone()).into_response();
    if let Some(origin) = door.inner.cors.origin(&headers) {
        Cors::open(origin, response.headers_mut());
    }
    response
}

async fn before_grpc_web(State(door): State<Door>, headers: HeaderMap) -> Response {
    let mut response = (StatusCode::NO_CONTENT, [(ALLOW, POST)]).into_response();
    if let Some(origin) = door.inner.cors.origin(&headers) {
        Cors::preflight(&POST, &headers, response.headers_mut());
        Cors::open(origin, response.headers_mut());
    }
    response
}

impl Door {
    async fn answer(&self, request: Request) -> Response {
        let origin = self.inner.cors.origin(request.headers());
        let mut response = match self.find(request).await {
            Ok(response) => response,
            Err(problem) => problem.into_response(),
        };
        if let Some(origin) = origin {
            Cors::open(origin, response.headers_mut());
        }
        response
    }

    async fn find(&self, request: Request) -> Result<Response, Problem> {
        let (parts, body) = request.into_parts();
        let found = self.inner.table.find(parts.uri.path());
        let found = found.ok_or_else(Problem::not_found)?;
        let allowed = found.allowed();
        if parts.method == Method::OPTIONS {
            return Ok(self.options(&allowed, &parts.headers));
        }
        let answering = found.answering(&parts.method);
        let (place, captured) = answering.ok_or_else(|| Problem::method_not_allowed(&allowed))?;
        admit(&self.inner.auth, &parts.headers, place.rpc.path()).await?;
        let incoming = Incoming {
            place,
            captured,
            query: parts.uri.query(),
            headers: &parts.headers,
            dialect: Dialect::OWN,
        };
        let response = self.call(&incoming, body).await?;
        Ok(match parts.method {
            Method::HEAD => without_body(response),
            _ => response,
        })
    }

    fn options(&self, allowed: &str, asked: &HeaderMap) -> Response {
        let mut response = StatusCode::NO_CONTENT.into_response();
        if let Ok(allowed) = HeaderValue::from_str(allowed) {
            let headers = response.headers_mut();
            if self.inner.cors.origin(asked).is_some() {
                Cors::preflight(&allowed, asked, headers);
            }
            headers.insert(ALLOW, allowed);
        }
        response
    }

    async fn call(&self, incoming: &Incoming<'_>, body: Body) -> Result<Response, Problem> {
        let place = incoming.place;
        let (calls, headers) = (&self.inner.calls, incoming.headers);
        let (rpc, output) = (place.rpc.clone(), place.method.output());
        if let PlaceBody::Pieces(field) = &place.body {
            incoming.check_type(&BYTES)?;
            let empty = incoming.message(Body::empty()).await?;
            let (pieces, broken) = pieces(body, empty, field.clone());
            let sent = calls.send(rpc, headers, pieces);
            let answer = tokio::select! {
                biased;
                // Whoever stopped half way must not have sent the half.
                Ok(()) = broken => return Err(Problem::invalid("The body broke off.")),
                answer = sent => answer?,
            };
            return Ok(unary::answer(answer, output)?);
        }
        let message = incoming.message(body).await?.encode_to_vec().into();
        if place.is_watch() {
            let stream = calls.watch(rpc, headers, message).await?;
            return Ok(stream::answer(stream, output));
        }
        let answer = calls.unary(rpc, headers, message).await?;
        Ok(unary::answer(answer, output)?)
    }
}

/// The head of an answer, which says how long its body would be.
pub(crate) fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    response.map(|_| Body::empty())
}

/// A body as messages with one field of bytes each, and word if it breaks off: the messages then
/// never come to an end.
fn pieces(
    body: Body,
    empty: DynamicMessage,
    field: String,
) -> (
    impl futures::Stream<Item = Bytes> + Send + 'static,
    oneshot::Receiver<()>,
) {
    let (tell, broken) = oneshot::channel();
    let state = (body.into_data_stream(), Some(tell), empty, field);
    let pieces = streams::unfold(state, |mut state| async move {
        match state.0.next().await {
            None => None,
            Some(Ok(bytes)) => {
                let mut message = state.2.clone();
                message.set_field_by_name(&state.3, Value::Bytes(bytes));
                Some((message.encode_to_vec().into(), state))
            }
            Some(Err(_)) => {
                if let Some(tell) = state.1.take() {
                    // Nobody listens any more if the call has ended.
                    let _unheard = tell.send(());
                }
                std::future::pending().await
            }
        }
    });
    (pieces, broken)
}

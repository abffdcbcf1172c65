//! The doors for JSON over HTTP: cards, JSON-RPC, and the protocol's own paths.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use futures::stream::unfold;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, LAST_MODIFIED,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use sayso_run::{AgentName, Namespace};
use sayso_service::error::{Coded, Kind};
use sayso_service::peer::Peer;
use sayso_wire::json::to_json;
use serde_json::json;
use tonic::service::Routes;
use tonic::{Status, Streaming};

use super::card::card;
use super::fault::{Told, unread};
use super::service::VERSION_HEADER;
use super::written::written;
use super::{PACKAGE, file, rpc};
use crate::Shared;
use crate::auth::{NAMESPACE_HEADER, admit};
use crate::http::call::Calls;
use crate::http::cors::Cors;
use crate::http::incoming::{Dialect, Incoming};
use crate::http::problem::Problem;
use crate::http::stream::{KEEP_ALIVE, UNBUFFERED};
use crate::http::table::{BadRule, Place, Table};
use crate::http::without_body;

/// The path of a card below an agent's door, and at the root.
const CARD: &str = "/.well-known/agent-card.json";

/// How long a card may be kept without asking again.
const FRESH: HeaderValue = HeaderValue::from_static("public, max-age=60");

/// The media type of the protocol, which is answered to who asks for it.
const A2A_JSON: &str = "application/a2a+json";
const JSON: &str = "application/json";

/// The A2A doors.
#[derive(Clone)]
pub(crate) struct Door {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    table: Table,
    calls: Calls,
}

/// The agent that a path names.
pub(super) struct Named {
    pub(super) namespace: String,
    pub(super) agent: String,
}

impl Door {
    /// Doors to these services.
    ///
    /// # Errors
    ///
    /// When a method cannot stand where its rule says: a fault of the build.
    pub(crate) fn new(services: Routes, shared: &Arc<Shared>) -> Result<Door, BadRule> {
        let mut table = Table::of(PACKAGE)?;
        // The protocol's text has it as POST, its file as GET.
        table.also("SubscribeToTask", &Method::POST);
        Ok(Door {
            inner: Arc::new(Inner {
                shared: Arc::clone(shared),
                table,
                calls: Calls::new(Peer::unsigned(services)),
            }),
        })
    }

    /// The routes.
    pub(crate) fn router(&self) -> Router {
        Router::new()
            .route(CARD, get(root_card))
            .route(
                &format!("/a2a/{{namespace}}/{{agent}}{CARD}"),
                get(agent_card),
            )
            .route("/a2a/{namespace}/{agent}", any(answer_rpc))
            .route("/a2a/{namespace}/{agent}/", any(answer_rpc))
            .route("/a2a/{namespace}/{agent}/{*path}", any(answer))
            .with_state(self.clone())
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.inner.calls
    }

    /// Whether the token permits the method, before anything else is looked at.
    pub(super) async fn admit(&self, headers: &HeaderMap, place: &Place) -> Result<(), Coded> {
        admit(&self.inner.shared.auth, headers, place.rpc.path()).await
    }

    /// The place of a method by its name.
    pub(super) fn place(&self, method: &str) -> Option<&Place> {
        let mut places = self.inner.table.places().iter();
        places.find(|place| place.method.name() == method)
    }

    fn cors(&self) -> &Cors {
        &self.inner.shared.cors
    }

    /// Adds what a page of another origin may read.
    fn opened(&self, origin: Option<HeaderValue>, mut response: Response) -> Response {
        if let Some(origin) = origin {
            Cors::open(origin, response.headers_mut());
        }
        response
    }

    fn options(&self, allowed: &str, asked: &HeaderMap) -> Response {
        let mut response = StatusCode::NO_CONTENT.into_response();
        if let Ok(allowed) = HeaderValue::from_str(allowed) {
            let headers = response.headers_mut();
            if self.cors().origin(asked).is_some() {
                Cors::preflight(&allowed, asked, headers);
            }
            headers.insert(ALLOW, allowed);
        }
        response
    }

    async fn card(&self, named: &Named, parts: &Parts) -> Result<Response, Coded> {
        let shared = &self.inner.shared;
        let namespace = Namespace::new(&named.namespace).map_err(|_| no_card())?;
        let agent = AgentName::new(&named.agent).map_err(|_| no_card())?;
        let offered = shared.offered.get(shared, &namespace, &agent).await?;
        let offered = offered.ok_or_else(no_card)?;
        let url = match &shared.a2a.public_url {
            Some(url) => url.clone(),
            None => asked_under(parts),
        };
        let card = to_json(&card(&offered, &url, shared.secret_keys.is_some()));
        let digest = sayso_run::Digest::of(card.as_bytes()).to_hex();
        let tag = format!("\"{}\"", &digest[..32]);
        let known = parts.headers.get_all(IF_NONE_MATCH).iter();
        let mut known = known.filter_map(|known| known.to_str().ok());
        let is_known = known.any(|known| known.split(',').any(|one| one.trim() == tag));
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => ([(CONTENT_TYPE, JSON)], card).into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, FRESH);
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        if let Ok(date) = HeaderValue::from_str(&http_date(offered.deployed)) {
            headers.insert(LAST_MODIFIED, date);
        }
        Ok(response)
    }

    async fn find(&self, named: &Named, request: Request) -> Result<Response, Told> {
        let (mut parts, body) = request.into_parts();
        let path = below(parts.uri.path()).to_owned();
        if let Some((task, file)) = file::at(&path) {
            named.name_in(&mut parts.headers)?;
            return file::answer(&self.inner.shared, named, &parts, task, file).await;
        }
        let found = self.inner.table.find(&path).ok_or_else(nothing_here)?;
        let allowed = found.allowed();
        if parts.method == Method::OPTIONS {
            return Ok(self.options(&allowed, &parts.headers));
        }
        let answering = found.answering(&parts.method);
        let (place, captured) = answering.ok_or_else(|| {
            let problem = Problem::method_not_allowed(&allowed);
            Told::from(problem.into_coded()).with_http(StatusCode::METHOD_NOT_ALLOWED)
        })?;
        named.name_in(&mut parts.headers)?;
        say_version(&mut parts);
        self.admit(&parts.headers, place).await?;
        let incoming = Incoming {
            place,
            captured,
            query: parts.uri.query(),
            headers: &parts.headers,
            dialect: Dialect::A2A,
        };
        let message = incoming.message(body).await.map_err(unread)?;
        let message = named.name_to(message)?.encode_to_vec().into();
        let json = json_type(&parts.headers);
        let response = self.call(place, &parts.headers, message, json).await?;
        Ok(match parts.method {
            Method::HEAD => without_body(response),
            _ => response,
        })
    }

    async fn call(
        &self,
        place: &Place,
        headers: &HeaderMap,
        message: Bytes,
        json: &'static str,
    ) -> Result<Response, Told> {
        let (rpc, output) = (place.rpc.clone(), place.method.output());
        if place.is_watch() {
            let stream = self.inner.calls.watch(rpc, headers, message).await;
            let stream = stream.map_err(|status| Told::from(&status))?;
            return Ok(events(stream, output, |told| match told {
                Ok(json) => Event::default().data(json.to_string()),
                Err(told) => Event::default()
                    .event("error")
                    .data(told.http_error().to_string()),
            }));
        }
        let answer = self.inner.calls.unary(rpc, headers, message).await;
        let answer = answer.map_err(|status| Told::from(&status))?;
        let body = written(answer, output)?.to_string();
        let headers = [(CONTENT_TYPE, json), (CACHE_CONTROL, "no-store")];
        Ok((headers, body).into_response())
    }
}

impl Named {
    /// Says which namespace is meant: the token has to open it.
    pub(super) fn name_in(&self, headers: &mut HeaderMap) -> Result<(), Told> {
        let namespace = HeaderValue::from_str(&self.namespace).map_err(|_| nothing_here())?;
        headers.append(HeaderName::from_static(NAMESPACE_HEADER), namespace);
        Ok(())
    }

    /// Says which agent is meant. A client that names another one is wrong.
    pub(super) fn name_to(&self, mut message: DynamicMessage) -> Result<DynamicMessage, Told> {
        let said = message.get_field_by_name("tenant");
        let said = said.as_deref().and_then(Value::as_str).unwrap_or_default();
        if !said.is_empty() && said != self.agent {
            return Err(
                Problem::field("tenant", "must be the one in the agent's card")
                    .into_coded()
                    .into(),
            );
        }
        message.set_field_by_name("tenant", Value::String(self.agent.clone()));
        Ok(message)
    }
}

/// Messages of a stream as events, each as `write` has it; after an error nothing follows.
pub(super) fn events(
    stream: Streaming<Bytes>,
    output: MessageDescriptor,
    write: impl Fn(Result<serde_json::Value, Told>) -> Event + Clone + Send + 'static,
) -> Response {
    let events = unfold(Some(stream), move |stream| {
        let (output, write) = (output.clone(), write.clone());
        async move {
            let mut stream = stream?;
            let told = match stream.message().await {
                Ok(Some(bytes)) => written(bytes, output).map_err(Told::from),
                Ok(None) => return None,
                Err(status) => Err(Told::from(&status)),
            };
            let rest = told.is_ok().then_some(stream);
            Some((Ok::<_, Infallible>(write(told)), rest))
        }
    });
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    ([(CACHE_CONTROL, "no-store"), UNBUFFERED], events).into_response()
}

async fn root_card(State(door): State<Door>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let origin = door.cors().origin(&parts.headers);
    let response = match &door.inner.shared.a2a.root {
        None => Problem::from(no_card()).into_response(),
        Some((namespace, agent)) => {
            let named = Named {
                namespace: namespace.to_string(),
                agent: agent.to_string(),
            };
            let card = door.card(&named, &parts).await;
            card.unwrap_or_else(|coded| Problem::from(coded).into_response())
        }
    };
    door.opened(origin, response)
}

async fn agent_card(
    State(door): State<Door>,
    Path((namespace, agent)): Path<(String, String)>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let origin = door.cors().origin(&parts.headers);
    let card = door.card(&Named { namespace, agent }, &parts).await;
    let response = card.unwrap_or_else(|coded| Problem::from(coded).into_response());
    door.opened(origin, response)
}

async fn answer(
    State(door): State<Door>,
    Path((namespace, agent, _)): Path<(String, String, String)>,
    request: Request,
) -> Response {
    let origin = door.cors().origin(request.headers());
    let json = json_type(request.headers());
    let found = door.find(&Named { namespace, agent }, request).await;
    let response = found.unwrap_or_else(|told| refused(told.http, told.http_error(), json));
    door.opened(origin, response)
}

async fn answer_rpc(
    State(door): State<Door>,
    Path((namespace, agent)): Path<(String, String)>,
    request: Request,
) -> Response {
    let origin = door.cors().origin(request.headers());
    let response = match *request.method() {
        Method::POST => {
            let (mut parts, body) = request.into_parts();
            say_version(&mut parts);
            rpc::answer(&door, &Named { namespace, agent }, parts.headers, body).await
        }
        Method::OPTIONS => door.options("OPTIONS, POST", request.headers()),
        _ => {
            let mut response = Problem::method_not_allowed("OPTIONS, POST").into_response();
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("OPTIONS, POST"));
            response
        }
    };
    door.opened(origin, response)
}

/// A refusal with its status, and what belongs to that.
pub(super) fn refused(status: StatusCode, body: serde_json::Value, json: &'static str) -> Response {
    let headers = [(CONTENT_TYPE, json), (CACHE_CONTROL, "no-store")];
    let mut response = (status, headers, body.to_string()).into_response();
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// What stands below an agent's door, as it was sent.
fn below(path: &str) -> &str {
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    slashes.nth(3).map_or("/", |at| &path[at..])
}

/// The media type that the client reads, if it says so.
fn json_type(headers: &HeaderMap) -> &'static str {
    let mut accepts = headers.get_all(ACCEPT).iter();
    let wants = accepts.any(|accept| accept.to_str().is_ok_and(|text| text.contains(A2A_JSON)));
    if wants { A2A_JSON } else { JSON }
}

/// A version may stand in the query where it does not stand in a header.
fn say_version(parts: &mut Parts) {
    if parts.headers.contains_key(VERSION_HEADER) {
        return;
    }
    let query = parts.uri.query().unwrap_or_default();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let said = pairs.find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER));
    if let Some(Ok(said)) = said.map(|(_, said)| HeaderValue::from_str(said)) {
        parts.headers.insert(VERSION_HEADER, said);
    }
}

/// The URL of this server as the request has it.
fn asked_under(parts: &Parts) -> String {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
    format!("http://{}", host.unwrap_or("localhost"))
}

/// A time as HTTP writes it.
fn http_date(at: sayso_run::Timestamp) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let text = at.to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let month: usize = part(5..7).parse().unwrap_or(1);
    let days = at.micros().div_euclid(86_400_000_000);
    let day = usize::try_from(days.rem_euclid(7)).unwrap_or_default();
    format!(
        "{}, {} {} {} {} GMT",
        DAYS[day],
        part(8..10),
        MONTHS[month.clamp(1, 12) - 1],
        part(0..4),
        part(11..19),
    )
}

fn no_card() -> Coded {
    let sentence = "No agent is offered to A2A clients here; a bundle says `a2a: true`.";
    Coded::new(Kind::NotFound, "agent.not_found", sentence)
}

fn nothing_here() -> Told {
    let status: Status = Problem::not_found().into_coded().into();
    Told::from(&status)
}

/// A body that is not read is told so by JSON-RPC.
pub(super) async fn body_of(body: Body) -> Result<Bytes, Told> {
    let whole = crate::http::incoming::whole(body).await;
    Ok(whole.map_err(Problem::into_coded)?)
}

/// An answer of JSON-RPC.
pub(super) fn rpc_response(body: &serde_json::Value) -> Response {
    let headers = [(CONTENT_TYPE, JSON), (CACHE_CONTROL, "no-store")];
    (headers, body.to_string()).into_response()
}

/// An error of JSON-RPC. Refused tokens have the status that HTTP has for them.
pub(super) fn rpc_refused(id: &serde_json::Value, told: &Told) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": id, "error": told.rpc_error()});
    match told.http {
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => refused(status, body, JSON),
        _ => rpc_response(&body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_below_the_door_is_a_path() {
        assert_eq!(
            below("/a2a/shop/desk/tasks/run_1:cancel"),
            "/tasks/run_1:cancel"
        );
        assert_eq!(below("/a2a/shop/desk"), "/");
    }

    #[test]
    fn times_are_written_as_http_has_them() {
        let at = sayso_run::Timestamp::from_micros(784_111_777_000_000);
        assert_eq!(http_date(at), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    /// S6.13: the paths of the protocol lead to its methods.
    #[test]
    fn s6_13_each_path_leads_to_its_method() {
        let mut table = Table::of(PACKAGE).unwrap();
        table.also("SubscribeToTask", &Method::POST);
        for (verb, path, method) in [
            (Method::POST, "/message:send", "SendMessage"),
            (Method::POST, "/message:stream", "SendStreamingMessage"),
            (Method::GET, "/tasks", "ListTasks"),
            (Method::GET, "/tasks/run_1", "GetTask"),
            (Method::POST, "/tasks/run_1:cancel", "CancelTask"),
            (Method::GET, "/tasks/run_1:subscribe", "SubscribeToTask"),
            (Method::POST, "/tasks/run_1:subscribe", "SubscribeToTask"),
            (Method::GET, "/desk/tasks/run_1", "GetTask"),
            (Method::POST, "/desk/message:send", "SendMessage"),
            (
                Method::DELETE,
                "/tasks/run_1/pushNotificationConfigs/a",
                "DeleteTaskPushNotificationConfig",
            ),
            (Method::GET, "/extendedAgentCard", "GetExtendedAgentCard"),
        ] {
            let found = table.find(path).unwrap().answering(&verb);
            let (place, _) = found.unwrap_or_else(|| panic!("{verb} {path}"));
            assert_eq!(place.method.name(), method, "{verb} {path}");
        }
    }
}

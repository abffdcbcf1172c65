//! What the script listens to: pages' parts as they change, rendered here.
//!
//! Behind each stream stands the watch of the public API, so a stream ends when its token is revoked,
//! as gRPC's do; the browser then asks again and is led to the login. What is heard in one go makes
//! one event of each part, so a burst of changes costs one look. A run's events carry its steps'
//! sequence numbers as ids: a browser that reconnects says the last one, and misses nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, ReadyChunks, StreamExt, unfold};
use futures::{FutureExt, Stream};
use http::HeaderMap;
use maud::Render;
use sayso_run::StepKind;
use sayso_service::error::{Coded, Kind};
use sayso_wire::v1;
use sayso_wire::v1::approval_service_server::ApprovalService;
use sayso_wire::v1::run_service_server::RunService;
use sayso_wire::v1::watch_run_response::Event as Watched;
use serde::Deserialize;
use tonic::Status;

use super::page::Refused;
use super::text::shown;
use super::timeline::{Calls, entry};
use super::visitor::{Visitor, header};
use super::{Console, inbox as page, run as run_page};

const WATCH_APPROVALS: &str = "/sayso.v1.ApprovalService/WatchApprovals";
const WATCH_RUN: &str = "/sayso.v1.RunService/WatchRun";

/// How many messages are taken in one go.
const BATCH: usize = 256;
/// How often a quiet stream says that it lives, so that proxies keep it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a browser waits before it reconnects.
const RETRY: Duration = Duration::from_secs(1);

type Watch<T> = ReadyChunks<Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>>;

/// Where a run's stream begins.
#[derive(Debug, Default, Deserialize)]
pub(super) struct From {
    #[serde(default)]
    from: u64,
}

/// The inbox.
pub(super) async fn inbox(
    State(console): State<Console>,
    visitor: Visitor,
) -> Result<Response, Refused> {
    // The watch first, then the list: nothing falls between the two.
    let request = v1::WatchApprovalsRequest::default();
    let watch = console
        .api
        .watch_approvals(visitor.ask(WATCH_APPROVALS, request)?);
    let watch = watch.await?.into_inner().ready_chunks(BATCH);
    let ends = end_of(&console, &visitor);
    let listener = InboxListener {
        console,
        visitor,
        watch,
        begun: false,
        ended: false,
    };
    let events = unfold(listener, |mut listener| async move {
        let events = listener.next().await?;
        Some((stream::iter(events), listener))
    });
    Ok(answer(events.flatten(), ends))
}

struct InboxListener {
    console: Console,
    visitor: Visitor,
    watch: Watch<v1::WatchApprovalsResponse>,
    begun: bool,
    ended: bool,
}

impl InboxListener {
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.ended {
            return None;
        }
        if self.begun {
            let heard = self.watch.next().await?;
            if let Some(Err(status)) = heard.into_iter().next_back() {
                self.ended = true;
                return Some(farewell(&Coded::from_status(&status)));
            }
        }
        self.begun = true;
        match page::list(&self.console, &self.visitor, String::new()).await {
            Ok(list) => Some(vec![part("inbox", &list.into_string())]),
            Err(refused) => {
                self.ended = true;
                Some(farewell(&refused))
            }
        }
    }
}

/// A run's timeline, from a step on.
pub(super) async fn run(
    State(console): State<Console>,
    Path(id): Path<String>,
    Query(From { from }): Query<From>,
    headers: HeaderMap,
    visitor: Visitor,
) -> Result<Response, Refused> {
    let last = header(&headers, "last-event-id").and_then(|id| id.parse::<u64>().ok());
    let request = v1::WatchRunRequest {
        run_id: id.clone(),
        from_sequence: last.map_or(from, |last| last.saturating_add(1)),
        steps_only: false,
    };
    let watch = console
        .api
        .watch_run(visitor.ask(WATCH_RUN, request)?)
        .await?;
    let calls = run_page::calls(&console, &visitor, &id).await?;
    let ends = end_of(&console, &visitor);
    let listener = RunListener {
        console,
        visitor,
        id,
        watch: watch.into_inner().ready_chunks(BATCH),
        calls,
        ended: false,
    };
    let events = unfold(listener, |mut listener| async move {
        let events = listener.next().await?;
        Some((stream::iter(events), listener))
    });
    Ok(answer(events.flatten(), ends))
}

struct RunListener {
    console: Console,
    visitor: Visitor,
    id: String,
    watch: Watch<v1::WatchRunResponse>,
    calls: Calls,
    ended: bool,
}

impl RunListener {
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.ended {
            return None;
        }
        let Some(heard) = self.watch.next().await else {
            self.ended = true;
            let head = head(&self.console, &self.visitor, &self.id).await;
            let mut events = head.unwrap_or_else(|refused| farewell(&refused));
            events.push(part("end", "The run has ended."));
            return Some(events);
        };
        let mut events = Vec::new();
        let mut moved = false;
        for message in heard {
            match message.map(|message| message.event) {
                Ok(Some(Watched::Step(step))) => {
                    moved = true;
                    events.push(self.step(&step));
                }
                Ok(Some(Watched::Delta(delta))) => {
                    events.push(part("delta", &shown(&delta.text).render().into_string()));
                }
                Ok(Some(Watched::Withdrawn(_))) => events.push(part("withdrawn", "-")),
                Ok(Some(Watched::FreshStart(_))) => events.push(part("fresh", "-")),
                Ok(None) => {}
                Err(status) => {
                    self.ended = true;
                    events.extend(farewell(&Coded::from_status(&status)));
                    return Some(events);
                }
            }
        }
        if moved {
            match head(&self.console, &self.visitor, &self.id).await {
                Ok(head) => events.extend(head),
                Err(refused) => {
                    self.ended = true;
                    events.extend(farewell(&refused));
                }
            }
        }
        Some(events)
    }

    fn step(&mut self, step: &v1::RunStep) -> Event {
        #[derive(Deserialize)]
        struct Call {
            call: String,
            tool: String,
        }
        // A call of a later version may name its tool otherwise: then its id is shown.
        if step.r#type == StepKind::ToolCall.as_str()
            && let Ok(Call { call, tool }) = serde_json::from_str(&step.content_json)
        {
            self.calls.insert(call, tool);
        }
        let html = entry(&self.id, step, &self.calls).into_string();
        part("step", &html).id(step.sequence.to_string())
    }
}

async fn head(console: &Console, visitor: &Visitor, id: &str) -> Result<Vec<Event>, Coded> {
    let run = run_page::get(console, visitor, id).await?;
    let head = run_page::head(console, visitor, &run).await?;
    Ok(vec![part("head", &head.into_string())])
}

fn part(name: &str, html: &str) -> Event {
    Event::default().event(name).data(html)
}

/// The last event of a stream that ends before its time. A browser whose session is over loads the
/// page again, which leads to the login; otherwise it reconnects by itself.
fn farewell(refused: &Coded) -> Vec<Event> {
    match refused.kind {
        Kind::Unauthenticated => vec![part(
            "over",
            &shown(&refused.message).render().into_string(),
        )],
        _ => Vec::new(),
    }
}

/// Resolves when the session ends by itself.
fn end_of(console: &Console, visitor: &Visitor) -> impl Future<Output = ()> + Send + 'static {
    let left = visitor.session().ends_at.micros_since(console.now());
    tokio::time::sleep(Duration::from_micros(left.max(0).unsigned_abs()))
}

fn answer(
    events: impl Stream<Item = Event> + Send + 'static,
    ends: impl Future<Output = ()> + Send + 'static,
) -> Response {
    let hello = stream::once(async { Event::default().retry(RETRY) });
    let events = hello.chain(events).take_until(ends.boxed());
    let events = Sse::new(events.map(Ok::<Event, Infallible>));
    let unbuffered = [("x-accel-buffering", "no")];
    let alive = KeepAlive::new().interval(KEEP_ALIVE);
    (unbuffered, events.keep_alive(alive)).into_response()
}

//! Streams as server-sent events (S2.4, S6.13).
//!
//! An event is called after the kind of message that it carries (`step`, `delta`, `requested`, …) and
//! holds the whole message as JSON. A step's event has the step's sequence number as its id, so a
//! client that reconnects says it as `Last-Event-ID` and misses nothing. A stream that has come to its
//! end says `end`, one that is ended says `problem`: a client that reconnects by itself stops at the
//! first. A quiet stream sends a comment every 15 s.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::unfold;
use http::HeaderName;
use http::header::CACHE_CONTROL;
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage, Value};
use sayso_service::error::Coded;
use tonic::Streaming;

use super::problem::Problem;
use super::unary::written;

/// How often a quiet stream says that it lives, so that proxies keep it.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The number that is an event's id, in the message that the event carries.
const SEQUENCE: &str = "sequence";

/// Tells a proxy not to collect events.
pub(crate) const UNBUFFERED: (HeaderName, &str) =
    (HeaderName::from_static("x-accel-buffering"), "no");

/// The answer that hands a stream on.
pub(super) fn answer(stream: Streaming<Bytes>, output: MessageDescriptor) -> Response {
    // Nothing follows the event behind which there is no stream.
    let events = unfold(Some(stream), move |stream| {
        let output = output.clone();
        async move {
            let mut stream = stream?;
            let (event, rest) = match stream.message().await {
                Ok(Some(bytes)) => match event(output, bytes) {
                    Ok(event) => (event, Some(stream)),
                    Err(coded) => (problem(coded), None),
                },
                Ok(None) => (Event::default().event("end").data("{}"), None),
                Err(status) => (problem(Coded::from_status(&status)), None),
            };
            Some((Ok::<_, Infallible>(event), rest))
        }
    });
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    ([(CACHE_CONTROL, "no-store"), UNBUFFERED], events).into_response()
}

/// One message as an event.
fn event(output: MessageDescriptor, bytes: Bytes) -> Result<Event, Coded> {
    let message = decoded(output, bytes)?;
    let json = written(&message)?;
    let mut event = Event::default().data(json);
    if let Some((kind, content)) = content(&message) {
        event = event.event(kind);
        let sequence = content.as_message().and_then(sequence);
        if let Some(sequence) = sequence {
            event = event.id(sequence.to_string());
        }
    }
    Ok(event)
}

/// What a message of a stream carries: the one field of its `oneof` that is set.
fn content(message: &DynamicMessage) -> Option<(String, &Value)> {
    let mut fields = message.fields();
    fields
        .find(|(field, _)| field.containing_oneof().is_some())
        .map(|(field, value)| (field.json_name().to_owned(), value))
}

/// The sequence number of a step. Approvals have one too, of the step that held the call: it is no
/// position in their stream.
fn sequence(content: &DynamicMessage) -> Option<u64> {
    let is_step = content.descriptor().full_name() == "sayso.v1.RunStep";
    let sequence = is_step.then(|| content.get_field_by_name(SEQUENCE))??;
    sequence.as_u64()
}

fn decoded(output: MessageDescriptor, bytes: Bytes) -> Result<DynamicMessage, Coded> {
    DynamicMessage::decode(output, bytes)
        .map_err(|error| Coded::internal("reading a message of a stream", &error))
}

fn problem(coded: Coded) -> Event {
    let told = Problem::from(coded).json();
    Event::default().event("problem").data(told)
}

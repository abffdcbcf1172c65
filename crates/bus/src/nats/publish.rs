//! Sending: wake-ups and events with an acknowledgement, live messages without.
//!
//! Acknowledgements are pipelined: a batch is handed to the client in one go and its answers are
//! awaited in order, so a batch costs one trip and no task. Within one connection the broker takes
//! messages in the order sent and a connection breaks off at one point, so what is stored of a
//! batch is a prefix of it, but for two windows: the connection is replaced between two messages
//! of one batch, or a stream is made again between two. Then a later event may be stored without
//! an earlier one. Batches are cut into windows so that a failure does not drag a long tail along.

use std::str::FromStr;

use async_nats::{
    Client, HeaderMap, HeaderName, HeaderValue, PublishErrorKind as ClientErrorKind, Subject,
    header::NATS_MESSAGE_ID,
    jetstream::{
        context::{PublishAckFuture, PublishError, PublishErrorKind},
        message::PublishMessage,
    },
};
use bytes::Bytes;

use super::{Core, is_connected};
use crate::{BusError, Event, PartlyPublished, WorkKey, subject};

/// Events in flight at once, of one caller.
const WINDOW: usize = 64;

/// What was tried already to get one request through.
#[derive(Default)]
struct Mending {
    healed: bool,
    repeated: bool,
}

impl Core {
    pub(super) async fn wake(
        &self,
        key: &WorkKey,
        cause: &str,
        headers: &[(String, String)],
    ) -> Result<(), BusError> {
        let subject = subject::of_work(key)?;
        let mut message = PublishMessage::build().payload(Bytes::copy_from_slice(cause.as_bytes()));
        if !headers.is_empty() {
            message = message.headers(header_map(headers)?);
        }
        let mut mending = Mending::default();
        loop {
            match self.send_wake(&subject, cause.len(), message.clone()).await {
                Err(cause) => self.mend(cause, &mut mending).await?,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Does what makes another attempt worthwhile: missing streams are made again, and what was not
    /// acknowledged is sent once more, because a stream that is deleted takes it along. What arrives
    /// twice is harmless: an event is stored once by its id, and a wake-up only asks to look.
    async fn mend(&self, cause: BusError, mending: &mut Mending) -> Result<(), BusError> {
        match cause {
            BusError::NoStream { .. } if !mending.healed => {
                mending.healed = true;
                self.heal().await
            }
            BusError::Unacknowledged { .. } if !mending.repeated => {
                mending.repeated = true;
                Ok(())
            }
            cause => Err(cause),
        }
    }

    async fn send_wake(
        &self,
        subject: &str,
        size: usize,
        message: PublishMessage,
    ) -> Result<(), BusError> {
        let ack = self.send(subject, size, message).await?;
        self.acknowledged(subject, ack).await
    }

    pub(super) async fn publish_events(&self, events: &[Event]) -> Result<(), PartlyPublished> {
        let mut acknowledged = 0;
        let mut mending = Mending::default();
        while acknowledged < events.len() {
            let rest = &events[acknowledged..];
            let (done, failure) = self.publish_window(&rest[..rest.len().min(WINDOW)]).await;
            acknowledged += done;
            let Some(cause) = failure else { continue };
            if let Err(cause) = self.mend(cause, &mut mending).await {
                return Err(PartlyPublished {
                    acknowledged,
                    cause,
                });
            }
        }
        Ok(())
    }

    /// Sends all, awaits all; how many were acknowledged from the first on, and what failed next.
    async fn publish_window(&self, window: &[Event]) -> (usize, Option<BusError>) {
        let mut acks = Vec::with_capacity(window.len());
        let mut failure = None;
        for event in window {
            match self.send_event(event).await {
                Ok(ack) => acks.push(ack),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let sent = acks.len();
        for (done, (ack, event)) in acks.into_iter().zip(window).enumerate() {
            if let Err(error) = self.acknowledged(&event.subject, ack).await {
                return (done, Some(error));
            }
        }
        (sent, failure)
    }

    async fn send_event(&self, event: &Event) -> Result<PublishAckFuture, BusError> {
        subject::check_event(&event.subject)?;
        let mut headers = header_map(&event.headers)?;
        headers.insert(NATS_MESSAGE_ID, value("Nats-Msg-Id", &event.id)?);
        let message = PublishMessage::build()
            .payload(event.body.clone())
            .headers(headers);
        self.send(&event.subject, event.body.len(), message).await
    }

    async fn send(
        &self,
        subject: &str,
        size: usize,
        message: PublishMessage,
    ) -> Result<PublishAckFuture, BusError> {
        if !is_connected(&self.client) {
            return Err(BusError::Disconnected);
        }
        self.context
            .send_publish(Subject::from(subject), message)
            .await
            .map_err(|error| self.explain(subject, size, error))
    }

    async fn acknowledged(&self, subject: &str, ack: PublishAckFuture) -> Result<(), BusError> {
        ack.await
            .map(drop)
            .map_err(|error| self.explain(subject, 0, error))
    }

    fn explain(&self, subject: &str, size: usize, error: PublishError) -> BusError {
        let subject = subject.to_owned();
        match error.kind() {
            PublishErrorKind::StreamNotFound => BusError::NoStream { subject },
            PublishErrorKind::MaxPayloadExceeded => too_large(&self.client, subject, size),
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => {
                let waited = self.config.request_timeout;
                BusError::Unacknowledged { subject, waited }
            }
            _ => BusError::Refused {
                subject,
                source: error.into(),
            },
        }
    }

    pub(super) async fn publish_live(&self, subject: &str, body: Bytes) -> Result<(), BusError> {
        subject::check_live(subject)?;
        if !is_connected(&self.client) {
            return Err(BusError::Disconnected);
        }
        let size = body.len();
        let sent = self.client.publish(subject.to_owned(), body).await;
        sent.map_err(|error| {
            let subject = subject.to_owned();
            match error.kind() {
                ClientErrorKind::MaxPayloadExceeded => too_large(&self.client, subject, size),
                _ => BusError::Refused {
                    subject,
                    source: error.into(),
                },
            }
        })
    }
}

fn too_large(client: &Client, subject: String, size: usize) -> BusError {
    BusError::TooLarge {
        subject,
        size,
        limit: client.max_payload(),
    }
}

/// Headers as the client has them. Its own conversions panic on a line break.
fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, BusError> {
    let mut map = HeaderMap::new();
    for (name, text) in headers {
        let checked =
            HeaderName::from_str(name).map_err(|_| BusError::Header { name: name.clone() })?;
        map.append(checked, value(name, text)?);
    }
    Ok(map)
}

fn value(name: &str, text: &str) -> Result<HeaderValue, BusError> {
    HeaderValue::from_str(text).map_err(|_| BusError::Header {
        name: name.to_owned(),
    })
}

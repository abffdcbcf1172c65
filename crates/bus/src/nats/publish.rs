//! Sending: wake-ups and events with an acknowledgement, live messages without.
//!
//! Acknowledgements are pipelined across lines: a batch is cut into windows, and of a window go out
//! together the next event of each line, what one thing happened to after the other (`ce-subject`: a
//! run). **The next event of a line is sent only when the one before it is stored.** Otherwise the
//! connection could be replaced between the two: the first is lost with it, the second is stored, and
//! the first comes again behind it. Neither looking at the connection before sending nor the order on
//! one connection helps, since the client queues what it is given. What is stored of a line is so always
//! a prefix of it. Batches are cut into windows so that a failure does not drag a long tail along.

use std::collections::HashSet;
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

/// The CloudEvents attribute that says what an event is about.
const LINE: &str = "ce-subject";

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
        let mut mending = Mending::default();
        for (number, window) in events.chunks(WINDOW).enumerate() {
            let mut stored = vec![false; window.len()];
            while let Err(cause) = self.publish_window(window, &mut stored).await {
                if let Err(cause) = self.mend(cause, &mut mending).await {
                    let first = stored.iter().take_while(|stored| **stored).count();
                    return Err(PartlyPublished {
                        acknowledged: number * WINDOW + first,
                        cause,
                    });
                }
            }
        }
        Ok(())
    }

    /// Sends what is not stored yet of a window, wave after wave.
    async fn publish_window(&self, window: &[Event], stored: &mut [bool]) -> Result<(), BusError> {
        loop {
            let wave = next_of_each_line(window, stored);
            if wave.is_empty() {
                return Ok(());
            }
            self.publish_wave(window, &wave, stored).await?;
        }
    }

    /// Sends these events at once and awaits all of them; fails with the first failure.
    async fn publish_wave(
        &self,
        window: &[Event],
        wave: &[usize],
        stored: &mut [bool],
    ) -> Result<(), BusError> {
        let mut sent = Vec::with_capacity(wave.len());
        let mut outcome = Ok(());
        for &at in wave {
            match self.send_event(&window[at]).await {
                Ok(ack) => sent.push((at, ack)),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        for (at, ack) in sent {
            match self.acknowledged(&window[at].subject, ack).await {
                Ok(()) => stored[at] = true,
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
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

/// The first event of each line that is not stored.
fn next_of_each_line(window: &[Event], stored: &[bool]) -> Vec<usize> {
    let mut lines = HashSet::with_capacity(window.len());
    let open = (0..window.len()).filter(|&at| !stored[at]);
    open.filter(|&at| lines.insert(line(&window[at]))).collect()
}

/// What the event is one of the happenings of.
fn line(event: &Event) -> &str {
    let mut headers = event.headers.iter();
    let about = headers.find(|(name, _)| name == LINE);
    about.map_or(event.subject.as_str(), |(_, about)| about)
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

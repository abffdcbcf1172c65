//! Listening: core subscriptions, at most once.
//!
//! A subscription is in force when the broker has read it, which the client does not tell. So the
//! first thing after it is a request that nobody answers: the broker's "no responders" comes after
//! it has read the subscription on the same connection. A reader that subscribes first and reads
//! the database then misses nothing.
//!
//! The client drops messages for a subscription whose buffer is full, and everything while the
//! connection is away, without a mark in the stream itself. Both are reported beside it
//! ([`super::link`]), and each feed watches the reports: a change since it last looked becomes a
//! [`Heard::Lagged`]. Which feed was slow is not told, so every feed of the bus hears of it; a
//! reader that looks into the database once too often loses nothing.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use async_nats::{HeaderMap, Message, RequestErrorKind, Subscriber, header::NATS_MESSAGE_ID};
use futures::{Stream, StreamExt};
use tokio_stream::wrappers::WatchStream;

use super::{
    Core, is_connected,
    link::{Link, Reports},
};
use crate::{BusError, Event, Feed, Headers, Heard, Live, subject::Filter};

/// Nobody listens here.
const NOBODY: &str = "sayso.nobody";

pub(super) async fn events(core: &Core, filter: Filter) -> Result<Feed<Event>, BusError> {
    let heard = listen(core, filter).await?;
    Ok(heard.map(|heard| heard.map(event)).boxed())
}

pub(super) async fn live(core: &Core, filter: Filter) -> Result<Feed<Live>, BusError> {
    let heard = listen(core, filter).await?;
    Ok(heard
        .map(|heard| {
            heard.map(|message| Live {
                subject: message.subject.into_string(),
                body: message.payload,
            })
        })
        .boxed())
}

impl<T> Heard<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Heard<U> {
        match self {
            Heard::Message(message) => Heard::Message(change(message)),
            Heard::Lagged(lost) => Heard::Lagged(lost),
        }
    }
}

fn event(message: Message) -> Event {
    let mut id = String::new();
    let headers = headers(message.headers, Some(&mut id));
    Event {
        subject: message.subject.into_string(),
        id,
        headers,
        body: message.payload,
    }
}

/// Headers as pairs; the message id goes where it is asked for.
pub(super) fn headers(map: Option<HeaderMap>, mut id: Option<&mut String>) -> Headers {
    let mut pairs = Headers::new();
    for (name, values) in map.iter().flat_map(HeaderMap::iter) {
        let is_id = *name == NATS_MESSAGE_ID;
        for value in values {
            match id.as_deref_mut() {
                Some(id) if is_id => value.as_str().clone_into(id),
                _ => pairs.push((name.to_string(), value.as_str().to_owned())),
            }
        }
    }
    pairs
}

async fn listen(core: &Core, filter: Filter) -> Result<Listening, BusError> {
    let refused = |source: crate::error::Source| BusError::Subscribe {
        filter: filter.as_str().to_owned(),
        source,
    };
    let before = core.reports.subscribe();
    let seen = *before.borrow();
    let subscription = core.client.subscribe(filter.as_str().to_owned()).await;
    let subscription = subscription.map_err(|error| refused(error.into()))?;
    if is_connected(&core.client) {
        match core.client.request(NOBODY, bytes::Bytes::new()).await {
            Err(error) if error.kind() == RequestErrorKind::NoResponders => {}
            Ok(_) => {}
            Err(error) => return Err(refused(error.into())),
        }
    }
    Ok(Listening {
        subscription,
        reports: WatchStream::from_changes(before),
        seen,
        _keep: core.reports.clone(),
    })
}

struct Listening {
    subscription: Subscriber,
    reports: WatchStream<Link>,
    seen: Link,
    /// The reports must outlive the bus's own handle, or the feed would end with it.
    _keep: Reports,
}

impl Listening {
    /// Whether messages were lost between the two reports.
    fn lost(&mut self, now: Link) -> Option<u64> {
        let lost = now.lost - self.seen.lost;
        let reconnected = now.generation != self.seen.generation;
        self.seen = now;
        (lost > 0 || reconnected).then_some(lost)
    }
}

impl Stream for Listening {
    type Item = Heard<Message>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while let Poll::Ready(Some(link)) = self.reports.poll_next_unpin(context) {
            if let Some(lost) = self.lost(link) {
                return Poll::Ready(Some(Heard::Lagged(lost)));
            }
        }
        self.subscription
            .poll_next_unpin(context)
            .map(|message| message.map(Heard::Message))
    }
}

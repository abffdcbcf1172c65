//! The trait that the services hold.

use async_trait::async_trait;
use bytes::Bytes;

use crate::{BusError, Event, Feed, Health, Live, PartlyPublished, WorkKey, WorkQueue};

/// Wake-ups, events and live messages. The crate's head says what is promised.
///
/// All methods fail fast while the broker is away: they answer an error for which
/// [`BusError::is_transient`] holds instead of queueing messages in memory.
#[async_trait]
pub trait Bus: std::fmt::Debug + Send + Sync + 'static {
    /// Puts a wake-up for `key` on the work queue and waits until the broker has it. A wake-up of
    /// the same key that nobody has taken yet is replaced. `cause` is a short word for logs and
    /// traces.
    ///
    /// # Errors
    ///
    /// When the key is not made of subject tokens, or the broker did not acknowledge.
    async fn wake(&self, key: &WorkKey, cause: &str) -> Result<(), BusError> {
        self.wake_with(key, cause, &[]).await
    }

    /// Like [`Bus::wake`], with headers, such as the trace context.
    ///
    /// # Errors
    ///
    /// The same, and when a header's name or value cannot be sent.
    async fn wake_with(
        &self,
        key: &WorkKey,
        cause: &str,
        headers: &[(String, String)],
    ) -> Result<(), BusError>;

    /// Opens a puller of wake-ups. Several pullers, in any number of processes, share the work;
    /// each holds no more than the configured number of unanswered messages. It never ends: while
    /// the broker is away it waits, and [`Bus::health`] says so.
    ///
    /// # Errors
    ///
    /// When the client cannot subscribe at all (it was closed).
    async fn work(&self) -> Result<Box<dyn WorkQueue>, BusError>;

    /// Publishes one event and waits until the stream has it. An id that the stream saw within
    /// its duplicate window (10 s) is acknowledged and not stored again.
    ///
    /// # Errors
    ///
    /// When the subject is not one of events, the message is too large, or the broker did not
    /// acknowledge; then the event may or may not be stored.
    async fn publish_event(&self, event: Event) -> Result<(), BusError> {
        self.publish_events(vec![event])
            .await
            .map_err(|partly| partly.cause)
    }

    /// Publishes events in order, many in flight at a time, and stops at the first failure.
    ///
    /// After an error the caller publishes again from the first event that was not acknowledged:
    /// those that had arrived are dropped by id within the duplicate window. An event after the
    /// failed one may already be stored if the connection or the stream was replaced while the
    /// batch was in flight, so readers who need order use the sequence inside the event.
    ///
    /// # Errors
    ///
    /// With the number of events acknowledged before the first one that was not.
    async fn publish_events(&self, events: Vec<Event>) -> Result<(), PartlyPublished>;

    /// Follows events from now on by a subject filter (`*` one token, `>` all that follow). When
    /// this returns, the broker knows of the subscription. Nothing is replayed; after a
    /// re-publication an event may be heard twice. Survives reconnects, with a
    /// [`Heard::Lagged`](crate::Heard::Lagged).
    ///
    /// # Errors
    ///
    /// When the filter is malformed or outside the events, or a connected broker does not answer.
    async fn events(&self, filter: &str) -> Result<Feed<Event>, BusError>;

    /// Sends a live message to whoever listens now. Nobody acknowledges it.
    ///
    /// # Errors
    ///
    /// When the subject is not a live one, the body is too large, or the broker is away.
    async fn publish_live(&self, subject: &str, body: Bytes) -> Result<(), BusError>;

    /// Follows live messages, with the same rules as [`Bus::events`].
    ///
    /// # Errors
    ///
    /// The same.
    async fn live(&self, filter: &str) -> Result<Feed<Live>, BusError>;

    /// Whether the bus is of use right now. Cheap: it reads what the background tasks saw last.
    async fn health(&self) -> Health;
}

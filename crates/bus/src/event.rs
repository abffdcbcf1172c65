//! Events, live messages, and the feeds that carry them.

use bytes::Bytes;
use futures::stream::BoxStream;

use crate::Headers;

/// Something that happened, for the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where it is published, under [`subject::EVENTS`](crate::subject::EVENTS).
    pub subject: String,
    /// Says which happening this is. The stream drops a second event of the same id within its
    /// duplicate window; readers drop it at any time.
    pub id: String,
    /// Sent as message headers. Their order is not kept.
    pub headers: Headers,
    /// The encoded event.
    pub body: Bytes,
}

/// A message that only those who listen now will hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Where it was sent.
    pub subject: String,
    /// What was said.
    pub body: Bytes,
}

/// What a feed yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// A message.
    Message(T),
    /// Messages were lost, or may have been: the reader was too slow, or the connection was away.
    /// The number is how many are known to be lost on this bus, 0 when nobody can know. The reader
    /// catches up from the database.
    Lagged(u64),
}

/// Messages as they come. It does not end while the bus lives; dropping it unsubscribes.
pub type Feed<T> = BoxStream<'static, Heard<T>>;

//! What can go wrong between the caller and the broker.

use std::time::Duration;

use thiserror::Error;

/// The cause from the client library, opaque to callers.
pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why the bus could not do what it was asked.
#[derive(Debug, Error)]
pub enum BusError {
    /// There is no connection to the broker at the moment.
    #[error("the broker is not connected")]
    Disconnected,
    /// The broker did not say that it has the message. It may have it.
    #[error("the broker did not acknowledge a message to {subject} within {} ms", waited.as_millis())]
    Unacknowledged {
        /// Where the message went.
        subject: String,
        /// How long the answer was waited for.
        waited: Duration,
    },
    /// No stream takes messages of this subject: it was deleted and could not be made again.
    #[error("no stream takes messages to {subject}")]
    NoStream {
        /// Where the message went.
        subject: String,
    },
    /// The broker answered, and did not take the message.
    #[error("the broker refused a message to {subject}")]
    Refused {
        /// Where the message went.
        subject: String,
        /// The broker's answer.
        #[source]
        source: Source,
    },
    /// A subscription was not confirmed.
    #[error("could not subscribe to {filter}")]
    Subscribe {
        /// The filter asked for.
        filter: String,
        /// Why.
        #[source]
        source: Source,
    },
    /// A stream or consumer could not be read, created or updated.
    #[error("could not prepare {what}")]
    Prepare {
        /// The stream or consumer.
        what: &'static str,
        /// Why.
        #[source]
        source: Source,
    },
    /// An acknowledgement, refusal or extension of a wake-up could not be sent.
    #[error("could not answer the delivery of {subject}")]
    Answer {
        /// The wake-up's subject.
        subject: String,
        /// Why.
        #[source]
        source: Source,
    },
    /// The message is larger than the broker takes.
    #[error("a message of {size} bytes to {subject} is over the limit of {limit} bytes")]
    TooLarge {
        /// Where the message should go.
        subject: String,
        /// Bytes of the body.
        size: usize,
        /// Bytes that the broker takes, headers included.
        limit: usize,
    },
    /// A setting cannot be used.
    #[error("{setting} cannot be used: {reason}")]
    Setting {
        /// What is set wrongly.
        setting: &'static str,
        /// Why, in words.
        reason: String,
    },
    /// A stream exists with a property that differs and cannot be changed.
    #[error(
        "stream {stream} has {field} {found}, needed is {wanted}, and the broker cannot change it"
    )]
    StreamMismatch {
        /// The stream's name.
        stream: &'static str,
        /// The property, or several with commas between.
        field: String,
        /// What it is.
        found: String,
        /// What it has to be.
        wanted: String,
    },
    /// Not a subject or filter for this use.
    #[error("{subject:?} is not a subject for this use: {reason}")]
    Subject {
        /// The subject or filter.
        subject: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A header cannot be sent.
    #[error("header {name:?} has a name or value that cannot be sent")]
    Header {
        /// The header's name.
        name: String,
    },
}

impl BusError {
    /// The stable word that users see:
    ///
    /// - `bus.unavailable`: the broker is away or did not answer; it heals by itself.
    /// - `bus.misconfigured`: a person has to change a setting or a stream.
    /// - `bus.too_large`: the message is over the broker's limit.
    /// - `bus.invalid_message`: a subject or header that cannot be sent.
    pub fn code(&self) -> &'static str {
        match self {
            BusError::Disconnected
            | BusError::Unacknowledged { .. }
            | BusError::NoStream { .. }
            | BusError::Refused { .. }
            | BusError::Subscribe { .. }
            | BusError::Prepare { .. }
            | BusError::Answer { .. } => "bus.unavailable",
            BusError::Setting { .. } | BusError::StreamMismatch { .. } => "bus.misconfigured",
            BusError::TooLarge { .. } => "bus.too_large",
            BusError::Subject { .. } | BusError::Header { .. } => "bus.invalid_message",
        }
    }

    /// Whether the same call may succeed later without anyone changing anything.
    pub fn is_transient(&self) -> bool {
        self.code() == "bus.unavailable"
    }

    /// The message and its causes in one line, for logs and the health check.
    pub(crate) fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

/// A batch of events broke off.
#[derive(Debug, Error)]
#[error("only {acknowledged} events were acknowledged")]
pub struct PartlyPublished {
    /// How many events, from the first on, the broker acknowledged.
    pub acknowledged: usize,
    /// What happened to the next one.
    #[source]
    pub cause: BusError,
}

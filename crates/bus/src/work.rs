//! Wake-ups as a worker sees them.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::BusError;

/// Names and values that travel beside a message.
pub type Headers = Vec<(String, String)>;

/// What a wake-up is about: two subject tokens (letters, digits, `-`, `_` and the like; no dots,
/// blanks or wildcards).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkKey {
    /// The namespace's name.
    pub namespace: String,
    /// The run's id.
    pub run: String,
}

impl WorkKey {
    /// A key of these two tokens. They are checked when it is used.
    pub fn new(namespace: impl Into<String>, run: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            run: run.into(),
        }
    }
}

impl fmt::Display for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.run)
    }
}

/// A puller of wake-ups. Dropping it gives back what it had taken in and nobody had asked for yet.
#[async_trait]
pub trait WorkQueue: Send {
    /// The next wake-up. Waits while there is none, while the broker is away, and while as many as
    /// allowed are unanswered. May be dropped at any await without losing a message.
    ///
    /// # Errors
    ///
    /// Never for a broker that is away or has lost its streams: that heals, and the wait goes on.
    async fn next(&mut self) -> Result<Work, BusError>;
}

/// A wake-up in a worker's hands. It has to be answered; one that is dropped counts as unanswered
/// and is delivered again when the acknowledgement window passes.
pub struct Work {
    /// Whom to wake.
    pub key: WorkKey,
    /// Why, as given to [`Bus::wake`](crate::Bus::wake).
    pub cause: String,
    /// How often this message was delivered, this time included: 1 at first.
    pub deliveries: u64,
    /// As given to [`Bus::wake_with`](crate::Bus::wake_with); their order is not kept.
    pub headers: Headers,
    receipt: Box<dyn Receipt>,
}

impl Work {
    /// A wake-up and the way to answer it. Implementations of [`Bus`](crate::Bus) make these.
    pub fn new(
        key: WorkKey,
        cause: String,
        deliveries: u64,
        headers: Headers,
        receipt: Box<dyn Receipt>,
    ) -> Self {
        Self {
            key,
            cause,
            deliveries,
            headers,
            receipt,
        }
    }

    /// Says that it is taken care of; it will not be delivered again. The broker does not confirm
    /// this: if it is lost, the wake-up comes once more.
    ///
    /// # Errors
    ///
    /// When the client was closed.
    pub async fn ack(self) -> Result<(), BusError> {
        self.receipt.ack().await
    }

    /// Gives it back, to be delivered to anyone after `delay`.
    ///
    /// # Errors
    ///
    /// When the client was closed.
    pub async fn nak(self, delay: Duration) -> Result<(), BusError> {
        self.receipt.nak(delay).await
    }

    /// Says that it is still being worked on: the acknowledgement window starts anew.
    ///
    /// # Errors
    ///
    /// When the client was closed.
    pub async fn in_progress(&self) -> Result<(), BusError> {
        self.receipt.in_progress().await
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("key", &self.key)
            .field("cause", &self.cause)
            .field("deliveries", &self.deliveries)
            .finish_non_exhaustive()
    }
}

/// How a delivery is answered; dropping it unanswered frees the place it held with its puller.
#[async_trait]
pub trait Receipt: Send + Sync {
    /// See [`Work::ack`].
    ///
    /// # Errors
    ///
    /// The same.
    async fn ack(&self) -> Result<(), BusError>;

    /// See [`Work::nak`].
    ///
    /// # Errors
    ///
    /// The same.
    async fn nak(&self, delay: Duration) -> Result<(), BusError>;

    /// See [`Work::in_progress`].
    ///
    /// # Errors
    ///
    /// The same.
    async fn in_progress(&self) -> Result<(), BusError>;
}

//! What the health check says of the bus.

/// Whether wake-ups reach this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// No work queue is open here.
    NotAsked,
    /// Every open work queue hears from the broker.
    Yes,
    /// A work queue is open and does not hear from the broker: work piles up unseen (B80).
    No,
}

/// The state of the bus as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The connection to the broker stands.
    pub connected: bool,
    /// The streams and the consumer were there when last looked at.
    pub prepared: bool,
    /// Wake-ups are received.
    pub receiving: Receiving,
    /// The last thing that went wrong and is not known to be over.
    pub last_error: Option<String>,
}

impl Health {
    /// One sentence on what is wrong, or nothing if all is well.
    pub fn problem(&self) -> Option<String> {
        let what = if !self.connected {
            "the broker is not connected"
        } else if !self.prepared {
            "the broker's streams are not ready"
        } else if self.receiving == Receiving::No {
            "wake-ups are not being received"
        } else {
            return None;
        };
        Some(match &self.last_error {
            Some(error) => format!("{what}: {error}"),
            None => what.to_owned(),
        })
    }
}

//! What is known of the connection.
//!
//! The client reports its life through a callback. It is folded into one small value that tasks
//! watch: whether the connection stands, how often it was made, and how many messages were lost
//! because a reader was slow. Reports may be dropped in a flood; the pull's heartbeats and the
//! client's own state are there for that.

use std::sync::{Arc, Mutex, PoisonError};

use async_nats::{ClientError, Event, connection::State};
use tokio::sync::watch;

/// The connection as last reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) connected: bool,
    /// How often the connection was made.
    pub(super) generation: u64,
    /// Messages lost because a feed was full.
    pub(super) lost: u64,
    /// The broker turned us away.
    pub(super) refused: bool,
}

/// Where reports end up.
#[derive(Clone)]
pub(super) struct Reports {
    link: watch::Sender<Link>,
    last_error: Arc<Mutex<Option<String>>>,
}

impl Reports {
    pub(super) fn new() -> Self {
        Self {
            link: watch::Sender::new(Link::default()),
            last_error: Arc::default(),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    pub(super) fn fail(&self, error: String) {
        *self.error() = Some(error);
    }

    pub(super) fn recover(&self) {
        *self.error() = None;
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.error().clone()
    }

    fn error(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The client's callback.
    pub(super) fn take(&self, event: Event) {
        match event {
            Event::Connected => self.link.send_modify(|link| {
                link.connected = true;
                link.refused = false;
                link.generation += 1;
            }),
            Event::Disconnected | Event::Closed => {
                self.fail("the connection was lost".to_owned());
                self.link.send_modify(|link| link.connected = false);
            }
            Event::SlowConsumer(_) => self.link.send_modify(|link| link.lost += 1),
            Event::ServerError(error) => {
                tracing::warn!(%error, "the broker reports an error");
                self.fail(error.to_string());
            }
            Event::ClientError(error) => {
                let refused = is_refusal(&error);
                self.fail(error.to_string());
                self.link.send_if_modified(|link| {
                    !std::mem::replace(&mut link.refused, refused) && refused
                });
            }
            Event::LameDuckMode | Event::Draining => {}
        }
    }
}

/// The client passes on only the words of a failed connection.
fn is_refusal(error: &ClientError) -> bool {
    match error {
        ClientError::Other(words) => {
            words.contains("authorization violation") || words.contains("failed signing nonce")
        }
        _ => false,
    }
}

/// Whether the client has a connection right now; it knows before the report is out.
pub(super) fn is_connected(client: &async_nats::Client) -> bool {
    client.connection_state() == State::Connected
}

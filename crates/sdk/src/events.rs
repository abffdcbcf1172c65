use sayso_wire::v1;
use tonic::Streaming;

use crate::{Client, Error};

/// Events that are watched: they come from now on, each at most once.
#[derive(Debug)]
pub struct EventWatch {
    client: Client,
    stream: Streaming<v1::WatchEventsResponse>,
}

/// Events. Scopes and codes of refusals are those of `EventService`.
impl Client {
    /// Watches the events of the namespace from now on.
    ///
    /// # Errors
    ///
    /// `request.invalid`, `token.scope_missing`.
    pub async fn watch_events(&self, request: v1::WatchEventsRequest) -> Result<EventWatch, Error> {
        let answer = self.events().watch_events(request).await;
        let stream = answer.map_err(|status| self.failed(&status))?.into_inner();
        Ok(EventWatch {
            client: self.clone(),
            stream,
        })
    }
}

impl EventWatch {
    /// The next events; `None` when the server has ended the stream.
    ///
    /// # Errors
    ///
    /// When the connection breaks, the server stops, or the token does not hold any more. What comes
    /// meanwhile is missed; watch again.
    pub async fn next(&mut self) -> Result<Option<v1::WatchEventsResponse>, Error> {
        let next = self.stream.message().await;
        next.map_err(|status| self.client.failed(&status))
    }
}

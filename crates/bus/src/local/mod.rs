//! The bus within one process.
//!
//! The same contract as JetStream's, over a mutex and a few wakers. Nothing is durable and nothing
//! has to be: the marks in the database say after a restart what is owed and what was published.
//! Clones share one bus; every service of the process holds one.

mod desk;
mod hub;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Bus, BusError, Event, Feed, Health, Live, PartlyPublished, Receiving, WorkKey, WorkQueue,
    subject::{self, Filter},
};
use desk::Desk;
use hub::Hub;

/// How the in-process bus behaves.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// A delivery that is not answered for this long is delivered again.
    pub ack_wait: Duration,
    /// How many unanswered deliveries one work queue may hold.
    pub max_outstanding: usize,
    /// How many messages may wait in one feed before it loses some.
    pub feed_capacity: usize,
    /// The largest body in bytes, as a broker would have it.
    pub max_payload: usize,
}

impl Default for LocalConfig {
    /// The broker's defaults: 30 s, 64 deliveries, 8,192 messages, 1 MiB.
    fn default() -> Self {
        Self {
            ack_wait: Duration::from_secs(30),
            max_outstanding: 64,
            feed_capacity: 8_192,
            max_payload: 1024 * 1024,
        }
    }
}

/// Wake-ups and events within one process.
#[derive(Clone)]
pub struct LocalBus {
    desk: Arc<Desk>,
    events: Arc<Hub<Event>>,
    live: Arc<Hub<Live>>,
    max_payload: usize,
    _timekeeper: Arc<DropGuard>,
}

impl LocalBus {
    /// An empty bus.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime: redelivery needs a task.
    pub fn new(config: LocalConfig) -> Self {
        let desk = Arc::new(Desk::new(config.ack_wait, config.max_outstanding));
        let stop = CancellationToken::new();
        let keep_time = Arc::clone(&desk).keep_time();
        tokio::spawn(stop.clone().run_until_cancelled_owned(keep_time));
        Self {
            desk,
            events: Arc::new(Hub::new(config.feed_capacity)),
            live: Arc::new(Hub::new(config.feed_capacity)),
            max_payload: config.max_payload,
            _timekeeper: Arc::new(stop.drop_guard()),
        }
    }

    fn check_size(&self, subject: &str, body: &Bytes) -> Result<(), BusError> {
        if body.len() <= self.max_payload {
            return Ok(());
        }
        Err(BusError::TooLarge {
            subject: subject.to_owned(),
            size: body.len(),
            limit: self.max_payload,
        })
    }

    fn publish(&self, event: Event) -> Result<(), BusError> {
        subject::check_event(&event.subject)?;
        self.check_size(&event.subject, &event.body)?;
        self.events.send(&event.subject.clone(), event);
        Ok(())
    }
}

impl std::fmt::Debug for LocalBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LocalBus")
    }
}

#[async_trait]
impl Bus for LocalBus {
    async fn wake_with(
        &self,
        key: &WorkKey,
        cause: &str,
        headers: &[(String, String)],
    ) -> Result<(), BusError> {
        subject::of_work(key)?;
        self.desk.put(key, cause, headers);
        Ok(())
    }

    async fn work(&self) -> Result<Box<dyn WorkQueue>, BusError> {
        Ok(Box::new(self.desk.open()))
    }

    async fn publish_event(&self, event: Event) -> Result<(), BusError> {
        self.publish(event)
    }

    async fn publish_events(&self, events: Vec<Event>) -> Result<(), PartlyPublished> {
        for (acknowledged, event) in events.into_iter().enumerate() {
            self.publish(event).map_err(|cause| PartlyPublished {
                acknowledged,
                cause,
            })?;
        }
        Ok(())
    }

    async fn events(&self, filter: &str) -> Result<Feed<Event>, BusError> {
        Ok(self.events.subscribe(Filter::of_events(filter)?))
    }

    async fn publish_live(&self, subject: &str, body: Bytes) -> Result<(), BusError> {
        subject::check_live(subject)?;
        self.check_size(subject, &body)?;
        let message = Live {
            subject: subject.to_owned(),
            body,
        };
        self.live.send(subject, message);
        Ok(())
    }

    async fn live(&self, filter: &str) -> Result<Feed<Live>, BusError> {
        Ok(self.live.subscribe(Filter::of_live(filter)?))
    }

    async fn health(&self) -> Health {
        Health {
            connected: true,
            prepared: true,
            receiving: if self.desk.is_attended() {
                Receiving::Yes
            } else {
                Receiving::NotAsked
            },
            last_error: None,
        }
    }
}

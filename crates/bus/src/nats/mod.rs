//! The bus over NATS JetStream. The only place that knows async-nats.
//!
//! # What heals, and how
//!
//! The client reconnects for ever and subscribes again by itself, but a *pull* belongs to the
//! connection and the server that took it, and streams and consumers can vanish while the
//! connection stands. "Connected again, and nothing comes any more" is the fault to prevent (B80).
//! So:
//!
//! - Each connection starts with a look at the streams and the consumer, which makes what is
//!   missing (`streams`).
//! - A pull asks for heartbeats. One that falls silent, is refused, or outlives its connection is
//!   followed by another look and then by a new pull (`pull`). A look before the pull also keeps
//!   pulls from piling up in a broker that is paused: it does not answer the look.
//! - A publication that no stream takes has the streams made again and is sent once more
//!   (`publish`).
//! - While there is no connection, nothing is handed to the client, whose queue would otherwise
//!   hold stale messages, and block when full. Acknowledgements are the exception: they stay
//!   valid, and are few.

mod config;
mod feed;
mod link;
mod publish;
mod pull;
mod queue;
mod streams;

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, jetstream, jetstream::Context};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Bus, BusError, Event, Feed, Health, Live, PartlyPublished, Receiving, WorkKey, WorkQueue,
    subject::Filter,
};
pub use config::{NatsAuth, NatsConfig};
use link::{Link, Reports, is_connected};
use queue::Places;
use streams::Streams;
pub use streams::{CONSUMER, EVENTS_STREAM, WORK_STREAM};

/// How long one pull lives before the broker ends it and the next one follows.
const PULL_EXPIRES: Duration = Duration::from_secs(30);

/// Wake-ups and events over JetStream.
pub struct NatsBus {
    core: Arc<Core>,
    _keeper: DropGuard,
}

/// What the bus, its pullers and its tasks share.
struct Core {
    client: Client,
    context: Context,
    config: NatsConfig,
    reports: Reports,
    streams: Streams,
    prepared: AtomicBool,
    pullers: Mutex<Vec<Weak<Places>>>,
}

impl NatsBus {
    /// Connects, and makes streams and consumer. If no broker answers within
    /// [`NatsConfig::connect_wait`], the bus is returned all the same: it goes on trying, and
    /// [`Bus::health`] says so until it succeeds.
    ///
    /// # Errors
    ///
    /// `bus.misconfigured`, when trying again cannot help: a malformed URL, credentials that
    /// cannot be read or are refused, a broker too old, a stream that would have to be of another
    /// kind.
    pub async fn connect(config: NatsConfig) -> Result<Self, BusError> {
        config.check()?;
        let addresses = config.addresses()?;
        let reports = Reports::new();
        let callback = reports.clone();
        let options = config.options().await?.event_callback(move |event| {
            callback.take(event);
            std::future::ready(())
        });
        let client = options
            .connect(addresses)
            .await
            .map_err(|error| BusError::Setting {
                setting: "the broker's URL",
                reason: error.to_string(),
            })?;
        let context = jetstream::context::ContextBuilder::new()
            .timeout(config.request_timeout)
            .build(client.clone());
        let core = Arc::new(Core {
            streams: Streams::new(context.clone(), &config),
            client,
            context,
            reports,
            prepared: AtomicBool::new(false),
            pullers: Mutex::default(),
            config,
        });
        let first = tokio::time::timeout(core.config.connect_wait, core.settle());
        if let Ok(Err(error)) = first.await {
            return Err(error);
        }
        let stop = CancellationToken::new();
        let keep = keep(Arc::clone(&core));
        tokio::spawn(stop.clone().run_until_cancelled_owned(keep));
        Ok(Self {
            core,
            _keeper: stop.drop_guard(),
        })
    }
}

impl Core {
    /// Waits until everything is there, or is known to need a person.
    async fn settle(&self) -> Result<(), BusError> {
        let mut link = self.reports.subscribe();
        loop {
            let now = wait_for(&mut link, |link| link.connected || link.refused).await;
            if !now.connected {
                return Err(BusError::Setting {
                    setting: "the broker's credentials",
                    reason: "the broker refused them".to_owned(),
                });
            }
            match self.heal().await {
                Err(error) if error.is_transient() => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Looks at streams and consumer, mends them, and notes the outcome for the health check.
    async fn heal(&self) -> Result<(), BusError> {
        if !is_connected(&self.client) {
            return Err(BusError::Disconnected);
        }
        let outcome = self.streams.heal().await;
        self.prepared.store(outcome.is_ok(), Ordering::Relaxed);
        match &outcome {
            Ok(()) => self.reports.recover(),
            Err(error) => self.reports.fail(error.in_full()),
        }
        outcome
    }

    fn watch_places(&self, places: &Arc<Places>) {
        let mut pullers = self.pullers.lock().unwrap_or_else(PoisonError::into_inner);
        pullers.retain(|puller| puller.strong_count() > 0);
        pullers.push(Arc::downgrade(places));
    }

    fn receiving(&self) -> Receiving {
        let pullers = self.pullers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = pullers
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|places| places.is_open())
            .peekable();
        if open.peek().is_none() {
            Receiving::NotAsked
        } else if open.all(|places| places.is_receiving()) {
            Receiving::Yes
        } else {
            Receiving::No
        }
    }
}

/// Waits for a state of the connection. The reports live as long as the caller's `Core`.
async fn wait_for(link: &mut watch::Receiver<Link>, state: impl FnMut(&Link) -> bool) -> Link {
    let reached = link.wait_for(state).await.map(|link| *link);
    match reached {
        Ok(link) => link,
        // The sender is gone, and with it the bus: nothing will ever come.
        Err(_) => std::future::pending().await,
    }
}

/// Mends streams and consumer after every connection, also where nobody pulls or publishes.
async fn keep(core: Arc<Core>) {
    let mut link = core.reports.subscribe();
    // The first connection was looked after by `connect`, if it was there in time.
    let mut healed = match core.prepared.load(Ordering::Relaxed) {
        true => link.borrow().generation,
        false => 0,
    };
    let mut pause = Pause::new();
    loop {
        let now = wait_for(&mut link, |now| now.connected && now.generation != healed).await;
        match core.heal().await {
            Ok(()) => {
                healed = now.generation;
                pause = Pause::new();
            }
            Err(error) => {
                let error = error.in_full();
                tracing::warn!(error, "the broker's streams are not ready; trying again");
                pause.wait().await;
            }
        }
    }
}

/// Time between two attempts: 50 ms, doubling up to 1 s.
struct Pause(Duration);

impl Pause {
    fn new() -> Self {
        Self(Duration::from_millis(50))
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Duration::from_secs(1));
    }
}

impl std::fmt::Debug for NatsBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NatsBus")
    }
}

#[async_trait]
impl Bus for NatsBus {
    async fn wake_with(
        &self,
        key: &WorkKey,
        cause: &str,
        headers: &[(String, String)],
    ) -> Result<(), BusError> {
        self.core.wake(key, cause, headers).await
    }

    async fn work(&self) -> Result<Box<dyn WorkQueue>, BusError> {
        Ok(Box::new(pull::open(Arc::clone(&self.core)).await?))
    }

    async fn publish_events(&self, events: Vec<Event>) -> Result<(), PartlyPublished> {
        self.core.publish_events(&events).await
    }

    async fn events(&self, filter: &str) -> Result<Feed<Event>, BusError> {
        feed::events(&self.core, Filter::of_events(filter)?).await
    }

    async fn publish_live(&self, subject: &str, body: Bytes) -> Result<(), BusError> {
        self.core.publish_live(subject, body).await
    }

    async fn live(&self, filter: &str) -> Result<Feed<Live>, BusError> {
        feed::live(&self.core, Filter::of_live(filter)?).await
    }

    async fn health(&self) -> Health {
        Health {
            connected: is_connected(&self.core.client),
            prepared: self.core.prepared.load(Ordering::Relaxed),
            receiving: self.core.receiving(),
            last_error: self.core.reports.last_error(),
        }
    }
}

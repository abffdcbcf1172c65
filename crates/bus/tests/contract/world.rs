//! A bus to test, and how to wait for things.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use sayso_bus::{
    Bus, Event, Feed, Heard, Work, WorkKey, WorkQueue,
    local::{LocalBus, LocalConfig},
    nats::{NatsBus, NatsConfig},
    testing::{NatsServer, NatsServerOptions},
};

/// Far more than anything here takes, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Local,
    Nats,
}

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) ack_wait: Duration,
    pub(crate) max_outstanding: usize,
    pub(crate) feed_capacity: usize,
    pub(crate) max_payload: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ack_wait: Duration::from_secs(30),
            max_outstanding: 16,
            feed_capacity: 1_024,
            max_payload: 64 * 1024,
        }
    }
}

/// Two handles of one bus, as two processes would hold them.
pub(crate) struct World {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) other: Arc<dyn Bus>,
    pub(crate) server: Option<NatsServer>,
}

impl Kind {
    pub(crate) async fn open(self, settings: Settings) -> World {
        match self {
            Kind::Local => {
                let bus = LocalBus::new(LocalConfig {
                    ack_wait: settings.ack_wait,
                    max_outstanding: settings.max_outstanding,
                    feed_capacity: settings.feed_capacity,
                    max_payload: settings.max_payload,
                });
                World {
                    bus: Arc::new(bus.clone()),
                    other: Arc::new(bus),
                    server: None,
                }
            }
            Kind::Nats => {
                let options = NatsServerOptions {
                    max_payload: Some(settings.max_payload),
                    ..NatsServerOptions::default()
                };
                let server = NatsServer::start_with(&options).unwrap();
                let config = config(&server, settings);
                World {
                    bus: Arc::new(NatsBus::connect(config.clone()).await.unwrap()),
                    other: Arc::new(NatsBus::connect(config).await.unwrap()),
                    server: Some(server),
                }
            }
        }
    }
}

pub(crate) fn config(server: &NatsServer, settings: Settings) -> NatsConfig {
    NatsConfig {
        servers: vec![server.url()],
        ack_wait: settings.ack_wait,
        max_outstanding: settings.max_outstanding,
        feed_capacity: settings.feed_capacity,
        request_timeout: Duration::from_secs(2),
        heartbeat: Duration::from_millis(400),
        ..NatsConfig::default()
    }
}

pub(crate) fn key(number: usize) -> WorkKey {
    WorkKey::new("shop", format!("run_{number}"))
}

pub(crate) fn event(agent: &str, number: usize) -> Event {
    Event {
        subject: format!("sayso.events.v1.shop.{agent}.tool_result"),
        id: format!("{agent}-{number}"),
        headers: vec![("ce-type".to_owned(), "tool_result".to_owned())],
        body: format!("{{\"n\":{number}}}").into(),
    }
}

/// Waits for what has to come.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(PATIENCE, what).await;
    outcome.expect("it should have come by now")
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, waited).await;
    assert!(outcome.is_ok(), "never: {what}");
}

/// The next wake-up.
pub(crate) async fn pull(queue: &mut Box<dyn WorkQueue>) -> Work {
    soon(queue.next()).await.unwrap()
}

/// Nothing comes for this long.
pub(crate) async fn quiet(queue: &mut Box<dyn WorkQueue>, long: Duration) {
    if let Ok(work) = tokio::time::timeout(long, queue.next()).await {
        panic!("nothing should come, but there is {work:?}");
    }
}

/// The next message of a feed that has not lost any.
pub(crate) async fn hear<T: std::fmt::Debug>(feed: &mut Feed<T>) -> T {
    match soon(feed.next()).await.unwrap() {
        Heard::Message(message) => message,
        Heard::Lagged(lost) => panic!("{lost} messages were lost"),
    }
}

//! Taking wake-ups from the shared consumer.
//!
//! One task per work queue pulls, one pull at a time: it asks for as many messages as the queue
//! has places left and asks again once these have come or the pull has ended. A message holds its
//! place from arrival until it is answered or dropped, so no puller holds more than its share and
//! the broker deals the rest to the others.
//!
//! A pull that is thought dead may still be alive: the broker was paused, or only the connection
//! broke, and the inbox, which stays the same, is of interest again. Then its messages arrive
//! beside those of the next pull. They are taken all the same: at most twice the share, once; the
//! alternative, a new inbox, would drop what is under way and cost it a full acknowledgement
//! window. Answers about a pull carry its number, and those about an old one are ignored.
//!
//! When the queue is dropped, the task gives back what its buffer holds.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_nats::{
    Message, StatusCode, Subject, Subscriber,
    jetstream::{self, AckKind},
};
use futures::StreamExt;
use thiserror::Error;
use tokio::{sync::watch, time::Instant};

use super::{
    CONSUMER, Core, PULL_EXPIRES, Pause, WORK_STREAM, feed,
    link::Link,
    queue::{Arrived, NatsQueue, Place, Places},
    wait_for,
};
use crate::{BusError, subject};

/// How long a queue that closes waits for what is under way.
const DRAIN: Duration = Duration::from_secs(2);

/// Opens a work queue and starts its task.
pub(super) async fn open(core: Arc<Core>) -> Result<NatsQueue, BusError> {
    let inbox = core.client.new_inbox();
    let filter = format!("{inbox}.*");
    let subscription = core.client.subscribe(filter.clone()).await;
    let subscription = subscription.map_err(|error| BusError::Subscribe {
        filter,
        source: error.into(),
    })?;
    let places = Arc::new(Places::new(core.config.max_outstanding));
    core.watch_places(&places);
    let puller = Puller {
        link: core.reports.subscribe(),
        core: Arc::clone(&core),
        places: Arc::clone(&places),
        subscription,
        inbox,
        round: 0,
        asked: 0,
        heard: Instant::now(),
        alive: false,
    };
    tokio::spawn(puller.run());
    Ok(NatsQueue { core, places })
}

/// Why receiving stopped.
#[derive(Debug, Error)]
enum Stop {
    #[error("the queue was dropped")]
    Closed,
    #[error("the connection was lost or replaced")]
    Reconnected,
    #[error("the broker fell silent")]
    Silent,
    /// With the consumer gone, for example.
    #[error("the broker ended the pull: {0}")]
    Refused(String),
}

struct Puller {
    core: Arc<Core>,
    places: Arc<Places>,
    link: watch::Receiver<Link>,
    subscription: Subscriber,
    inbox: String,
    /// The number of the current pull.
    round: u64,
    /// How many messages the current pull may still bring.
    asked: usize,
    /// When the broker last spoke here, or the pull was sent.
    heard: Instant,
    /// The broker spoke since the last look at streams and consumer.
    alive: bool,
}

impl Puller {
    async fn run(mut self) {
        let closed = self.places.closed.clone();
        let mut pause = Pause::new();
        while closed
            .run_until_cancelled(self.prepare(&mut pause))
            .await
            .is_some()
        {
            self.places.receiving.store(true, Ordering::Relaxed);
            let stop = self.receive().await;
            self.places.receiving.store(false, Ordering::Relaxed);
            match stop {
                Stop::Closed => break,
                Stop::Reconnected => tracing::info!("the connection changed; pulling anew"),
                Stop::Silent | Stop::Refused(_) => {
                    tracing::warn!(%stop, "wake-ups stopped; looking into it");
                    self.core.reports.fail(stop.to_string());
                }
            }
            if self.alive {
                pause = Pause::new();
            } else if closed.run_until_cancelled(pause.wait()).await.is_none() {
                break;
            }
        }
        self.give_back().await;
    }

    /// Waits until there is a connection with streams and consumer.
    async fn prepare(&mut self, pause: &mut Pause) {
        loop {
            wait_for(&mut self.link, |link| link.connected).await;
            let Err(error) = self.core.heal().await else {
                break;
            };
            let error = error.in_full();
            tracing::warn!(error, "cannot receive wake-ups; trying again");
            pause.wait().await;
        }
        self.asked = 0;
        self.alive = false;
    }

    async fn receive(&mut self) -> Stop {
        let generation = self.link.borrow_and_update().generation;
        let closed = self.places.closed.clone();
        let mut closed = std::pin::pin!(closed.cancelled());
        let places = Arc::clone(&self.places);
        let silence = self.core.config.heartbeat.mul_f32(2.5);
        let mut alarm = std::pin::pin!(tokio::time::sleep(silence));
        loop {
            let mut full = false;
            if self.asked == 0 {
                match places.free() {
                    0 => full = true,
                    free => {
                        if let Err(stop) = self.pull(free).await {
                            return stop;
                        }
                    }
                }
            }
            tokio::select! {
                biased;
                () = &mut closed => return Stop::Closed,
                message = self.subscription.next() => {
                    let Some(message) = message else {
                        return Stop::Refused("the client was closed".to_owned());
                    };
                    if let ControlFlow::Break(stop) = self.take(message) {
                        return stop;
                    }
                    self.heard = Instant::now();
                    self.alive = true;
                }
                Ok(()) = self.link.changed() => {
                    let link = *self.link.borrow_and_update();
                    if !link.connected || link.generation != generation {
                        return Stop::Reconnected;
                    }
                }
                () = places.freed.notified(), if full => {}
                () = &mut alarm, if self.asked > 0 => {
                    let due = self.heard + silence;
                    if due <= Instant::now() {
                        return Stop::Silent;
                    }
                    alarm.as_mut().reset(due);
                }
            }
        }
    }

    async fn pull(&mut self, batch: usize) -> Result<(), Stop> {
        self.round += 1;
        let request = format!(
            r#"{{"batch":{batch},"expires":{},"idle_heartbeat":{}}}"#,
            PULL_EXPIRES.as_nanos(),
            self.core.config.heartbeat.as_nanos()
        );
        let to = format!("$JS.API.CONSUMER.MSG.NEXT.{WORK_STREAM}.{CONSUMER}");
        let inbox = format!("{}.{}", self.inbox, self.round);
        let sent = self
            .core
            .client
            .publish_with_reply(to, inbox, request.into())
            .await;
        sent.map_err(|error| Stop::Refused(error.to_string()))?;
        self.asked = batch;
        self.heard = Instant::now();
        Ok(())
    }

    fn take(&mut self, message: Message) -> ControlFlow<Stop> {
        let Some(status) = message.status else {
            self.asked = self.asked.saturating_sub(1);
            self.take_work(message);
            return ControlFlow::Continue(());
        };
        let about = message.subject.rsplit_once('.').map(|(_, round)| round);
        if about.and_then(|round| round.parse().ok()) != Some(self.round) {
            return ControlFlow::Continue(());
        }
        match status {
            StatusCode::IDLE_HEARTBEAT => ControlFlow::Continue(()),
            // The pull's time is up, or the broker had no more; ask again.
            StatusCode::TIMEOUT | StatusCode::NOT_FOUND => {
                self.asked = 0;
                ControlFlow::Continue(())
            }
            status => {
                let words = message.description.as_deref().unwrap_or_default();
                ControlFlow::Break(Stop::Refused(format!("{status} {words}")))
            }
        }
    }

    fn take_work(&self, message: Message) {
        let place = Place::hold(&self.places);
        match parse(&self.core, message, place) {
            Ok(arrived) => {
                self.places.buffer().push_back(arrived);
                self.places.arrived.notify_one();
            }
            Err(subject) => tracing::warn!(%subject, "not a wake-up; it is left alone"),
        }
    }

    /// Ends the subscription and returns what nobody will ask for.
    async fn give_back(mut self) {
        let drained = async {
            // Messages that the broker sent before it learnt of the end still come.
            if self.subscription.drain().await.is_ok() {
                while let Some(message) = self.subscription.next().await {
                    if message.status.is_none() {
                        self.take_work(message);
                    }
                }
            }
        };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            tracing::debug!("the broker did not confirm the end of a pull");
        }
        let rest = std::mem::take(&mut *self.places.buffer());
        for arrived in rest {
            let nak = AckKind::Nak(None).into();
            if let Err(error) = self.core.client.publish(arrived.reply, nak).await {
                tracing::warn!(%error, "could not give a wake-up back; its window has to pass");
            }
        }
    }
}

fn parse(core: &Core, message: Message, place: Place) -> Result<Arrived, Subject> {
    let message = jetstream::Message {
        message,
        context: core.context.clone(),
    };
    let deliveries = message.info().ok().map(|info| info.delivered);
    let message = message.message;
    match (
        subject::work_key(&message.subject),
        message.reply,
        deliveries,
    ) {
        (Some(key), Some(reply), Some(deliveries)) => Ok(Arrived {
            at: Instant::now(),
            key,
            reply,
            deliveries: u64::try_from(deliveries).unwrap_or(1),
            headers: feed::headers(message.headers, None),
            cause: message.payload,
            place,
        }),
        _ => Err(message.subject),
    }
}

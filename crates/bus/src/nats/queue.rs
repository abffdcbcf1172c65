//! A work queue's places, its buffer, and the answers to its deliveries.
//!
//! A message holds a place from arrival until it is answered or dropped. Messages wait in the
//! buffer until the queue is asked. One that has waited longer than its acknowledgement window
//! belongs to someone else by now and is dropped.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_nats::{Subject, jetstream::AckKind};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::Core;
use crate::{BusError, Headers, Receipt, Work, WorkKey, WorkQueue};

/// What the task, the queue and its deliveries share.
pub(super) struct Places {
    limit: usize,
    held: AtomicUsize,
    /// The task waits for a place.
    wanted: AtomicBool,
    pub(super) freed: Notify,
    buffer: Mutex<VecDeque<Arrived>>,
    pub(super) arrived: Notify,
    pub(super) receiving: AtomicBool,
    pub(super) closed: CancellationToken,
}

impl Places {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            held: AtomicUsize::new(0),
            wanted: AtomicBool::new(false),
            freed: Notify::new(),
            buffer: Mutex::default(),
            arrived: Notify::new(),
            receiving: AtomicBool::new(false),
            closed: CancellationToken::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.is_cancelled()
    }

    pub(super) fn is_receiving(&self) -> bool {
        self.receiving.load(Ordering::Relaxed)
    }

    /// Places left; if none, the task will be told of the next one.
    pub(super) fn free(&self) -> usize {
        let free = || self.limit.saturating_sub(self.held.load(Ordering::SeqCst));
        match free() {
            0 => {
                self.wanted.store(true, Ordering::SeqCst);
                free()
            }
            some => some,
        }
    }

    pub(super) fn buffer(&self) -> MutexGuard<'_, VecDeque<Arrived>> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One place, held by one message.
pub(super) struct Place(Arc<Places>);

impl Place {
    pub(super) fn hold(places: &Arc<Places>) -> Self {
        places.held.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(places))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::SeqCst);
        if self.0.wanted.swap(false, Ordering::SeqCst) {
            self.0.freed.notify_one();
        }
    }
}

/// A message that nobody has asked for yet.
pub(super) struct Arrived {
    pub(super) at: Instant,
    pub(super) key: WorkKey,
    pub(super) reply: Subject,
    pub(super) deliveries: u64,
    pub(super) headers: Headers,
    pub(super) cause: Bytes,
    pub(super) place: Place,
}

/// The worker's end.
pub(super) struct NatsQueue {
    pub(super) core: Arc<Core>,
    pub(super) places: Arc<Places>,
}

#[async_trait]
impl WorkQueue for NatsQueue {
    async fn next(&mut self) -> Result<Work, BusError> {
        loop {
            let arrived = self.places.buffer().pop_front();
            match arrived {
                None => self.places.arrived.notified().await,
                Some(arrived) if arrived.at.elapsed() >= self.core.config.ack_wait => {
                    tracing::debug!(key = %arrived.key, "waited too long here; it comes again");
                }
                Some(arrived) => {
                    return Ok(Work::new(
                        arrived.key,
                        String::from_utf8_lossy(&arrived.cause).into_owned(),
                        arrived.deliveries,
                        arrived.headers,
                        Box::new(NatsReceipt {
                            core: Arc::clone(&self.core),
                            reply: arrived.reply,
                            _place: arrived.place,
                        }),
                    ));
                }
            }
        }
    }
}

impl Drop for NatsQueue {
    fn drop(&mut self) {
        self.places.closed.cancel();
    }
}

struct NatsReceipt {
    core: Arc<Core>,
    reply: Subject,
    _place: Place,
}

impl NatsReceipt {
    async fn answer(&self, answer: AckKind) -> Result<(), BusError> {
        let sent = self
            .core
            .client
            .publish(self.reply.clone(), answer.into())
            .await;
        sent.map_err(|error| BusError::Answer {
            subject: self.reply.to_string(),
            source: error.into(),
        })
    }
}

#[async_trait]
impl Receipt for NatsReceipt {
    async fn ack(&self) -> Result<(), BusError> {
        self.answer(AckKind::Ack).await
    }

    async fn nak(&self, delay: Duration) -> Result<(), BusError> {
        let delay = (!delay.is_zero()).then_some(delay);
        self.answer(AckKind::Nak(delay)).await
    }

    async fn in_progress(&self) -> Result<(), BusError> {
        self.answer(AckKind::Progress).await
    }
}

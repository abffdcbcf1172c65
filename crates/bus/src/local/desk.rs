//! Wake-ups in one process: one message a key, delivered until answered.
//!
//! A message is *ready* (its key stands in the line) or *put off* until some instant: being worked
//! on until its window ends, or given back with a delay. A new wake-up of a key takes the place of
//! the old message whatever its state, under a new serial number, so an answer to the old delivery
//! finds nothing to answer. An answer names the message, not the delivery: a late acknowledgement,
//! after the window has passed and someone else holds it, still ends the message, as the broker
//! has it.
//!
//! One task, the timekeeper, moves what is due back into the line. Queues therefore wait for
//! arrivals alone, and no queue's sleep decides whether another one gets its message. A queue that
//! is full does not wait for arrivals, or it could swallow the notice that an idle one needs.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync::Notify, time::Instant};

use crate::{BusError, Headers, Receipt, Work, WorkKey, WorkQueue};

/// All wake-ups of the process.
pub(super) struct Desk {
    ack_wait: Duration,
    max_outstanding: usize,
    state: Mutex<State>,
    arrived: Notify,
    timers_changed: Notify,
    queues: AtomicUsize,
}

#[derive(Default)]
struct State {
    messages: HashMap<WorkKey, Message>,
    /// Keys of ready messages, oldest first. A key that is not ready any more is passed over.
    line: VecDeque<WorkKey>,
    /// When messages that are put off become ready.
    timers: BTreeSet<(Instant, WorkKey)>,
    last_serial: u64,
}

struct Message {
    serial: u64,
    cause: String,
    headers: Headers,
    deliveries: u64,
    /// `None` while it is ready.
    put_off: Option<Instant>,
}

impl State {
    fn put(&mut self, key: &WorkKey, cause: &str, headers: &[(String, String)]) {
        self.last_serial += 1;
        let message = Message {
            serial: self.last_serial,
            cause: cause.to_owned(),
            headers: headers.to_vec(),
            deliveries: 0,
            put_off: None,
        };
        match self.messages.insert(key.clone(), message) {
            Some(Message { put_off: None, .. }) => {}
            Some(Message {
                put_off: Some(due), ..
            }) => {
                self.timers.remove(&(due, key.clone()));
                self.line.push_back(key.clone());
            }
            None => self.line.push_back(key.clone()),
        }
    }

    fn deliver(&mut self, until: Instant) -> Option<(WorkKey, &Message)> {
        loop {
            let key = self.line.pop_front()?;
            let Some(message) = self.messages.get_mut(&key) else {
                continue;
            };
            if message.put_off.is_some() {
                continue;
            }
            message.deliveries += 1;
            message.put_off = Some(until);
            self.timers.insert((until, key.clone()));
            let message = &self.messages[&key];
            return Some((key, message));
        }
    }

    fn end(&mut self, key: &WorkKey, serial: u64) {
        if self.messages.get(key).is_some_and(|m| m.serial == serial)
            && let Some(Message {
                put_off: Some(due), ..
            }) = self.messages.remove(key)
        {
            self.timers.remove(&(due, key.clone()));
        }
    }

    /// Puts a message that is being worked on off until `due`.
    fn put_off(&mut self, key: &WorkKey, serial: u64, due: Instant) {
        let Some(message) = self.messages.get_mut(key) else {
            return;
        };
        if message.serial != serial {
            return;
        }
        if let Some(before) = message.put_off.replace(due) {
            self.timers.remove(&(before, key.clone()));
        }
        self.timers.insert((due, key.clone()));
    }

    /// Moves what is due into the line; how many, and when the next one is.
    fn release(&mut self, now: Instant) -> (usize, Option<Instant>) {
        let mut released = 0;
        while let Some((due, _)) = self.timers.first() {
            if *due > now {
                return (released, Some(*due));
            }
            if let Some((_, key)) = self.timers.pop_first()
                && let Some(message) = self.messages.get_mut(&key)
            {
                message.put_off = None;
                self.line.push_back(key);
                released += 1;
            }
        }
        (released, None)
    }
}

impl Desk {
    pub(super) fn new(ack_wait: Duration, max_outstanding: usize) -> Self {
        Self {
            ack_wait,
            max_outstanding: max_outstanding.max(1),
            state: Mutex::default(),
            arrived: Notify::new(),
            timers_changed: Notify::new(),
            queues: AtomicUsize::new(0),
        }
    }

    pub(super) fn put(&self, key: &WorkKey, cause: &str, headers: &[(String, String)]) {
        self.lock().put(key, cause, headers);
        self.arrived.notify_one();
    }

    pub(super) fn open(self: &Arc<Self>) -> DeskQueue {
        self.queues.fetch_add(1, Ordering::Relaxed);
        DeskQueue {
            desk: Arc::clone(self),
            places: Arc::new(Places {
                held: AtomicUsize::new(0),
                freed: Notify::new(),
            }),
        }
    }

    pub(super) fn is_attended(&self) -> bool {
        self.queues.load(Ordering::Relaxed) > 0
    }

    /// Returns what is due to the line, for ever.
    pub(super) async fn keep_time(self: Arc<Self>) {
        loop {
            let (released, next) = self.lock().release(Instant::now());
            for _ in 0..released {
                self.arrived.notify_one();
            }
            let changed = self.timers_changed.notified();
            match next {
                None => changed.await,
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(due) => {}
                },
            }
        }
    }

    /// Changes the state, and tells the timekeeper if the first timer is another one now.
    fn with_timers<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = state.timers.first().map(|(due, _)| *due);
        let result = change(&mut state);
        let after = state.timers.first().map(|(due, _)| *due);
        drop(state);
        if after.is_some() && after != before {
            self.timers_changed.notify_one();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything in it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many deliveries a queue holds unanswered.
struct Places {
    held: AtomicUsize,
    freed: Notify,
}

/// One puller.
pub(super) struct DeskQueue {
    desk: Arc<Desk>,
    places: Arc<Places>,
}

impl DeskQueue {
    fn take(&self) -> Option<Work> {
        let until = Instant::now() + self.desk.ack_wait;
        self.desk.with_timers(|state| {
            let (key, message) = state.deliver(until)?;
            self.places.held.fetch_add(1, Ordering::AcqRel);
            let receipt = DeskReceipt {
                desk: Arc::clone(&self.desk),
                places: Arc::clone(&self.places),
                key: key.clone(),
                serial: message.serial,
            };
            Some(Work::new(
                key,
                message.cause.clone(),
                message.deliveries,
                message.headers.clone(),
                Box::new(receipt),
            ))
        })
    }
}

#[async_trait]
impl WorkQueue for DeskQueue {
    async fn next(&mut self) -> Result<Work, BusError> {
        loop {
            if self.places.held.load(Ordering::Acquire) >= self.desk.max_outstanding {
                self.places.freed.notified().await;
            } else if let Some(work) = self.take() {
                return Ok(work);
            } else {
                self.desk.arrived.notified().await;
            }
        }
    }
}

impl Drop for DeskQueue {
    fn drop(&mut self) {
        self.desk.queues.fetch_sub(1, Ordering::Relaxed);
    }
}

struct DeskReceipt {
    desk: Arc<Desk>,
    places: Arc<Places>,
    key: WorkKey,
    serial: u64,
}

#[async_trait]
impl Receipt for DeskReceipt {
    async fn ack(&self) -> Result<(), BusError> {
        self.desk
            .with_timers(|state| state.end(&self.key, self.serial));
        Ok(())
    }

    async fn nak(&self, delay: Duration) -> Result<(), BusError> {
        let due = Instant::now() + delay;
        self.desk
            .with_timers(|state| state.put_off(&self.key, self.serial, due));
        Ok(())
    }

    async fn in_progress(&self) -> Result<(), BusError> {
        let due = Instant::now() + self.desk.ack_wait;
        self.desk
            .with_timers(|state| state.put_off(&self.key, self.serial, due));
        Ok(())
    }
}

impl Drop for DeskReceipt {
    fn drop(&mut self) {
        self.places.held.fetch_sub(1, Ordering::AcqRel);
        self.places.freed.notify_one();
    }
}

//! Feeds in one process: each follower has a bounded mailbox of its own.
//!
//! A sender never waits. A mailbox that is full loses the message and counts it; the count is
//! handed out before what still waits in the box. Followers of one exact subject are found by
//! name, so a thousand watchers of a thousand runs cost a delta one look-up.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;

use crate::{Feed, Heard, subject::Filter};

/// Everyone who listens for messages of one kind.
pub(super) struct Hub<T> {
    capacity: usize,
    followers: Mutex<Followers<T>>,
}

struct Followers<T> {
    exact: HashMap<String, Vec<Follower<T>>>,
    patterns: Vec<(Filter, Follower<T>)>,
    last_id: u64,
}

struct Follower<T> {
    id: u64,
    sender: mpsc::Sender<Arc<T>>,
    lost: Arc<AtomicU64>,
}

impl<T> Follower<T> {
    fn send(&self, message: Arc<T>) {
        // A closed mailbox is one that is being dropped: nobody is missing anything.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send(message) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Hub<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            followers: Mutex::new(Followers {
                exact: HashMap::new(),
                patterns: Vec::new(),
                last_id: 0,
            }),
        }
    }

    pub(super) fn send(&self, subject: &str, message: T) {
        let followers = self.lock();
        let named = followers.exact.get(subject).into_iter().flatten();
        let matching = followers
            .patterns
            .iter()
            .filter(|(filter, _)| filter.matches(subject))
            .map(|(_, follower)| follower);
        let message = Arc::new(message);
        for follower in named.chain(matching) {
            follower.send(Arc::clone(&message));
        }
    }

    pub(super) fn subscribe(self: &Arc<Self>, filter: Filter) -> Feed<T> {
        let (sender, receiver) = mpsc::channel(self.capacity);
        let lost = Arc::new(AtomicU64::new(0));
        let mut followers = self.lock();
        followers.last_id += 1;
        let id = followers.last_id;
        let follower = Follower {
            id,
            sender,
            lost: Arc::clone(&lost),
        };
        match filter.exact() {
            Some(subject) => {
                let named = followers.exact.entry(subject.to_owned()).or_default();
                named.push(follower);
            }
            None => followers.patterns.push((filter.clone(), follower)),
        }
        drop(followers);
        Mailbox {
            hub: Arc::clone(self),
            filter,
            id,
            receiver,
            lost,
        }
        .boxed()
    }
}

impl<T> Hub<T> {
    fn unsubscribe(&self, filter: &Filter, id: u64) {
        let mut followers = self.lock();
        match filter.exact() {
            Some(subject) => {
                if let Some(named) = followers.exact.get_mut(subject) {
                    named.retain(|follower| follower.id != id);
                    if named.is_empty() {
                        followers.exact.remove(subject);
                    }
                }
            }
            None => followers.patterns.retain(|(_, follower)| follower.id != id),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Followers<T>> {
        // The lists are valid after every single step that is taken under the lock.
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// One follower's end.
struct Mailbox<T> {
    hub: Arc<Hub<T>>,
    filter: Filter,
    id: u64,
    receiver: mpsc::Receiver<Arc<T>>,
    lost: Arc<AtomicU64>,
}

impl<T: Clone> Stream for Mailbox<T> {
    type Item = Heard<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Heard<T>>> {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            return Poll::Ready(Some(Heard::Lagged(lost)));
        }
        let message = ready!(self.receiver.poll_recv(context));
        Poll::Ready(message.map(|message| Heard::Message(Arc::unwrap_or_clone(message))))
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        self.hub.unsubscribe(&self.filter, self.id);
    }
}

//! Watchers of all events of a namespace (S8.4).
//!
//! They hang on the gateway's one subscription. An event is read once for all who watch its namespace
//! and handed round in a ring; whoever falls behind by more than the ring holds is told that events are
//! missing, and nothing waits for them. A watcher gathers what comes within a moment, so that many
//! events cost one message.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sayso_bus::Event as Heard;
use sayso_run::{AgentName, Namespace};
use sayso_service::error::Coded;
use sayso_wire::{events, v1};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::sleep;

use super::{Inner, Watching};
use crate::auth::{Lease, OpenStream};
use crate::refuse;

/// How many events of a namespace wait for its slowest watcher.
const RING: usize = 4096;
/// How many events are known to have been handed round: what several processes publish, or one again, is
/// handed round once.
const KNOWN: usize = 8192;
/// How many events are sent at once.
const MOST: usize = 256;
/// How long events are gathered.
const MOMENT: Duration = Duration::from_millis(50);

/// What is handed round.
#[derive(Debug, Clone)]
enum News {
    Event(Arc<v1::Event>),
    /// The subscription may have lost something.
    Lost,
}

/// Who watches, and what they were told lately.
#[derive(Default)]
pub(super) struct Newsstand {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// By namespace.
    rings: HashMap<String, broadcast::Sender<News>>,
    known: Known,
}

/// The ids of the last events.
#[derive(Default)]
struct Known {
    ids: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Known {
    /// Whether it is new.
    fn take(&mut self, id: &str) -> bool {
        let id: Arc<str> = id.into();
        if !self.ids.insert(Arc::clone(&id)) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

impl Newsstand {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change under this lock leaves the table whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, namespace: &Namespace) -> broadcast::Receiver<News> {
        let rings = &mut self.table().rings;
        rings.retain(|_, ring| ring.receiver_count() > 0);
        let ring = rings.entry(namespace.as_str().to_owned());
        let ring = ring.or_insert_with(|| broadcast::channel(RING).0);
        ring.subscribe()
    }

    /// Hands an event round, if anybody watches its namespace and it is new.
    pub(super) fn hear(&self, namespace: &str, event: &Heard) {
        let Table { rings, known } = &mut *self.table();
        let Some(ring) = rings.get(namespace) else {
            return;
        };
        if ring.receiver_count() == 0 || !known.take(&event.id) {
            return;
        }
        let news = match events::read_any(&event.headers, &event.body) {
            Ok(read) => News::Event(Arc::new(read)),
            Err(error) => {
                tracing::warn!(event.id, "an event cannot be read: {error}");
                News::Lost
            }
        };
        // An error says that nobody listens any more: then nobody misses anything.
        drop(ring.send(news));
    }

    pub(super) fn tell_everyone_of_loss(&self) {
        for ring in self.table().rings.values() {
            drop(ring.send(News::Lost));
        }
    }
}

/// Which events a watcher wants.
#[derive(Debug, Clone)]
pub(crate) struct Wants {
    pub(crate) namespace: Namespace,
    pub(crate) agent: Option<AgentName>,
    /// Types, or their beginnings with a `*` behind; any if empty.
    pub(crate) types: Vec<String>,
}

impl Wants {
    fn wants(&self, event: &v1::Event) -> bool {
        let agent = |wanted: &AgentName| {
            let agent = event.source.rsplit('/').next();
            agent == Some(wanted.as_str())
        };
        let fits = |wanted: &String| match wanted.strip_suffix('*') {
            Some(beginning) => event.r#type.starts_with(beginning),
            None => event.r#type == *wanted,
        };
        self.agent.as_ref().is_none_or(agent)
            && (self.types.is_empty() || self.types.iter().any(fits))
    }
}

/// A watcher's stream.
pub(crate) struct NewsWatch {
    shared: Arc<Inner>,
    token: OpenStream,
    ring: broadcast::Receiver<News>,
    wants: Wants,
    failed: bool,
}

impl Watching {
    /// Takes a place for a watcher of events.
    pub(crate) fn news(&self, wants: Wants, lease: &Lease) -> NewsWatch {
        NewsWatch {
            shared: Arc::clone(&self.inner),
            token: lease.open(),
            ring: self.inner.news.watch(&wants.namespace),
            wants,
            failed: false,
        }
    }
}

impl NewsWatch {
    /// The next events; none after an error.
    pub(crate) async fn next(&mut self) -> Option<Result<v1::WatchEventsResponse, Coded>> {
        if self.failed {
            return None;
        }
        let gathered = tokio::select! {
            biased;
            why = self.token.ended() => Err(why),
            () = self.shared.stopping.cancelled() => Err(refuse::stopping()),
            gathered = gather(&mut self.ring, &self.wants) => Ok(gathered),
        };
        self.failed = gathered.is_err();
        Some(gathered)
    }
}

/// Waits for an event, or for a loss, and takes what else comes within a moment.
async fn gather(ring: &mut broadcast::Receiver<News>, wants: &Wants) -> v1::WatchEventsResponse {
    let mut gathered = v1::WatchEventsResponse::default();
    while gathered.events.is_empty() && !gathered.gap {
        match ring.recv().await {
            Ok(news) => take(&mut gathered, news, wants),
            Err(RecvError::Lagged(_)) => gathered.gap = true,
            // The ring stays as long as somebody watches.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
    sleep(MOMENT).await;
    while gathered.events.len() < MOST {
        match ring.try_recv() {
            Ok(news) => take(&mut gathered, news, wants),
            Err(TryRecvError::Lagged(_)) => gathered.gap = true,
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    gathered
}

fn take(gathered: &mut v1::WatchEventsResponse, news: News, wants: &Wants) {
    match news {
        News::Event(event) if wants.wants(&event) => {
            gathered.events.push(Arc::unwrap_or_clone(event));
        }
        News::Event(_) => {}
        News::Lost => gathered.gap = true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S8.4: what several processes publish is handed round once.
    #[test]
    fn s8_4_an_event_is_new_once() {
        let mut known = Known::default();
        assert!(known.take("run_1:1") && !known.take("run_1:1"));
        for number in 0..KNOWN {
            assert!(known.take(&format!("run_2:{number}")));
        }
        assert_eq!((known.ids.len(), known.order.len()), (KNOWN, KNOWN));
        assert!(known.take("run_1:1"), "the oldest was forgotten");
    }
}

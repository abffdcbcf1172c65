//! Watchers of a namespace's approvals (B17).
//!
//! An event says which approval changed; what it is like now is read once for all who watch, in
//! batches, by one task. Watchers that fell behind, and all of them when events may have been lost,
//! get a new snapshot behind a mark.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use sayso_driver::{ApprovalRow, ApprovalStatus};
use sayso_run::{AgentName, ApprovalId, Namespace, PrincipalId, RunId};
use sayso_service::error::Coded;
use sayso_store::{ApprovalFilter, DatabaseError, Page, PageRequest, Store};
use sayso_wire::events::{ApprovalChange, ApprovalNews};
use sayso_wire::v1;
use sayso_wire::v1::watch_approvals_response::Event as Sent;
use tokio::sync::mpsc;

use super::{Inner, Watching};
use crate::auth::{Lease, OpenStream};
use crate::{page, refuse, show};

/// How many changes wait for one watcher before it needs a new snapshot.
const MAILBOX: usize = 256;
/// How many changes wait to be read.
const TO_READ: usize = 4096;
/// How many changed approvals are read at a time.
const BATCH: usize = 64;
/// How many pending approvals are read at a time.
const PAGE: u32 = 100;

/// Which approvals a watcher wants.
#[derive(Debug, Clone)]
pub(crate) struct Follows {
    pub(crate) namespace: Namespace,
    pub(crate) agent: Option<AgentName>,
    pub(crate) run: Option<RunId>,
    /// Only those of runs that this principal asked for.
    pub(crate) requester: Option<PrincipalId>,
}

impl Follows {
    fn wants(&self, row: &ApprovalRow) -> bool {
        self.namespace == row.namespace
            && self.agent.as_ref().is_none_or(|agent| *agent == row.agent)
            && self.run.as_ref().is_none_or(|run| *run == row.run)
            && self
                .requester
                .as_ref()
                .is_none_or(|by| *by == row.requester)
    }
}

/// A change, with the approval as it was read after it.
#[derive(Debug, Clone)]
struct Changed {
    change: ApprovalChange,
    row: Arc<ApprovalRow>,
}

/// A change that is still to be read.
#[derive(Debug)]
struct ToRead {
    namespace: Namespace,
    approval: ApprovalId,
    change: ApprovalChange,
}

/// The watchers of approvals, by namespace.
pub(super) struct Inbox {
    namespaces: Mutex<HashMap<String, Vec<Place>>>,
    last_id: AtomicU64,
    to_read: mpsc::Sender<ToRead>,
    /// For the one task that reads.
    reading: tokio::sync::Mutex<mpsc::Receiver<ToRead>>,
}

struct Place {
    id: u64,
    mailbox: mpsc::Sender<Option<Changed>>,
    missed: Arc<AtomicBool>,
}

impl Place {
    /// Sends a change; `None` only wakes a watcher that missed something.
    fn send(&self, change: Option<Changed>) {
        if change.is_none() {
            self.missed.store(true, Ordering::Relaxed);
        }
        // Closed means that the watcher is just leaving: it misses nothing.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.mailbox.try_send(change) {
            self.missed.store(true, Ordering::Relaxed);
        }
    }
}

impl Default for Inbox {
    fn default() -> Inbox {
        let (to_read, reading) = mpsc::channel(TO_READ);
        Inbox {
            namespaces: Mutex::default(),
            last_id: AtomicU64::new(0),
            to_read,
            reading: tokio::sync::Mutex::new(reading),
        }
    }
}

impl Inbox {
    fn watch(self: &Arc<Inbox>, namespace: &Namespace) -> Seat {
        let (mailbox, inbox) = mpsc::channel(MAILBOX);
        let missed = Arc::new(AtomicBool::new(false));
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            id,
            mailbox,
            missed: Arc::clone(&missed),
        };
        let mut namespaces = self.lock();
        let places = namespaces.entry(namespace.as_str().to_owned());
        places.or_default().push(place);
        Seat {
            desk: Arc::clone(self),
            namespace: namespace.clone(),
            id,
            inbox,
            missed,
        }
    }

    pub(super) fn watchers(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }

    /// Whether anybody watches the approvals of this namespace.
    pub(super) fn is_watched(&self, namespace: &str) -> bool {
        self.lock().contains_key(namespace)
    }

    /// Takes a change of an approval of this namespace.
    pub(super) fn hear(&self, namespace: &Namespace, news: &ApprovalNews) {
        let to_read = ToRead {
            namespace: namespace.clone(),
            approval: news.approval.clone(),
            change: news.change,
        };
        if let Err(mpsc::error::TrySendError::Full(_)) = self.to_read.try_send(to_read) {
            self.tell_of_loss(namespace);
        }
    }

    pub(super) fn tell_everyone_of_loss(&self) {
        for places in self.lock().values() {
            places.iter().for_each(|place| place.send(None));
        }
    }

    pub(super) fn tell_of_loss(&self, namespace: &Namespace) {
        if let Some(places) = self.lock().get(namespace.as_str()) {
            places.iter().for_each(|place| place.send(None));
        }
    }

    fn tell(&self, changed: &Changed) {
        if let Some(places) = self.lock().get(changed.row.namespace.as_str()) {
            places
                .iter()
                .for_each(|place| place.send(Some(changed.clone())));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Place>>> {
        // Every change under this lock leaves the table whole.
        self.namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what changed and tells the watchers.
pub(super) async fn read_changes(watching: &Watching) -> Infallible {
    let inbox = &watching.inner.approvals;
    let mut reading = inbox.reading.lock().await;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        batch.clear();
        reading.recv_many(&mut batch, BATCH).await;
        let reads = batch.iter().map(|read| read_change(watching, read));
        for (read, outcome) in batch.iter().zip(join_all(reads).await) {
            match outcome {
                Ok(Some(row)) => inbox.tell(&Changed {
                    change: read.change,
                    row: Arc::new(row),
                }),
                // Nobody has such an approval in the event's own namespace.
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!("a changed approval cannot be read: {error}");
                    inbox.tell_of_loss(&read.namespace);
                }
            }
        }
    }
}

async fn read_change(
    watching: &Watching,
    read: &ToRead,
) -> Result<Option<ApprovalRow>, DatabaseError> {
    let approvals = watching.inner.store.approvals();
    approvals.get(&read.namespace, &read.approval).await
}

struct Seat {
    desk: Arc<Inbox>,
    namespace: Namespace,
    id: u64,
    inbox: mpsc::Receiver<Option<Changed>>,
    missed: Arc<AtomicBool>,
}

impl Seat {
    /// The next change; `None` if some were missed.
    async fn next(&mut self) -> Option<Changed> {
        loop {
            if self.missed.swap(false, Ordering::Relaxed) {
                // What is kept is older than the snapshot that follows.
                while self.inbox.try_recv().is_ok() {}
                return None;
            }
            match self.inbox.recv().await {
                Some(Some(changed)) => return Some(changed),
                Some(None) => {}
                // The sender is in the table for as long as this place is.
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut namespaces = self.desk.lock();
        if let Some(places) = namespaces.get_mut(self.namespace.as_str()) {
            places.retain(|place| place.id != self.id);
            if places.is_empty() {
                namespaces.remove(self.namespace.as_str());
            }
        }
    }
}

/// A watcher's stream.
pub(crate) struct InboxWatch {
    shared: Arc<Inner>,
    token: OpenStream,
    seat: Seat,
    follows: Follows,
    phase: Phase,
    ready: VecDeque<Sent>,
    failed: bool,
}

enum Phase {
    /// Pending approvals are read: those after this position, and how many were sent.
    Snapshot {
        after: Option<String>,
        sent: u64,
    },
    Following,
}

const FROM_THE_START: Phase = Phase::Snapshot {
    after: None,
    sent: 0,
};

impl Watching {
    /// Takes a place for a watcher of approvals.
    pub(crate) fn approvals(&self, follows: Follows, snapshot: bool, lease: &Lease) -> InboxWatch {
        InboxWatch {
            shared: Arc::clone(&self.inner),
            token: lease.open(),
            seat: self.inner.approvals.watch(&follows.namespace),
            follows,
            phase: if snapshot {
                FROM_THE_START
            } else {
                Phase::Following
            },
            ready: VecDeque::new(),
            failed: false,
        }
    }
}

impl InboxWatch {
    /// The next message; none after an error.
    pub(crate) async fn next(&mut self) -> Option<Result<v1::WatchApprovalsResponse, Coded>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(v1::WatchApprovalsResponse { event: Some(event) }));
            }
            if self.failed {
                return None;
            }
            let moved = tokio::select! {
                biased;
                why = self.token.ended() => Err(why),
                () = self.shared.stopping.cancelled() => Err(refuse::stopping()),
                moved = advance(&self.shared.store, &mut self.seat, &self.follows, &mut self.phase) => moved,
            };
            match moved {
                Ok(events) => self.ready.extend(events),
                Err(why) => {
                    self.failed = true;
                    return Some(Err(why));
                }
            }
        }
    }
}

async fn advance(
    store: &Store,
    seat: &mut Seat,
    follows: &Follows,
    phase: &mut Phase,
) -> Result<Vec<Sent>, Coded> {
    match phase {
        Phase::Snapshot { after, sent } => {
            let page = pending(store, follows, after.take()).await?;
            let mut events: Vec<Sent> = page
                .items
                .iter()
                .map(|row| Sent::Pending(show::approval(row)))
                .collect();
            let count = *sent + events.len() as u64;
            *phase = match page.next {
                Some(next) => Phase::Snapshot {
                    after: Some(next),
                    sent: count,
                },
                None => {
                    events.push(Sent::SnapshotComplete(v1::SnapshotComplete { count }));
                    Phase::Following
                }
            };
            Ok(events)
        }
        Phase::Following => match seat.next().await {
            Some(changed) if follows.wants(&changed.row) => Ok(vec![told(&changed)]),
            Some(_) => Ok(Vec::new()),
            None => {
                *phase = FROM_THE_START;
                Ok(vec![Sent::SnapshotRestarted(v1::SnapshotRestarted {})])
            }
        },
    }
}

async fn pending(
    store: &Store,
    follows: &Follows,
    after: Option<String>,
) -> Result<Page<ApprovalRow>, Coded> {
    let filter = ApprovalFilter {
        statuses: vec![ApprovalStatus::Pending],
        agent: follows.agent.clone(),
        run: follows.run.clone(),
        requester: follows.requester.clone(),
        ..ApprovalFilter::default()
    };
    let request = PageRequest {
        size: PAGE,
        token: after,
    };
    let page = store
        .approvals()
        .list(&follows.namespace, &filter, &request)
        .await;
    page.map_err(|error| page::failed("reading pending approvals", error))
}

fn told(changed: &Changed) -> Sent {
    let approval = show::approval(&changed.row);
    match changed.change {
        ApprovalChange::Requested => Sent::Requested(approval),
        ApprovalChange::Decided => Sent::Decided(approval),
        ApprovalChange::Closed => Sent::Closed(approval),
        ApprovalChange::Escalated => Sent::Escalated(approval),
        ApprovalChange::Updated => Sent::Updated(approval),
    }
}

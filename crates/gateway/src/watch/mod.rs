//! Watching runs and approvals (S2.4): many watchers, one subscription.
//!
//! A gateway listens once for all events and once for all provisional text. What is about a run
//! that somebody watches is read and handed out ([`desk`]); everything else is dropped after a look
//! at its attributes. The bus loses messages; the timeline does not. So a watcher trusts sequence
//! numbers alone:
//!
//! 1. it takes its place at the desk, and only then reads the steps from its position, and where
//!    the run stands: whatever is appended after that read is heard, whatever was before is read;
//! 2. it hands on what it hears if that is exactly the next number, drops what it already sent, and
//!    reads the steps whenever a number is missing, its mailbox overflowed, or an event was too large
//!    to carry its step ([`follow`]);
//! 3. a look every five seconds at the numbers of all watched runs at once, and one whenever the
//!    subscription may have lost something, tells those who are behind ([`feed`]).
//!
//! So each step is sent once and in order, and an idle watcher costs a place in a table: no task, no
//! timer, no query. Nothing waits for a slow reader: mailboxes are bounded, and who misses something
//! reads it from the database.
//!
//! Provisional text has no such safety net and needs none. Where some of it was lost the rest of
//! that cycle is left out behind a withdrawal; the step that settles the cycle has the whole text.
//!
//! Whoever watches all events of a namespace ([`news`]) gets what is heard, and no more: that something
//! may be missing is told, and the timelines have it.
//!
//! Approvals ([`inbox`]) are told by change, and a watcher is sent the approval as it is when it is
//! read. If changes may have been lost, the watcher gets a new snapshot behind a mark.

mod asked;
mod desk;
mod feed;
mod follow;
mod inbox;
mod news;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use sayso_bus::Bus;
use sayso_run::{ApprovalId, Namespace, RunId};
use sayso_store::Store;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) use follow::{Follow, Position};
pub(crate) use inbox::Follows;
pub(crate) use news::Wants;

use asked::Asked;
use desk::Desk;
use inbox::Inbox;
use news::Newsstand;

/// Everything that watchers share.
#[derive(Clone)]
pub(crate) struct Watching {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    bus: Arc<dyn Bus>,
    runs: Arc<Desk>,
    approvals: Arc<Inbox>,
    news: Newsstand,
    asked: Asked,
    /// Asks for a look at the numbers of all watched runs.
    look: Notify,
    look_every: Duration,
    stopping: CancellationToken,
}

impl Watching {
    pub(crate) fn new(store: Store, bus: Arc<dyn Bus>, look_every: Duration) -> Watching {
        Watching {
            inner: Arc::new(Inner {
                store,
                bus,
                runs: Arc::default(),
                approvals: Arc::default(),
                news: Newsstand::default(),
                asked: Asked::default(),
                look: Notify::new(),
                look_every,
                stopping: CancellationToken::new(),
            }),
        }
    }

    /// Listens, looks and hands out until `shutdown`; then ends every watcher.
    pub(crate) async fn run(&self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            never = feed::events(self) => match never {},
            never = feed::live(self) => match never {},
            never = feed::looks(self) => match never {},
            never = inbox::read_changes(self) => match never {},
        }
        self.inner.stopping.cancel();
    }

    /// The run of an approval of this namespace, if events told of it lately.
    pub(crate) fn run_of(&self, namespace: &Namespace, approval: &ApprovalId) -> Option<RunId> {
        self.inner.asked.run_of(namespace, approval)
    }

    /// How many watch something: runs, and approvals.
    pub(crate) fn watchers(&self) -> (usize, usize) {
        (self.inner.runs.watchers(), self.inner.approvals.watchers())
    }
}

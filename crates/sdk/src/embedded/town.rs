//! Who is told of what was appended in this process: those who watch a run, those who decide, and the
//! workers. There is no world beyond them, so whatever was told counts as published.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sayso_bus::{Bus, WorkKey};
use sayso_driver::{Herald, RunRow, Written};
use sayso_run::{Namespace, RunId, Status};
use sayso_store::Store;
use sayso_tools::Toolbox;
use sayso_wire::events::Live;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Between two lazy batches of marks.
const EVERY: Duration = Duration::from_millis(500);

/// What watchers of a run are told.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// Steps were appended.
    Moved,
    /// Text of an answer that is being written.
    Said(Live),
}

/// Everybody in this process who wants to know.
pub(crate) struct Town {
    bus: Arc<dyn Bus>,
    tools: Arc<Toolbox>,
    watchers: Mutex<HashMap<RunId, Vec<mpsc::UnboundedSender<News>>>>,
    /// The last steps told of that the journal does not know to be.
    marks: Mutex<HashMap<RunId, u64>>,
    /// Something may have to be decided.
    pub(crate) held: Notify,
    tasks: TaskTracker,
}

impl std::fmt::Debug for Town {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Town({} watched runs)", locked(&self.watchers).len())
    }
}

impl Town {
    pub(crate) fn new(bus: Arc<dyn Bus>, tools: Arc<Toolbox>, tasks: TaskTracker) -> Self {
        Self {
            bus,
            tools,
            watchers: Mutex::default(),
            marks: Mutex::default(),
            held: Notify::new(),
            tasks,
        }
    }

    /// What is told of a run from now on.
    pub(crate) fn watch(&self, run: &RunId) -> mpsc::UnboundedReceiver<News> {
        let (told, news) = mpsc::unbounded_channel();
        let mut watchers = locked(&self.watchers);
        watchers.retain(|_, of| {
            of.retain(|watcher| !watcher.is_closed());
            !of.is_empty()
        });
        watchers.entry(run.clone()).or_default().push(told);
        news
    }

    fn tell(&self, run: &RunId, news: impl Fn() -> News) {
        let mut watchers = locked(&self.watchers);
        if let Some(of) = watchers.get_mut(run) {
            of.retain(|watcher| watcher.send(news()).is_ok());
        }
    }

    fn note(&self, row: &RunRow) {
        let mut marks = locked(&self.marks);
        let mark = marks.entry(row.run.clone()).or_default();
        *mark = (*mark).max(row.seq);
    }

    /// Stores marks in lazy batches until `closing`, and once more then. One that is lost is made up
    /// for by the sweep.
    pub(crate) async fn keep_marks(&self, store: Store, closing: CancellationToken) {
        let mut last = false;
        while !last {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = closing.cancelled() => last = true,
            }
            let marks = std::mem::take(&mut *locked(&self.marks));
            if let Err(error) = store.mark_published(marks.into_iter().collect()).await {
                tracing::debug!(%error, "marks could not be stored; the sweep comes for them");
            }
        }
    }
}

impl Herald for Town {
    fn announce(&self, row: &RunRow, _: Vec<Written>) {
        self.note(row);
        self.tell(&row.run, || News::Moved);
        match row.status {
            Status::AwaitingApproval => self.held.notify_one(),
            Status::Cancelled => self.tools.cancel(&row.run),
            Status::Pending
            | Status::Running
            | Status::AwaitingInput
            | Status::Completed
            | Status::Failed => {}
        }
    }

    fn published(&self, run: &RunId) -> Option<u64> {
        locked(&self.marks).get(run).copied()
    }

    fn announce_again(&self, row: &RunRow, _: u64, steps: Vec<Written>) {
        self.announce(row, steps);
    }

    fn wake(&self, namespace: &Namespace, run: &RunId, cause: &'static str) {
        let (bus, key) = (
            Arc::clone(&self.bus),
            WorkKey::new(namespace.as_str(), run.as_str()),
        );
        self.tasks.spawn(async move {
            if let Err(error) = bus.wake(&key, cause).await {
                tracing::debug!(%key, %error, "a wake-up was lost; the sweep wakes the run");
            }
        });
    }

    fn trace(&self, span: &tracing::Span, traceparent: &str) {
        sayso_service::telemetry::propagate::join(span, traceparent);
    }

    fn delta(&self, run: &RunId, cycle: u32, text: Option<&str>) {
        self.tell(run, || {
            News::Said(match text {
                Some(text) => Live::Text {
                    cycle,
                    text: text.to_owned(),
                },
                None => Live::Withdrawn { cycle },
            })
        });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

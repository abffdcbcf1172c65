//! What every writer of timelines shares: telling the world what was appended, waking workers,
//! telling a caller why nothing was written, and showing what is ([`show`]).
//!
//! **The timeline is the outbox.** `runs.published` is the last step whose event the broker has
//! acknowledged. Whoever appends publishes from there, in order, stopping at the first failure; what
//! was not acknowledged stays behind the mark and goes out with the scheduler's sweep. The mark moves
//! with the run's next append, and in a lazy batch where none follows. So events come at least once
//! and in order per run, and losing the broker loses nothing.

mod live;
mod marks;
mod publish;
mod refusal;
pub mod show;

use std::sync::Arc;

use sayso_bus::{Bus, WorkKey};
use sayso_driver::{RunRow, Written};
use sayso_run::{Namespace, RunId};
use sayso_service::telemetry::propagate;
use sayso_store::Store;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use live::Said;
use marks::Marks;
use publish::News;
pub use refusal::coded;

/// How many messages may wait for the broker in this process; beyond that events are left to the
/// sweep, and live text is dropped.
const WAITING: usize = 65_536;

/// Tells the world. One a process; share it.
#[derive(Debug)]
pub struct Herald {
    bus: Arc<dyn Bus>,
    marks: Arc<Marks>,
    news: mpsc::Sender<News>,
    live: mpsc::Sender<Said>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Herald {
    /// Starts the herald's tasks on the current runtime.
    pub fn start(store: Store, bus: Arc<dyn Bus>) -> Arc<Self> {
        let marks = Arc::new(Marks::default());
        let (news, told) = mpsc::channel(WAITING);
        let (live, heard) = mpsc::channel(WAITING);
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(publish::publish(
            Arc::clone(&bus),
            Arc::clone(&marks),
            told,
            closing.clone(),
        ));
        tasks.spawn(live::speak(Arc::clone(&bus), heard, closing.clone()));
        tasks.spawn(marks::keep(store, Arc::clone(&marks), closing.clone()));
        tasks.close();
        Arc::new(Self {
            bus,
            marks,
            news,
            live,
            tasks,
            closing,
        })
    }

    /// Publishes what was told so far, stores the marks, and stops.
    pub async fn stop(&self) {
        self.closing.cancel();
        self.tasks.wait().await;
    }

    fn tell(&self, row: &RunRow, steps: Vec<Written>) {
        let Some(news) = News::of(row, steps) else {
            return;
        };
        if let Err(full) = self.news.try_send(news) {
            tracing::debug!(run = %row.run, %full, "events are left to the sweep");
        }
    }
}

impl sayso_driver::Herald for Herald {
    fn announce(&self, row: &RunRow, steps: Vec<Written>) {
        self.tell(row, steps);
    }

    fn published(&self, run: &RunId) -> Option<u64> {
        self.marks.published(run)
    }

    fn announce_again(&self, row: &RunRow, published: u64, steps: Vec<Written>) {
        self.marks.reset(&row.run, published);
        self.tell(row, steps);
    }

    /// The wake-up carries the current trace.
    fn wake(&self, namespace: &Namespace, run: &RunId, cause: &'static str) {
        let (bus, key) = (
            Arc::clone(&self.bus),
            WorkKey::new(namespace.as_str(), run.as_str()),
        );
        let headers = propagate::inject_pairs();
        self.tasks.spawn(async move {
            if let Err(error) = bus.wake_with(&key, cause, &headers).await {
                tracing::debug!(%key, %error, "a wake-up was lost; the sweep wakes the run");
            }
        });
    }

    fn trace(&self, span: &tracing::Span, traceparent: &str) {
        propagate::join(span, traceparent);
    }

    fn delta(&self, run: &RunId, cycle: u32, text: Option<&str>) {
        let said = Said {
            run: run.clone(),
            cycle,
            text: text.map(str::to_owned),
        };
        if self.live.try_send(said).is_err() {
            tracing::debug!(%run, "live text is dropped");
        }
    }
}

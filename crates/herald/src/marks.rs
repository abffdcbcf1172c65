//! How far each run's events are known to have gone out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sayso_run::RunId;
use sayso_store::Store;
use tokio_util::sync::CancellationToken;

/// Between two lazy batches.
const EVERY: Duration = Duration::from_millis(250);
/// How long a run's mark is remembered after it last moved.
const REMEMBERED: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Mark {
    /// The last acknowledged step.
    published: u64,
    /// Whether the database may not know it yet.
    dirty: bool,
    moved: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<HashMap<RunId, Mark>>);

impl Marks {
    fn marks(&self) -> MutexGuard<'_, HashMap<RunId, Mark>> {
        self.0
            .lock()
            .expect("no code panics while it holds the marks")
    }

    pub(crate) fn published(&self, run: &RunId) -> Option<u64> {
        self.marks().get(run).map(|mark| mark.published)
    }

    /// The broker acknowledged everything up to this step.
    pub(crate) fn acknowledged(&self, run: &RunId, seq: u64) {
        let mut marks = self.marks();
        let mark = marks.entry(run.clone()).or_insert(Mark {
            published: 0,
            dirty: false,
            moved: Instant::now(),
        });
        if seq > mark.published {
            *mark = Mark {
                published: seq,
                dirty: true,
                moved: Instant::now(),
            };
        }
    }

    /// Nothing after this step is known to have gone out: later ones wait for the sweep.
    pub(crate) fn acknowledged_at_most(&self, run: &RunId, seq: u64) {
        let mut marks = self.marks();
        marks.entry(run.clone()).or_insert(Mark {
            published: seq,
            dirty: false,
            moved: Instant::now(),
        });
    }

    /// What is known is what the database says.
    pub(crate) fn reset(&self, run: &RunId, seq: u64) {
        self.marks().insert(
            run.clone(),
            Mark {
                published: seq,
                dirty: false,
                moved: Instant::now(),
            },
        );
    }

    /// Marks that the database may not know, and forgets those that have rested for long.
    fn take_dirty(&self) -> Vec<(RunId, u64)> {
        let mut marks = self.marks();
        marks.retain(|_, mark| mark.dirty || mark.moved.elapsed() < REMEMBERED);
        let mut dirty = Vec::new();
        for (run, mark) in marks.iter_mut().filter(|(_, mark)| mark.dirty) {
            mark.dirty = false;
            dirty.push((run.clone(), mark.published));
        }
        dirty.sort();
        dirty
    }

    fn still_dirty(&self, runs: &[(RunId, u64)]) {
        let mut marks = self.marks();
        for (run, _) in runs {
            if let Some(mark) = marks.get_mut(run) {
                mark.dirty = true;
            }
        }
    }
}

/// Stores marks in lazy batches until `closing`, and once more then.
pub(crate) async fn keep(store: Store, marks: Arc<Marks>, closing: CancellationToken) {
    let mut last = false;
    while !last {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = closing.cancelled() => last = true,
        }
        let dirty = marks.take_dirty();
        if dirty.is_empty() {
            continue;
        }
        if let Err(error) = store.mark_published(dirty.clone()).await {
            marks.still_dirty(&dirty);
            tracing::debug!(%error, "published marks could not be stored; they are tried again");
        }
    }
}

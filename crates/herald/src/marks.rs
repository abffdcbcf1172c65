//! How far each run's events are known to have gone out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sayso_run::RunId;
use sayso_store::Store;
use tokio_util::sync::CancellationToken;

/// Between two lazy batches.
const EVERY: Duration = Duration::from_millis(250);
/// How long a run's mark is remembered after it last moved: most runs that come to rest have a mark
/// that nobody needs any more, since the database knows it.
const REMEMBERED: Duration = Duration::from_secs(1);
/// How long, where a step could not be published: later ones must not overtake it.
const HELD_BACK: Duration = Duration::from_secs(30);
/// The table of marks is made smaller when it could hold so many times of what it holds.
const TOO_LARGE: usize = 4;
/// A table of so many marks is never too large.
const SMALL: usize = 1024;

#[derive(Debug)]
struct Mark {
    /// The last acknowledged step.
    published: u64,
    /// Whether the database may not know it yet.
    dirty: bool,
    /// Whether a step after it could not be published.
    holds_back: bool,
    moved: Instant,
}

impl Mark {
    fn new(published: u64) -> Self {
        Self {
            published,
            dirty: false,
            holds_back: false,
            moved: Instant::now(),
        }
    }

    fn is_needed(&self) -> bool {
        let remembered = if self.holds_back {
            HELD_BACK
        } else {
            REMEMBERED
        };
        self.dirty || self.moved.elapsed() < remembered
    }
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
        let mark = marks.entry(run.clone()).or_insert_with(|| Mark::new(0));
        if seq > mark.published {
            *mark = Mark {
                dirty: true,
                ..Mark::new(seq)
            };
        }
    }

    /// Nothing after this step is known to have gone out: later ones wait for the sweep.
    pub(crate) fn acknowledged_at_most(&self, run: &RunId, seq: u64) {
        let mut marks = self.marks();
        let mark = marks.entry(run.clone()).or_insert_with(|| Mark::new(seq));
        mark.holds_back = true;
    }

    /// What is known is what the database says.
    pub(crate) fn reset(&self, run: &RunId, seq: u64) {
        self.marks().insert(run.clone(), Mark::new(seq));
    }

    /// Marks that the database may not know, and forgets those that have rested for long.
    fn take_dirty(&self) -> Vec<(RunId, u64)> {
        let mut marks = self.marks();
        marks.retain(|_, mark| mark.is_needed());
        let fits = (marks.len() * 2).max(SMALL);
        if marks.capacity() > fits * TOO_LARGE / 2 {
            marks.shrink_to(fits);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that rests costs no memory: neither its mark stays nor the room for it.
    #[test]
    fn marks_of_runs_at_rest_are_forgotten_with_their_room() {
        let marks = Marks::default();
        for number in 0..100_000 {
            marks.acknowledged(&RunId::new(format!("run_{number}")).unwrap(), 7);
        }
        let held = RunId::new("run_held").unwrap();
        marks.acknowledged_at_most(&held, 3);
        assert_eq!(marks.take_dirty().len(), 100_000);
        for mark in marks.marks().values_mut() {
            mark.moved -= REMEMBERED;
        }
        assert_eq!(marks.take_dirty(), []);
        assert_eq!(marks.marks().len(), 1);
        assert!(marks.marks().capacity() < 4 * SMALL);
        assert_eq!(marks.published(&held), Some(3), "a later step must wait");
    }
}

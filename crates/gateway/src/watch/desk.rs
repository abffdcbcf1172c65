//! Who watches which run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sayso_run::RunId;
use sayso_wire::events::{Live, Told};
use tokio::sync::mpsc;

/// How many messages wait for one watcher before it has to read for itself.
const MAILBOX: usize = 256;

/// What a watcher is told of its run.
#[derive(Debug, Clone)]
pub(super) enum News {
    /// A step was recorded; told, if the event was small enough to say it.
    Step { seq: u64, told: Option<Arc<Told>> },
    /// More provisional text, or its withdrawal.
    Text(Arc<Live>),
    /// Provisional text may have been lost.
    TextLost,
    /// There may be steps that nobody told of.
    Look,
}

/// The watched runs.
#[derive(Default)]
pub(super) struct Desk {
    runs: Mutex<HashMap<String, Watched>>,
    last_id: AtomicU64,
}

struct Watched {
    /// The highest number that all its watchers were told of or could read.
    told: u64,
    places: Vec<Place>,
}

struct Place {
    id: u64,
    mailbox: mpsc::Sender<News>,
    missed: Arc<AtomicBool>,
}

impl Place {
    fn send(&self, news: News) {
        // Closed means that the watcher is just leaving: it misses nothing.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.mailbox.try_send(news) {
            self.missed.store(true, Ordering::Relaxed);
        }
    }
}

impl Desk {
    /// Takes a place: from now on everything about the run is told.
    pub(super) fn watch(self: &Arc<Desk>, run: &RunId) -> Seat {
        let (mailbox, inbox) = mpsc::channel(MAILBOX);
        let missed = Arc::new(AtomicBool::new(false));
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            id,
            mailbox,
            missed: Arc::clone(&missed),
        };
        let mut runs = self.lock();
        let watched = runs.entry(run.as_str().to_owned());
        let watched = watched.or_insert_with(|| Watched {
            told: 0,
            places: Vec::with_capacity(1),
        });
        watched.places.push(place);
        Seat {
            desk: Arc::clone(self),
            run: run.clone(),
            id,
            inbox,
            missed,
        }
    }

    pub(super) fn watchers(&self) -> usize {
        self.lock()
            .values()
            .map(|watched| watched.places.len())
            .sum()
    }

    /// Whether anybody still has to be told of this step of this run. One that was told before was
    /// told to everyone who was here then, and is in what the others read when they came.
    pub(super) fn awaits(&self, run: &str, seq: u64) -> bool {
        self.lock()
            .get(run)
            .is_some_and(|watched| watched.told < seq)
    }

    pub(super) fn is_watched(&self, run: &str) -> bool {
        self.lock().contains_key(run)
    }

    pub(super) fn tell_step(&self, run: &str, seq: u64, told: Option<Told>) {
        if let Some(watched) = self.lock().get_mut(run) {
            watched.told = watched.told.max(seq);
            let told = told.map(Arc::new);
            tell(&watched.places, News::Step { seq, told });
        }
    }

    pub(super) fn tell_text(&self, run: &str, live: Live) {
        if let Some(watched) = self.lock().get(run) {
            tell(&watched.places, News::Text(Arc::new(live)));
        }
    }

    pub(super) fn tell_everyone_of_lost_text(&self) {
        for watched in self.lock().values() {
            tell(&watched.places, News::TextLost);
        }
    }

    /// The watched runs.
    pub(super) fn watched(&self) -> Vec<RunId> {
        let runs = self.lock();
        runs.keys().filter_map(|run| RunId::new(run).ok()).collect()
    }

    /// Tells the watchers of a run to look, if it has more steps than they were told of.
    pub(super) fn tell_head(&self, run: &RunId, seq: u64) {
        if let Some(watched) = self.lock().get_mut(run.as_str())
            && watched.told < seq
        {
            watched.told = seq;
            tell(&watched.places, News::Look);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watched>> {
        // Every change under this lock leaves the table whole.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last one gets the message itself, so that a single watcher never shares it.
fn tell(places: &[Place], news: News) {
    if let Some((last, others)) = places.split_last() {
        for place in others {
            place.send(news.clone());
        }
        last.send(news);
    }
}

/// A watcher's place. Leaves the desk when dropped.
pub(super) struct Seat {
    desk: Arc<Desk>,
    run: RunId,
    id: u64,
    inbox: mpsc::Receiver<News>,
    missed: Arc<AtomicBool>,
}

/// What a watcher finds at its place.
pub(super) enum Found {
    /// News.
    News(News),
    /// Its mailbox overflowed: some news were lost.
    Missed,
}

impl Seat {
    /// The next news. What was lost is said once all that was kept has been read.
    pub(super) async fn next(&mut self) -> Found {
        match self.inbox.try_recv() {
            Ok(news) => Found::News(news),
            Err(_) if self.missed.swap(false, Ordering::Relaxed) => Found::Missed,
            Err(_) => match self.inbox.recv().await {
                Some(news) => Found::News(news),
                // The sender is in the table for as long as this place is.
                None => std::future::pending().await,
            },
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut runs = self.desk.lock();
        if let Some(watched) = runs.get_mut(self.run.as_str()) {
            watched.places.retain(|place| place.id != self.id);
            if watched.places.is_empty() {
                runs.remove(self.run.as_str());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str) -> RunId {
        RunId::new(id).unwrap()
    }

    /// S2.4: nothing waits for a slow watcher, and it is told that it missed something once it has
    /// read what was kept.
    #[tokio::test]
    async fn s2_4_a_slow_watcher_is_told_that_it_missed_something() {
        let desk = Arc::new(Desk::default());
        let mut slow = desk.watch(&run("run_1"));
        let extra = 50;
        for seq in 1..=(MAILBOX as u64 + extra) {
            assert!(desk.awaits("run_1", seq));
            desk.tell_step("run_1", seq, None);
        }
        for expected in 1..=MAILBOX as u64 {
            match slow.next().await {
                Found::News(News::Step { seq, .. }) => assert_eq!(seq, expected),
                Found::News(_) | Found::Missed => panic!("step {expected} was kept"),
            }
        }
        assert!(matches!(slow.next().await, Found::Missed));
        desk.tell_head(&run("run_1"), MAILBOX as u64 + extra + 1);
        assert!(matches!(slow.next().await, Found::News(News::Look)));
    }

    #[tokio::test]
    async fn only_what_is_watched_and_was_not_told_is_awaited() {
        let desk = Arc::new(Desk::default());
        let one = desk.watch(&run("run_1"));
        let two = desk.watch(&run("run_1"));
        assert!(desk.awaits("run_1", 1) && !desk.awaits("run_2", 1));
        desk.tell_step("run_1", 3, None);
        assert!(!desk.awaits("run_1", 3) && desk.awaits("run_1", 4));
        assert_eq!((desk.watchers(), desk.watched().len()), (2, 1));
        drop(one);
        assert!(desk.is_watched("run_1"));
        drop(two);
        assert!(!desk.is_watched("run_1"));
        assert_eq!(desk.watchers(), 0);
    }
}

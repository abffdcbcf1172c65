//! The sweeps. Each looks for something that could be forgotten and ends in an append or a publish
//! that does no harm if it comes twice.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use sayso_driver::{Decided, Herald, LoadError, WriteError, Wrote, write, write_for_lost};
use sayso_run::{Actor, ChainKey, Input, Refusal, RunId, RunState, Timestamp, WorkerId};
use sayso_store::Worker;

use crate::config::SweepConfig;
use crate::watched::Watched;

/// Runs looked at in one sweep; the rest come with the next.
const BATCH: u32 = 500;

/// What this process has seen of each worker: the counter, and since when it has not changed, by
/// the time since the process began.
#[derive(Debug, Default)]
struct Watch {
    seen: HashMap<WorkerId, (u64, Duration)>,
    last_look: Option<Duration>,
}

impl Watch {
    /// The workers that have been silent for `silence`, by this process's monotonic clock. If this
    /// process itself did not look for a while (it was frozen, or the database was away), everyone
    /// is given the whole time again.
    fn silent(
        &mut self,
        workers: &[Worker],
        now: Duration,
        silence: Duration,
    ) -> Vec<(WorkerId, u64)> {
        let gap = self
            .last_look
            .is_some_and(|last| now.saturating_sub(last) > silence / 2);
        self.last_look = Some(now);
        if gap {
            self.seen.clear();
        }
        self.seen
            .retain(|id, _| workers.iter().any(|worker| worker.id == *id));
        let mut silent = Vec::new();
        for worker in workers {
            let (counter, since) = self
                .seen
                .entry(worker.id.clone())
                .or_insert((worker.counter, now));
            if *counter != worker.counter {
                (*counter, *since) = (worker.counter, now);
            } else if now.saturating_sub(*since) >= silence {
                silent.push((worker.id.clone(), worker.counter));
            }
        }
        silent
    }

    /// A query failed: what was seen before says nothing any more.
    fn forget(&mut self) {
        self.seen.clear();
        self.last_look = None;
    }
}

/// One process's sweeps, with what it has seen of the workers so far.
#[derive(Debug)]
pub struct Sweeper<'a, J, H> {
    journal: &'a J,
    herald: &'a H,
    key: &'a ChainKey,
    config: &'a SweepConfig,
    watch: Watch,
}

impl<'a, J: Watched, H: Herald> Sweeper<'a, J, H> {
    /// A sweeper that has seen nothing yet.
    pub fn new(journal: &'a J, herald: &'a H, key: &'a ChainKey, config: &'a SweepConfig) -> Self {
        Self {
            journal,
            herald,
            key,
            config,
            watch: Watch::default(),
        }
    }

    /// Every sweep once. `elapsed` is this process's monotonic clock.
    pub async fn round(&mut self, elapsed: impl Fn() -> Duration + Send) {
        if let Err(error) = self.bury(elapsed).await {
            self.watch.forget();
            tracing::warn!(%error, "workers cannot be watched");
            return;
        }
        report("ready runs", self.wake_ready().await);
        report("expired approvals", self.expire().await);
        report("unpublished events", self.publish().await);
        report("runs without a worker", self.reap().await);
        report("calls of ended runs", self.give_up().await);
        report("ends of children", self.wake_parents().await);
        report("runs whose parent ended", self.cancel_parentless().await);
        report("late ends of children", self.record_late_ends().await);
    }

    /// Marks silent workers dead, and makes the runs of dead workers ready.
    async fn bury(&mut self, elapsed: impl Fn() -> Duration + Send) -> Result<(), J::Error> {
        let workers = self.journal.live_workers().await?;
        let silence = self.config.worker_silence;
        for (worker, counter) in self.watch.silent(&workers, elapsed(), silence) {
            if self.journal.mark_dead(&worker, counter).await? {
                tracing::warn!(%worker, "the worker was silent for too long and is marked dead");
            }
        }
        for run in self.journal.orphans(BATCH).await? {
            self.herald.wake(&run.namespace, &run.run, "worker_lost");
        }
        Ok(())
    }

    /// Wakes runs that have been ready for too long: their wake-up was lost (S1.1).
    async fn wake_ready(&self) -> Result<(), J::Error> {
        #[cfg(feature = "hooks")]
        if sayso_run::hooks::planted(sayso_run::hooks::Fault::NoSweep) {
            return Ok(());
        }
        for run in self.journal.ready(self.config.ready_age, BATCH).await? {
            self.herald.wake(&run.namespace, &run.run, "ready");
        }
        Ok(())
    }

    /// Approvals that nobody decided in time count as denied, by the database's clock (S6.8).
    async fn expire(&self) -> Result<(), J::Error> {
        let due = self.journal.expired(BATCH).await?;
        if due.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.journal.catch_up().await {
            report("expired approvals", Err(error));
            return Ok(());
        }
        for run in due {
            let decide = |state: &RunState, now: Timestamp| {
                Ok(Decided {
                    steps: state.decide(Input::Tick, now)?,
                    not_after: None,
                })
            };
            self.append(&run.run, decide).await;
        }
        Ok(())
    }

    /// Publishes events that the broker has not acknowledged, where the mark lags.
    async fn publish(&self) -> Result<(), J::Error> {
        let lag = self.config.publish_lag;
        for run in self.journal.unpublished(lag, BATCH).await? {
            match self.journal.load(&run.run).await {
                Ok(Some(loaded)) => {
                    let row = sayso_driver::run_row(&loaded.state);
                    let published = loaded.lease.published;
                    self.herald
                        .announce_again(&row, published, loaded.unpublished);
                }
                Ok(None) => {}
                Err(error @ LoadError::Unavailable(_)) => {
                    tracing::warn!(run = %run.run, %error, "its events are published later");
                }
                Err(error) => {
                    tracing::error!(run = %run.run, %error, "its events cannot be published");
                }
            }
        }
        Ok(())
    }

    /// Fails runs that have been `running` without a live worker for too long (S4.5).
    async fn reap(&self) -> Result<(), J::Error> {
        let after = self.config.reap_after;
        let reaper = WorkerId::new("reaper").expect("the word is a valid id");
        for run in self.journal.abandoned(after, BATCH).await? {
            let minutes = after.as_secs() / 60;
            let decide = |state: &RunState, now: Timestamp| {
                let worker = reaper.clone();
                let message = format!(
                    "the worker was interrupted and none went on for {minutes} minutes; the run can be retried"
                );
                Ok(Decided {
                    steps: state.decide(Input::Reap { worker, message }, now)?,
                    not_after: None,
                })
            };
            // A worker may have taken the run up since it was looked for: then it is not reaped.
            let reaping = write_for_lost(
                self.journal,
                self.herald,
                self.key,
                &run.run,
                &reaper,
                decide,
            );
            settled(&run.run, reaping.await);
        }
        Ok(())
    }

    /// Says of calls of ended runs whose worker was lost that their outcome is unknown (S4.5).
    async fn give_up(&self) -> Result<(), J::Error> {
        let reaper = WorkerId::new("reaper").expect("the word is a valid id");
        for run in self.journal.lost(BATCH).await? {
            let decide = |state: &RunState, now: Timestamp| {
                Ok(Decided {
                    steps: state.decide(Input::Lost, now)?,
                    not_after: None,
                })
            };
            let (journal, herald) = (self.journal, self.herald);
            let giving_up = write_for_lost(journal, herald, self.key, &run.run, &reaper, decide);
            settled(&run.run, giving_up.await);
        }
        Ok(())
    }

    /// Wakes parents whose child has ended: their wake-up was lost (S3.6).
    async fn wake_parents(&self) -> Result<(), J::Error> {
        for run in self.journal.waiting_parents(BATCH).await? {
            self.herald.wake(&run.namespace, &run.run, "child ended");
        }
        Ok(())
    }

    /// Cancels runs for which nobody waits any more, since the run that started them has ended (S1.4).
    async fn cancel_parentless(&self) -> Result<(), J::Error> {
        for run in self.journal.parentless(BATCH).await? {
            match self.ender_of_parent(&run.run).await {
                Ok(by) => {
                    let decide = |state: &RunState, now: Timestamp| {
                        let by = by.clone();
                        Ok(Decided {
                            steps: state.decide(Input::ParentEnded { by }, now)?,
                            not_after: None,
                        })
                    };
                    self.append(&run.run, decide).await;
                }
                Err(error) => tracing::warn!(run = %run.run, %error, "it is cancelled later"),
            }
        }
        Ok(())
    }

    /// Whoever cancelled the run that started this one, or the system if it ended otherwise.
    async fn ender_of_parent(&self, run: &RunId) -> Result<Actor, LoadError> {
        let child = self.journal.load(run).await?;
        let parent = child.and_then(|child| {
            let parent = child.state.trigger().parent.as_ref()?;
            Some(parent.run.clone())
        });
        let Some(parent) = parent else {
            return Ok(Actor::System);
        };
        let parent = self.journal.load(&parent).await?;
        let by = parent.and_then(|parent| parent.state.cancelled_by().cloned());
        Ok(by.unwrap_or(Actor::System))
    }

    /// Records ends of children on parents that have ended before them (S1.4).
    async fn record_late_ends(&self) -> Result<(), J::Error> {
        for run in self.journal.late_parents(BATCH).await? {
            let ends = match self.journal.ended_children(&run.run).await {
                Ok(ends) => ends,
                Err(error) => {
                    tracing::warn!(run = %run.run, %error, "its children's ends are recorded later");
                    continue;
                }
            };
            for end in ends {
                let decide = |state: &RunState, now: Timestamp| {
                    Ok(Decided {
                        steps: state.decide(Input::ChildEnded(end.clone()), now)?,
                        not_after: None,
                    })
                };
                self.append(&run.run, decide).await;
            }
        }
        Ok(())
    }

    async fn append(
        &self,
        run: &RunId,
        decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
    ) {
        let writing = write(self.journal, self.herald, self.key, run, decide);
        settled(run, writing.await);
    }
}

fn settled(run: &RunId, written: Result<Wrote, WriteError>) {
    match written {
        // If it is refused, the run has moved on meanwhile.
        Ok(_) | Err(WriteError::Refused(_)) => {}
        Err(error) => {
            tracing::warn!(%run, %error, "a sweep could not settle it; it comes again");
        }
    }
}

fn report<E: Display>(what: &str, swept: Result<(), E>) {
    if let Err(error) = swept {
        tracing::warn!(%error, "the sweep for {what} failed; it comes again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(id: &str, counter: u64) -> Worker {
        let at = Timestamp::from_micros(0);
        Worker {
            id: WorkerId::new(id).unwrap(),
            name: id.into(),
            counter,
            started_at: at,
            renewed_at: at,
        }
    }

    const SILENCE: Duration = Duration::from_secs(3);

    /// S4.5: a worker is dead after one renewal was seen unchanged for the whole time.
    #[test]
    fn a_silent_worker_is_found_after_the_whole_time() {
        let (mut watch, start) = (Watch::default(), Duration::from_secs(7));
        for step in 0..12u32 {
            let now = start + Duration::from_millis(250) * step;
            let silent = watch.silent(
                &[worker("a", 7), worker("b", u64::from(step))],
                now,
                SILENCE,
            );
            assert!(silent.is_empty(), "at step {step}");
        }
        let silent = watch.silent(&[worker("a", 7), worker("b", 99)], start + SILENCE, SILENCE);
        assert_eq!(silent, vec![(WorkerId::new("a").unwrap(), 7)]);
    }

    /// A sweeper that was frozen itself cannot tell who was silent.
    #[test]
    fn a_gap_in_the_watch_starts_the_time_again() {
        let (mut watch, start) = (Watch::default(), Duration::from_secs(7));
        watch.silent(&[worker("a", 7)], start, SILENCE);
        let later = start + Duration::from_secs(60);
        assert!(watch.silent(&[worker("a", 7)], later, SILENCE).is_empty());
        for step in 1..12u32 {
            let now = later + Duration::from_millis(250) * step;
            assert!(watch.silent(&[worker("a", 7)], now, SILENCE).is_empty());
        }
        assert_eq!(
            watch
                .silent(&[worker("a", 7)], later + SILENCE, SILENCE)
                .len(),
            1
        );
    }

    #[test]
    fn a_failed_query_starts_the_time_again() {
        let (mut watch, start) = (Watch::default(), Duration::from_secs(7));
        watch.silent(&[worker("a", 7)], start, SILENCE);
        watch.forget();
        assert!(
            watch
                .silent(&[worker("a", 7)], start + SILENCE, SILENCE)
                .is_empty()
        );
    }
}

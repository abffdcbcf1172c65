//! The sweeps. Each looks for something that could be forgotten and ends in an append or a publish
//! that does no harm if it comes twice.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sayso_driver::{Decided, Journal, WriteError, write};
use sayso_run::{Actor, Input, Refusal, RunId, RunState, Timestamp, WorkerId};
use sayso_store::{DatabaseError, NearCap, NewAuditEntry, Worker};

use crate::{Scheduler, ticks};

/// Runs looked at in one sweep; the rest come with the next.
const BATCH: u32 = 500;

/// What this process has seen of each worker: the counter, and since when it has not changed.
#[derive(Debug, Default)]
struct Watch {
    seen: HashMap<WorkerId, (u64, Instant)>,
    last_look: Option<Instant>,
}

impl Watch {
    /// The workers that have been silent for `silence`, by this process's monotonic clock. If this
    /// process itself did not look for a while (it was frozen, or the database was away), everyone
    /// is given the whole time again.
    fn silent(
        &mut self,
        workers: &[Worker],
        now: Instant,
        silence: Duration,
    ) -> Vec<(WorkerId, u64)> {
        let gap = self
            .last_look
            .is_some_and(|last| now.duration_since(last) > silence / 2);
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
            } else if now.duration_since(*since) >= silence {
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

/// Sweeps for ever.
pub(crate) async fn sweep(scheduler: &Scheduler) {
    let mut watch = Watch::default();
    let mut ticks = tokio::time::interval(scheduler.config.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = bury(scheduler, &mut watch).await {
            watch.forget();
            tracing::warn!(%error, "workers cannot be watched");
            continue;
        }
        report("due schedules", ticks::start_due(scheduler).await);
        report("ready runs", wake_ready(scheduler).await);
        report("budgets", announce(scheduler).await);
        report("expired approvals", expire(scheduler).await);
        report("unpublished events", publish(scheduler).await);
        report("runs without a worker", reap(scheduler).await);
    }
}

fn report(what: &str, swept: Result<(), DatabaseError>) {
    if let Err(error) = swept {
        tracing::warn!(%error, "the sweep for {what} failed; it comes again");
    }
}

/// Marks silent workers dead, and makes the runs of dead workers ready.
async fn bury(scheduler: &Scheduler, watch: &mut Watch) -> Result<(), DatabaseError> {
    let workers = scheduler.store.workers().live().await?;
    for (worker, counter) in watch.silent(&workers, Instant::now(), scheduler.config.worker_silence)
    {
        if scheduler
            .store
            .workers()
            .mark_dead(&worker, counter)
            .await?
        {
            tracing::warn!(%worker, "the worker was silent for too long and is marked dead");
        }
    }
    let freed = scheduler.store.sweep().orphans(BATCH).await?;
    for run in &freed {
        scheduler
            .herald
            .wake_run(&run.namespace, &run.run, "worker_lost");
    }
    Ok(())
}

/// Says once a month that a namespace has spent most of its cap (S4.6): in its audit log and in the
/// log of this process.
async fn announce(scheduler: &Scheduler) -> Result<(), DatabaseError> {
    for near in scheduler
        .store
        .budgets()
        .take_near(scheduler.store.now())
        .await?
    {
        let NearCap {
            namespace,
            cap,
            spent,
        } = near;
        tracing::warn!(%namespace, %spent, %cap, "most of the monthly budget is spent");
        let entry = NewAuditEntry {
            actor: Actor::System,
            kind: "budget.near".to_owned(),
            content: serde_json::json!({
                "subject": namespace.as_str(),
                "details": { "cap": cap.to_string(), "spent": spent.to_string() },
            }),
        };
        let written = scheduler
            .store
            .audit()
            .append(&namespace, &entry, &scheduler.key)
            .await;
        if let Err(error) = written {
            tracing::warn!(%namespace, %error, "that it is near its cap could not be written down");
        }
    }
    Ok(())
}

/// Wakes runs that have been ready for too long: their wake-up was lost (S1.1).
async fn wake_ready(scheduler: &Scheduler) -> Result<(), DatabaseError> {
    for run in scheduler
        .store
        .sweep()
        .ready(scheduler.config.ready_age, BATCH)
        .await?
    {
        scheduler.herald.wake_run(&run.namespace, &run.run, "ready");
    }
    Ok(())
}

/// Approvals that nobody decided in time count as denied, by the database's clock (S6.8).
async fn expire(scheduler: &Scheduler) -> Result<(), DatabaseError> {
    let due = scheduler.store.sweep().expired(BATCH).await?;
    if due.is_empty() {
        return Ok(());
    }
    scheduler.store.sync_clock().await?;
    for run in due {
        let decide = |state: &RunState, now: Timestamp| {
            Ok(Decided {
                steps: state.decide(Input::Tick, now)?,
                not_after: None,
            })
        };
        settled(&run.run, append(scheduler, &run.run, decide).await);
    }
    Ok(())
}

/// Publishes events that the broker has not acknowledged, where the mark lags.
async fn publish(scheduler: &Scheduler) -> Result<(), DatabaseError> {
    for run in scheduler
        .store
        .sweep()
        .unpublished(scheduler.config.publish_lag, BATCH)
        .await?
    {
        match scheduler.store.load(&run.run).await {
            Ok(Some(loaded)) => {
                let row = sayso_driver::run_row(&loaded.state);
                scheduler
                    .herald
                    .announce_again(&row, loaded.lease.published, loaded.unpublished);
            }
            Ok(None) => {}
            Err(error) => tracing::error!(run = %run.run, %error, "its events cannot be published"),
        }
    }
    Ok(())
}

/// Fails runs that have been `running` without a live worker for too long (S4.5).
async fn reap(scheduler: &Scheduler) -> Result<(), DatabaseError> {
    for run in scheduler
        .store
        .sweep()
        .abandoned(scheduler.config.reap_after, BATCH)
        .await?
    {
        let minutes = scheduler.config.reap_after.as_secs() / 60;
        let decide = |state: &RunState, now: Timestamp| {
            let message = format!(
                "the worker was interrupted and none went on for {minutes} minutes; the run can be retried"
            );
            let worker = WorkerId::new("reaper").expect("the word is a valid id");
            Ok(Decided {
                steps: state.decide(Input::Reap { worker, message }, now)?,
                not_after: None,
            })
        };
        settled(&run.run, append(scheduler, &run.run, decide).await);
    }
    Ok(())
}

async fn append(
    scheduler: &Scheduler,
    run: &RunId,
    decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
) -> Result<(), WriteError> {
    write(
        &scheduler.store,
        &*scheduler.herald,
        &scheduler.key,
        run,
        decide,
    )
    .await
    .map(|_| ())
}

fn settled(run: &RunId, written: Result<(), WriteError>) {
    match written {
        // The run has moved on meanwhile.
        Ok(()) | Err(WriteError::Refused(_)) => {}
        Err(error) => tracing::warn!(%run, %error, "a sweep could not settle it; it comes again"),
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
        let (mut watch, start) = (Watch::default(), Instant::now());
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
        let (mut watch, start) = (Watch::default(), Instant::now());
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
        let (mut watch, start) = (Watch::default(), Instant::now());
        watch.silent(&[worker("a", 7)], start, SILENCE);
        watch.forget();
        assert!(
            watch
                .silent(&[worker("a", 7)], start + SILENCE, SILENCE)
                .is_empty()
        );
    }
}

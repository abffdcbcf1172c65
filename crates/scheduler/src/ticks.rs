//! Ticks: starts the runs of schedules that are due (S8.5).
//!
//! Every scheduler looks; whoever appends first has the tick, since the schedule moves on in the
//! transaction that starts the run. A schedule that was due while nobody looked starts one run for
//! all of its missed ticks, which says how many they were, and goes on with the first one to come.

use futures::StreamExt;
use sayso_driver::{AppendError, TakenTick, WriteError};
use sayso_engine::{NewRun, StartOrigin, admit, new_ids};
use sayso_run::{Timestamp, Trust};
use sayso_store::{DatabaseError, DueSchedule};

use crate::Scheduler;

/// Schedules looked at in one sweep; the rest come with the next.
const BATCH: u32 = 500;
/// Starts at once: they share commits.
const AT_ONCE: usize = 64;
/// Missed ticks that are counted one by one; beyond that the count stands at this.
const MAX_COUNTED: u32 = 100_000;

/// Starts a run for each schedule that is due.
pub(crate) async fn start_due(scheduler: &Scheduler) -> Result<(), DatabaseError> {
    let due = scheduler.store.schedules().due(BATCH).await?;
    if due.is_empty() {
        return Ok(());
    }
    let now = scheduler.store.sync_clock().await?;
    let starts = futures::stream::iter(due);
    starts
        .for_each_concurrent(AT_ONCE, |due| start(scheduler, due, now))
        .await;
    Ok(())
}

async fn start(scheduler: &Scheduler, due: DueSchedule, now: Timestamp) {
    let id = due.schedule.id.clone();
    let taken = match take(&due, now) {
        Ok(taken) => taken,
        Err(error) => {
            tracing::error!(schedule = id, %error, "the schedule cannot be read");
            return;
        }
    };
    let DueSchedule { schedule, revision } = due;
    let new = NewRun {
        ids: new_ids(),
        namespace: schedule.namespace,
        agent: schedule.agent,
        revision,
        principal: schedule.changed_by,
        trust: Trust::Trusted,
        input: schedule.input,
        origin: StartOrigin::Schedule(format!("{} {}", schedule.cron, schedule.timezone), taken),
        idempotency_key: None,
        traceparent: sayso_service::telemetry::propagate::traceparent(),
    };
    let (store, herald, key) = scheduler.pen();
    match admit(store, herald, key, new).await {
        Ok(outcome) => tracing::info!(schedule = id, run = %outcome.run, "a tick started a run"),
        // Another scheduler was first, or a deploy has changed the schedule.
        Err(WriteError::Append(AppendError::Conflict(_))) => {}
        Err(error) => {
            tracing::warn!(schedule = id, %error, "a tick could not start its run; it comes again");
        }
    }
}

/// The tick that is due, and where the schedule stands after it: at the first tick that is still to
/// come.
fn take(due: &DueSchedule, now: Timestamp) -> Result<TakenTick, DatabaseError> {
    let schedule = due.schedule.schedule()?;
    let next_after = |at: i64| schedule.next_after(at).unwrap_or(i64::MAX);
    let due_at = due.schedule.next_at;
    let (mut next, mut skipped) = (next_after(due_at.micros()), 0);
    while next <= now.micros() && skipped < MAX_COUNTED {
        next = next_after(next);
        skipped += 1;
    }
    if next <= now.micros() {
        next = next_after(now.micros());
    }
    Ok(TakenTick {
        schedule: due.schedule.id.clone(),
        due_at,
        next_at: Timestamp::from_micros(next),
        skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sayso_run::{AgentName, Namespace, PrincipalId, RevisionId};
    use sayso_store::ScheduleRow;

    const MINUTE: i64 = 60_000_000;

    fn due(cron: &str, next_at: i64) -> DueSchedule {
        DueSchedule {
            schedule: ScheduleRow {
                id: "sch_1".into(),
                namespace: Namespace::new("shop").unwrap(),
                agent: AgentName::new("desk").unwrap(),
                cron: cron.into(),
                timezone: "UTC".into(),
                input: "x".into(),
                changed_by: PrincipalId::new("ann").unwrap(),
                next_at: Timestamp::from_micros(next_at),
                last_at: None,
                skipped: 0,
            },
            revision: RevisionId::new("a".repeat(64)).unwrap(),
        }
    }

    fn taken(cron: &str, next_at: i64, now: i64) -> (i64, u32) {
        let taken = take(&due(cron, next_at), Timestamp::from_micros(now)).unwrap();
        assert_eq!(taken.due_at.micros(), next_at);
        (taken.next_at.micros(), taken.skipped)
    }

    /// B56: at most one catch-up run, and the skipped ticks are counted.
    #[test]
    fn b56_missed_ticks_are_one_tick_and_a_count() {
        let five = 5 * MINUTE;
        assert_eq!(taken("*/5 * * * *", five, five), (2 * five, 0));
        assert_eq!(taken("*/5 * * * *", five, 2 * five - 1), (2 * five, 0));
        assert_eq!(taken("*/5 * * * *", five, 2 * five), (3 * five, 1));
        let six_hours = 6 * 60 * MINUTE;
        let (next, skipped) = taken("*/5 * * * *", five, five + six_hours);
        assert_eq!((next, skipped), (five + six_hours + five, 72));
    }

    /// A schedule that rested for years is not counted to the end.
    #[test]
    fn a_count_of_missed_ticks_ends() {
        let year = 366 * 24 * 60 * MINUTE;
        let (next, skipped) = taken("* * * * *", MINUTE, year + 1);
        assert_eq!((next, skipped), (year + MINUTE, MAX_COUNTED));
    }
}

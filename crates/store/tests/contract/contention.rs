//! Many writers at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sayso_driver::{AppendError, Journal};
use sayso_run::RunState;
use sayso_store::testing::TestDatabase;
use sayso_store::{Heartbeat, Kind};

use crate::raw::Raw;
use crate::subject::{Ledger, Subject};
use crate::timeline::Timeline;
use crate::{on_all_databases, on_both_databases};

on_all_databases!(
    every_accepted_step_is_there_once_and_without_gaps,
    overlapping_groups_of_two_processes_do_not_fail,
);

/// What takes locks.
mod locks {
    use super::*;

    on_both_databases!(
        a_locked_row_delays_only_as_long_as_it_is_held,
        a_deadline_that_passes_while_waiting_for_the_row_is_too_late,
        a_heartbeat_keeps_up_beside_a_busy_journal,
    );
}

/// Appends `text` to a run that others write to as well, however often it takes.
async fn insist(store: &impl Journal, run: &Timeline, text: &str) {
    loop {
        let loaded = store.load(run.run()).await.unwrap().unwrap();
        let mut seen = run.clone();
        seen.head = *loaded.state.head();
        seen.row.seq = seen.head.seq;
        match store.append(seen.say(store.now(), text)).await {
            Ok(_) => return,
            Err(AppendError::Conflict(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn every_accepted_step_is_there_once_and_without_gaps(db: &impl Subject) {
    const TASKS: usize = 64;
    const OWN: u64 = 10;
    let stores = [db.store().await, db.store().await];
    let mut shared = Vec::new();
    for n in 0..4 {
        shared.push(Timeline::started(&format!("shared{n}"), &stores[0]).await);
    }
    let shared = Arc::new(shared);
    let tasks: Vec<_> = (0..TASKS)
        .map(|n| {
            let store = stores[n % 2].clone();
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let mut own = Timeline::started(&format!("own{n}"), &store).await;
                for step in 0..OWN {
                    let append = own.say(store.now(), &format!("{n}-{step}"));
                    own.write(&store, append).await.unwrap();
                }
                for run in shared.iter() {
                    insist(&store, run, &format!("by {n}")).await;
                }
                own
            })
        })
        .collect();
    for task in tasks {
        let own = task.await.unwrap();
        let loaded = stores[0].load(own.run()).await.unwrap().unwrap();
        assert_eq!(loaded.state.head(), &own.head);
        assert_eq!(loaded.state.seq(), 1 + OWN);
    }
    for run in shared.iter() {
        let steps = stores[1].steps(run.run()).await;
        let seqs: Vec<u64> = steps.iter().map(|step| step.seq).collect();
        assert_eq!(seqs, (1..=65).collect::<Vec<u64>>());
        let mut said: Vec<&str> = steps
            .iter()
            .skip(1)
            .map(|step| step.content.as_str())
            .collect();
        said.sort_unstable();
        said.dedup();
        assert_eq!(
            said.len(),
            TASKS,
            "every accepted step is there exactly once"
        );
        let state: RunState = stores[0].load(run.run()).await.unwrap().unwrap().state;
        assert_eq!(state.seq(), 65);
        stores[0].verify(run.run()).await;
    }
}

/// Two processes whose groups hold the same runs: none fails, whatever order they come in.
async fn overlapping_groups_of_two_processes_do_not_fail(db: &impl Subject) {
    let (one, other) = (db.store().await, db.store().await);
    let mut runs = Vec::new();
    for n in 0..16 {
        runs.push(Timeline::started(&format!("r{n:02}"), &one).await);
    }
    for round in 0..20 {
        let text = format!("round {round}");
        let forward = runs.iter().map(|run| insist(&one, run, &text));
        let backward = runs.iter().rev().map(|run| insist(&other, run, &text));
        tokio::join!(
            futures::future::join_all(forward),
            futures::future::join_all(backward),
        );
    }
    for run in &runs {
        assert_eq!(one.load(run.run()).await.unwrap().unwrap().state.seq(), 41);
    }
}

/// Somebody who holds the row of `run_locked`.
async fn lock(db: &TestDatabase) -> Raw {
    let mut raw = Raw::open(db).await;
    match db.kind() {
        Kind::Postgres => {
            let lock = "BEGIN; SELECT 1 FROM runs WHERE id = 'run_locked' FOR UPDATE";
            raw.execute(lock).await;
        }
        Kind::Sqlite => {
            raw.execute("BEGIN IMMEDIATE").await;
        }
    }
    raw
}

async fn a_locked_row_delays_only_as_long_as_it_is_held(db: &TestDatabase) {
    let store = db.store().await;
    let mut locked = Timeline::started("locked", &store).await;
    let mut free = Timeline::started("free", &store).await;
    let mut raw = lock(db).await;
    let append = locked.say(store.now(), "waits");
    let waiting = {
        let (store, append) = (store.clone(), append.clone());
        tokio::spawn(async move {
            store.append(append).await.unwrap();
            Instant::now()
        })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished(), "the row is locked");
    // Reading goes on.
    assert_eq!(
        store.load(free.run()).await.unwrap().unwrap().state.seq(),
        1
    );
    let released = Instant::now();
    raw.execute("COMMIT").await;
    let took = waiting.await.unwrap().duration_since(released);
    assert!(took < Duration::from_secs(2), "{took:?} after it was free");
    locked.took(&append);
    let append = free.say(store.now(), "goes on");
    free.write(&store, append).await.unwrap();
    let append = locked.say(store.now(), "as well");
    locked.write(&store, append).await.unwrap();
}

/// S6.8: the deadline counts when the row is written, not when the writer began to wait for it.
async fn a_deadline_that_passes_while_waiting_for_the_row_is_too_late(db: &TestDatabase) {
    let store = db.store().await;
    let locked = Timeline::started("locked", &store).await;
    let mut free = Timeline::started("free", &store).await;
    let mut raw = lock(db).await;
    let mut late = locked.say(store.now(), "approve");
    let deadline = store.now().plus(Duration::from_millis(300));
    late.not_after = Some(deadline);
    let neighbour = free.say(store.now(), "a neighbour");
    let waiting = {
        let (store, neighbour) = (store.clone(), neighbour.clone());
        tokio::spawn(async move { tokio::join!(store.append(late), store.append(neighbour)) })
    };
    while store.now() <= deadline.plus(Duration::from_millis(50)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    raw.execute("COMMIT").await;
    let (late, neighbour_done) = waiting.await.unwrap();
    assert!(matches!(late, Err(AppendError::TooLate)), "{late:?}");
    neighbour_done.unwrap();
    free.took(&neighbour);
    let loaded = store.load(locked.run()).await.unwrap().unwrap();
    assert_eq!(loaded.state.seq(), 1);
}

/// A worker whose journal commits without a pause still renews in time: its fence never falls.
async fn a_heartbeat_keeps_up_beside_a_busy_journal(db: &TestDatabase) {
    let store = db.store().await;
    let heartbeat = Heartbeat::start(&store, "busy").await.unwrap();
    let (end, fence) = (Instant::now() + Duration::from_secs(4), heartbeat.fence());
    let writers = (0..32).map(|n| {
        let (store, fence) = (store.clone(), fence.clone());
        tokio::spawn(async move {
            let mut run = Timeline::started(&format!("r{n}"), &store).await;
            while Instant::now() < end {
                let append = run.say(store.now(), "busy");
                run.write(&store, append).await.unwrap();
                assert!(fence.holds());
            }
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer.unwrap();
    }
    let counter = store.workers().live().await.unwrap()[0].counter;
    assert!(counter >= 2, "{counter} renewals in 4 s");
}

/// What sorting does not prevent, a deadlock with somebody who locks in another order, is tried
/// again by whoever the database picks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_on_postgres_is_tried_again() {
    let db = TestDatabase::new(Kind::Postgres).await;
    let store = db.store().await;
    let (mut a, mut z) = (
        Timeline::started("a", &store).await,
        Timeline::started("z", &store).await,
    );
    let mut raw = Raw::open(&db).await;
    raw.execute(
        "SET deadlock_timeout = '60s'; BEGIN; UPDATE runs SET retries = retries WHERE id = 'run_z'",
    )
    .await;
    // The writer takes `a`, waits for `z`; the other has `z` and now wants `a`. Only the writer looks
    // for deadlocks in time, so it is the one that is refused.
    let (say_a, say_z) = (a.say(store.now(), "x"), z.say(store.now(), "x"));
    let group = {
        let (store, say_a, say_z) = (store.clone(), say_a.clone(), say_z.clone());
        tokio::spawn(async move { tokio::join!(store.append(say_a), store.append(say_z)) })
    };
    let mut watch = Raw::open(&db).await;
    loop {
        let waiting = "SELECT COUNT(*) FROM pg_stat_activity \
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        if watch.count(waiting).await == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    raw.execute("UPDATE runs SET retries = retries WHERE id = 'run_a'; COMMIT")
        .await;
    let (first, second) = group.await.unwrap();
    first.unwrap();
    second.unwrap();
    a.took(&say_a);
    z.took(&say_z);
    for run in [&a, &z] {
        assert_eq!(store.load(run.run()).await.unwrap().unwrap().state.seq(), 2);
    }
}

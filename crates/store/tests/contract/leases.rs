//! Who may write to a run, and what becomes of runs whose worker is gone.

use std::time::Duration;

use sayso_driver::{Append, Journal, LeaseChange};
use sayso_run::{Status, WorkerId};

use crate::on_all_databases;
use crate::subject::{Ledger, Subject};
use crate::timeline::{Timeline, claim, is_conflict};

on_all_databases!(
    a_claim_raises_the_epoch_and_only_one_wins,
    every_lease_transition_is_checked,
    only_a_dead_workers_lease_is_taken_over,
    a_new_start_of_a_name_ends_the_old_one,
    a_worker_is_marked_dead_only_if_its_counter_stands_still,
    a_run_may_be_born_claimed,
    orphans_are_made_ready_and_reaped_only_after_their_time,
    the_result_of_a_worker_that_lost_its_lease_is_a_plain_append,
);

async fn state(store: &impl Ledger, run: &Timeline) -> (u64, Option<WorkerId>, bool, bool) {
    let lease = store.load(run.run()).await.unwrap().unwrap().lease;
    (
        lease.epoch,
        lease.worker,
        lease.worker_alive,
        lease.ready_at.is_some(),
    )
}

fn bare(run: &Timeline, store: &impl Ledger, lease: LeaseChange) -> Append {
    run.next(store.now(), lease, Vec::new())
}

async fn a_claim_raises_the_epoch_and_only_one_wins(db: &impl Subject) {
    let (one, other) = (db.store().await, db.store().await);
    let run = Timeline::started("one", &one).await;
    assert_eq!(state(&one, &run).await, (0, None, false, true));
    let a = one.register("a").await;
    let b = other.register("b").await;
    let (first, second) = tokio::join!(
        one.append(bare(&run, &one, claim(&a, 0))),
        other.append(bare(&run, &other, claim(&b, 0))),
    );
    let (winner, loser) = match (&first, &second) {
        (Ok(_), Err(_)) => (a, second),
        (Err(_), Ok(_)) => (b, first),
        both => panic!("{both:?}"),
    };
    assert!(is_conflict(&loser));
    // The claim clears `ready_at`.
    assert_eq!(state(&one, &run).await, (1, Some(winner), true, false));
}

async fn every_lease_transition_is_checked(db: &impl Subject) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let worker = store.register("a").await;
    let hold = |epoch| LeaseChange::Hold { epoch };
    let release = |epoch| LeaseChange::Release { epoch };

    // Nobody holds it yet.
    assert!(is_conflict(
        &store.append(bare(&run, &store, hold(0))).await
    ));
    assert!(is_conflict(
        &store.append(bare(&run, &store, release(0))).await
    ));
    assert!(is_conflict(
        &store.append(bare(&run, &store, claim(&worker, 3))).await
    ));
    assert_eq!(
        store
            .append(bare(&run, &store, claim(&worker, 0)))
            .await
            .unwrap()
            .epoch,
        1
    );
    // It is held at epoch 1 by a live worker, who may not claim it twice either.
    assert!(is_conflict(
        &store.append(bare(&run, &store, claim(&worker, 1))).await
    ));
    assert!(is_conflict(
        &store.append(bare(&run, &store, hold(2))).await
    ));
    let mut held = run.next(store.now(), hold(1), vec![crate::timeline::message("held")]);
    held.row.status = Status::Running;
    assert_eq!(run.write(&store, held).await.unwrap().epoch, 1);
    // A writer without a lease is not stopped, and does not touch it.
    let mut decision = run.say(store.now(), "decision");
    decision.ready_at = Some(store.now());
    assert_eq!(run.write(&store, decision).await.unwrap().epoch, 1);
    assert_eq!(
        state(&store, &run).await,
        (1, Some(worker.clone()), true, true)
    );
    // A stale holder cannot write; with the right sequence number it can, and what it says of
    // `ready_at` stands, since it has seen everything.
    let mut back = run.next(
        store.now(),
        release(1),
        vec![crate::timeline::message("back")],
    );
    let mut stale = back.clone();
    stale.expected -= 1;
    stale.row.seq -= 1;
    stale.steps[0].recorded.seq -= 1;
    assert!(is_conflict(&store.append(stale).await));
    back.id = uuid::Uuid::now_v7();
    assert_eq!(run.write(&store, back).await.unwrap().epoch, 1);
    assert_eq!(state(&store, &run).await, (1, None, false, false));
    assert!(is_conflict(
        &store.append(bare(&run, &store, release(1))).await
    ));
    // Taken and given back at once, with work owed.
    let mut both = bare(
        &run,
        &store,
        LeaseChange::ClaimAndRelease {
            worker: worker.clone(),
            from_epoch: 1,
        },
    );
    both.ready_at = Some(store.now());
    assert_eq!(store.append(both).await.unwrap().epoch, 2);
    assert_eq!(state(&store, &run).await, (2, None, false, true));
    // Without a lease and with nothing owed, `ready_at` is left alone, until the run has ended.
    let append = run.say(store.now(), "by the way");
    run.write(&store, append).await.unwrap();
    assert_eq!(state(&store, &run).await, (2, None, false, true));
    let mut end = run.say(store.now(), "the end");
    end.row.status = Status::Cancelled;
    end.row.ended_at = Some(store.now());
    run.write(&store, end).await.unwrap();
    assert_eq!(state(&store, &run).await, (2, None, false, false));
}

/// S4.5: claims look at the mark.
async fn only_a_dead_workers_lease_is_taken_over(db: &impl Subject) {
    let store = db.store().await;
    let run = Timeline::started("one", &store).await;
    let a = store.register("a").await;
    let b = store.register("b").await;
    store
        .append(bare(&run, &store, claim(&a, 0)))
        .await
        .unwrap();
    assert!(is_conflict(
        &store.append(bare(&run, &store, claim(&b, 1))).await
    ));
    assert!(store.end(&a).await);
    assert_eq!(
        state(&store, &run).await,
        (1, Some(a.clone()), false, false)
    );
    assert_eq!(
        store
            .append(bare(&run, &store, claim(&b, 1)))
            .await
            .unwrap()
            .epoch,
        2
    );
    // Whoever was taken over from cannot write any more.
    let stale = bare(&run, &store, LeaseChange::Hold { epoch: 1 });
    assert!(is_conflict(&store.append(stale).await));
    assert!(!store.end(&a).await);
}

async fn a_new_start_of_a_name_ends_the_old_one(db: &impl Subject) {
    let (one, other) = (db.store().await, db.store().await);
    let old = one.register("a").await;
    let starts = (0..8).map(|_| async { other.register("a").await });
    let new = futures::future::join_all(starts).await;
    assert_eq!(one.renew(&old).await, None);
    let live = one.live().await;
    assert_eq!(live.len(), 1);
    assert!(new.contains(&live[0].id) && live[0].id != old);
    assert!(other.renew(&live[0].id).await.is_some());
}

async fn a_worker_is_marked_dead_only_if_its_counter_stands_still(db: &impl Subject) {
    let store = db.store().await;
    let worker = store.register("a").await;
    let seen = store.live().await[0].counter;
    store.renew(&worker).await.unwrap();
    assert!(!store.mark_dead(&worker, seen).await);
    assert!(store.mark_dead(&worker, seen + 1).await);
    assert!(!store.mark_dead(&worker, seen + 1).await);
    assert_eq!(store.renew(&worker).await, None);
    assert!(store.live().await.is_empty());
}

async fn a_run_may_be_born_claimed(db: &impl Subject) {
    let store = db.store().await;
    let worker = store.register("a").await;
    let mut run = Timeline::new("one");
    let mut start = run.start(store.now());
    start.lease = claim(&worker, 0);
    start.ready_at = None;
    assert_eq!(run.write(&store, start).await.unwrap().epoch, 1);
    assert_eq!(state(&store, &run).await, (1, Some(worker), true, false));
}

/// B26: only a `running` run whose worker was lost is reaped, by the time since it was lost.
async fn orphans_are_made_ready_and_reaped_only_after_their_time(db: &impl Subject) {
    let store = db.store().await;
    let worker = store.register("a").await;
    let mut runs = Vec::new();
    for (name, status) in [
        ("running", Status::Running),
        ("pending", Status::Pending),
        ("waiting", Status::AwaitingApproval),
    ] {
        let mut run = Timeline::started(name, &store).await;
        let mut append = run.next(
            store.now(),
            claim(&worker, 0),
            vec![crate::timeline::message("x")],
        );
        append.row.status = status;
        run.write(&store, append).await.unwrap();
        runs.push(run);
    }
    let unclaimed = Timeline::started("unclaimed", &store).await;
    let minutes = |n: u64| Duration::from_secs(n * 60);
    assert!(store.orphans(10).await.is_empty());
    assert!(store.ready(Duration::ZERO, 10).await.len() == 1);

    store.end(&worker).await;
    let orphans = store.orphans(10).await;
    assert_eq!(orphans.len(), 3);
    assert!(store.orphans(10).await.is_empty());
    assert_eq!(store.ready(Duration::ZERO, 10).await.len(), 4);
    assert!(store.ready(minutes(1), 10).await.is_empty());

    store.set_clock_offset(29 * 60_000_000).await;
    assert!(store.abandoned(minutes(30), 10).await.is_empty());
    store.set_clock_offset(31 * 60_000_000).await;
    let abandoned = store.abandoned(minutes(30), 10).await;
    assert_eq!(abandoned.len(), 1);
    assert_eq!(&abandoned[0].run, runs[0].run());
    assert_eq!(store.ready(minutes(30), 10).await.len(), 4);
    assert_eq!(unclaimed.row.status, Status::Pending);
}

/// A `tool_result` is a fact: it is appended without a lease, whoever holds the run now.
async fn the_result_of_a_worker_that_lost_its_lease_is_a_plain_append(db: &impl Subject) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let a = store.register("a").await;
    let b = store.register("b").await;
    store
        .append(bare(&run, &store, claim(&a, 0)))
        .await
        .unwrap();
    store.end(&a).await;
    store
        .append(bare(&run, &store, claim(&b, 1)))
        .await
        .unwrap();
    let late = run.say(store.now(), "the late result");
    assert_eq!(run.write(&store, late).await.unwrap().epoch, 2);
    assert_eq!(state(&store, &run).await, (2, Some(b), true, false));
}

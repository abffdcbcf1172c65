//! `published` and the questions that sweeps ask.

use std::time::Duration;

use sayso_driver::Journal;
use sayso_store::testing::TestDatabase;

use crate::subject::{Ledger, Subject};
use crate::timeline::Timeline;
use crate::{on_all_databases, on_both_databases};

on_all_databases!(
    the_published_mark_only_moves_up,
    unpublished_runs_are_found_after_a_while,
    expired_approvals_are_found_by_the_databases_clock,
);

/// What only the real databases answer.
mod questions {
    use super::*;

    on_both_databases!(the_clock_is_shared_and_moves_for_everybody,);
}

/// S8.4: events after the mark are handed out again.
async fn the_published_mark_only_moves_up(db: &impl Subject) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let published = async || store.load(run.run()).await.unwrap().unwrap();
    assert_eq!(published().await.lease.published, 0);
    store.mark_published(vec![(run.run().clone(), 1)]).await;
    assert_eq!(published().await.lease.published, 1);
    assert!(published().await.unpublished.is_empty());

    let mut append = run.say(store.now(), "x");
    append.published = Some(0);
    run.write(&store, append).await.unwrap();
    let published = async || store.load(run.run()).await.unwrap().unwrap();
    assert_eq!(published().await.lease.published, 1);
    let unpublished = published().await.unpublished;
    assert_eq!(
        unpublished
            .iter()
            .map(|step| step.recorded.seq)
            .collect::<Vec<_>>(),
        [2]
    );
    // Never beyond what there is, and the same run may be named twice.
    let marks = vec![
        (run.run().clone(), 1),
        (run.run().clone(), 9),
        (run.run().clone(), 1),
    ];
    store.mark_published(marks).await;
    assert_eq!(published().await.lease.published, 2);
    store.mark_published(vec![(run.run().clone(), 1)]).await;
    assert_eq!(published().await.lease.published, 2);
    store.mark_published(Vec::new()).await;
}

async fn unpublished_runs_are_found_after_a_while(db: &impl Subject) {
    let store = db.store().await;
    let run = Timeline::started("one", &store).await;
    let other = Timeline::started("two", &store).await;
    store.mark_published(vec![(other.run().clone(), 1)]).await;
    let lag = Duration::from_secs(2);
    assert!(store.unpublished(lag, 10).await.is_empty());
    store.set_clock_offset(3_000_000).await;
    let found = store.unpublished(lag, 10).await;
    assert_eq!(found.len(), 1);
    assert_eq!(&found[0].run, run.run());
    assert_eq!(found[0].agent, run.row.agent);
}

/// S6.8, B25: the deadline of an approval counts from its request, over restarts.
async fn expired_approvals_are_found_by_the_databases_clock(db: &impl Subject) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let expires = store.now().plus(Duration::from_secs(1200));
    let mut append = run.say(store.now(), "ask");
    append.approvals = vec![run.approval(store.now(), expires)];
    run.write(&store, append).await.unwrap();
    assert!(store.expired(10).await.is_empty());
    drop(store);
    let store = db.store().await;
    store.set_clock_offset(1_201_000_000).await;
    let found = store.expired(10).await;
    assert_eq!(found.len(), 1);
    assert_eq!(&found[0].run, run.run());
}

async fn the_clock_is_shared_and_moves_for_everybody(db: &TestDatabase) {
    let (one, other) = (db.store().await, db.store().await);
    let before = other.now();
    one.set_clock_offset(3_600_000_000).await.unwrap();
    assert!(one.now().micros_since(before) >= 3_600_000_000);
    // The other process sees it with its next look at the clock.
    other.sync_clock().await.unwrap();
    let apart = one.now().micros_since(other.now()).abs();
    assert!(apart < 1_000_000, "{apart} µs apart");
}

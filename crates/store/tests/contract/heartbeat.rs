//! The heartbeat of a worker.

use std::time::Duration;

use sayso_store::Heartbeat;
use sayso_store::testing::TestDatabase;

use crate::on_both_databases;

on_both_databases!(
    a_heartbeat_keeps_its_worker_and_says_when_it_cannot,
    a_worker_needs_a_name_that_everybody_can_read,
);

async fn a_worker_needs_a_name_that_everybody_can_read(db: &TestDatabase) {
    let store = db.store().await;
    assert!(store.workers().register("a\u{e9}").await.is_err());
}

async fn a_heartbeat_keeps_its_worker_and_says_when_it_cannot(db: &TestDatabase) {
    let store = db.store().await;
    let heartbeat = Heartbeat::start(&store, "a").await.unwrap();
    let fence = heartbeat.fence();
    assert!(heartbeat.holds() && fence.holds() && !heartbeat.lost());
    until("it renews twice", || async {
        store.workers().live().await.unwrap()[0].counter >= 2
    })
    .await;
    assert!(heartbeat.holds());
    // A stopped process does not hold after two seconds, though nobody has marked it.
    heartbeat.stall(true);
    until("it holds no more", || async { !fence.holds() }).await;
    assert!(!heartbeat.lost());
    heartbeat.stall(false);
    until("it holds again", || async { fence.holds() }).await;
    // Marked dead, it says so and never holds again.
    store.workers().end(heartbeat.worker()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), heartbeat.until_lost())
        .await
        .unwrap();
    assert!(heartbeat.lost() && !fence.holds());

    let other = Heartbeat::start(&store, "a").await.unwrap();
    assert!(other.holds());
    other.end().await.unwrap();
    assert!(store.workers().live().await.unwrap().is_empty());
}

/// Waits for a condition, not for a time.
async fn until<F, Fut>(what: &str, mut holds: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    for _ in 0..1000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

//! Targets (S8.2).

use std::time::Duration;

use sayso_driver::{DeliveryRow, Journal, Notice, Recipient, Takes};
use sayso_run::{Namespace, PrincipalId, Status};
use sayso_store::testing::TestDatabase;
use sayso_store::{Added, MAX_TARGETS, NewTarget, Store, TargetKind};

use crate::on_both_databases;
use crate::timeline::{Timeline, namespace};

on_both_databases!(
    s8_2_targets_are_added_listed_and_removed,
    s8_2_a_namespace_has_so_many_targets,
    s8_2_what_was_due_to_a_removed_target_is_not_sent,
    s8_2_a_failure_is_due_while_the_run_is_failed,
);

fn target(name: &str) -> NewTarget {
    NewTarget {
        name: name.into(),
        kind: TargetKind::Webhook,
        address: "http://127.0.0.1:9/x".into(),
        secret: Some("KEY".into()),
        takes: Takes {
            approvals: true,
            failures: false,
        },
    }
}

async fn add(store: &Store, name: &str) -> Added {
    let by = PrincipalId::new("ann").unwrap();
    let added = store.targets().add(&namespace(), &target(name), &by).await;
    added.unwrap()
}

/// Another process knows of it within a second, the one that changed it at once.
async fn s8_2_targets_are_added_listed_and_removed(db: &TestDatabase) {
    let store = db.store().await;
    assert_eq!(*store.targets_of(&namespace()).await.unwrap(), []);
    assert_eq!(add(&store, "ops").await, Added::Added);
    assert_eq!(add(&store, "ops").await, Added::Exists);
    let known = store.targets_of(&namespace()).await.unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!(
        (known[0].name.as_str(), known[0].takes),
        ("ops", target("ops").takes)
    );
    let elsewhere = Namespace::new("elsewhere").unwrap();
    assert_eq!(store.targets().list(&elsewhere).await.unwrap(), []);
    let targets = store.targets();
    let stored = targets.get(&namespace(), "ops").await.unwrap().unwrap();
    let given = target("ops");
    assert_eq!((stored.kind, &stored.address), (given.kind, &given.address));
    assert_eq!((&stored.secret, stored.takes), (&given.secret, given.takes));
    let listed = targets.list(&namespace()).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&stored));
    assert_eq!(targets.remove(&elsewhere, "ops").await.unwrap(), None);
    assert_eq!(
        targets.remove(&namespace(), "ops").await.unwrap(),
        Some(stored)
    );
    assert_eq!(targets.remove(&namespace(), "ops").await.unwrap(), None);
    assert_eq!(*store.targets_of(&namespace()).await.unwrap(), []);
}

async fn s8_2_a_namespace_has_so_many_targets(db: &TestDatabase) {
    let store = db.store().await;
    for n in 0..MAX_TARGETS {
        assert_eq!(add(&store, &format!("t-{n}")).await, Added::Added);
    }
    assert_eq!(add(&store, "one-more").await, Added::TooMany);
}

async fn due(store: &Store, run: &mut Timeline, id: &str, notice: Notice, status: Status) {
    let now = store.now();
    let mut append = run.say(now, "x");
    append.row.status = status;
    append.deliveries = vec![DeliveryRow {
        id: id.into(),
        namespace: namespace(),
        agent: run.row.agent.clone(),
        run: run.run().clone(),
        notice: notice.clone(),
        to: Recipient::Target("ops".into()),
        due_at: now.plus_micros(-1_000_000),
    }];
    if notice.approval().is_some() {
        append.approvals = vec![run.approval(now, now.plus(Duration::from_secs(3600)))];
    }
    run.write(store, append).await.unwrap();
}

async fn s8_2_what_was_due_to_a_removed_target_is_not_sent(db: &TestDatabase) {
    let store = db.store().await;
    add(&store, "ops").await;
    let mut run = Timeline::started("one", &store).await;
    let approval = run.approval(store.now(), store.now()).approval;
    let notice = Notice::Escalated(approval);
    due(
        &store,
        &mut run,
        "dlv_1",
        notice.clone(),
        Status::AwaitingApproval,
    )
    .await;
    let deliveries = store.deliveries();
    let taken = deliveries
        .claim("a", Duration::from_micros(1), 5)
        .await
        .unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(
        (&taken[0].notice, &taken[0].to),
        (&notice, &Recipient::Target("ops".into()))
    );
    store.targets().remove(&namespace(), "ops").await.unwrap();
    assert_eq!(deliveries.next_due().await.unwrap(), None);
}

async fn s8_2_a_failure_is_due_while_the_run_is_failed(db: &TestDatabase) {
    let store = db.store().await;
    let (mut failed, mut retried) = (
        Timeline::started("one", &store).await,
        Timeline::started("two", &store).await,
    );
    for (run, id) in [(&mut failed, "dlv_1"), (&mut retried, "dlv_2")] {
        due(&store, run, id, Notice::Failed, Status::Failed).await;
    }
    let mut again = retried.say(store.now(), "again");
    again.row.status = Status::Running;
    retried.write(&store, again).await.unwrap();
    let deliveries = store.deliveries();
    let taken = deliveries
        .claim("a", Duration::from_secs(30), 5)
        .await
        .unwrap();
    let ids: Vec<_> = taken.iter().map(|delivery| delivery.id.as_str()).collect();
    assert_eq!(ids, ["dlv_1"]);
    assert_eq!(taken[0].notice, Notice::Failed);
    assert_eq!(deliveries.cancel_decided().await.unwrap(), 1);
}

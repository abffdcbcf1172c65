//! What an append writes, and when it does not.

use std::time::Duration;

use sayso_driver::{AppendError, DeliveryRow, Journal, LeaseChange, LoadError, Notice, Recipient};
use sayso_run::{ActionStatus, Namespace, RunId, Status};
use sayso_store::testing::TestDatabase;

use crate::subject::{Ledger, Subject};
use crate::timeline::{Timeline, alice, is_conflict, namespace};
use crate::{on_all_databases, on_both_databases};

on_all_databases!(
    a_start_is_loaded_as_it_was_written,
    everything_of_an_append_is_stored_or_nothing,
    the_second_append_on_the_same_sequence_conflicts,
    the_same_start_key_finds_the_first_run,
    a_deadline_is_checked_by_the_databases_clock,
    text_with_a_nul_is_refused,
    a_bad_member_of_a_group_fails_alone,
    appends_that_contradict_themselves_are_refused,
    a_reopened_store_holds_everything,
);

/// What only the real databases answer.
mod questions {
    use super::*;

    on_both_databases!(
        what_an_approval_must_not_show_is_found,
        many_runs_load_at_once
    );
}

/// S1.1: the start is stored whole and can be read at once.
async fn a_start_is_loaded_as_it_was_written(db: &impl Subject) {
    let store = db.store().await;
    let mut run = Timeline::new("one");
    let start = run.start(store.now());
    assert_eq!(run.write(&store, start.clone()).await.unwrap().epoch, 0);

    let loaded = store.load(run.run()).await.unwrap().unwrap();
    assert_eq!(loaded.state.seq(), 1);
    assert_eq!(loaded.state.head(), &run.head);
    assert_eq!(loaded.state.trigger().input, "Do one.");
    assert_eq!(loaded.unpublished, start.steps);
    assert_eq!(loaded.lease.epoch, 0);
    assert_eq!(loaded.lease.worker, None);
    assert_eq!(loaded.lease.ready_at, start.ready_at);
    assert_eq!(store.row(run.run()).await, Some(run.row));
    let nobody = RunId::new("run_nobody").unwrap();
    assert!(store.load(&nobody).await.unwrap().is_none());
}

/// S3.10: the masked views of what led to an approval are found, and those of nothing else.
async fn what_an_approval_must_not_show_is_found(db: &TestDatabase) {
    let store = db.store().await;
    let mut run = Timeline::new("one");
    let mut start = run.start(store.now());
    start.steps[0].view = Some("{\"input\":\"***\"}".into());
    run.write(&store, start).await.unwrap();
    let mut said = run.say(store.now(), "a word that is masked");
    said.steps[0].view = Some("{\"text\":\"***\"}".into());
    run.write(&store, said).await.unwrap();

    let masked = store
        .runs()
        .masked(&namespace(), run.run(), 2)
        .await
        .unwrap();
    let shown: Vec<_> = masked.iter().map(|step| (step.seq, step.shown())).collect();
    assert_eq!(shown, [(1, "{\"input\":\"***\"}")]);
    let before = store
        .runs()
        .masked(&namespace(), run.run(), 0)
        .await
        .unwrap();
    assert_eq!(before, []);
    let other = Namespace::new("other").unwrap();
    assert_eq!(store.runs().masked(&other, run.run(), 2).await.unwrap(), []);
}

/// S2.1: steps, row and projections are written together.
async fn everything_of_an_append_is_stored_or_nothing(db: &impl Subject) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let now = store.now();
    let expires = now.plus(Duration::from_secs(3600));
    let mut append = run.say(now, "all of it");
    append.steps[0].view = Some("{\"text\":\"***\"}".into());
    append.row.status = Status::AwaitingApproval;
    append.row.expires_at = Some(expires);
    append.row.usage.input = 900;
    append.actions = vec![run.action(2, now), run.action(1, now)];
    append.approvals = vec![run.approval(now, expires)];
    append.feedback = vec![run.feedback(now)];
    append.deliveries = vec![DeliveryRow {
        id: "dlv_1".into(),
        namespace: namespace(),
        agent: run.row.agent.clone(),
        run: run.run().clone(),
        notice: Notice::Pending(append.approvals[0].approval.clone()),
        to: Recipient::Bundle {
            url: "https://hooks.example/approvals".into(),
            secret: Some("HOOK".into()),
        },
        due_at: now.plus_micros(-1_000_000),
    }];

    // A stale one of the same writes nothing at all.
    let mut stale = append.clone();
    stale.expected = 7;
    stale.row.seq = 8;
    stale.steps[0].recorded.seq = 8;
    assert!(is_conflict(&store.append(stale).await));
    assert_eq!(store.pending().await, 0);

    run.write(&store, append.clone()).await.unwrap();
    let actions = store.actions(run.run()).await;
    assert_eq!(actions, vec![run.action(1, now), run.action(2, now)]);
    let approval = &append.approvals[0];
    let stored = store.approval(&approval.approval).await;
    assert_eq!(stored.as_ref(), Some(approval));
    assert_eq!(store.pending().await, 1);
    let steps = store.steps(run.run()).await;
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[1].view.as_deref(), Some("{\"text\":\"***\"}"));
    assert_eq!(steps[1].content, append.steps[0].content);
    assert_eq!(store.scores().await, [1_000_000]);
    assert_eq!(store.due_deliveries().await, 1);
    assert_eq!(store.row(run.run()).await, Some(run.row.clone()));

    // What changed is changed; what is bound stays.
    let mut changed = run.action(1, now);
    changed.status = ActionStatus::Executed;
    changed.result = Some("done".into());
    changed.cleared_by = Some("principal:bob".into());
    changed.args = "something else".into();
    let mut append = run.say(store.now(), "later");
    append.actions = vec![changed];
    run.write(&store, append).await.unwrap();
    let actions = store.actions(run.run()).await;
    assert_eq!(actions[0].status, ActionStatus::Executed);
    assert_eq!(actions[0].args, "{\"amount\": 1.10}");
}

async fn the_second_append_on_the_same_sequence_conflicts(db: &impl Subject) {
    let (one, other) = (db.store().await, db.store().await);
    let mut run = Timeline::started("one", &one).await;
    let (first, second) = (run.say(one.now(), "first"), run.say(other.now(), "second"));
    run.write(&one, first).await.unwrap();
    assert!(is_conflict(&other.append(second).await));
    // The run exists, so it cannot be started again.
    let again = Timeline::new("one").start(other.now());
    assert!(is_conflict(&other.append(again).await));
    assert_eq!(other.load(run.run()).await.unwrap().unwrap().state.seq(), 2);
}

/// S1.1: the same key and principal get the same run back.
async fn the_same_start_key_finds_the_first_run(db: &impl Subject) {
    let store = db.store().await;
    let first = Timeline::new("one");
    store
        .append(first.start_with_key(store.now(), "k", "digest-1"))
        .await
        .unwrap();

    let second = Timeline::new("two").start_with_key(store.now(), "k", "digest-2");
    match store.append(second.clone()).await {
        Err(AppendError::DuplicateStart { existing, request }) => {
            assert_eq!(
                (existing.as_str(), request.as_str()),
                ("run_one", "digest-1")
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(store.load(&second.run).await.unwrap().is_none());

    // Another principal's key is another key.
    let mut third = Timeline::new("three");
    third.row.principal = sayso_run::PrincipalId::new("carol").unwrap();
    store
        .append(third.start_with_key(store.now(), "k", "digest-3"))
        .await
        .unwrap();
    assert_ne!(third.row.principal, alice());

    // Both in one group: one of them is first.
    let (a, b) = (Timeline::new("a"), Timeline::new("b"));
    let at = store.now();
    let (a, b) = tokio::join!(
        store.append(a.start_with_key(at, "both", "d")),
        store.append(b.start_with_key(at, "both", "d")),
    );
    assert_eq!(
        usize::from(a.is_ok()) + usize::from(b.is_ok()),
        1,
        "{a:?} {b:?}"
    );
    let lost = a.err().or(b.err()).unwrap();
    assert!(
        matches!(lost, AppendError::DuplicateStart { .. }),
        "{lost:?}"
    );
}

/// S6.8: the deadline is the database's, not the caller's.
async fn a_deadline_is_checked_by_the_databases_clock(db: &impl Subject) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let expires = store.now().plus(Duration::from_secs(600));
    let mut decision = run.say(store.now(), "approve");
    decision.not_after = Some(expires);

    store.set_clock_offset(601_000_000).await;
    let late = store.append(decision.clone()).await;
    assert!(matches!(late, Err(AppendError::TooLate)), "{late:?}");
    assert_eq!(store.load(run.run()).await.unwrap().unwrap().state.seq(), 1);
    assert!(store.now() >= expires);

    store.set_clock_offset(590_000_000).await;
    run.write(&store, decision.clone()).await.unwrap();
    // Now another writer was first, and late: that is a conflict, which is looked at again.
    store.set_clock_offset(601_000_000).await;
    decision.id = uuid::Uuid::now_v7();
    assert!(is_conflict(&store.append(decision).await));
    // A start can be too late as well.
    let mut start = Timeline::new("two").start(store.now());
    start.not_after = Some(expires);
    assert!(matches!(
        store.append(start).await,
        Err(AppendError::TooLate)
    ));
}

async fn text_with_a_nul_is_refused(db: &impl Subject) {
    let store = db.store().await;
    let mut start = Timeline::new("one").start(store.now());
    start.row.input = "a\0b".into();
    match store.append(start).await {
        Err(AppendError::Refused(why)) => assert!(why.starts_with("request.invalid_text"), "{why}"),
        other => panic!("{other:?}"),
    }
    let run = RunId::new("run_one").unwrap();
    assert_eq!(store.row(&run).await, None);
}

/// One bad member (here: a second rating by the same approval) never fails its neighbours.
async fn a_bad_member_of_a_group_fails_alone(db: &impl Subject) {
    let store = db.store().await;
    let mut runs = Vec::new();
    for n in 0..20 {
        runs.push(Timeline::started(&format!("r{n:02}"), &store).await);
    }
    let mut rated = runs[7].say(store.now(), "rated");
    rated.feedback = vec![runs[7].feedback(store.now())];
    runs[7].write(&store, rated).await.unwrap();

    let appends = runs.iter().enumerate().map(|(n, run)| {
        let mut append = run.say(store.now(), "all at once");
        if n == 7 {
            append.feedback = vec![run.feedback(store.now())];
        }
        store.append(append)
    });
    let results = futures::future::join_all(appends).await;
    for (n, result) in results.iter().enumerate() {
        match result {
            Err(AppendError::Refused(_)) if n == 7 => {}
            Ok(_) if n != 7 => {}
            other => panic!("{n}: {other:?}"),
        }
    }
    // And the run of the bad one goes on.
    let append = runs[7].say(store.now(), "without a rating");
    runs[7].write(&store, append).await.unwrap();
}

async fn appends_that_contradict_themselves_are_refused(db: &impl Subject) {
    let store = db.store().await;
    let run = Timeline::started("one", &store).await;
    let mut gap = run.say(store.now(), "gap");
    gap.steps[0].recorded.seq = 3;
    let mut row = run.say(store.now(), "row");
    row.row.seq = 9;
    let mut leaseless = Timeline::new("two").start(store.now());
    leaseless.lease = LeaseChange::Hold { epoch: 0 };
    for bad in [gap, row, leaseless] {
        let result = store.append(bad).await;
        assert!(matches!(result, Err(AppendError::Refused(_))), "{result:?}");
    }
}

/// S6.9: what is stored is there after a restart.
async fn a_reopened_store_holds_everything(db: &impl Subject) {
    let before = db.store().await;
    let mut run = Timeline::started("one", &before).await;
    let append = run.say(before.now(), "before");
    run.write(&before, append).await.unwrap();
    before.close().await;
    drop(before);

    let after = db.store().await;
    let loaded = after.load(run.run()).await.unwrap().unwrap();
    assert_eq!(loaded.state.head(), &run.head);
    let append = run.say(after.now(), "after");
    run.write(&after, append).await.unwrap();
}

async fn many_runs_load_at_once(db: &TestDatabase) {
    let store = db.store().await;
    let mut ids = Vec::new();
    for n in 0..100 {
        ids.push(
            Timeline::started(&format!("r{n}"), &store)
                .await
                .run()
                .clone(),
        );
    }
    ids.push(RunId::new("run_nobody").unwrap());
    let loaded = store.load_many(&ids).await;
    assert_eq!(loaded.len(), 100);
    for (run, loaded) in loaded {
        let loaded: Result<_, LoadError> = loaded;
        assert_eq!(loaded.unwrap().state.run(), &run);
    }
}

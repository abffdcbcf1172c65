//! Tampering with stored timelines is found, and the first broken step is named (S2.3).

use sayso_driver::{Journal, LeaseChange, LoadError};
use sayso_run::{AwaitingInput, Broken, CallId, ChainKeys, Step};
use sayso_store::testing::TestDatabase;
use sayso_store::{Store, VerifyError};

use crate::on_both_databases;
use crate::raw::Raw;
use crate::timeline::{Timeline, key, keys, message, namespace};

on_both_databases!(
    an_honest_timeline_verifies,
    a_changed_content_is_named,
    a_changed_hash_is_named,
    swapped_steps_are_named,
    a_missing_step_is_named,
    a_truncated_tail_is_named,
    a_forged_chain_has_no_seal,
    a_step_of_a_newer_version_is_shown_and_left_alone,
    a_timeline_that_does_not_fit_is_corrupt,
    steps_of_another_namespace_are_not_seen,
);

/// Five messages, and a sixth step that is sealed.
async fn sealed(store: &Store) -> Timeline {
    let mut run = Timeline::started("one", store).await;
    for n in 2..=5 {
        let append = run.say(store.now(), &format!("message {n}"));
        run.write(store, append).await.unwrap();
    }
    let asked = Step::AwaitingInput(AwaitingInput {
        call: CallId::of(1, 1),
        question: "Which?".into(),
    });
    let append = run.next(store.now(), LeaseChange::None, vec![asked]);
    run.write(store, append).await.unwrap();
    run
}

async fn broken(store: &Store, run: &Timeline) -> Broken {
    match store.runs().verify(&namespace(), run.run(), &keys()).await {
        Err(VerifyError::Broken(broken)) => broken,
        other => panic!("{other:?}"),
    }
}

/// Tampers, and says which step is named and why.
async fn tampered(db: &TestDatabase, sql: &[&str]) -> Broken {
    let store = db.store().await;
    let run = sealed(&store).await;
    let mut raw = Raw::open(db).await;
    for sql in sql {
        assert!(raw.execute(sql).await > 0, "{sql}");
    }
    broken(&store, &run).await
}

async fn an_honest_timeline_verifies(db: &TestDatabase) {
    let store = db.store().await;
    let run = sealed(&store).await;
    let head = store
        .runs()
        .verify(&namespace(), run.run(), &keys())
        .await
        .unwrap();
    assert_eq!(head, run.head);
    // Without the key that sealed it nobody can say.
    let other = ChainKeys::default();
    let error = store
        .runs()
        .verify(&namespace(), run.run(), &other)
        .await
        .unwrap_err();
    assert!(error.to_string().contains(key().id()), "{error}");
}

/// S2.3, B10: what was altered is named, and the run is not acted on any more.
async fn a_changed_content_is_named(db: &TestDatabase) {
    let broken = tampered(
        db,
        &["UPDATE steps SET content = '{\"text\":\"never said\"}' WHERE seq = 3"],
    )
    .await;
    assert_eq!(broken.seq, 3);
    assert!(broken.why.contains("content"), "{broken}");
    // Even what still reads as the same step is not acted on.
    let store = db.store().await;
    let run = Timeline::started("altered", &store).await;
    let mut raw = Raw::open(db).await;
    assert!(
        raw.execute("UPDATE steps SET content = content || ' '")
            .await
            > 0
    );
    match store.load(run.run()).await {
        Err(LoadError::Corrupt(corrupt)) => assert_eq!(corrupt.seq, 1),
        other => panic!("{other:?}"),
    }
}

async fn a_changed_hash_is_named(db: &TestDatabase) {
    let broken = tampered(
        db,
        &["UPDATE steps SET hash = (SELECT content_sha256 FROM steps WHERE seq = 4) WHERE seq = 4"],
    )
    .await;
    assert_eq!(broken.seq, 4);
}

async fn swapped_steps_are_named(db: &TestDatabase) {
    let broken = tampered(
        db,
        &[
            "UPDATE steps SET seq = 30 WHERE seq = 3",
            "UPDATE steps SET seq = 3 WHERE seq = 4",
            "UPDATE steps SET seq = 4 WHERE seq = 30",
        ],
    )
    .await;
    assert_eq!(broken.seq, 3);
}

async fn a_missing_step_is_named(db: &TestDatabase) {
    let broken = tampered(db, &["DELETE FROM steps WHERE seq = 2"]).await;
    assert_eq!(broken.seq, 2);
}

/// Cutting off the end leaves a chain that holds; the run's row still counts the steps.
async fn a_truncated_tail_is_named(db: &TestDatabase) {
    let store = db.store().await;
    let run = sealed(&store).await;
    Raw::open(db)
        .await
        .execute("DELETE FROM steps WHERE seq >= 5")
        .await;
    let broken = broken(&store, &run).await;
    assert_eq!(broken.seq, 5);
    assert!(broken.why.contains("missing"), "{broken}");
    // And nobody goes on from the shortened timeline.
    let loaded = store.load(run.run()).await;
    assert!(matches!(loaded, Err(LoadError::Corrupt(_))), "{loaded:?}");
}

/// Whoever can write to the database can make a new chain, but not its seals.
async fn a_forged_chain_has_no_seal(db: &TestDatabase) {
    let broken = tampered(
        db,
        &["UPDATE steps SET seal = NULL, seal_key = NULL WHERE seq = 6"],
    )
    .await;
    assert_eq!(broken.seq, 6);
    assert!(broken.why.contains("seal"), "{broken}");
}

/// S2.2: a reader shows it, an executor leaves the run to a newer one, verification takes it.
async fn a_step_of_a_newer_version_is_shown_and_left_alone(db: &TestDatabase) {
    let store = db.store().await;
    let run = sealed(&store).await;
    let mut raw = Raw::open(db).await;
    raw.execute("UPDATE steps SET kind = 'dream', version = 9 WHERE seq = 4")
        .await;
    match store.load(run.run()).await {
        Err(LoadError::TooNew { what, .. }) => assert_eq!(what, "`dream` version 9"),
        other => panic!("{other:?}"),
    }
    let steps = store
        .runs()
        .steps(&namespace(), run.run(), 3, 1)
        .await
        .unwrap();
    assert_eq!((steps[0].kind.as_str(), steps[0].version), ("dream", 9));
    // It is only broken because its hash was made of another type.
    assert_eq!(broken(&store, &run).await.seq, 4);
}

async fn a_timeline_that_does_not_fit_is_corrupt(db: &TestDatabase) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let retried = Step::Retried(sayso_run::Retried { attempt: 1 });
    let append = run.next(store.now(), LeaseChange::None, vec![retried]);
    run.write(&store, append).await.unwrap();
    let loaded = store.load(run.run()).await;
    assert!(matches!(loaded, Err(LoadError::Corrupt(_))), "{loaded:?}");
    // Its neighbours load.
    let other = Timeline::started("two", &store).await;
    let both = [run.run().clone(), other.run().clone()];
    let loaded = store.load_many(&both).await;
    assert_eq!(
        loaded.iter().filter(|(_, loaded)| loaded.is_ok()).count(),
        1
    );
}

/// S6.11: a namespace never sees another's.
async fn steps_of_another_namespace_are_not_seen(db: &TestDatabase) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let mut append = run.next(store.now(), LeaseChange::None, vec![message("x")]);
    append.actions = vec![run.action(1, store.now())];
    append.approvals = vec![run.approval(store.now(), store.now())];
    run.write(&store, append.clone()).await.unwrap();
    let other = sayso_run::Namespace::new("other").unwrap();
    assert_eq!(store.runs().get(&other, run.run()).await.unwrap(), None);
    assert!(
        store
            .runs()
            .steps(&other, run.run(), 0, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .runs()
            .actions(&other, run.run())
            .await
            .unwrap()
            .is_empty()
    );
    let approval = &append.approvals[0].approval;
    assert_eq!(store.approvals().get(&other, approval).await.unwrap(), None);
    assert_eq!(store.approvals().pending(&other).await.unwrap(), 0);
    let verified = store.runs().verify(&other, run.run(), &keys()).await;
    assert!(
        matches!(verified, Err(VerifyError::NotFound(_))),
        "{verified:?}"
    );
}

//! Commits whose answer was lost: what took effect is found, what did not is done, and neither is
//! done twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sayso_driver::{AppendError, Journal, LeaseChange, LoadError};
use sayso_store::hooks::{Then, Window};
use sayso_store::testing::TestDatabase;
use sayso_store::{Kind, Store, StoreConfig};

use sqlx::{AssertSqlSafe, Connection};

use crate::on_all_databases;
use crate::subject::{Ledger, Subject};
use crate::timeline::{Timeline, claim, is_conflict, message};

on_all_databases!(
    a_commit_that_took_effect_is_found,
    a_commit_that_did_not_is_done_again,
    an_unclear_claim_is_found_though_it_holds_no_step,
    an_unclear_append_that_another_writer_beat_is_a_conflict,
    an_unclear_start_with_a_key_is_its_own,
    a_group_is_settled_member_by_member,
    an_append_whose_answers_are_all_lost_is_given_up,
    an_append_that_was_given_up_and_took_effect_is_found_when_it_comes_again,
);

/// Loses the connection at the window's next `times` occurrences. On Postgres the backend is really
/// ended, from another connection.
fn lose<D: Subject>(store: &D::Store, db: &D, at: Window, times: usize) -> Arc<AtomicUsize> {
    let lost = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lost);
    let postgres = db.postgres();
    store.hook(move |window, backend| {
        if window != at || count.load(Ordering::SeqCst) >= times {
            return Then::Proceed;
        }
        count.fetch_add(1, Ordering::SeqCst);
        match (&postgres, at) {
            (Some(url), Window::BeforeCommit) => {
                // The statement itself then finds the connection gone.
                terminate(url, backend.unwrap());
                Then::Proceed
            }
            (Some(url), Window::AfterCommit) => {
                terminate(url, backend.unwrap());
                Then::LoseConnection
            }
            (None, _) => Then::LoseConnection,
        }
    });
    lost
}

fn terminate(url: &str, backend: i32) {
    let url = url.to_owned();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
            let ended: bool = sqlx::query_scalar("SELECT pg_terminate_backend($1, 5000)")
                .bind(backend)
                .fetch_one(&mut connection)
                .await
                .unwrap();
            assert!(ended);
        });
    })
    .join()
    .unwrap();
}

async fn a_commit_that_took_effect_is_found(db: &impl Subject) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let lost = lose(&store, db, Window::AfterCommit, 1);
    let append = run.say(store.now(), "once");
    run.write(&store, append).await.unwrap();
    assert_eq!(lost.load(Ordering::SeqCst), 1);
    assert_eq!(store.load(run.run()).await.unwrap().unwrap().state.seq(), 2);
    let append = run.say(store.now(), "and on");
    run.write(&store, append).await.unwrap();
}

async fn a_commit_that_did_not_is_done_again(db: &impl Subject) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let lost = lose(&store, db, Window::BeforeCommit, 2);
    let append = run.say(store.now(), "once");
    run.write(&store, append).await.unwrap();
    assert_eq!(lost.load(Ordering::SeqCst), 2);
    assert_eq!(store.load(run.run()).await.unwrap().unwrap().state.seq(), 2);
}

async fn an_unclear_claim_is_found_though_it_holds_no_step(db: &impl Subject) {
    let store = db.store().await;
    let run = Timeline::started("one", &store).await;
    let worker = store.register("a").await;
    lose(&store, db, Window::AfterCommit, 1);
    let bare = run.next(store.now(), claim(&worker, 0), Vec::new());
    assert_eq!(store.append(bare).await.unwrap().epoch, 1);
    lose(&store, db, Window::AfterCommit, 1);
    let back = run.next(store.now(), LeaseChange::Release { epoch: 1 }, Vec::new());
    assert_eq!(store.append(back).await.unwrap().epoch, 1);
    assert_eq!(
        store.load(run.run()).await.unwrap().unwrap().lease.worker,
        None
    );
}

async fn an_unclear_append_that_another_writer_beat_is_a_conflict(db: &impl Subject) {
    let (store, other) = (db.store().await, db.store().await);
    let run = Timeline::started("one", &store).await;
    let winner = run.say(other.now(), "the other was first");
    let handle = tokio::runtime::Handle::current();
    let race = Arc::new(Mutex::new(Some((other.clone(), winner))));
    store.hook(move |window, _| {
        let race = match window {
            Window::BeforeCommit => None,
            Window::AfterCommit => race.lock().unwrap().take(),
        };
        let Some((other, winner)) = race else {
            return Then::Proceed;
        };
        // The loser has conflicted by now or will; either way its answer is lost.
        let handle = handle.clone();
        std::thread::spawn(move || handle.block_on(other.append(winner)))
            .join()
            .unwrap()
            .unwrap_err();
        Then::LoseConnection
    });
    // Here ours commits first, and the other one conflicts.
    store.append(run.say(store.now(), "ours")).await.unwrap();
    store.unhook();

    // And the other way round: ours never commits, the other one does.
    let mut run = run;
    let stored = store.load(run.run()).await.unwrap().unwrap();
    run.head = *stored.state.head();
    run.row.seq = run.head.seq;
    let winner = run.say(other.now(), "the other is first");
    other.append(winner).await.unwrap();
    lose(&store, db, Window::AfterCommit, 1);
    assert!(is_conflict(
        &store.append(run.say(store.now(), "beaten")).await
    ));
}

async fn an_unclear_start_with_a_key_is_its_own(db: &impl Subject) {
    let store = db.store().await;
    store
        .append(Timeline::new("zero").start(store.now()))
        .await
        .unwrap();
    lose(&store, db, Window::AfterCommit, 1);
    let one = Timeline::new("one").start_with_key(store.now(), "k", "d");
    store.append(one).await.unwrap();
    lose(&store, db, Window::AfterCommit, 1);
    let two = Timeline::new("two").start_with_key(store.now(), "k", "d");
    match store.append(two).await {
        Err(AppendError::DuplicateStart { existing, .. }) => {
            assert_eq!(existing.as_str(), "run_one");
        }
        other => panic!("{other:?}"),
    }
}

async fn a_group_is_settled_member_by_member(db: &impl Subject) {
    let store = db.store().await;
    let worker = store.register("a").await;
    let mut runs = Vec::new();
    for n in 0..12 {
        runs.push(Timeline::started(&format!("r{n:02}"), &store).await);
    }
    for window in [Window::AfterCommit, Window::BeforeCommit] {
        lose(&store, db, window, 1);
        let appends = runs.iter().enumerate().map(|(n, run)| match n {
            3 => run.next(
                store.now(),
                LeaseChange::Hold { epoch: 9 },
                vec![message("x")],
            ),
            5 if run.head.seq == 1 => run.next(store.now(), claim(&worker, 0), vec![message("x")]),
            _ => run.say(store.now(), "x"),
        });
        let appends: Vec<_> = appends.collect();
        let results =
            futures::future::join_all(appends.iter().map(|append| store.append(append.clone())))
                .await;
        for (n, (result, append)) in results.iter().zip(&appends).enumerate() {
            if n == 3 {
                assert!(is_conflict(result), "{result:?}");
            } else {
                assert!(result.is_ok(), "{n}: {result:?}");
                runs[n].took(append);
            }
        }
    }
    for run in &runs {
        let loaded = store.load(run.run()).await.unwrap().unwrap();
        assert_eq!(loaded.state.head(), &run.head);
    }
}

/// The answer is an error that says so, and nothing is half done.
async fn an_append_whose_answers_are_all_lost_is_given_up(db: &impl Subject) {
    let store = db.store().await;
    let run = Timeline::started("one", &store).await;
    store.hook(|window, _| match window {
        Window::BeforeCommit => Then::LoseConnection,
        Window::AfterCommit => Then::Proceed,
    });
    let append = run.say(store.now(), "away");
    let result = store.append(append.clone()).await;
    assert!(
        matches!(result, Err(AppendError::Unavailable(_))),
        "{result:?}"
    );
    store.unhook();
    assert_eq!(store.load(run.run()).await.unwrap().unwrap().state.seq(), 1);
    store.append(append).await.unwrap();
}

/// Whoever was answered "unavailable" may have been written. The same append again finds itself, with
/// steps or without: it does not conflict with what it did.
async fn an_append_that_was_given_up_and_took_effect_is_found_when_it_comes_again(
    db: &impl Subject,
) {
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let worker = store.register("a").await;
    let mut bare = run.next(store.now(), claim(&worker, 0), Vec::new());
    assert_eq!(store.append(bare.clone()).await.unwrap().epoch, 1);
    assert!(is_conflict(&store.append(bare.clone()).await));
    bare.again = true;
    assert_eq!(store.append(bare).await.unwrap().epoch, 1);

    let mut held = run.next(
        store.now(),
        LeaseChange::Hold { epoch: 1 },
        vec![message("held")],
    );
    run.write(&store, held.clone()).await.unwrap();
    held.again = true;
    assert_eq!(store.append(held).await.unwrap().epoch, 1);
    assert_eq!(store.load(run.run()).await.unwrap().unwrap().state.seq(), 2);
}

/// While Postgres is away everything says so, and when it is back everything works by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_goes_away_and_comes_back_needs_no_restart() {
    let db = TestDatabase::new(Kind::Postgres).await;
    let store = db
        .store_with(StoreConfig {
            patience: Duration::from_millis(300),
            ..StoreConfig::default()
        })
        .await;
    let mut run = Timeline::started("one", &store).await;
    let (server, name) = (std::env::var("SAYSO_TEST_POSTGRES").unwrap(), db.url());
    let name = name.rsplit('/').next().unwrap().split('?').next().unwrap();
    let mut admin = sqlx::PgConnection::connect(&server).await.unwrap();
    let mut say = async |sql: String| {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut admin)
            .await
            .unwrap();
    };
    say(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await;
    say(format!(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
    ))
    .await;

    let append = run.say(store.now(), "away");
    let result = store.append(append.clone()).await;
    assert!(
        matches!(result, Err(AppendError::Unavailable(_))),
        "{result:?}"
    );
    let result = store.load(run.run()).await;
    assert!(
        matches!(result, Err(LoadError::Unavailable(_))),
        "{result:?}"
    );
    let error = store.ping().await.unwrap_err();
    assert_eq!(error.code(), "database.unavailable", "{error:?}");
    let error = Store::open(db.url(), StoreConfig::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "database.unavailable", "{error:?}");
    assert!(error.is_retryable());

    say(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await;
    run.write(&store, append).await.unwrap();
    assert_eq!(store.load(run.run()).await.unwrap().unwrap().state.seq(), 2);
    store.ping().await.unwrap();
}

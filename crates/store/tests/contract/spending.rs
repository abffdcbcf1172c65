//! What models cost, and the caps (S4.6).

use sayso_driver::{Append, Journal, LeaseChange, UsageRow};
use sayso_run::{Money, Month, Timestamp, Usage, WorkerId};
use sayso_store::Store;
use sayso_store::testing::TestDatabase;

use crate::on_both_databases;
use crate::timeline::{Timeline, alice, is_conflict, namespace};

on_both_databases!(
    what_is_spent_is_added_with_the_append_and_never_without,
    a_cap_counts_its_own_month_and_currency,
    being_near_a_cap_is_told_once_a_month,
);

fn money(text: &str) -> Money {
    text.parse().unwrap()
}

fn spending(run: &Timeline, at: Timestamp, worker: &str, spent: Option<&str>) -> Append {
    let usage = UsageRow {
        namespace: namespace(),
        month: Month::of(at),
        worker: WorkerId::new(worker).unwrap(),
        spent: spent.map(money),
        tokens: Usage {
            input: 10,
            cached: 4,
            output: 3,
        },
    };
    Append {
        usage: vec![usage],
        ..run.say(at, "x")
    }
}

async fn months(store: &Store) -> Vec<(Option<Money>, u64, u64)> {
    let spent = store.budgets().spent(&namespace(), 12).await.unwrap();
    let months = spent.into_iter();
    months
        .map(|month| (month.spent, month.answers, month.tokens_input))
        .collect()
}

/// B59: concurrent appends of one worker and of others add up; one that conflicts adds nothing.
async fn what_is_spent_is_added_with_the_append_and_never_without(db: &TestDatabase) {
    let store = db.store().await;
    let mut runs = Vec::new();
    for at in 0..12 {
        runs.push(Timeline::started(&format!("run-{at}"), &store).await);
    }
    let appends = runs.iter().enumerate().map(|(at, run)| {
        let worker = ["w1", "w2"][at % 2];
        store.append(spending(run, store.now(), worker, Some("0.30 USD")))
    });
    for appended in futures::future::join_all(appends).await {
        appended.unwrap();
    }
    assert_eq!(months(&store).await, [(Some(money("3.60 USD")), 12, 120)]);
    // The same again is at a sequence number that has passed.
    let stale = store
        .append(spending(&runs[0], store.now(), "w1", Some("5 USD")))
        .await;
    assert!(is_conflict(&stale), "{stale:?}");
    let unheld = Append {
        lease: LeaseChange::Hold { epoch: 9 },
        ..spending(&runs[1], store.now(), "w2", Some("5 USD"))
    };
    assert!(is_conflict(&store.append(unheld).await));
    assert_eq!(months(&store).await, [(Some(money("3.60 USD")), 12, 120)]);
}

async fn a_cap_counts_its_own_month_and_currency(db: &TestDatabase) {
    let store = db.store().await;
    let (ns, now) = (namespace(), store.now());
    assert_eq!(store.budgets().standing(&ns, now).await.unwrap(), None);
    let before = store
        .budgets()
        .set(&ns, money("1 USD"), &alice())
        .await
        .unwrap();
    assert_eq!(before, None);
    let mut run = Timeline::started("one", &store).await;
    for spent in [Some("0.30 USD"), Some("7 EUR"), None] {
        let append = spending(&run, now, "w1", spent);
        run.write(&store, append).await.unwrap();
    }
    let standing = store.budgets().standing(&ns, now).await.unwrap().unwrap();
    assert_eq!(
        (standing.cap, standing.spent),
        (money("1 USD"), money("0.30 USD"))
    );
    assert_eq!(standing.resets_at, Month::of(now).end());
    assert!(!standing.is_met());
    let append = spending(&run, now, "w2", Some("0.70 USD"));
    run.write(&store, append).await.unwrap();
    let standing = |at| {
        let store = &store;
        let ns = &ns;
        async move { store.budgets().standing(ns, at).await.unwrap().unwrap() }
    };
    assert!(standing(now).await.is_met());
    let next = standing(Month::of(now).end()).await;
    assert_eq!((next.spent, next.is_met()), (money("0 USD"), false));
    assert_eq!(months(&store).await.len(), 3);
    let removed = store.budgets().remove(&ns).await.unwrap().unwrap();
    assert_eq!((removed.cap, removed.set_by), (money("1 USD"), alice()));
    assert_eq!(store.budgets().standing(&ns, now).await.unwrap(), None);
}

async fn being_near_a_cap_is_told_once_a_month(db: &TestDatabase) {
    let stores = [db.store().await, db.store().await];
    let store = &stores[0];
    let (ns, now) = (namespace(), store.now());
    store
        .budgets()
        .set(&ns, money("1 USD"), &alice())
        .await
        .unwrap();
    let mut run = Timeline::started("one", store).await;
    let append = spending(&run, now, "w1", Some("0.79 USD"));
    run.write(store, append).await.unwrap();
    assert_eq!(store.budgets().take_near(now).await.unwrap(), []);
    let append = spending(&run, now, "w1", Some("0.01 USD"));
    run.write(store, append).await.unwrap();
    let asked = stores
        .iter()
        .map(|store| async { store.budgets().take_near(now).await.unwrap() });
    let told: Vec<_> = futures::future::join_all(asked).await.concat();
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].cap, told[0].spent),
        (money("1 USD"), money("0.80 USD"))
    );
    assert_eq!(store.budgets().take_near(now).await.unwrap(), []);
}

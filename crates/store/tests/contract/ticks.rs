//! Ticks of schedules: one start takes one (S8.5).

use sayso_driver::{Append, AppendError, Journal, TakenTick};
use sayso_rules::Bundle;
use sayso_run::{AgentName, RevisionId, Timestamp};
use sayso_store::testing::TestDatabase;
use sayso_store::{Deploy, ScheduleRow, Store};

use crate::on_both_databases;
use crate::timeline::{Timeline, alice, is_conflict, namespace};

on_both_databases!(
    one_start_takes_a_tick_however_many_try,
    a_start_whose_tick_is_gone_leaves_its_neighbours_alone,
    a_deploy_and_a_start_never_take_the_same_tick,
);

fn desk() -> AgentName {
    AgentName::new("support-desk").unwrap()
}

fn deploy(triggers: &str) -> Deploy {
    let text = format!("name: support-desk\ntriggers: {triggers}");
    let bundle = Bundle::parse(&text).unwrap();
    Deploy {
        namespace: namespace(),
        agent: desk(),
        revision: RevisionId::new(bundle.revision_hash()).unwrap(),
        bundle: bundle.to_canonical_json(),
        role: None,
        triggers: bundle.triggers,
        by: alice(),
    }
}

async fn schedule(store: &Store) -> ScheduleRow {
    let mut all = store
        .schedules()
        .of_agent(&namespace(), &desk())
        .await
        .unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn taking(name: &str, at: Timestamp, schedule: &ScheduleRow) -> Append {
    Append {
        tick: Some(TakenTick {
            schedule: schedule.id.clone(),
            due_at: schedule.next_at,
            next_at: schedule.next_at.plus_micros(60_000_000),
            skipped: 2,
        }),
        ..Timeline::new(name).start(at)
    }
}

/// B55: forty starts from two processes, one run.
async fn one_start_takes_a_tick_however_many_try(db: &TestDatabase) {
    let stores = [db.store().await, db.store().await];
    stores[0]
        .agents()
        .deploy(&deploy("[{cron: '* * * * *', input: x}]"))
        .await
        .unwrap();
    let before = schedule(&stores[0]).await;
    let appends = (0..40).map(|at| {
        let store = &stores[at % 2];
        store.append(taking(&format!("tick-{at}"), store.now(), &before))
    });
    let answers = futures::future::join_all(appends).await;
    let taken = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(taken, 1, "{answers:?}");
    let conflicts = answers.iter().filter(|answer| is_conflict(answer)).count();
    assert_eq!(conflicts, 39);
    let after = schedule(&stores[0]).await;
    assert_eq!(after.next_at.micros(), before.next_at.micros() + 60_000_000);
    assert_eq!((after.last_at, after.skipped), (Some(before.next_at), 2));
}

async fn a_start_whose_tick_is_gone_leaves_its_neighbours_alone(db: &TestDatabase) {
    let store = db.store().await;
    let everyday = deploy("[{cron: '* * * * *', input: x}]");
    store.agents().deploy(&everyday).await.unwrap();
    let stood = schedule(&store).await;
    store
        .append(taking("first", store.now(), &stood))
        .await
        .unwrap();
    let (late, plain) = tokio::join!(
        store.append(taking("late", store.now(), &stood)),
        store.append(Timeline::new("plain").start(store.now())),
    );
    assert!(is_conflict(&late), "{late:?}");
    plain.unwrap();
    let loaded = store.load(Timeline::new("late").run()).await.unwrap();
    assert!(loaded.is_none());
    let mut keyed = Timeline::new("keyed").start_with_key(store.now(), "k", "r");
    keyed.tick = taking("keyed", store.now(), &stood).tick;
    let refused = store.append(keyed).await;
    assert!(
        matches!(refused, Err(AppendError::Refused(_))),
        "{refused:?}"
    );
}

/// S8.5: whether the deploy or the start comes first, the tick is taken once.
async fn a_deploy_and_a_start_never_take_the_same_tick(db: &TestDatabase) {
    let stores = [db.store().await, db.store().await];
    for round in 0..20 {
        let minutely = deploy(&format!("[{{cron: '* * * * *', input: 'a {round}'}}]"));
        stores[0].agents().deploy(&minutely).await.unwrap();
        let stood = schedule(&stores[0]).await;
        let other = deploy(&format!("[{{cron: '* * * * *', input: 'b {round}'}}]"));
        let (started, deployed) = tokio::join!(
            stores[1].append(taking(&format!("round-{round}"), stores[1].now(), &stood)),
            async { stores[0].agents().deploy(&other).await },
        );
        deployed.unwrap();
        started.unwrap();
        let again = stores[1].append(taking(&format!("again-{round}"), stores[1].now(), &stood));
        assert!(is_conflict(&again.await), "the deploy put the tick back");
    }
}

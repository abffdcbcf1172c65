//! The audit log (S10.8).

use sayso_run::{Actor, Namespace};
use sayso_store::testing::TestDatabase;
use sayso_store::{AuditError, NewAuditEntry, PageRequest};
use serde_json::json;

use crate::on_both_databases;
use crate::raw::Raw;
use crate::timeline::{alice, key, keys, namespace};

on_both_databases!(
    entries_are_chained_however_many_write_at_once,
    a_changed_or_missing_entry_is_named,
);

fn entry(n: usize) -> NewAuditEntry {
    NewAuditEntry {
        actor: Actor::Principal(alice()),
        kind: "decision.refused".into(),
        content: json!({ "approval": format!("apr_{n}"), "code": "approval.own_request" }),
    }
}

async fn entries_are_chained_however_many_write_at_once(db: &TestDatabase) {
    let stores = [db.store().await, db.store().await];
    stores[0].namespaces().ensure(&namespace()).await.unwrap();
    let writes = (0..24).map(|n| {
        let store = stores[n % 2].clone();
        async move {
            store
                .audit()
                .append(&namespace(), &entry(n), &key())
                .await
                .unwrap()
        }
    });
    let mut seqs = futures::future::join_all(writes).await;
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=24).collect::<Vec<u64>>());
    let head = stores[0]
        .audit()
        .verify(&namespace(), &keys())
        .await
        .unwrap();
    assert_eq!(head.seq, 24);
    let request = PageRequest {
        size: 20,
        token: None,
    };
    let page = stores[1]
        .audit()
        .list(&namespace(), &request)
        .await
        .unwrap();
    assert_eq!(page.items[0].seq, 24);
    assert_eq!(page.items[0].kind, "decision.refused");
    let request = PageRequest {
        size: 20,
        token: page.next,
    };
    let page = stores[1]
        .audit()
        .list(&namespace(), &request)
        .await
        .unwrap();
    assert_eq!(page.items.last().unwrap().seq, 1);

    // Each namespace has its own chain, and there is none without a namespace.
    let other = Namespace::new("other").unwrap();
    let nowhere = stores[0].audit().append(&other, &entry(0), &key()).await;
    assert!(
        matches!(nowhere, Err(AuditError::NoNamespace(_))),
        "{nowhere:?}"
    );
    stores[0].namespaces().ensure(&other).await.unwrap();
    assert_eq!(
        stores[0]
            .audit()
            .append(&other, &entry(0), &key())
            .await
            .unwrap(),
        1
    );
}

async fn a_changed_or_missing_entry_is_named(db: &TestDatabase) {
    let store = db.store().await;
    store.namespaces().ensure(&namespace()).await.unwrap();
    for n in 0..5 {
        store
            .audit()
            .append(&namespace(), &entry(n), &key())
            .await
            .unwrap();
    }
    let broken = async || match store.audit().verify(&namespace(), &keys()).await {
        Err(AuditError::Broken(broken)) => broken,
        other => panic!("{other:?}"),
    };
    let mut raw = Raw::open(db).await;
    raw.execute("DELETE FROM audit WHERE seq = 5").await;
    assert_eq!(broken().await.seq, 5);
    raw.execute("UPDATE audit SET actor = 'principal:mallory' WHERE seq = 4")
        .await;
    assert_eq!(broken().await.seq, 4);
    raw.execute("UPDATE audit SET content = '{}' WHERE seq = 2")
        .await;
    assert_eq!(broken().await.seq, 2);
    raw.execute("UPDATE audit SET seal = hash WHERE seq = 1")
        .await;
    assert_eq!(broken().await.seq, 1);
}

//! The views for people who query Postgres by hand.

use sayso_driver::Journal;
use sayso_store::Kind;
use sayso_store::testing::TestDatabase;

use crate::raw::Raw;
use crate::timeline::{Timeline, key, namespace};

/// Every view reads, also where a content holds an escaped NUL, which jsonb cannot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_show_times_and_contents_whatever_was_said() {
    let db = TestDatabase::new(Kind::Postgres).await;
    let store = db.store().await;
    let mut run = Timeline::started("one", &store).await;
    let now = store.now();
    let mut append = run.say(now, "a \0 in it, and \\u0000 spelled out");
    append.actions = vec![run.action(1, now)];
    append.approvals = vec![run.approval(now, now)];
    append.feedback = vec![run.feedback(now)];
    run.write(&store, append).await.unwrap();
    store.namespaces().ensure(&namespace()).await.unwrap();
    let entry = sayso_store::NewAuditEntry {
        actor: sayso_run::Actor::System,
        kind: "test".into(),
        content: serde_json::json!({ "text": "a \0 in it" }),
    };
    store
        .audit()
        .append(&namespace(), &entry, &key())
        .await
        .unwrap();

    let mut raw = Raw::open(&db).await;
    for (view, rows, columns) in [
        ("runs_view", 1, "input, created_at - INTERVAL '1 second'"),
        ("steps_view", 2, "content -> 'text', at"),
        ("actions_view", 1, "status, updated_at"),
        ("approvals_view", 1, "tool, expires_at"),
        ("feedback_view", 1, "score + 0.5, at"),
        ("audit_view", 1, "kind, content"),
    ] {
        let sql = format!("SELECT COUNT(*) FROM (SELECT {columns} FROM {view}) all_rows");
        assert_eq!(raw.count(&sql).await, rows, "{view}");
    }
    let shown = raw.count("SELECT COUNT(content) FROM steps_view").await;
    assert_eq!(shown, 1, "the other one has no jsonb form");
    let close = "SELECT COUNT(*) FROM steps_view WHERE ABS(EXTRACT(EPOCH FROM now() - at)) < 3600";
    assert_eq!(raw.count(close).await, 2);
}

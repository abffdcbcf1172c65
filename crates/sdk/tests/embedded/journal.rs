//! Where runs live.

use sayso_sdk::embedded::{Decision, Journal, Start};
use sayso_sdk::v1::RunStatus;

use super::approvals::held;
use super::{CLERK, SCRIPT, Shop, clerk, id, kinds, verified};

/// S6.9, S6.14: a run that waits is decided by the next process, and what ran runs no more.
#[tokio::test]
async fn s6_14_a_run_outlives_its_process() {
    let (folder, shop) = (tempfile::tempdir().unwrap(), Shop::default());
    let agent = || {
        let journal = Journal::sqlite(folder.path().join("agent.db"));
        clerk(CLERK, SCRIPT, &shop).journal(journal)
    };
    let first = agent().on_approval("desk-lead", |_| std::future::pending::<Decision>());
    let first = first.build().await.unwrap();
    let run = first
        .start(Start::new("Refund order A-17").by("alice"))
        .await
        .unwrap();
    held(&first, &run).await;
    assert_eq!(first.approvals().await.unwrap().len(), 1);
    first.stop().await;
    let stopped = first.start("more").await.unwrap_err();
    assert_eq!(stopped.code(), "agent.stopped");
    drop(first);

    let second = agent().on_approval("desk-lead", |_| async { Decision::approve() });
    let second = second.build().await.unwrap();
    let resumed = second.resume().await.unwrap();
    assert!(
        resumed.is_empty() || resumed == [run.clone()],
        "{resumed:?}"
    );
    let ended = second.finish(&run).await.unwrap();
    assert_eq!(
        (ended.status(), ended.output()),
        (RunStatus::Completed, "Refunded.")
    );
    assert_eq!(shop.done(), ["get", "refund \"A-17\""]);
    assert!(verified(&second, &run).await);
    assert!(second.resume().await.unwrap().is_empty());
}

/// S1.3: a run keeps the revision that it was started with, although the process brings another one.
#[tokio::test]
async fn s1_3_a_live_run_keeps_its_revision() {
    let (folder, shop) = (tempfile::tempdir().unwrap(), Shop::default());
    let agent = |bundle: &str| {
        let journal = Journal::sqlite(folder.path().join("agent.db"));
        clerk(bundle, SCRIPT, &shop).journal(journal)
    };
    let first = agent(CLERK).on_approval("desk-lead", |_| std::future::pending::<Decision>());
    let first = first.build().await.unwrap();
    let run = first.start("Refund order A-17").await.unwrap();
    held(&first, &run).await;
    first.stop().await;
    drop(first);
    let strict = CLERK.replace("action: ask", "action: deny");
    let second = agent(&strict).on_approval("desk-lead", |_| async { Decision::approve() });
    let second = second.build().await.unwrap();
    assert_eq!(second.finish(&run).await.unwrap().output(), "Refunded.");
    let later = second.run("Refund order A-17").await.unwrap();
    let kinds = kinds(&second, &id(&later)).await;
    assert!(kinds.contains(&"tool_denied".to_owned()), "{kinds:?}");
    assert_eq!(shop.done(), ["get", "refund \"A-17\"", "get"]);
}

/// A file belongs to one agent at a time, and its key to the file.
#[tokio::test]
async fn a_journal_is_one_agents_and_keeps_its_key() {
    let (folder, shop) = (tempfile::tempdir().unwrap(), Shop::default());
    let path = folder.path().join("agent.db");
    let agent = || clerk(CLERK, SCRIPT, &shop).journal(Journal::sqlite(&path));
    let first = agent().build().await.unwrap();
    let run = first.run("Refund order A-17").await.unwrap();
    assert_eq!(agent().build().await.unwrap_err().code(), "journal.in_use");
    first.stop().await;
    drop(first);

    let key = folder.path().join("agent.db.key");
    let secret = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    assert_eq!(
        agent().build().await.unwrap_err().code(),
        "journal.key_missing"
    );
    let given = Journal::sqlite(&path).chain_key(secret.try_into().unwrap());
    let second = clerk(CLERK, SCRIPT, &shop)
        .journal(given)
        .build()
        .await
        .unwrap();
    assert!(verified(&second, &id(&run)).await);
}

/// S1.1: the same key gets the same run.
#[tokio::test]
async fn s1_1_a_key_makes_one_run() {
    let agent = clerk(CLERK, SCRIPT, &Shop::default())
        .build()
        .await
        .unwrap();
    let start = || Start::new("Refund order A-17").by("alice").key("order-17");
    let first = agent.start(start()).await.unwrap();
    assert_eq!(agent.start(start()).await.unwrap(), first);
    let other = Start::new("Refund order A-18").by("alice").key("order-17");
    assert_eq!(
        agent.start(other).await.unwrap_err().code(),
        "request.key_reused"
    );
}

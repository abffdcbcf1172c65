//! Pages of lists.

use std::collections::BTreeSet;

use sayso_driver::{ApprovalStatus, Journal};
use sayso_run::{PrincipalId, Status, Timestamp};
use sayso_store::testing::TestDatabase;
use sayso_store::{ApprovalFilter, ListError, PageRequest, RunFilter, Store};

use crate::on_both_databases;
use crate::timeline::{Timeline, alice, namespace};

on_both_databases!(
    approvals_of_one_moment_are_each_seen_once_both_ways,
    runs_of_one_moment_are_each_seen_once,
    a_malformed_page_token_is_refused,
    runs_are_filtered,
    approvals_are_filtered,
    sizes_have_a_default_and_a_limit,
);

async fn pending(store: &Store, name: &str, at: Timestamp) -> Timeline {
    let mut run = Timeline::started(name, store).await;
    let mut append = run.say(at, "ask");
    append.approvals = vec![run.approval(at, at.plus_micros(60_000_000))];
    append.row.status = Status::AwaitingApproval;
    run.write(store, append).await.unwrap();
    run
}

fn four(token: Option<String>) -> PageRequest {
    PageRequest { size: 4, token }
}

/// B53: 15 approvals with one timestamp, pages of 4, forward and backward, while new ones come in.
async fn approvals_of_one_moment_are_each_seen_once_both_ways(db: &TestDatabase) {
    let store = db.store().await;
    let at = store.now();
    let mut made = BTreeSet::new();
    for n in 0..15 {
        pending(&store, &format!("r{n}"), at).await;
        made.insert(format!("run_r{n}"));
    }
    let filter = ApprovalFilter::default();
    let page = async |token| {
        store
            .approvals()
            .list(&namespace(), &filter, &four(token))
            .await
            .unwrap()
    };

    let (mut forward, mut token) = (Vec::new(), None);
    let mut last = loop {
        let page = page(token).await;
        assert!(!page.items.is_empty(), "no empty page");
        forward.extend(page.items.iter().map(|row| row.run.as_str().to_owned()));
        // New ones come in before the first page.
        let n = forward.len();
        pending(&store, &format!("new{n}"), at.plus_micros(1 + n as i64)).await;
        match page.next.clone() {
            Some(next) => token = Some(next),
            None => break page,
        }
    };
    assert_eq!(forward.len(), 15, "{forward:?}");
    assert_eq!(forward.iter().cloned().collect::<BTreeSet<_>>(), made);

    let mut backward: Vec<String> = Vec::new();
    loop {
        let mut items: Vec<String> = last
            .items
            .iter()
            .map(|row| row.run.as_str().to_owned())
            .collect();
        assert!(!items.is_empty(), "no empty page");
        items.append(&mut backward);
        backward = items;
        match last.previous.clone() {
            Some(previous) => last = page(Some(previous)).await,
            None => break,
        }
    }
    let old: Vec<String> = backward
        .into_iter()
        .filter(|run| made.contains(run))
        .collect();
    assert_eq!(old, forward, "the same order, each once");
}

async fn runs_of_one_moment_are_each_seen_once(db: &TestDatabase) {
    let store = db.store().await;
    let at = store.now();
    for n in 0..9 {
        let start = Timeline::new(&format!("r{n}")).start(at);
        store.append(start).await.unwrap();
    }
    let (mut seen, mut token) = (BTreeSet::new(), None);
    loop {
        let filter = RunFilter::default();
        let page = store
            .runs()
            .list(&namespace(), &filter, &four(token))
            .await
            .unwrap();
        for row in &page.items {
            assert!(seen.insert(row.run.clone()), "{} came twice", row.run);
        }
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 9);
}

async fn a_malformed_page_token_is_refused(db: &TestDatabase) {
    let store = db.store().await;
    for n in 0..6 {
        pending(&store, &format!("r{n}"), store.now()).await;
    }
    let runs = store
        .runs()
        .list(&namespace(), &RunFilter::default(), &four(None))
        .await
        .unwrap();
    for token in ["nonsense".to_owned(), String::new(), runs.next.unwrap()] {
        let error = store
            .approvals()
            .list(&namespace(), &ApprovalFilter::default(), &four(Some(token)))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "page.malformed", "{error:?}");
    }
    let filter = ApprovalFilter {
        tool: Some("a\0b".into()),
        ..ApprovalFilter::default()
    };
    let error = store
        .approvals()
        .list(&namespace(), &filter, &four(None))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "request.invalid_text");
    assert!(matches!(error, ListError::Database(_)));
}

/// S1.7: lists filter by status, `ended_by`, agent, requester and time.
async fn runs_are_filtered(db: &TestDatabase) {
    let store = db.store().await;
    let start = store.now();
    let mut done = Timeline::started("done", &store).await;
    let mut append = done.say(store.now(), "x");
    append.row.status = Status::Completed;
    append.row.ended_by = Some(sayso_run::EndedBy::MaxCycles);
    append.row.ended_at = Some(store.now());
    append.row.output = Some("too big".into());
    done.write(&store, append).await.unwrap();
    let mut other = Timeline::new("other");
    other.row.principal = PrincipalId::new("carol").unwrap();
    let append = other.start(store.now());
    other.write(&store, append).await.unwrap();

    let list = async |filter: RunFilter| {
        let page = store
            .runs()
            .list(&namespace(), &filter, &PageRequest::default())
            .await
            .unwrap();
        page.items
            .into_iter()
            .map(|row| row.run.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    let all = RunFilter::default;
    assert_eq!(list(all()).await, ["run_other", "run_done"]);
    let live = vec![Status::Pending, Status::Running];
    assert_eq!(
        list(RunFilter {
            statuses: live,
            ..all()
        })
        .await,
        ["run_other"]
    );
    let ended = vec![Status::Completed, Status::Failed];
    assert_eq!(
        list(RunFilter {
            statuses: ended,
            ..all()
        })
        .await,
        ["run_done"]
    );
    let by = Some(sayso_run::EndedBy::MaxCycles);
    assert_eq!(
        list(RunFilter {
            ended_by: by,
            ..all()
        })
        .await,
        ["run_done"]
    );
    let by = Some(sayso_run::EndedBy::Answer);
    assert!(
        list(RunFilter {
            ended_by: by,
            ..all()
        })
        .await
        .is_empty()
    );
    assert_eq!(
        list(RunFilter {
            requester: Some(alice()),
            ..all()
        })
        .await,
        ["run_done"]
    );
    let agent = Some(other.row.agent.clone());
    assert_eq!(list(RunFilter { agent, ..all() }).await.len(), 2);
    assert_eq!(
        list(RunFilter {
            since: Some(start),
            ..all()
        })
        .await
        .len(),
        2
    );
    assert!(
        list(RunFilter {
            until: Some(start),
            ..all()
        })
        .await
        .is_empty()
    );
    let heads = store
        .runs()
        .heads(&[done.run().clone(), other.run().clone()])
        .await
        .unwrap();
    assert_eq!(heads.iter().map(|(_, seq)| seq).sum::<u64>(), 3);
}

async fn approvals_are_filtered(db: &TestDatabase) {
    let store = db.store().await;
    let at = store.now();
    let one = pending(&store, "one", at).await;
    let mut two = pending(&store, "two", at.plus_micros(1_000_000)).await;
    let mut decided = two.approval(at, at.plus_micros(60_000_000));
    decided.status = ApprovalStatus::Approved;
    decided.decided_by = Some(crate::timeline::bob());
    decided.decided_at = Some(store.now());
    let mut append = two.say(store.now(), "approve");
    append.approvals = vec![decided];
    two.write(&store, append).await.unwrap();

    let list = async |filter: ApprovalFilter| {
        let page = store
            .approvals()
            .list(&namespace(), &filter, &PageRequest::default())
            .await
            .unwrap();
        page.items
            .into_iter()
            .map(|row| row.run.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    let all = ApprovalFilter::default;
    let only = |status| ApprovalFilter {
        statuses: vec![status],
        ..all()
    };
    assert_eq!(list(all()).await, ["run_two", "run_one"]);
    assert_eq!(list(only(ApprovalStatus::Pending)).await, ["run_one"]);
    assert_eq!(list(only(ApprovalStatus::Approved)).await, ["run_two"]);
    let run = Some(one.run().clone());
    assert_eq!(list(ApprovalFilter { run, ..all() }).await, ["run_one"]);
    assert_eq!(
        list(ApprovalFilter {
            requester: Some(alice()),
            ..all()
        })
        .await
        .len(),
        2
    );
    let tool = Some("shop.refund".to_owned());
    assert_eq!(list(ApprovalFilter { tool, ..all() }).await.len(), 2);
    let agent = Some(one.row.agent.clone());
    assert_eq!(list(ApprovalFilter { agent, ..all() }).await.len(), 2);
    let expires_before = Some(at.plus_micros(60_500_000));
    assert_eq!(
        list(ApprovalFilter {
            expires_before,
            ..all()
        })
        .await,
        ["run_one"]
    );
}

async fn sizes_have_a_default_and_a_limit(db: &TestDatabase) {
    let store = db.store().await;
    let at = store.now();
    let starts = (0..60).map(|n| store.append(Timeline::new(&format!("r{n}")).start(at)));
    for started in futures::future::join_all(starts).await {
        started.unwrap();
    }
    let list = async |size| {
        let request = PageRequest { size, token: None };
        store
            .runs()
            .list(&namespace(), &RunFilter::default(), &request)
            .await
            .unwrap()
    };
    assert_eq!(list(0).await.items.len(), 50);
    let whole = list(u32::MAX).await;
    assert_eq!(
        (whole.items.len(), whole.next, whole.previous),
        (60, None, None)
    );
}

//! Runs that agents start (S3.6): a child begins with its parent's append or not at all, and its end
//! waits until the parent takes it.

use sayso_driver::{Append, Journal, LeaseChange, Lineage, NewRun, Tree, Written, run_row};
use sayso_run::{
    AgentName, CallId, Cancelled, ChildStarted, Completion, EndedBy, Head, Recorded, RunId,
    RunState, Start, Step, TaskId, Trust, Usage,
};

use crate::on_all_databases;
use crate::subject::{Ledger, Subject};
use crate::timeline::{Timeline, is_conflict, key};

on_all_databases!(
    a_child_begins_with_its_parents_append_or_not_at_all,
    the_end_of_a_child_waits_until_it_is_taken,
    a_run_whose_parent_has_ended_is_found,
);

/// The append of a parent that starts a child, and the child.
async fn starting(store: &impl Journal, parent: &Timeline) -> (Append, RunId) {
    let state = store.load(parent.run()).await.unwrap().unwrap().state;
    let call = CallId::of(1, 1);
    let started = ChildStarted {
        child: RunId::of_child(parent.run(), &call),
        task: TaskId::of_child(parent.run(), &call),
        agent: AgentName::new("helper").unwrap(),
        revision: state.trigger().revision.clone(),
        input: "Look it up.".into(),
        trust: Trust::Untrusted,
        digest: sayso_run::CallDigest::of(
            parent.run(),
            &call,
            "start_agent",
            &sayso_run::Digest::ZERO,
            "{}",
        ),
        rule: Some("default".into()),
        approval: None,
        call,
    };
    let start = Start {
        run: started.child.clone(),
        trigger: state.child_trigger(&started),
    };
    let (actor, step) = start.decide().unwrap();
    let (recorded, content) =
        Recorded::chain(&Head::START, &start.run, store.now(), actor, step, &key());
    let child = RunState::begin(start.run.clone(), &recorded).unwrap();
    let mut append = parent.say(store.now(), "go on");
    append.tree.children.push(NewRun {
        row: run_row(&child),
        first: Written {
            recorded,
            content,
            view: None,
        },
    });
    (append, start.run)
}

/// S3.6: both are there, or neither is.
async fn a_child_begins_with_its_parents_append_or_not_at_all(db: &impl Subject) {
    let store = db.store().await;
    let mut parent = Timeline::started("parent", &store).await;
    let (append, child) = starting(&store, &parent).await;
    let other = parent.say(store.now(), "somebody was first");
    store.append(other.clone()).await.unwrap();
    assert!(is_conflict(&store.append(append).await));
    assert!(store.load(&child).await.unwrap().is_none());
    assert_eq!(store.row(&child).await, None);

    parent.took(&other);
    let (append, child) = starting(&store, &parent).await;
    parent.write(&store, append.clone()).await.unwrap();
    let begun = store.load(&child).await.unwrap().unwrap();
    assert_eq!(begun.state.trigger().input, "Look it up.");
    assert_eq!(begun.state.depth(), 1);
    assert!(begun.lease.ready_at.is_some() && begun.lease.worker.is_none());
    assert_eq!(begun.unpublished.len(), 1);
    let row = store.row(&child).await.unwrap();
    let task = parent.row.task.clone();
    assert_eq!(
        row.lineage,
        Some(Lineage {
            parent_run: parent.run().clone(),
            parent_task: task.clone(),
            root_run: parent.run().clone(),
            root_task: task,
        })
    );
    assert_eq!(
        Some(row),
        append.tree.children.into_iter().next().map(|new| new.row)
    );
    assert_eq!(
        store.live_children(parent.run()).await.unwrap(),
        std::slice::from_ref(&child)
    );
    store.verify(&child).await;
}

/// An append that ends a run, as a child of the other.
async fn ending(store: &impl Journal, child: &RunId, step: Step, parent: &RunId) -> Append {
    let mut state = store.load(child).await.unwrap().unwrap().state;
    let expected = state.seq();
    let (recorded, content) = Recorded::chain(
        state.head(),
        child,
        store.now(),
        sayso_run::Actor::System,
        step,
        &key(),
    );
    state.apply(&recorded).unwrap();
    let template = Timeline::new("any").say(store.now(), "x");
    Append {
        run: child.clone(),
        expected,
        steps: vec![Written {
            recorded,
            content,
            view: None,
        }],
        row: run_row(&state),
        tree: Tree {
            ends_child_of: Some(parent.clone()),
            ..Tree::default()
        },
        lease: LeaseChange::None,
        ..template
    }
}

/// S3.6: the sweep finds who has not taken it, and it is taken once.
async fn the_end_of_a_child_waits_until_it_is_taken(db: &impl Subject) {
    let store = db.store().await;
    let mut parent = Timeline::started("parent", &store).await;
    let (append, child) = starting(&store, &parent).await;
    parent.write(&store, append).await.unwrap();
    assert_eq!(store.ended_children(parent.run()).await.unwrap(), []);
    assert!(store.waiting_parents(10).await.is_empty());

    let completion = Step::Completion(Completion {
        output: "found".into(),
        ended_by: EndedBy::Answer,
        duration_micros: 1,
        usage: Usage::default(),
    });
    let end = ending(&store, &child, completion, parent.run()).await;
    store.append(end).await.unwrap();
    let ended = store.ended_children(parent.run()).await.unwrap();
    assert_eq!(ended.len(), 1);
    assert_eq!((&ended[0].run, ended[0].text.as_str()), (&child, "found"));
    assert_eq!(
        (ended[0].ended_by, ended[0].trust),
        (EndedBy::Answer, Trust::Untrusted)
    );
    let waiting = store.waiting_parents(10).await;
    assert_eq!(
        waiting.iter().map(|run| &run.run).collect::<Vec<_>>(),
        [parent.run()]
    );
    assert!(store.live_children(parent.run()).await.unwrap().is_empty());

    let mut taking = parent.say(store.now(), "taken");
    taking.tree.taken.push(child);
    parent.write(&store, taking).await.unwrap();
    assert_eq!(store.ended_children(parent.run()).await.unwrap(), []);
    assert!(store.waiting_parents(10).await.is_empty());
}

/// S1.4: nobody waits for it any more.
async fn a_run_whose_parent_has_ended_is_found(db: &impl Subject) {
    let store = db.store().await;
    let mut parent = Timeline::started("parent", &store).await;
    let (append, child) = starting(&store, &parent).await;
    parent.write(&store, append).await.unwrap();
    assert!(store.parentless(10).await.is_empty());
    let cancelled = || {
        Step::Cancelled(Cancelled {
            reason: None,
            idempotency: None,
        })
    };
    let mut end = ending(&store, parent.run(), cancelled(), parent.run()).await;
    end.tree = Tree::default();
    store.append(end).await.unwrap();
    let found = store.parentless(10).await;
    assert_eq!(
        found.iter().map(|run| &run.run).collect::<Vec<_>>(),
        [&child]
    );
    assert!(store.late_parents(10).await.is_empty());
    let end = ending(&store, &child, cancelled(), parent.run()).await;
    store.append(end).await.unwrap();
    assert!(store.parentless(10).await.is_empty() && store.waiting_parents(10).await.is_empty());
    let late = store.late_parents(10).await;
    assert_eq!(
        late.iter().map(|run| &run.run).collect::<Vec<_>>(),
        [parent.run()]
    );
}

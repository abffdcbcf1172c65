//! What an append does to the tree of delegation (S3.6).

use rusqlite::{Connection, Result, params};
use sayso_driver::{Append, NewRun};
use sayso_run::RunId;

use super::{rows, talk};
use crate::journal::check::trigger_of;

const TASK: &str = "INSERT INTO tasks (id, run, namespace, agent, source, input, principal, trust, \
    traceparent, created_at, parent, root) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

const RUN: &str = "INSERT INTO runs (id, task, namespace, agent, revision, principal, trust, \
    status, seq, cycles, retries, tokens_input, tokens_cached, tokens_output, created_at, \
    updated_at, open_calls, epoch, ready_at, published, parent, root, conversation) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, 0, 0, 0, 0, 0, ?9, ?9, 0, 0, ?9, 0, ?10, ?11, ?12)";

const END: &str = "INSERT INTO child_ends (child, parent) VALUES (?1, ?2) \
    ON CONFLICT (child) DO NOTHING";

const TAKE: &str = "DELETE FROM child_ends WHERE child = ?1";

pub(super) fn change(connection: &Connection, append: &Append) -> Result<()> {
    for child in &append.tree.children {
        begin(connection, append, child)?;
    }
    if let Some(parent) = &append.tree.ends_child_of {
        let end = params![append.run.as_str(), parent.as_str()];
        connection.prepare_cached(END)?.execute(end)?;
    }
    for child in append.tree.taken.iter().map(RunId::as_str) {
        connection.prepare_cached(TAKE)?.execute([child])?;
    }
    Ok(())
}

fn begin(connection: &Connection, append: &Append, child: &NewRun) -> Result<()> {
    let row = &child.row;
    let Some(trigger) = trigger_of(&child.first) else {
        return Ok(());
    };
    let parent = trigger.parent.as_deref();
    connection.prepare_cached(TASK)?.execute(params![
        row.task.as_str(),
        row.run.as_str(),
        row.namespace.as_str(),
        row.agent.as_str(),
        trigger.source.as_str(),
        row.input.as_str(),
        row.principal.as_str(),
        trigger.trust.as_str(),
        trigger.traceparent.as_deref(),
        row.created_at.micros(),
        parent.map(|parent| parent.task.as_str()),
        parent.map(|parent| parent.root_task.as_str()),
    ])?;
    connection.prepare_cached(RUN)?.execute(params![
        row.run.as_str(),
        row.task.as_str(),
        row.namespace.as_str(),
        row.agent.as_str(),
        row.revision.as_str(),
        row.principal.as_str(),
        row.trust.as_str(),
        row.status.as_str(),
        row.created_at.micros(),
        parent.map(|parent| parent.run.as_str()),
        parent.map(|parent| parent.root_run.as_str()),
        row.conversation.as_ref().map(|it| it.as_str()),
    ])?;
    if let Some(conversation) = &row.conversation {
        talk::go_on(connection, conversation, &row.run)?;
    }
    rows::insert_steps_of(
        connection,
        &row.run,
        std::slice::from_ref(&child.first),
        append.id,
    )
}

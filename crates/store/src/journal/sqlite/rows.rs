//! The one-row statements.

use rusqlite::{Connection, Result, params};
use sayso_driver::{Append, TakenTick, Written};
use sayso_run::{ApprovalId, Money, RunId};
use uuid::Uuid;

use crate::journal::deciders::{deciders, groups, origins, written};
use crate::journal::int;
use crate::journal::recipient::recipient;
use crate::record::time;

pub(super) const START_TASK: &str = "INSERT INTO tasks (id, run, namespace, agent, source, input, \
    principal, trust, start_key, start_request, traceparent, created_at, trigger_name) \
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 \
    WHERE ?14 IS NULL OR ?14 > {now} \
    ON CONFLICT DO NOTHING";

pub(super) const START_RUN: &str = "INSERT INTO runs (id, task, namespace, agent, revision, \
    principal, trust, status, seq, ended_by, output, error_code, error_message, cycles, retries, \
    tokens_input, tokens_cached, tokens_output, created_at, updated_at, ended_at, expires_at, \
    open_calls, epoch, worker, lease_append, ready_at, published, conversation) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
    ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)";

/// `?19` is the lease change: none, claim, hold, release, claim and release.
pub(super) const MOVE: &str = "UPDATE runs SET trust = ?3, status = ?4, seq = ?5, ended_by = ?6, \
    output = ?7, error_code = ?8, error_message = ?9, cycles = ?10, retries = ?11, \
    tokens_input = ?12, tokens_cached = ?13, tokens_output = ?14, updated_at = ?15, \
    ended_at = ?16, expires_at = ?17, open_calls = ?18, \
    epoch = epoch + CASE WHEN ?19 IN (1, 4) THEN 1 ELSE 0 END, \
    worker = CASE WHEN ?19 = 1 THEN ?21 WHEN ?19 IN (3, 4) THEN NULL ELSE worker END, \
    lease_append = CASE WHEN ?19 = 0 THEN lease_append ELSE ?22 END, \
    ready_at = CASE WHEN ?24 = 1 THEN ready_at ELSE ?23 END, \
    published = MAX(published, ?25), cost = ?27, currency = ?28 \
    WHERE id = ?1 AND seq = ?2 \
    AND (?19 = 0 OR (epoch = ?20 AND CASE WHEN ?19 IN (1, 4) \
    THEN worker IS NULL OR NOT EXISTS \
    (SELECT 1 FROM workers w WHERE w.id = runs.worker AND w.ended_at IS NULL) \
    ELSE worker IS NOT NULL END)) \
    AND (?26 IS NULL OR ?26 > {now}) \
    RETURNING epoch";

pub(super) const LOOK_AT_RUN: &str = "SELECT seq, epoch, worker IS NOT NULL, \
    EXISTS (SELECT 1 FROM workers w WHERE w.id = runs.worker AND w.ended_at IS NULL), \
    lease_append FROM runs WHERE id = ?1";

pub(super) const LOOK_AT_KEY: &str = "SELECT run, start_request FROM tasks \
    WHERE namespace = ?1 AND principal = ?2 AND start_key = ?3";

pub(super) const MARK: &str = "UPDATE runs SET published = MIN(?2, seq) \
    WHERE id = ?1 AND published < MIN(?2, seq)";

const TICK: &str = "UPDATE schedules SET next_at = ?3, last_at = ?2, skipped = skipped + ?4 \
    WHERE id = ?1 AND next_at = ?2";

const USAGE: &str = "INSERT INTO usage (namespace, month, worker, currency, spent, answers, \
    tokens_input, tokens_cached, tokens_output) VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8) \
    ON CONFLICT (namespace, month, worker, currency) DO UPDATE SET \
    spent = spent + excluded.spent, answers = answers + 1, \
    tokens_input = tokens_input + excluded.tokens_input, \
    tokens_cached = tokens_cached + excluded.tokens_cached, \
    tokens_output = tokens_output + excluded.tokens_output";

const STEP: &str = "INSERT INTO steps (run, seq, at, actor, kind, version, content, view, \
    content_sha256, hash, seal_key, seal, append) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

/// Only whoever edits a call knows what of its arguments may be shown: all others leave them.
const ACTION: &str = "INSERT INTO actions (run, call, tool, status, args, digest, cleared_by, \
    result, denied, created_at, updated_at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
    ON CONFLICT (run, call) DO UPDATE SET status = excluded.status, \
    cleared_by = excluded.cleared_by, result = excluded.result, denied = excluded.denied, \
    updated_at = excluded.updated_at, \
    args = CASE WHEN excluded.digest <> actions.digest THEN excluded.args ELSE actions.args END, \
    digest = excluded.digest";

const APPROVAL: &str = "INSERT INTO approvals (id, namespace, run, call, agent, requester, tool, \
    args, digest, definition, task_input, trust, rule, reason, summary, seq, status, requested_at, \
    expires_at, decided_by, decided_at, decision_reason, closed_cause, action_status, \
    deciders, groups, escalates_at, origins, edited_by, written) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
    ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30) \
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, decided_by = excluded.decided_by, \
    decided_at = excluded.decided_at, decision_reason = excluded.decision_reason, \
    closed_cause = excluded.closed_cause, action_status = excluded.action_status, \
    deciders = excluded.deciders, groups = excluded.groups, escalates_at = excluded.escalates_at, \
    seq = excluded.seq, edited_by = excluded.edited_by, origins = excluded.origins, \
    args = CASE WHEN excluded.digest <> approvals.digest THEN excluded.args ELSE approvals.args END, \
    summary = CASE WHEN excluded.digest <> approvals.digest THEN excluded.summary \
    ELSE approvals.summary END, \
    written = CASE WHEN excluded.digest <> approvals.digest THEN excluded.written \
    ELSE COALESCE(approvals.written, excluded.written) END, \
    original = CASE WHEN excluded.digest <> approvals.digest \
    THEN COALESCE(approvals.original, approvals.args) ELSE approvals.original END, \
    digest = excluded.digest";

const FEEDBACK: &str = "INSERT INTO feedback (id, task, namespace, agent, run, approval, source, \
    given_by, score, note, at) VALUES (?1, ?2, ?3, ?4, ?5, ?1, 'approval', ?6, ?7, ?8, ?9)";

const DELIVERY: &str = "INSERT INTO deliveries (id, namespace, agent, run, approval, notice, url, \
    secret, target, state, attempts, due_at, updated_at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'due', 0, ?10, ?10) \
    ON CONFLICT (id) DO NOTHING";

/// Moves a schedule on from a tick: whether it stood there. Nothing else of the start of a tick can
/// conflict: it has no key, and its ids are new.
pub(super) fn take_tick(connection: &Connection, tick: &TakenTick) -> Result<bool> {
    let moved = connection.prepare_cached(TICK)?.execute(params![
        tick.schedule.as_str(),
        tick.due_at.micros(),
        tick.next_at.micros(),
        tick.skipped,
    ])?;
    Ok(moved == 1)
}

pub(super) fn insert_steps(connection: &Connection, append: &Append) -> Result<()> {
    insert_steps_of(connection, &append.run, &append.steps, append.id)
}

pub(super) fn insert_steps_of(
    connection: &Connection,
    run: &RunId,
    steps: &[Written],
    append: Uuid,
) -> Result<()> {
    if steps.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(STEP)?;
    for step in steps {
        let recorded = &step.recorded;
        statement.execute(params![
            run.as_str(),
            int(recorded.seq),
            recorded.at.micros(),
            recorded.actor.to_string(),
            recorded.step.kind().as_str(),
            recorded.step.kind().version(),
            step.content.as_str(),
            step.view.as_deref(),
            recorded.content_sha256.as_bytes().as_slice(),
            recorded.hash.as_bytes().as_slice(),
            recorded.seal.as_ref().map(|seal| seal.key.as_str()),
            recorded
                .seal
                .as_ref()
                .map(|seal| seal.mac.as_bytes().as_slice()),
            append.as_bytes().as_slice(),
        ])?;
    }
    Ok(())
}

pub(super) fn upsert_actions(connection: &Connection, append: &Append) -> Result<()> {
    for row in &append.actions {
        connection.prepare_cached(ACTION)?.execute(params![
            row.run.as_str(),
            row.call.as_str(),
            row.tool.as_str(),
            row.status.as_str(),
            row.args.as_str(),
            row.digest.digest().as_bytes().as_slice(),
            row.cleared_by.as_deref(),
            row.result.as_deref(),
            row.denied.map(|cause| cause.as_str()),
            row.created_at.micros(),
            row.updated_at.micros(),
        ])?;
    }
    Ok(())
}

pub(super) fn upsert_approvals(connection: &Connection, append: &Append) -> Result<()> {
    for row in &append.approvals {
        connection.prepare_cached(APPROVAL)?.execute(params![
            row.approval.as_str(),
            row.namespace.as_str(),
            row.run.as_str(),
            row.call.as_str(),
            row.agent.as_str(),
            row.requester.as_str(),
            row.tool.as_str(),
            row.args.as_str(),
            row.digest.digest().as_bytes().as_slice(),
            row.definition.as_bytes().as_slice(),
            row.task_input.as_str(),
            row.trust.as_str(),
            row.rule.as_str(),
            row.reason.as_str(),
            row.summary.as_str(),
            int(row.seq),
            row.status.as_str(),
            row.requested_at.micros(),
            row.expires_at.micros(),
            row.decided_by.as_ref().map(|by| by.as_str()),
            time(row.decided_at),
            row.decision_reason.as_deref(),
            row.closed_cause.map(|cause| cause.as_str()),
            row.action_status.as_str(),
            deciders(row),
            groups(row),
            time(row.escalates_at),
            origins(row),
            row.edited_by.as_ref().map(|by| by.as_str()),
            written(row),
        ])?;
    }
    Ok(())
}

pub(super) fn insert_feedback(connection: &Connection, append: &Append) -> Result<()> {
    for row in &append.feedback {
        connection.prepare_cached(FEEDBACK)?.execute(params![
            row.approval.as_str(),
            row.task.as_str(),
            row.namespace.as_str(),
            row.agent.as_str(),
            row.run.as_str(),
            row.by.as_str(),
            row.score_millionths,
            row.note.as_deref(),
            row.at.micros(),
        ])?;
    }
    Ok(())
}

pub(super) fn add_usage(connection: &Connection, append: &Append) -> Result<()> {
    for row in &append.usage {
        connection.prepare_cached(USAGE)?.execute(params![
            row.namespace.as_str(),
            row.month.to_string(),
            row.worker.as_str(),
            row.spent
                .map_or(String::new(), |spent| spent.currency().to_string()),
            int(row.spent.map_or(0, Money::millionths)),
            int(row.tokens.input),
            int(row.tokens.cached),
            int(row.tokens.output),
        ])?;
    }
    Ok(())
}

pub(super) fn insert_deliveries(connection: &Connection, append: &Append) -> Result<()> {
    for row in &append.deliveries {
        let to = recipient(&row.to);
        connection.prepare_cached(DELIVERY)?.execute(params![
            row.id.as_str(),
            row.namespace.as_str(),
            row.agent.as_str(),
            row.run.as_str(),
            row.notice.approval().map(ApprovalId::as_str),
            row.notice.as_str(),
            to.url,
            to.secret,
            to.target,
            row.due_at.micros(),
        ])?;
    }
    Ok(())
}

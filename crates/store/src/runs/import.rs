//! Imported runs: read-only copies of timelines that were exported, under new ids.
//!
//! The one way into these tables beside the journal. A copy is never anybody's to work on: it has no
//! `ready_at`, no worker and nothing to publish, its approvals are not copied, and the journal does
//! not load it, so nobody can write to it either. Its steps are those of the original to the byte;
//! their seals hold for the original's id, which the copy's row names.

use sayso_driver::{ActionRow, RunRow};
use sayso_run::{RunId, StoredLink};
use uuid::Uuid;

use super::Runs;
use crate::database::in_transaction;
use crate::error::{DatabaseError, refuse_nul};
use crate::journal::int;
use crate::record::time;

/// A copy to store.
#[derive(Debug, Clone)]
pub struct Import {
    /// The copy's row: its own id, task and namespace, all else the original's.
    pub row: RunRow,
    /// The run that it is a copy of.
    pub original: RunId,
    /// The steps, each with its content.
    pub steps: Vec<StoredLink>,
    /// The actions, with the copy's id.
    pub actions: Vec<ActionRow>,
}

const TASK: &str = "INSERT INTO tasks (id, run, namespace, agent, source, input, principal, trust, \
    created_at, trigger_name) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const RUN: &str = "INSERT INTO runs (id, task, namespace, agent, revision, principal, trust, \
    status, seq, ended_by, output, error_code, error_message, cycles, retries, tokens_input, \
    tokens_cached, tokens_output, cost, currency, created_at, updated_at, ended_at, expires_at, \
    open_calls, epoch, published, imported_from) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
    $20, $21, $22, $23, NULL, $24, 0, $9, $25)";

const STEP: &str = "INSERT INTO steps (run, seq, at, actor, kind, version, content, \
    content_sha256, hash, seal_key, seal, append) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const ACTION: &str = "INSERT INTO actions (run, call, tool, status, args, digest, cleared_by, \
    result, denied, created_at, updated_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

impl Runs<'_> {
    /// Stores a copy, all of it or nothing.
    pub async fn import(&self, import: &Import) -> Result<(), DatabaseError> {
        let Import {
            row,
            original,
            steps,
            actions,
        } = import;
        refuse_nuls(import)?;
        let append = Uuid::now_v7();
        let run = row.run.as_str();
        in_transaction!(&self.0.0.database, |tx| {
            sqlx::query(TASK)
                .bind(row.task.as_str())
                .bind(run)
                .bind(row.namespace.as_str())
                .bind(row.agent.as_str())
                .bind(row.source.as_str())
                .bind(row.input.as_str())
                .bind(row.principal.as_str())
                .bind(row.trust.as_str())
                .bind(row.created_at.micros())
                .bind(row.trigger.as_deref())
                .execute(&mut *tx)
                .await?;
            sqlx::query(RUN)
                .bind(run)
                .bind(row.task.as_str())
                .bind(row.namespace.as_str())
                .bind(row.agent.as_str())
                .bind(row.revision.as_str())
                .bind(row.principal.as_str())
                .bind(row.trust.as_str())
                .bind(row.status.as_str())
                .bind(int(row.seq))
                .bind(row.ended_by.map(|by| by.as_str()))
                .bind(row.output.as_deref())
                .bind(row.error_code.as_deref())
                .bind(row.error_message.as_deref())
                .bind(i64::from(row.cycles))
                .bind(i64::from(row.retries))
                .bind(int(row.usage.input))
                .bind(int(row.usage.cached))
                .bind(int(row.usage.output))
                .bind(row.cost.map_or(0, |cost| int(cost.millionths())))
                .bind(row.cost.map(|cost| cost.currency().to_string()))
                .bind(row.created_at.micros())
                .bind(row.updated_at.micros())
                .bind(time(row.ended_at))
                .bind(i64::from(row.open_calls))
                .bind(original.as_str())
                .execute(&mut *tx)
                .await?;
            for step in steps {
                sqlx::query(STEP)
                    .bind(run)
                    .bind(int(step.seq))
                    .bind(step.at.micros())
                    .bind(step.actor.to_string())
                    .bind(step.kind.as_str())
                    .bind(i64::from(step.version))
                    .bind(step.content.as_deref().unwrap_or_default())
                    .bind(step.content_sha256.as_bytes().as_slice())
                    .bind(step.hash.as_bytes().as_slice())
                    .bind(step.seal.as_ref().map(|seal| seal.key.as_str()))
                    .bind(
                        step.seal
                            .as_ref()
                            .map(|seal| seal.mac.as_bytes().as_slice()),
                    )
                    .bind(append.as_bytes().as_slice())
                    .execute(&mut *tx)
                    .await?;
            }
            for action in actions {
                sqlx::query(ACTION)
                    .bind(run)
                    .bind(action.call.as_str())
                    .bind(action.tool.as_str())
                    .bind(action.status.as_str())
                    .bind(action.args.as_str())
                    .bind(action.digest.digest().as_bytes().as_slice())
                    .bind(action.cleared_by.as_deref())
                    .bind(action.result.as_deref())
                    .bind(action.denied.map(|cause| cause.as_str()))
                    .bind(action.created_at.micros())
                    .bind(action.updated_at.micros())
                    .execute(&mut *tx)
                    .await?;
            }
        });
        Ok(())
    }
}

fn refuse_nuls(import: &Import) -> Result<(), DatabaseError> {
    let Import {
        row,
        steps,
        actions,
        ..
    } = import;
    refuse_nul(&[
        ("input", &row.input),
        ("output", row.output.as_deref().unwrap_or_default()),
        ("error", row.error_code.as_deref().unwrap_or_default()),
        ("error", row.error_message.as_deref().unwrap_or_default()),
        ("trigger", row.trigger.as_deref().unwrap_or_default()),
    ])?;
    for step in steps {
        let seal = step.seal.as_ref();
        refuse_nul(&[
            ("type", &step.kind),
            ("content", step.content.as_deref().unwrap_or_default()),
            ("hmac", seal.map_or("", |seal| seal.key.as_str())),
        ])?;
    }
    for action in actions {
        refuse_nul(&[
            ("tool", &action.tool),
            ("args", &action.args),
            ("rule", action.cleared_by.as_deref().unwrap_or_default()),
            ("result", action.result.as_deref().unwrap_or_default()),
        ])?;
    }
    Ok(())
}

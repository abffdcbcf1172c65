//! The calls that a run attempted (S2.5).

use sayso_driver::ActionRow;
use sayso_run::{ActionStatus, Namespace, RunId};
use sqlx::{AssertSqlSafe, FromRow};

use super::{IN_NAMESPACE, Runs};
use crate::database::on_both;
use crate::error::DatabaseError;
use crate::record::{Why, at, bad_row, digest, name, word};

impl Runs<'_> {
    /// The actions of a run, in the order in which they were proposed (S2.5).
    pub async fn actions(
        &self,
        namespace: &Namespace,
        run: &RunId,
    ) -> Result<Vec<ActionRow>, DatabaseError> {
        let sql = format!(
            "SELECT a.run, a.call, a.tool, a.status, a.args, a.digest, a.cleared_by, \
             a.result, a.denied, a.created_at, a.updated_at \
             FROM actions a JOIN runs r ON r.id = a.run WHERE {IN_NAMESPACE} AND a.run = $2"
        );
        let records: Vec<ActionRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(run.as_str())
                .fetch_all(pool)
                .await
        })?;
        let rows: Result<Vec<ActionRow>, DatabaseError> = records
            .into_iter()
            .map(|record| {
                let bad = bad_row("actions", format!("{run}, {}", record.call));
                record.read().map_err(bad)
            })
            .collect();
        let mut rows = rows?;
        rows.sort_by_key(|row| place_of(row.call.as_str()));
        Ok(rows)
    }
}

/// The status of an action by its word.
pub(crate) fn action_status(text: &str) -> Result<ActionStatus, Why> {
    ActionStatus::ALL
        .into_iter()
        .find(|status| status.as_str() == text)
        .ok_or_else(|| format!("`{text}` is no status of an action"))
}

/// Cycle and position of `call_<cycle>_<position>`: how calls are ordered.
fn place_of(call: &str) -> (u64, u64) {
    let mut numbers = call
        .split('_')
        .skip(1)
        .map(|part| part.parse().unwrap_or(u64::MAX));
    (
        numbers.next().unwrap_or(u64::MAX),
        numbers.next().unwrap_or(u64::MAX),
    )
}

#[derive(FromRow)]
struct ActionRecord {
    run: String,
    call: String,
    tool: String,
    status: String,
    args: String,
    digest: Vec<u8>,
    cleared_by: Option<String>,
    result: Option<String>,
    denied: Option<String>,
    created_at: i64,
    updated_at: i64,
}

impl ActionRecord {
    fn read(self) -> Result<ActionRow, Why> {
        Ok(ActionRow {
            run: name(self.run)?,
            call: name(self.call)?,
            tool: self.tool,
            status: action_status(&self.status)?,
            args: self.args,
            digest: digest(&self.digest)?.into(),
            cleared_by: self.cleared_by,
            result: self.result,
            denied: self.denied.as_deref().map(word).transpose()?,
            created_at: at(self.created_at),
            updated_at: at(self.updated_at),
        })
    }
}

//! Pauses: agents and namespaces that start nothing and do nothing for now (S10.6).
//!
//! A pause is a row, and everybody who would act looks at it: loading a run tells whether it is
//! paused, and the sweeps leave paused runs and schedules alone. Nothing is taken from the runs, so
//! there is nothing to give back at the end. The row stays when the pause has ended: the reaper
//! counts from there (S4.5).

use sayso_run::{AgentName, Namespace, PrincipalId, Timestamp};
use sqlx::{AssertSqlSafe, FromRow};

use crate::database::{on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{Why, at, bad_row, name};

/// That the run or schedule `$of` is paused: its agent, or its whole namespace.
pub(crate) fn is_paused(of: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM pauses p WHERE p.namespace = {of}.namespace \
         AND p.agent IN ('', {of}.agent) AND p.resumed_at IS NULL)"
    )
}

/// One pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseRow {
    /// The agent; none for the whole namespace.
    pub agent: Option<AgentName>,
    /// Why, if whoever paused it said so.
    pub reason: Option<String>,
    /// Who paused it.
    pub paused_by: PrincipalId,
    /// When.
    pub paused_at: Timestamp,
}

/// The table of pauses.
#[derive(Debug, Clone, Copy)]
pub struct Pauses<'a>(&'a Store);

impl Store {
    /// The table of pauses.
    pub fn pauses(&self) -> Pauses<'_> {
        Pauses(self)
    }
}

const COLUMNS: &str = "agent, reason, paused_by, paused_at";

impl Pauses<'_> {
    /// Pauses an agent, or the whole namespace; one that is paused stays as it is. Whether it is
    /// new, and the pause.
    pub async fn begin(
        &self,
        namespace: &Namespace,
        agent: Option<&AgentName>,
        reason: Option<&str>,
        by: &PrincipalId,
    ) -> Result<(bool, PauseRow), DatabaseError> {
        refuse_nul(&[("reason", reason.unwrap_or_default())])?;
        let begin = format!(
            "INSERT INTO pauses (namespace, agent, reason, paused_by, paused_at) \
             VALUES ($1, $2, $3, $4, {now}) ON CONFLICT (namespace, agent) DO UPDATE SET \
             reason = EXCLUDED.reason, paused_by = EXCLUDED.paused_by, \
             paused_at = EXCLUDED.paused_at, resumed_at = NULL \
             WHERE pauses.resumed_at IS NOT NULL",
            now = self.0.0.database.now()
        );
        let read = format!("SELECT {COLUMNS} FROM pauses WHERE namespace = $1 AND agent = $2");
        let word = word_of(agent);
        let begun = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(AssertSqlSafe(begin))
                .bind(namespace.as_str())
                .bind(word)
                .bind(reason)
                .bind(by.as_str())
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?;
        let record: PauseRecord = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(read))
                .bind(namespace.as_str())
                .bind(word)
                .fetch_one(pool)
                .await
        })?;
        Ok((begun == 1, record.read()?))
    }

    /// Ends a pause: the pause that it was, or `None` if there was none.
    pub async fn end(
        &self,
        namespace: &Namespace,
        agent: Option<&AgentName>,
    ) -> Result<Option<PauseRow>, DatabaseError> {
        let sql = format!(
            "UPDATE pauses SET resumed_at = {now} \
             WHERE namespace = $1 AND agent = $2 AND resumed_at IS NULL RETURNING {COLUMNS}",
            now = self.0.0.database.now()
        );
        let record: Option<PauseRecord> = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(word_of(agent))
                .fetch_optional(pool)
                .await
        })?;
        record.map(PauseRecord::read).transpose()
    }

    /// What is paused in a namespace now: the whole of it first, then agents by name.
    pub async fn active(&self, namespace: &Namespace) -> Result<Vec<PauseRow>, DatabaseError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM pauses WHERE namespace = $1 AND resumed_at IS NULL \
             ORDER BY agent"
        );
        let records: Vec<PauseRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .fetch_all(pool)
                .await
        })?;
        records.into_iter().map(PauseRecord::read).collect()
    }

    /// Whether an agent is paused now, itself or with its whole namespace.
    pub async fn holds(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<bool, DatabaseError> {
        let found: i64 = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar(
                "SELECT COUNT(*) FROM pauses \
                 WHERE namespace = $1 AND agent IN ('', $2) AND resumed_at IS NULL",
            )
            .bind(namespace.as_str())
            .bind(agent.as_str())
            .fetch_one(pool)
            .await
        })?;
        Ok(found > 0)
    }
}

/// How the column says whom a pause is about.
fn word_of(agent: Option<&AgentName>) -> &str {
    agent.map_or("", AgentName::as_str)
}

#[derive(FromRow)]
struct PauseRecord {
    agent: String,
    reason: Option<String>,
    paused_by: String,
    paused_at: i64,
}

impl PauseRecord {
    fn read(self) -> Result<PauseRow, DatabaseError> {
        let bad = bad_row("pauses", self.agent.clone());
        let read = || -> Result<PauseRow, Why> {
            let agent = Some(self.agent).filter(|agent| !agent.is_empty());
            Ok(PauseRow {
                agent: agent.map(name).transpose()?,
                reason: self.reason,
                paused_by: name(self.paused_by)?,
                paused_at: at(self.paused_at),
            })
        };
        read().map_err(bad)
    }
}

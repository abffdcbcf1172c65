//! What nobody else would notice: work that lost its wake-up, its worker, its publisher or its
//! decider. Messages only hurry; these questions are what makes sure.

use std::time::Duration;

use sayso_run::{AgentName, Namespace, RunId};
use sqlx::AssertSqlSafe;

use crate::database::{Kind, on_both, write_on_both};
use crate::error::DatabaseError;
use crate::open::Store;
use crate::pauses::is_paused;
use crate::record::{bad_row, name};

/// A run by its id and what its messages are addressed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRef {
    /// The run.
    pub run: RunId,
    /// Its namespace.
    pub namespace: Namespace,
    /// Its agent.
    pub agent: AgentName,
}

/// The runs that have ends of children to take, each once. There are few, and each is looked up: a
/// planner that expects many would read all runs instead.
const PARENTS: &str = "(SELECT DISTINCT parent FROM child_ends)";

/// The questions of the sweeps.
#[derive(Debug, Clone, Copy)]
pub struct Sweep<'a>(&'a Store);

impl Store {
    /// The questions of the sweeps.
    pub fn sweep(&self) -> Sweep<'_> {
        Sweep(self)
    }
}

impl Sweep<'_> {
    /// Runs that have been ready for longer than `older_than`, that no live worker holds and that
    /// are not paused, the longest first.
    pub async fn ready(
        &self,
        older_than: Duration,
        limit: u32,
    ) -> Result<Vec<RunRef>, DatabaseError> {
        let sql = format!(
            "SELECT r.id, r.namespace, r.agent FROM runs r \
             WHERE r.ready_at IS NOT NULL AND r.ready_at <= {now} - $1 \
             AND (r.worker IS NULL OR NOT EXISTS \
             (SELECT 1 FROM workers w WHERE w.id = r.worker AND w.ended_at IS NULL)) \
             AND NOT {paused} ORDER BY r.ready_at LIMIT $2",
            now = self.at_once(),
            paused = is_paused("r")
        );
        self.runs(sql, older_than, limit).await
    }

    /// Makes runs ready whose worker is marked dead, and answers with those.
    pub async fn orphans(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        // Rows that an append is writing are left for the next time: waiting for them in another
        // order than appends do could deadlock.
        let lock = match self.0.kind() {
            Kind::Postgres => "FOR UPDATE OF r SKIP LOCKED",
            Kind::Sqlite => "",
        };
        let sql = format!(
            "WITH lost AS MATERIALIZED (SELECT r.id FROM runs r \
             WHERE r.worker IS NOT NULL AND r.ended_at IS NULL AND r.ready_at IS NULL \
             AND NOT EXISTS \
             (SELECT 1 FROM workers w WHERE w.id = r.worker AND w.ended_at IS NULL) \
             ORDER BY r.id LIMIT $1 {lock}) \
             UPDATE runs SET ready_at = {now} WHERE id IN (SELECT id FROM lost) \
             RETURNING id, namespace, agent",
            now = self.now()
        );
        let rows: Vec<(String, String, String)> = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(i64::from(limit))
                .fetch_all(pool)
                .await
        })?;
        rows.into_iter().map(run_ref).collect()
    }

    /// Runs with a pending approval whose time has passed by the database's clock (S6.8), or that
    /// another group is to be let into (S6.12).
    pub async fn expired(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        // By the order of the index: else Postgres reads all that are pending, expecting a third of
        // them to be due.
        let sql = format!(
            "SELECT DISTINCT due.run, due.namespace, due.agent FROM \
             (SELECT * FROM (SELECT a.run, a.namespace, a.agent FROM approvals a \
             WHERE a.status = 'pending' AND a.expires_at <= {now} + $1 \
             ORDER BY a.expires_at LIMIT $2) expire UNION ALL \
             SELECT * FROM (SELECT a.run, a.namespace, a.agent FROM approvals a \
             WHERE a.status = 'pending' AND a.escalates_at IS NOT NULL \
             AND a.escalates_at <= {now} + $1 \
             ORDER BY a.escalates_at LIMIT $2) widen) due",
            now = self.at_once()
        );
        self.runs(sql, Duration::ZERO, limit).await
    }

    /// Runs whose events lag behind and whose last step is older than `older_than` (S8.4), the
    /// longest first.
    pub async fn unpublished(
        &self,
        older_than: Duration,
        limit: u32,
    ) -> Result<Vec<RunRef>, DatabaseError> {
        let sql = format!(
            "SELECT id, namespace, agent FROM runs \
             WHERE published < seq AND updated_at <= {now} - $1 ORDER BY updated_at LIMIT $2",
            now = self.at_once()
        );
        self.runs(sql, older_than, limit).await
    }

    /// Live runs that nobody holds, that are not paused, and that have ends of children to take
    /// (S3.6).
    pub async fn waiting_parents(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        let sql = format!(
            "SELECT r.id, r.namespace, r.agent FROM {PARENTS} c \
             JOIN runs r ON r.id = c.parent \
             WHERE r.worker IS NULL AND r.ended_at IS NULL AND NOT {paused} AND $1 = 0 LIMIT $2",
            paused = is_paused("r")
        );
        self.runs(sql, Duration::ZERO, limit).await
    }

    /// Runs that have ended for good, with ends of children that are not on their record yet: what
    /// comes late is recorded all the same (S1.4).
    pub async fn late_parents(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        let sql = format!(
            "SELECT r.id, r.namespace, r.agent FROM {PARENTS} c JOIN runs r ON r.id = c.parent \
             WHERE r.status IN ('completed', 'cancelled') AND $1 = 0 LIMIT $2"
        );
        self.runs(sql, Duration::ZERO, limit).await
    }

    /// Live runs whose parent has ended: nobody waits for them any more (S1.4).
    pub async fn parentless(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        let sql = "SELECT r.id, r.namespace, r.agent FROM runs r JOIN runs p ON p.id = r.parent \
             WHERE r.parent IS NOT NULL AND r.ended_at IS NULL AND p.ended_at IS NOT NULL \
             AND $1 = 0 LIMIT $2";
        self.runs(sql.to_owned(), Duration::ZERO, limit).await
    }

    /// Runs that are still `running` although their worker was marked dead longer than `after` ago
    /// (S4.5). What waits, or was given back, is not among them, nor what is paused or was within
    /// that time: nobody could take it over.
    pub async fn abandoned(
        &self,
        after: Duration,
        limit: u32,
    ) -> Result<Vec<RunRef>, DatabaseError> {
        let sql = format!(
            "SELECT r.id, r.namespace, r.agent FROM runs r JOIN workers w ON w.id = r.worker \
             WHERE r.status = 'running' AND w.ended_at <= {now} - $1 \
             AND NOT EXISTS (SELECT 1 FROM pauses p WHERE p.namespace = r.namespace \
             AND p.agent IN ('', r.agent) \
             AND (p.resumed_at IS NULL OR p.resumed_at > {now} - $1)) \
             ORDER BY w.ended_at, r.id LIMIT $2",
            now = self.at_once()
        );
        self.runs(sql, after, limit).await
    }

    /// Runs that have ended with calls under way whose worker is marked dead: what came of them is
    /// unknown (S4.5).
    pub async fn lost(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        let sql = "SELECT r.id, r.namespace, r.agent FROM runs r JOIN workers w ON w.id = r.worker \
             WHERE r.worker IS NOT NULL AND r.ended_at IS NOT NULL AND r.open_calls > 0 \
             AND w.ended_at IS NOT NULL AND $1 = 0 LIMIT $2";
        self.runs(sql.to_owned(), Duration::ZERO, limit).await
    }

    fn now(&self) -> &'static str {
        self.0.0.database.now()
    }

    fn at_once(&self) -> String {
        self.0.0.database.at_once()
    }

    async fn runs(
        &self,
        sql: String,
        time: Duration,
        limit: u32,
    ) -> Result<Vec<RunRef>, DatabaseError> {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let rows: Vec<(String, String, String)> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(micros)
                .bind(i64::from(limit))
                .fetch_all(pool)
                .await
        })?;
        rows.into_iter().map(run_ref).collect()
    }
}

fn run_ref((run, namespace, agent): (String, String, String)) -> Result<RunRef, DatabaseError> {
    let bad = bad_row("runs", run.clone());
    let read = || {
        Ok(RunRef {
            run: name(run)?,
            namespace: name(namespace)?,
            agent: name(agent)?,
        })
    };
    read().map_err(bad)
}

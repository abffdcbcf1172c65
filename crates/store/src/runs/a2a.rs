//! Runs as the tasks of A2A clients (S6.13).

use sayso_run::{AgentName, Namespace, PrincipalId, RunId, Status, Timestamp};
use sqlx::AssertSqlSafe;

use super::steps::{STEP, StepRecord, read_steps};
use super::{IN_NAMESPACE, RUN, RunRecord, Runs, StoredStep};
use crate::database::on_both;
use crate::error::{DatabaseError, refuse_nul};
use crate::page::{Key, ListError, Page, PageRequest, Select, fetch_select};

/// Which tasks of an agent's A2A clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFilter {
    /// Of this agent.
    pub agent: AgentName,
    /// In this context.
    pub context: Option<String>,
    /// In one of these statuses; any if empty.
    pub statuses: Vec<Status>,
    /// Whether it has not begun to work, or has; either if unsaid.
    pub begun: Option<bool>,
    /// Asked for by this principal.
    pub requester: Option<PrincipalId>,
    /// Whose last step is not older than this.
    pub since: Option<Timestamp>,
}

const COUNT: &str = "SELECT COUNT(*) FROM runs r JOIN tasks t ON t.id = r.task WHERE";

impl TaskFilter {
    fn narrow(&self, select: &mut Select) {
        select.and("t.source = 'a2a'");
        select.and_text(
            "t.namespace = r.namespace AND t.agent =",
            Some(self.agent.as_str()),
        );
        select.and_text("t.trigger_name =", self.context.as_deref());
        select.and_any(
            "r.status",
            self.statuses.iter().map(|status| status.as_str()),
        );
        match self.begun {
            None => {}
            Some(true) => select.and("r.seq > 1"),
            Some(false) => select.and("r.seq <= 1"),
        }
        let requester = self.requester.as_ref().map(PrincipalId::as_str);
        select.and_text("r.principal =", requester);
        select.and_int("r.updated_at >=", self.since.map(Timestamp::micros));
    }
}

impl Runs<'_> {
    /// The tasks that the filter lets through, the last changed first.
    ///
    /// # Errors
    ///
    /// When the page token is not of this list, or the database does not work.
    pub async fn tasks(
        &self,
        namespace: &Namespace,
        filter: &TaskFilter,
        request: &PageRequest,
    ) -> Result<Page<super::RunRow>, ListError> {
        let key = Key {
            list: "tasks",
            at: "r.updated_at",
            id: "r.id",
        };
        let sql = format!("{RUN} r.namespace = $1");
        let mut select = Select::new(&sql, namespace.as_str(), key, request)?;
        filter.narrow(&mut select);
        select.finish()?;
        let records = fetch_select!(&self.0.0.database, select, RunRecord)?;
        let rows: Result<Vec<_>, DatabaseError> =
            records.into_iter().map(RunRecord::read).collect();
        Ok(select.page(rows?, |row| {
            (row.updated_at.micros(), row.run.as_str().to_owned())
        }))
    }

    /// How many tasks the filter lets through.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn count_tasks(
        &self,
        namespace: &Namespace,
        filter: &TaskFilter,
    ) -> Result<u64, DatabaseError> {
        let mut select = Select::unpaged(&format!("{COUNT} r.namespace = $1"), namespace.as_str());
        filter.narrow(&mut select);
        select.finish_with("")?;
        let counted = fetch_select!(&self.0.0.database, select, (i64,))?;
        let count = counted.first().map_or(0, |(count,)| *count);
        Ok(count.unsigned_abs())
    }

    /// The steps of these kinds, in order. None of a run of another namespace.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn steps_of(
        &self,
        namespace: &Namespace,
        run: &RunId,
        kinds: &[&str],
    ) -> Result<Vec<StoredStep>, DatabaseError> {
        for kind in kinds {
            refuse_nul(&[("type", kind)])?;
        }
        let places: Vec<String> = (3..kinds.len() + 3).map(|at| format!("${at}")).collect();
        let sql = format!(
            "{STEP} {IN_NAMESPACE} AND s.run = $2 AND s.kind IN ({}) ORDER BY s.seq",
            places.join(", ")
        );
        let records: Vec<StepRecord> = on_both!(&self.0.0.database, |pool| {
            let mut query = sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(run.as_str());
            for kind in kinds {
                query = query.bind(*kind);
            }
            query.fetch_all(pool).await
        })?;
        read_steps(run, records)
    }
}

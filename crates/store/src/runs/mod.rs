//! Runs as lists and pages show them. Written only by the journal.

mod a2a;
mod actions;
mod children;
mod import;
mod steps;
mod verify;

use sayso_driver::{Lineage, RunRow};
use sayso_run::{AgentName, EndedBy, Namespace, PrincipalId, RunId, Status, Timestamp, Usage};
use sqlx::{AssertSqlSafe, FromRow};

pub use self::a2a::TaskFilter;
pub(crate) use self::actions::action_status;
pub use self::import::Import;
pub use self::steps::StoredStep;
pub use self::verify::VerifyError;
use crate::budgets::money;
use crate::database::on_both;
use crate::error::DatabaseError;
use crate::open::Store;
use crate::page::{Key, ListError, Page, PageRequest, Select, fetch_select};
use crate::record::{Why, at, bad_row, count, name, word};

/// Which runs of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this agent.
    pub agent: Option<AgentName>,
    /// In one of these statuses; any if empty.
    pub statuses: Vec<Status>,
    /// Ended by this.
    pub ended_by: Option<EndedBy>,
    /// Asked for by this principal.
    pub requester: Option<PrincipalId>,
    /// Started by this run (S3.6).
    pub parent: Option<RunId>,
    /// Made at or after this time.
    pub since: Option<Timestamp>,
    /// Made before this time.
    pub until: Option<Timestamp>,
}

/// The table of runs, and what belongs to a run.
#[derive(Debug, Clone, Copy)]
pub struct Runs<'a>(&'a Store);

impl Store {
    /// The table of runs.
    pub fn runs(&self) -> Runs<'_> {
        Runs(self)
    }
}

const RUN: &str = "SELECT r.id, r.task, r.namespace, r.agent, r.revision, r.principal, r.trust, \
    t.input, t.source, t.trigger_name, r.imported_from, r.status, r.seq, r.ended_by, r.output, r.error_code, r.error_message, r.cycles, \
    r.retries, r.tokens_input, r.tokens_cached, r.tokens_output, r.cost, r.currency, r.created_at, r.updated_at, \
    r.ended_at, r.expires_at, r.open_calls, r.conversation, r.parent, r.root, t.parent AS parent_task, \
    t.root AS root_task FROM runs r JOIN tasks t ON t.id = r.task \
    WHERE";

/// That a run, whose id is given as well, is of the namespace `$1`. Written so that no index fits:
/// the run is found by its id, and not among all runs of its namespace.
const IN_NAMESPACE: &str = "COALESCE(r.namespace, '') = $1";

impl Runs<'_> {
    /// One run.
    pub async fn get(
        &self,
        namespace: &Namespace,
        run: &RunId,
    ) -> Result<Option<RunRow>, DatabaseError> {
        let sql = format!("{RUN} {IN_NAMESPACE} AND r.id = $2");
        let record: Option<RunRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(run.as_str())
                .fetch_optional(pool)
                .await
        })?;
        record.map(RunRecord::read).transpose()
    }

    /// Runs that the filter lets through, newest first.
    pub async fn list(
        &self,
        namespace: &Namespace,
        filter: &RunFilter,
        request: &PageRequest,
    ) -> Result<Page<RunRow>, ListError> {
        let key = Key {
            list: "runs",
            at: "r.created_at",
            id: "r.id",
        };
        let sql = format!("{RUN} r.namespace = $1");
        let mut select = Select::new(&sql, namespace.as_str(), key, request)?;
        select.and_text("r.agent =", filter.agent.as_ref().map(AgentName::as_str));
        select.and_any(
            "r.status",
            filter.statuses.iter().map(|status| status.as_str()),
        );
        if !filter.statuses.is_empty() && filter.statuses.iter().all(|status| !status.is_terminal())
        {
            // Few runs are live, and they have an index of their own.
            select.and("r.ended_at IS NULL");
        }
        select.and_text("r.ended_by =", filter.ended_by.map(EndedBy::as_str));
        let requester = filter.requester.as_ref().map(PrincipalId::as_str);
        select.and_text("r.principal =", requester);
        select.and_text("r.parent =", filter.parent.as_ref().map(RunId::as_str));
        select.and_int("r.created_at >=", filter.since.map(Timestamp::micros));
        select.and_int("r.created_at <", filter.until.map(Timestamp::micros));
        select.finish()?;
        let records = fetch_select!(&self.0.0.database, select, RunRecord)?;
        let rows: Result<Vec<RunRow>, DatabaseError> =
            records.into_iter().map(RunRecord::read).collect();
        Ok(select.page(rows?, |row| {
            (row.created_at.micros(), row.run.as_str().to_owned())
        }))
    }

    /// The last sequence number of each of these runs, for those who watch them.
    pub async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, DatabaseError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let places: Vec<String> = (1..=runs.len()).map(|at| format!("${at}")).collect();
        let sql = format!(
            "SELECT id, seq FROM runs WHERE id IN ({})",
            places.join(", ")
        );
        let rows: Vec<(String, i64)> = on_both!(&self.0.0.database, |pool| {
            let mut query = sqlx::query_as(AssertSqlSafe(sql)).persistent(false);
            for run in runs {
                query = query.bind(run.as_str());
            }
            query.fetch_all(pool).await
        })?;
        rows.into_iter()
            .map(|(id, seq)| {
                let bad = bad_row("runs", id.clone());
                let read = || Ok((name(id)?, count(seq)?));
                read().map_err(bad)
            })
            .collect()
    }
}

#[derive(FromRow)]
struct RunRecord {
    id: String,
    task: String,
    namespace: String,
    agent: String,
    revision: String,
    principal: String,
    trust: String,
    input: String,
    source: String,
    trigger_name: Option<String>,
    imported_from: Option<String>,
    status: String,
    seq: i64,
    ended_by: Option<String>,
    output: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
    cycles: i64,
    retries: i64,
    tokens_input: i64,
    tokens_cached: i64,
    tokens_output: i64,
    cost: i64,
    currency: Option<String>,
    created_at: i64,
    updated_at: i64,
    ended_at: Option<i64>,
    expires_at: Option<i64>,
    open_calls: i64,
    conversation: Option<String>,
    parent: Option<String>,
    root: Option<String>,
    parent_task: Option<String>,
    root_task: Option<String>,
}

impl RunRecord {
    fn read(self) -> Result<RunRow, DatabaseError> {
        let bad = bad_row("runs", self.id.clone());
        self.try_read().map_err(bad)
    }

    fn try_read(self) -> Result<RunRow, Why> {
        Ok(RunRow {
            run: name(self.id)?,
            task: name(self.task)?,
            namespace: name(self.namespace)?,
            agent: name(self.agent)?,
            revision: name(self.revision)?,
            principal: name(self.principal)?,
            trust: word(&self.trust)?,
            input: self.input,
            source: word(&self.source)?,
            trigger: self.trigger_name,
            imported_from: self.imported_from.map(name).transpose()?,
            lineage: match (self.parent, self.parent_task, self.root, self.root_task) {
                (Some(parent_run), Some(parent_task), Some(root_run), Some(root_task)) => {
                    Some(Lineage {
                        parent_run: name(parent_run)?,
                        parent_task: name(parent_task)?,
                        root_run: name(root_run)?,
                        root_task: name(root_task)?,
                    })
                }
                _ => None,
            },
            conversation: self.conversation.map(name).transpose()?,
            status: status(&self.status)?,
            seq: count(self.seq)?,
            ended_by: self.ended_by.as_deref().map(word).transpose()?,
            output: self.output,
            error_code: self.error_code,
            error_message: self.error_message,
            cycles: count(self.cycles)?,
            retries: count(self.retries)?,
            usage: Usage {
                input: count(self.tokens_input)?,
                cached: count(self.tokens_cached)?,
                output: count(self.tokens_output)?,
            },
            cost: match &self.currency {
                Some(currency) => Some(money(self.cost, currency)?),
                None => None,
            },
            created_at: at(self.created_at),
            updated_at: at(self.updated_at),
            ended_at: self.ended_at.map(at),
            expires_at: self.expires_at.map(at),
            open_calls: self.open_calls != 0,
        })
    }
}

fn status(text: &str) -> Result<Status, Why> {
    Status::parse(text).ok_or_else(|| format!("`{text}` is no status"))
}

//! Ratings of tasks (S7.1). A decision's is written by the journal (S7.2).

use std::collections::BTreeMap;

use sayso_run::{AgentName, ApprovalId, Namespace, PrincipalId, RunId, TaskId, Timestamp};
use sqlx::FromRow;

use crate::database::{in_transaction, on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::page::{Key, ListError, Page, PageRequest, Select, fetch_select};
use crate::record::{Why, at, bad_row, count, name};

/// One rating.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFeedback {
    /// Its id.
    pub id: String,
    /// The task that is rated.
    pub task: TaskId,
    /// The agent.
    pub agent: AgentName,
    /// The run.
    pub run: RunId,
    /// The approval whose decision it is.
    pub approval: Option<ApprovalId>,
    /// Where it comes from: `approval`, `person`, `check` or `judge`.
    pub source: String,
    /// Who gave it.
    pub by: PrincipalId,
    /// Millionths, from 0 to 1,000,000.
    pub score_millionths: i64,
    /// What was said with it.
    pub note: Option<String>,
    /// Its labels, each `key=value`, in order.
    pub labels: Vec<String>,
    /// When.
    pub at: Timestamp,
}

/// A task as a rating needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RatedTask {
    /// The task.
    pub task: TaskId,
    /// Its run.
    pub run: RunId,
    /// The agent.
    pub agent: AgentName,
    /// Who asked for it.
    pub principal: PrincipalId,
}

/// Which task is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOf<'a> {
    /// This one.
    Task(&'a TaskId),
    /// The one that this run executes.
    Run(&'a RunId),
}

/// What ratings from one source come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackSum {
    /// The source.
    pub source: String,
    /// How many.
    pub count: u64,
    /// All scores together, in millionths.
    pub score_millionths: i64,
}

/// Which feedback of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedbackFilter {
    /// Of this agent.
    pub agent: Option<AgentName>,
    /// From this source.
    pub source: Option<String>,
    /// Given at or after this time.
    pub since: Option<Timestamp>,
    /// Given before this time.
    pub until: Option<Timestamp>,
    /// On this task.
    pub task: Option<TaskId>,
    /// From this run.
    pub run: Option<RunId>,
    /// With all of these labels.
    pub labels: Vec<String>,
}

/// The table of feedback.
#[derive(Debug, Clone, Copy)]
pub struct Feedback<'a>(&'a Store);

impl Store {
    /// The table of feedback.
    pub fn feedback(&self) -> Feedback<'_> {
        Feedback(self)
    }
}

impl Feedback<'_> {
    /// Feedback that the filter lets through, newest first.
    pub async fn list(
        &self,
        namespace: &Namespace,
        filter: &FeedbackFilter,
        request: &PageRequest,
    ) -> Result<Page<StoredFeedback>, ListError> {
        let key = Key {
            list: "feedback",
            at: "at",
            id: "id",
        };
        let sql = "SELECT id, task, agent, run, approval, source, given_by, score, note, at \
            FROM feedback WHERE namespace = $1";
        let mut select = Select::new(sql, namespace.as_str(), key, request)?;
        filter.narrow(&mut select);
        select.finish()?;
        let records = fetch_select!(&self.0.0.database, select, FeedbackRecord)?;
        let mut rows = Vec::with_capacity(records.len());
        for record in records {
            rows.push(record.read()?);
        }
        self.label(&mut rows).await?;
        Ok(select.page(rows, |row| (row.at.micros(), row.id.clone())))
    }

    /// What each source comes to, of all that the filter lets through.
    ///
    /// # Errors
    ///
    /// When the database does not work, or the filter holds a NUL.
    pub async fn sums(
        &self,
        namespace: &Namespace,
        filter: &FeedbackFilter,
    ) -> Result<Vec<FeedbackSum>, DatabaseError> {
        let sql = "SELECT source, COUNT(*) AS count, CAST(SUM(score) AS BIGINT) AS score \
            FROM feedback WHERE namespace = $1";
        let mut select = Select::unpaged(sql, namespace.as_str());
        filter.narrow(&mut select);
        select.finish_with(" GROUP BY source ORDER BY source")?;
        let records = fetch_select!(&self.0.0.database, select, SumRecord)?;
        records.into_iter().map(SumRecord::read).collect()
    }

    /// A task of a namespace.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn task(
        &self,
        namespace: &Namespace,
        of: TaskOf<'_>,
    ) -> Result<Option<RatedTask>, DatabaseError> {
        let (column, id) = match of {
            TaskOf::Task(task) => ("id", task.as_str()),
            TaskOf::Run(run) => ("run", run.as_str()),
        };
        let sql = format!(
            "SELECT id, run, agent, principal FROM tasks WHERE namespace = $1 AND {column} = $2"
        );
        let record: Option<(String, String, String, String)> =
            on_both!(&self.0.0.database, |pool| {
                sqlx::query_as(sqlx::AssertSqlSafe(sql))
                    .bind(namespace.as_str())
                    .bind(id)
                    .fetch_optional(pool)
                    .await
            })?;
        let Some((task, run, agent, principal)) = record else {
            return Ok(None);
        };
        let bad = bad_row("tasks", task.clone());
        let read = || -> Result<RatedTask, Why> {
            Ok(RatedTask {
                task: name(task)?,
                run: name(run)?,
                agent: name(agent)?,
                principal: name(principal)?,
            })
        };
        read().map(Some).map_err(bad)
    }

    /// Adds a rating.
    ///
    /// # Errors
    ///
    /// When the database does not work, or a text holds a NUL.
    pub async fn add(
        &self,
        namespace: &Namespace,
        rating: &StoredFeedback,
    ) -> Result<(), DatabaseError> {
        refuse_nul(&[("note", rating.note.as_deref().unwrap_or_default())])?;
        for label in &rating.labels {
            refuse_nul(&[("labels", label)])?;
        }
        in_transaction!(&self.0.0.database, |tx| {
            sqlx::query(
                "INSERT INTO feedback \
                 (id, task, namespace, agent, run, approval, source, given_by, score, note, at) \
                 VALUES ($1, $2, $3, $4, $5, NULL, $6, $7, $8, $9, $10)",
            )
            .bind(&rating.id)
            .bind(rating.task.as_str())
            .bind(namespace.as_str())
            .bind(rating.agent.as_str())
            .bind(rating.run.as_str())
            .bind(&rating.source)
            .bind(rating.by.as_str())
            .bind(rating.score_millionths)
            .bind(&rating.note)
            .bind(rating.at.micros())
            .execute(&mut *tx)
            .await?;
            for label in &rating.labels {
                sqlx::query("INSERT INTO feedback_labels (feedback, label) VALUES ($1, $2)")
                    .bind(&rating.id)
                    .bind(label)
                    .execute(&mut *tx)
                    .await?;
            }
        });
        Ok(())
    }

    /// Reads the labels of these ratings.
    async fn label(&self, rows: &mut [StoredFeedback]) -> Result<(), DatabaseError> {
        let rated = rows.iter().filter(|row| row.approval.is_none());
        let ids: Vec<String> = rated.map(|row| row.id.clone()).collect();
        let Some((first, rest)) = ids.split_first() else {
            return Ok(());
        };
        let sql = "SELECT feedback, label FROM feedback_labels WHERE (feedback = $1";
        let mut select = Select::unpaged(sql, first);
        for id in rest {
            select.or_text("feedback =", id);
        }
        select.finish_with(") ORDER BY label")?;
        let found = fetch_select!(&self.0.0.database, select, LabelRecord)?;
        let mut labels: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for LabelRecord { feedback, label } in found {
            labels.entry(feedback).or_default().push(label);
        }
        for row in rows {
            row.labels = labels.remove(&row.id).unwrap_or_default();
        }
        Ok(())
    }
}

impl FeedbackFilter {
    fn narrow(&self, select: &mut Select) {
        select.and_text("agent =", self.agent.as_ref().map(AgentName::as_str));
        select.and_text("source =", self.source.as_deref());
        select.and_int("at >=", self.since.map(Timestamp::micros));
        select.and_int("at <", self.until.map(Timestamp::micros));
        select.and_text("task =", self.task.as_ref().map(TaskId::as_str));
        select.and_text("run =", self.run.as_ref().map(RunId::as_str));
        for label in &self.labels {
            select.and_text(
                "id IN (SELECT l.feedback FROM feedback_labels l WHERE l.label =",
                Some(label),
            );
            select.close();
        }
    }
}

#[derive(FromRow)]
struct LabelRecord {
    feedback: String,
    label: String,
}

#[derive(FromRow)]
struct SumRecord {
    source: String,
    count: i64,
    score: i64,
}

impl SumRecord {
    fn read(self) -> Result<FeedbackSum, DatabaseError> {
        let bad = bad_row("feedback", self.source.clone());
        Ok(FeedbackSum {
            count: count(self.count).map_err(bad)?,
            source: self.source,
            score_millionths: self.score,
        })
    }
}

#[derive(FromRow)]
struct FeedbackRecord {
    id: String,
    task: String,
    agent: String,
    run: String,
    approval: Option<String>,
    source: String,
    given_by: String,
    score: i64,
    note: Option<String>,
    at: i64,
}

impl FeedbackRecord {
    fn read(self) -> Result<StoredFeedback, DatabaseError> {
        let bad = bad_row("feedback", self.id.clone());
        let read = || -> Result<StoredFeedback, Why> {
            Ok(StoredFeedback {
                id: self.id,
                task: name(self.task)?,
                agent: name(self.agent)?,
                run: name(self.run)?,
                approval: self.approval.map(name).transpose()?,
                source: self.source,
                by: name(self.given_by)?,
                score_millionths: self.score,
                note: self.note,
                labels: Vec::new(),
                at: at(self.at),
            })
        };
        read().map_err(bad)
    }
}

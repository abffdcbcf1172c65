//! Feedback as lists show it. A decision's feedback is written by the journal (S7.2).

use sayso_run::{AgentName, ApprovalId, Namespace, PrincipalId, RunId, TaskId, Timestamp};
use sqlx::FromRow;

use crate::error::DatabaseError;
use crate::open::Store;
use crate::page::{Key, ListError, Page, PageRequest, Select, fetch_select};
use crate::record::{Why, at, bad_row, name};

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
    /// Where it comes from: `approval`.
    pub source: String,
    /// Who gave it.
    pub by: PrincipalId,
    /// Millionths, from 0 to 1,000,000.
    pub score_millionths: i64,
    /// What was said with it.
    pub note: Option<String>,
    /// When.
    pub at: Timestamp,
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
        select.and_text("agent =", filter.agent.as_ref().map(AgentName::as_str));
        select.and_text("source =", filter.source.as_deref());
        select.and_int("at >=", filter.since.map(Timestamp::micros));
        select.and_int("at <", filter.until.map(Timestamp::micros));
        select.finish()?;
        let records = fetch_select!(&self.0.0.database, select, FeedbackRecord)?;
        let rows: Result<Vec<StoredFeedback>, DatabaseError> =
            records.into_iter().map(FeedbackRecord::read).collect();
        Ok(select.page(rows?, |row| (row.at.micros(), row.id.clone())))
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
                at: at(self.at),
            })
        };
        read().map_err(bad)
    }
}

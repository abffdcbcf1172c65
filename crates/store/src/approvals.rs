//! Approvals as inboxes show them. Written only by the journal.

use sayso_driver::{ApprovalRow, ApprovalStatus};
use sayso_run::{AgentName, ApprovalId, Namespace, PrincipalId, RunId, Timestamp};
use sqlx::{AssertSqlSafe, FromRow};

use crate::database::on_both;
use crate::error::DatabaseError;
use crate::open::Store;
use crate::page::{Key, ListError, Page, PageRequest, Select, fetch_select};
use crate::record::{Why, at, bad_row, count, digest, name, word};
use crate::runs::action_status;

/// Which approvals of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// In one of these statuses; any if empty.
    pub statuses: Vec<ApprovalStatus>,
    /// Of this agent.
    pub agent: Option<AgentName>,
    /// Of this run.
    pub run: Option<RunId>,
    /// Of runs that this principal asked for.
    pub requester: Option<PrincipalId>,
    /// Of this tool, as registered.
    pub tool: Option<String>,
    /// That expire before this time.
    pub expires_before: Option<Timestamp>,
    /// That members of this group may decide as such.
    pub group: Option<String>,
}

/// The table of approvals.
#[derive(Debug, Clone, Copy)]
pub struct Approvals<'a>(&'a Store);

impl Store {
    /// The table of approvals.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals(self)
    }
}

const APPROVAL: &str = "SELECT id, namespace, run, call, agent, requester, tool, args, digest, \
    definition, task_input, trust, rule, reason, summary, seq, status, requested_at, expires_at, \
    decided_by, decided_at, decision_reason, closed_cause, action_status, deciders, \
    escalates_at, origins, original, edited_by, written FROM approvals \
    WHERE";

/// One approval of the namespace `$1`. Written so that only the index of ids fits: it is not looked
/// for among all approvals of the namespace.
const BY_ID: &str = "COALESCE(namespace, '') = $1 AND id = $2";

impl Approvals<'_> {
    /// One approval.
    pub async fn get(
        &self,
        namespace: &Namespace,
        approval: &ApprovalId,
    ) -> Result<Option<ApprovalRow>, DatabaseError> {
        let sql = format!("{APPROVAL} {BY_ID}");
        let record: Option<ApprovalRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(approval.as_str())
                .fetch_optional(pool)
                .await
        })?;
        record.map(ApprovalRecord::read).transpose()
    }

    /// Approvals that the filter lets through, newest first.
    pub async fn list(
        &self,
        namespace: &Namespace,
        filter: &ApprovalFilter,
        request: &PageRequest,
    ) -> Result<Page<ApprovalRow>, ListError> {
        let key = Key {
            list: "approvals",
            at: "requested_at",
            id: "id",
        };
        let sql = format!("{APPROVAL} namespace = $1");
        let mut select = Select::new(&sql, namespace.as_str(), key, request)?;
        if filter.statuses == [ApprovalStatus::Pending] {
            // Written out, so that the index of pending ones fits.
            select.and("status = 'pending'");
        } else {
            select.and_any(
                "status",
                filter.statuses.iter().map(|status| status.as_str()),
            );
        }
        select.and_text("agent =", filter.agent.as_ref().map(AgentName::as_str));
        select.and_text("run =", filter.run.as_ref().map(RunId::as_str));
        let requester = filter.requester.as_ref().map(PrincipalId::as_str);
        select.and_text("requester =", requester);
        select.and_text("tool =", filter.tool.as_deref());
        select.and_int("expires_at <", filter.expires_before.map(Timestamp::micros));
        let group = filter.group.as_ref().map(|group| format!("% {group} %"));
        select.and_text("groups LIKE", group.as_deref());
        select.finish()?;
        let records = fetch_select!(&self.0.0.database, select, ApprovalRecord)?;
        let rows: Result<Vec<ApprovalRow>, DatabaseError> =
            records.into_iter().map(ApprovalRecord::read).collect();
        Ok(select.page(rows?, |row| {
            (row.requested_at.micros(), row.approval.as_str().to_owned())
        }))
    }

    /// The last call of the same tool of the same agent that a person had approved when this one was
    /// asked for (S6.3).
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn approved_before(
        &self,
        row: &ApprovalRow,
    ) -> Result<Option<ApprovalRow>, DatabaseError> {
        let sql = format!(
            "{APPROVAL} namespace = $1 AND agent = $2 AND tool = $3 AND status = 'approved' \
             AND decided_at <= $4 AND id <> $5 ORDER BY decided_at DESC LIMIT 1"
        );
        let record: Option<ApprovalRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(row.namespace.as_str())
                .bind(row.agent.as_str())
                .bind(row.tool.as_str())
                .bind(row.requested_at.micros())
                .bind(row.approval.as_str())
                .fetch_optional(pool)
                .await
        })?;
        record.map(ApprovalRecord::read).transpose()
    }

    /// How many wait for a decision.
    pub async fn pending(&self, namespace: &Namespace) -> Result<u64, DatabaseError> {
        let pending: i64 = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar(
                "SELECT COUNT(*) FROM approvals WHERE namespace = $1 AND status = 'pending'",
            )
            .bind(namespace.as_str())
            .fetch_one(pool)
            .await
        })?;
        Ok(pending.unsigned_abs())
    }
}

#[derive(FromRow)]
struct ApprovalRecord {
    id: String,
    namespace: String,
    run: String,
    call: String,
    agent: String,
    requester: String,
    tool: String,
    args: String,
    digest: Vec<u8>,
    definition: Vec<u8>,
    task_input: String,
    trust: String,
    rule: String,
    reason: String,
    summary: String,
    seq: i64,
    status: String,
    requested_at: i64,
    expires_at: i64,
    decided_by: Option<String>,
    decided_at: Option<i64>,
    decision_reason: Option<String>,
    closed_cause: Option<String>,
    action_status: String,
    deciders: Option<String>,
    escalates_at: Option<i64>,
    origins: Option<String>,
    original: Option<String>,
    edited_by: Option<String>,
    written: Option<String>,
}

impl ApprovalRecord {
    fn read(self) -> Result<ApprovalRow, DatabaseError> {
        let bad = bad_row("approvals", self.id.clone());
        self.try_read().map_err(bad)
    }

    fn try_read(self) -> Result<ApprovalRow, Why> {
        Ok(ApprovalRow {
            approval: name(self.id)?,
            namespace: name(self.namespace)?,
            run: name(self.run)?,
            call: name(self.call)?,
            agent: name(self.agent)?,
            requester: name(self.requester)?,
            tool: self.tool,
            args: self.args,
            original: self.original,
            edited_by: self.edited_by.map(name).transpose()?,
            digest: digest(&self.digest)?.into(),
            definition: digest(&self.definition)?,
            task_input: self.task_input,
            trust: word(&self.trust)?,
            rule: self.rule,
            reason: self.reason,
            summary: self.summary,
            written: self
                .written
                .as_deref()
                .map(serde_json::from_str)
                .transpose()
                .map_err(|error| format!("`written`: {error}"))?,
            seq: count(self.seq)?,
            status: ApprovalStatus::parse(&self.status)
                .ok_or_else(|| format!("`{}` is no status of an approval", self.status))?,
            requested_at: at(self.requested_at),
            expires_at: at(self.expires_at),
            decided_by: self.decided_by.map(name).transpose()?,
            decided_at: self.decided_at.map(at),
            decision_reason: self.decision_reason,
            closed_cause: self.closed_cause.as_deref().map(word).transpose()?,
            action_status: action_status(&self.action_status)?,
            deciders: self
                .deciders
                .as_deref()
                .map(serde_json::from_str)
                .transpose()
                .map_err(|error| format!("`deciders`: {error}"))?,
            escalates_at: self.escalates_at.map(at),
            origins: self
                .origins
                .as_deref()
                .map_or(Ok(Vec::new()), serde_json::from_str)
                .map_err(|error| format!("`origins`: {error}"))?,
        })
    }
}

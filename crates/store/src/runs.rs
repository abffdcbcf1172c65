//! Runs as lists and pages show them. Written only by the journal.

use sayso_driver::{ActionRow, RunRow};
use sayso_run::{
    ActionStatus, Actor, AgentName, Broken, ChainKeys, Digest, EndedBy, Head, Namespace,
    PrincipalId, RunId, Seal, Status, StoredLink, Timestamp, Usage, verify,
};
use sqlx::{AssertSqlSafe, FromRow};
use thiserror::Error;

use crate::database::on_both;
use crate::error::DatabaseError;
use crate::journal::int;
use crate::open::Store;
use crate::page::{Key, ListError, Page, PageRequest, Select, fetch_select};
use crate::record::{Why, at, bad_row, count, digest, name, word};

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
    /// Made at or after this time.
    pub since: Option<Timestamp>,
    /// Made before this time.
    pub until: Option<Timestamp>,
}

/// A step as it is stored: this version need not know its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredStep {
    /// Sequence number.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// The type's word.
    pub kind: String,
    /// The type's version.
    pub version: u16,
    /// The exact content: one JSON object.
    pub content: String,
    /// The content with secrets masked, where that differs.
    pub view: Option<String>,
    /// SHA-256 of the content.
    pub content_sha256: Digest,
    /// The chain's hash.
    pub hash: Digest,
    /// The seal, where the step has one.
    pub seal: Option<Seal>,
}

impl StoredStep {
    /// What readers may see: the view, or the content where it needs none.
    pub fn shown(&self) -> &str {
        self.view.as_deref().unwrap_or(&self.content)
    }
}

/// Why a timeline does not verify (S2.3).
#[derive(Debug, Error)]
pub enum VerifyError {
    /// There is no such run in the namespace.
    #[error("there is no run {0}")]
    NotFound(RunId),
    /// It is broken.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl From<sqlx::Error> for VerifyError {
    fn from(error: sqlx::Error) -> Self {
        VerifyError::Database(error.into())
    }
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
    t.input, r.status, r.seq, r.ended_by, r.output, r.error_code, r.error_message, r.cycles, \
    r.retries, r.tokens_input, r.tokens_cached, r.tokens_output, r.created_at, r.updated_at, \
    r.ended_at, r.expires_at, r.open_calls FROM runs r JOIN tasks t ON t.id = r.task \
    WHERE r.namespace = $1";

const STEP: &str = "SELECT s.seq, s.at, s.actor, s.kind, s.version, s.content, s.view, \
    s.content_sha256, s.hash, s.seal_key, s.seal \
    FROM steps s JOIN runs r ON r.id = s.run \
    WHERE r.namespace = $1 AND s.run = $2 AND s.seq > $3 ORDER BY s.seq LIMIT $4";

const MASKED: &str = "SELECT s.seq, s.at, s.actor, s.kind, s.version, s.content, s.view, \
    s.content_sha256, s.hash, s.seal_key, s.seal \
    FROM steps s JOIN runs r ON r.id = s.run \
    WHERE r.namespace = $1 AND s.run = $2 AND s.seq <= $3 AND s.view IS NOT NULL \
    AND s.kind IN ('trigger_received', 'tool_call', 'tool_blocked') ORDER BY s.seq";

/// Steps that one statement of a verification reads.
const VERIFIED_AT_ONCE: u32 = 1000;

impl Runs<'_> {
    /// One run.
    pub async fn get(
        &self,
        namespace: &Namespace,
        run: &RunId,
    ) -> Result<Option<RunRow>, DatabaseError> {
        let sql = format!("{RUN} AND r.id = $2");
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
        let mut select = Select::new(RUN, namespace.as_str(), key, request)?;
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

    /// Steps of a run after a sequence number, in order, at most `limit`. Empty for a run of another
    /// namespace.
    pub async fn steps(
        &self,
        namespace: &Namespace,
        run: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredStep>, DatabaseError> {
        let records: Vec<StepRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(STEP)
                .bind(namespace.as_str())
                .bind(run.as_str())
                .bind(int(after))
                .bind(i64::from(limit))
                .fetch_all(pool)
                .await
        })?;
        read_steps(run, records)
    }

    /// Of what led to an approval up to a sequence number (the run's trigger, calls, held calls),
    /// the steps whose view differs from the content, in order: what readers of the approval must
    /// not see is masked there (S3.10). Empty for a run of another namespace.
    pub async fn masked(
        &self,
        namespace: &Namespace,
        run: &RunId,
        up_to: u64,
    ) -> Result<Vec<StoredStep>, DatabaseError> {
        let records: Vec<StepRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(MASKED)
                .bind(namespace.as_str())
                .bind(run.as_str())
                .bind(int(up_to))
                .fetch_all(pool)
                .await
        })?;
        read_steps(run, records)
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

    /// The actions of a run, in the order in which they were proposed (S2.5).
    pub async fn actions(
        &self,
        namespace: &Namespace,
        run: &RunId,
    ) -> Result<Vec<ActionRow>, DatabaseError> {
        let records: Vec<ActionRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT a.run, a.call, a.tool, a.status, a.args, a.digest, a.cleared_by, \
                 a.result, a.denied, a.created_at, a.updated_at \
                 FROM actions a JOIN runs r ON r.id = a.run \
                 WHERE r.namespace = $1 AND a.run = $2",
            )
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

    /// Checks the whole timeline: numbers, times, contents, hashes, seals, and that nothing is cut
    /// off its end. Answers with the head, or names the first broken step (S2.3).
    pub async fn verify(
        &self,
        namespace: &Namespace,
        run: &RunId,
        keys: &ChainKeys,
    ) -> Result<Head, VerifyError> {
        let counted: Option<i64> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT seq FROM runs WHERE namespace = $1 AND id = $2")
                .bind(namespace.as_str())
                .bind(run.as_str())
                .fetch_optional(pool)
                .await
        })?;
        let counted = counted.ok_or_else(|| VerifyError::NotFound(run.clone()))?;
        let links = self.links(namespace, run).await?;
        let head = verify(run, &links, keys)?;
        if int(head.seq) < counted {
            return Err(VerifyError::Broken(Broken {
                seq: head.seq + 1,
                why: format!("it is missing: the run counts {counted} steps"),
            }));
        }
        Ok(head)
    }

    async fn links(
        &self,
        namespace: &Namespace,
        run: &RunId,
    ) -> Result<Vec<StoredLink>, VerifyError> {
        let mut links = Vec::new();
        let mut after = 0;
        loop {
            let records: Vec<StepRecord> = on_both!(&self.0.0.database, |pool| {
                sqlx::query_as(STEP)
                    .bind(namespace.as_str())
                    .bind(run.as_str())
                    .bind(after)
                    .bind(i64::from(VERIFIED_AT_ONCE))
                    .fetch_all(pool)
                    .await
            })?;
            let Some(last) = records.last() else {
                return Ok(links);
            };
            after = last.seq;
            for record in records {
                let seq = record.seq.unsigned_abs();
                let step = record.read().map_err(|why| Broken { seq, why })?;
                links.push(StoredLink {
                    seq: step.seq,
                    at: step.at,
                    actor: step.actor,
                    kind: step.kind,
                    version: step.version,
                    content: Some(step.content),
                    content_sha256: step.content_sha256,
                    hash: step.hash,
                    seal: step.seal,
                });
            }
        }
    }
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
struct RunRecord {
    id: String,
    task: String,
    namespace: String,
    agent: String,
    revision: String,
    principal: String,
    trust: String,
    input: String,
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
    created_at: i64,
    updated_at: i64,
    ended_at: Option<i64>,
    expires_at: Option<i64>,
    open_calls: i64,
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

/// The status of an action by its word.
pub(crate) fn action_status(text: &str) -> Result<ActionStatus, Why> {
    ActionStatus::ALL
        .into_iter()
        .find(|status| status.as_str() == text)
        .ok_or_else(|| format!("`{text}` is no status of an action"))
}

fn read_steps(run: &RunId, records: Vec<StepRecord>) -> Result<Vec<StoredStep>, DatabaseError> {
    records
        .into_iter()
        .map(|record| {
            let bad = bad_row("steps", format!("{run}, {}", record.seq));
            record.read().map_err(bad)
        })
        .collect()
}

#[derive(FromRow)]
struct StepRecord {
    seq: i64,
    at: i64,
    actor: String,
    kind: String,
    version: i64,
    content: String,
    view: Option<String>,
    content_sha256: Vec<u8>,
    hash: Vec<u8>,
    seal_key: Option<String>,
    seal: Option<Vec<u8>>,
}

impl StepRecord {
    fn read(self) -> Result<StoredStep, Why> {
        let seal = match (self.seal_key, self.seal) {
            (Some(key), Some(mac)) => Some(Seal {
                key,
                mac: digest(&mac)?,
            }),
            _ => None,
        };
        Ok(StoredStep {
            seq: count(self.seq)?,
            at: at(self.at),
            actor: name(self.actor)?,
            kind: self.kind,
            version: count(self.version)?,
            content: self.content,
            view: self.view,
            content_sha256: digest(&self.content_sha256)?,
            hash: digest(&self.hash)?,
            seal,
        })
    }
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

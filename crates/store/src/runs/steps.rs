//! Timelines as they are stored.

use sayso_run::{Actor, Digest, Namespace, RunId, Seal, Timestamp};
use sqlx::{AssertSqlSafe, FromRow};

use super::{IN_NAMESPACE, Runs};
use crate::database::on_both;
use crate::error::DatabaseError;
use crate::journal::int;
use crate::record::{Why, at, bad_row, count, digest, name};

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

pub(super) const STEP: &str = "SELECT s.seq, s.at, s.actor, s.kind, s.version, s.content, s.view, \
    s.content_sha256, s.hash, s.seal_key, s.seal \
    FROM steps s JOIN runs r ON r.id = s.run WHERE";

impl Runs<'_> {
    /// Steps of a run after a sequence number, in order, at most `limit`. Empty for a run of another
    /// namespace.
    pub async fn steps(
        &self,
        namespace: &Namespace,
        run: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredStep>, DatabaseError> {
        let records = self.records(namespace, run, int(after), limit).await?;
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
        let sql = format!(
            "{STEP} {IN_NAMESPACE} AND s.run = $2 AND s.seq <= $3 AND s.view IS NOT NULL \
             AND s.kind IN ('trigger_received', 'tool_call', 'tool_blocked') ORDER BY s.seq"
        );
        let records: Vec<StepRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(run.as_str())
                .bind(int(up_to))
                .fetch_all(pool)
                .await
        })?;
        read_steps(run, records)
    }

    /// The last step of a kind up to a sequence number. None of a run of another namespace.
    pub async fn last_of(
        &self,
        namespace: &Namespace,
        run: &RunId,
        kind: &str,
        up_to: u64,
    ) -> Result<Option<StoredStep>, DatabaseError> {
        let sql = format!(
            "{STEP} {IN_NAMESPACE} AND s.run = $2 AND s.seq <= $3 AND s.kind = $4 \
             ORDER BY s.seq DESC LIMIT 1"
        );
        let records: Vec<StepRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(run.as_str())
                .bind(int(up_to))
                .bind(kind)
                .fetch_all(pool)
                .await
        })?;
        Ok(read_steps(run, records)?.pop())
    }

    pub(super) async fn records(
        &self,
        namespace: &Namespace,
        run: &RunId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<StepRecord>, sqlx::Error> {
        let sql =
            format!("{STEP} {IN_NAMESPACE} AND s.run = $2 AND s.seq > $3 ORDER BY s.seq LIMIT $4");
        on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(run.as_str())
                .bind(after)
                .bind(i64::from(limit))
                .fetch_all(pool)
                .await
        })
    }
}

pub(super) fn read_steps(
    run: &RunId,
    records: Vec<StepRecord>,
) -> Result<Vec<StoredStep>, DatabaseError> {
    records
        .into_iter()
        .map(|record| {
            let bad = bad_row("steps", format!("{run}, {}", record.seq));
            record.read().map_err(bad)
        })
        .collect()
}

#[derive(FromRow)]
pub(super) struct StepRecord {
    pub(super) seq: i64,
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
    pub(super) fn read(self) -> Result<StoredStep, Why> {
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

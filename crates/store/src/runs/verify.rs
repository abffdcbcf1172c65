//! Checking a stored timeline (S2.3).

use sayso_run::{Broken, ChainKeys, Head, Namespace, RunId, StoredLink, verify};
use sqlx::AssertSqlSafe;
use thiserror::Error;

use super::{IN_NAMESPACE, Runs};
use crate::database::on_both;
use crate::error::DatabaseError;
use crate::journal::int;
use crate::record::{bad_row, name};

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

/// Steps that one statement of a verification reads.
const VERIFIED_AT_ONCE: u32 = 1000;

impl Runs<'_> {
    /// Checks the whole timeline: numbers, times, contents, hashes, seals, and that nothing is cut
    /// off its end. Answers with the head, or names the first broken step (S2.3). The seals of a copy
    /// are those of the run that it is a copy of.
    pub async fn verify(
        &self,
        namespace: &Namespace,
        run: &RunId,
        keys: &ChainKeys,
    ) -> Result<Head, VerifyError> {
        let sql = format!(
            "SELECT r.seq, COALESCE(r.imported_from, r.id) FROM runs r \
             WHERE {IN_NAMESPACE} AND r.id = $2"
        );
        let found: Option<(i64, String)> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(run.as_str())
                .fetch_optional(pool)
                .await
        })?;
        let (counted, sealed_as) = found.ok_or_else(|| VerifyError::NotFound(run.clone()))?;
        let bad = bad_row("runs", run.as_str());
        let sealed_as = name(sealed_as).map_err(bad)?;
        let links = self.links(namespace, run).await?;
        let head = verify(&sealed_as, &links, keys)?;
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
            let records = self
                .records(namespace, run, after, VERIFIED_AT_ONCE)
                .await?;
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

//! Artifacts: what runs leave behind as files (S9.4).

use sayso_run::{Digest, Namespace, RunId, Timestamp};
use sqlx::FromRow;
use thiserror::Error;

use crate::database::{on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{Why, at, bad_row, count, digest, name};

/// An artifact to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewArtifact {
    /// Its id: the same call always gives the same one.
    pub id: String,
    /// The tenant.
    pub namespace: Namespace,
    /// The run that made it.
    pub run: RunId,
    /// Its name, for people.
    pub name: String,
    /// Its MIME type, as the run says.
    pub mime: String,
    /// The bytes.
    pub content: Vec<u8>,
}

/// An artifact without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRow {
    /// Its id.
    pub id: String,
    /// The run that made it.
    pub run: RunId,
    /// Its name, for people.
    pub name: String,
    /// Its MIME type, as the run says.
    pub mime: String,
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// Why an artifact is not stored.
#[derive(Debug, Error)]
pub enum ArtifactError {
    /// It is too large.
    #[error("the artifact has {bytes} bytes; at most {limit} are stored")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Another one has its id.
    #[error("another artifact has the id {0}")]
    Exists(String),
    /// The database did not do it.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl ArtifactError {
    /// The stable code that users see.
    pub const fn code(&self) -> &'static str {
        match self {
            ArtifactError::TooLarge { .. } => "artifact.too_large",
            ArtifactError::Exists(_) => "artifact.exists",
            ArtifactError::Database(error) => error.code(),
        }
    }
}

impl From<sqlx::Error> for ArtifactError {
    fn from(error: sqlx::Error) -> Self {
        ArtifactError::Database(error.into())
    }
}

/// The table of artifacts.
#[derive(Debug, Clone, Copy)]
pub struct Artifacts<'a>(&'a Store);

impl Store {
    /// The table of artifacts.
    pub fn artifacts(&self) -> Artifacts<'_> {
        Artifacts(self)
    }
}

impl Artifacts<'_> {
    /// Stores an artifact; the same one again changes nothing.
    pub async fn put(&self, new: &NewArtifact) -> Result<(), ArtifactError> {
        let limit = self.0.0.config.max_artifact_bytes;
        if new.content.len() > limit {
            return Err(ArtifactError::TooLarge {
                bytes: new.content.len(),
                limit,
            });
        }
        refuse_nul(&[("id", &new.id), ("name", &new.name), ("mime", &new.mime)])?;
        let sha256 = Digest::of(&new.content);
        let stored: u64 = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(
                "INSERT INTO artifacts (id, namespace, run, name, mime, size, sha256, content, \
                 created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
            )
            .bind(new.id.as_str())
            .bind(new.namespace.as_str())
            .bind(new.run.as_str())
            .bind(new.name.as_str())
            .bind(new.mime.as_str())
            .bind(crate::journal::int(new.content.len() as u64))
            .bind(sha256.as_bytes().as_slice())
            .bind(new.content.as_slice())
            .bind(self.0.0.clock.now().micros())
            .execute(pool)
            .await
            .map(|done| done.rows_affected())
        })?;
        if stored == 1 {
            return Ok(());
        }
        let same: Option<Vec<u8>> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar(
                "SELECT sha256 FROM artifacts \
                 WHERE id = $1 AND namespace = $2 AND run = $3 AND name = $4 AND mime = $5",
            )
            .bind(new.id.as_str())
            .bind(new.namespace.as_str())
            .bind(new.run.as_str())
            .bind(new.name.as_str())
            .bind(new.mime.as_str())
            .fetch_optional(pool)
            .await
        })?;
        if same.as_deref() == Some(sha256.as_bytes().as_slice()) {
            return Ok(());
        }
        Err(ArtifactError::Exists(new.id.clone()))
    }

    /// The artifacts of a run, oldest first, without their bytes.
    pub async fn list(
        &self,
        namespace: &Namespace,
        run: &RunId,
    ) -> Result<Vec<ArtifactRow>, DatabaseError> {
        let records: Vec<ArtifactRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT id, run, name, mime, size, sha256, created_at FROM artifacts \
                 WHERE namespace = $1 AND run = $2 ORDER BY created_at, id",
            )
            .bind(namespace.as_str())
            .bind(run.as_str())
            .fetch_all(pool)
            .await
        })?;
        records.into_iter().map(ArtifactRecord::read).collect()
    }

    /// One artifact with its bytes.
    pub async fn get(
        &self,
        namespace: &Namespace,
        id: &str,
    ) -> Result<Option<(ArtifactRow, Vec<u8>)>, DatabaseError> {
        refuse_nul(&[("id", id)])?;
        let record: Option<WholeRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT id, run, name, mime, size, sha256, created_at, content FROM artifacts \
                 WHERE namespace = $1 AND id = $2",
            )
            .bind(namespace.as_str())
            .bind(id)
            .fetch_optional(pool)
            .await
        })?;
        record
            .map(|whole| Ok((whole.row.read()?, whole.content)))
            .transpose()
    }
}

#[derive(FromRow)]
struct ArtifactRecord {
    id: String,
    run: String,
    name: String,
    mime: String,
    size: i64,
    sha256: Vec<u8>,
    created_at: i64,
}

#[derive(FromRow)]
struct WholeRecord {
    #[sqlx(flatten)]
    row: ArtifactRecord,
    content: Vec<u8>,
}

impl ArtifactRecord {
    fn read(self) -> Result<ArtifactRow, DatabaseError> {
        let bad = bad_row("artifacts", self.id.clone());
        let read = || -> Result<ArtifactRow, Why> {
            Ok(ArtifactRow {
                id: self.id,
                run: name(self.run)?,
                name: self.name,
                mime: self.mime,
                size: count(self.size)?,
                sha256: digest(&self.sha256)?,
                created_at: at(self.created_at),
            })
        };
        read().map_err(bad)
    }
}

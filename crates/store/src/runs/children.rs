use sayso_driver::LoadError;
use sayso_run::{ChildEnd, RunId};
use sqlx::{AssertSqlSafe, FromRow};

use super::Runs;
use crate::database::on_both;
use crate::error::DatabaseError;
use crate::record::{bad_row, name, word};

const ENDED: &str = "SELECT r.id, r.ended_by, r.output, r.error_message, r.trust \
    FROM child_ends c JOIN runs r ON r.id = c.child WHERE c.parent = $1 ORDER BY r.id";

const LIVE: &str = "SELECT id FROM runs WHERE parent = $1 AND ended_at IS NULL ORDER BY id";

#[derive(FromRow)]
struct EndRecord {
    id: String,
    ended_by: String,
    output: Option<String>,
    error_message: Option<String>,
    trust: String,
}

impl Runs<'_> {
    /// The ends of a run's children that it has not taken yet (S3.6).
    ///
    /// # Errors
    ///
    /// The database is away, or a row cannot be read.
    pub async fn ended_children(&self, parent: &RunId) -> Result<Vec<ChildEnd>, LoadError> {
        let records: Vec<EndRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(ENDED))
                .bind(parent.as_str())
                .fetch_all(pool)
                .await
        })
        .map_err(|error| LoadError::Unavailable(DatabaseError::from(error).to_string()))?;
        let read = |record: EndRecord| {
            let bad = |why| LoadError::BadRow {
                run: parent.clone(),
                why,
            };
            let text = record.output.or(record.error_message).unwrap_or_default();
            Ok(ChildEnd {
                run: name(record.id).map_err(bad)?,
                ended_by: word(&record.ended_by).map_err(bad)?,
                text,
                trust: word(&record.trust).map_err(bad)?,
            })
        };
        records.into_iter().map(read).collect()
    }

    /// The children of a run that have not ended.
    ///
    /// # Errors
    ///
    /// The database is away, or a row cannot be read.
    pub async fn live_children(&self, parent: &RunId) -> Result<Vec<RunId>, DatabaseError> {
        let ids: Vec<(String,)> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(LIVE))
                .bind(parent.as_str())
                .fetch_all(pool)
                .await
        })?;
        let read = |(id,): (String,)| name(id.clone()).map_err(bad_row("runs", id));
        ids.into_iter().map(read).collect()
    }
}

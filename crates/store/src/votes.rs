//! What was said with votes, until the deciding step opens them (S6.12).

use sayso_run::{ApprovalId, OpenVote};
use sqlx::FromRow;

use crate::database::{on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{at, bad_row, name};

/// The table of votes. A row is written before its step: without the step it counts for nothing.
#[derive(Debug, Clone, Copy)]
pub struct Votes<'a>(&'a Store);

impl Store {
    /// The table of votes.
    pub fn votes(&self) -> Votes<'_> {
        Votes(self)
    }
}

impl Votes<'_> {
    /// Keeps what was said.
    ///
    /// # Errors
    ///
    /// When the database does not work, or the reason holds a NUL.
    pub async fn keep(&self, approval: &ApprovalId, vote: &OpenVote) -> Result<(), DatabaseError> {
        refuse_nul(&[("reason", vote.reason.as_deref().unwrap_or_default())])?;
        write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(
                "INSERT INTO votes (approval, voter, salt, reason, at) \
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
            )
            .bind(approval.as_str())
            .bind(vote.by.as_str())
            .bind(&vote.salt)
            .bind(&vote.reason)
            .bind(vote.at.micros())
            .execute(pool)
            .await
            .map(|done| done.rows_affected())
        })?;
        Ok(())
    }

    /// All that was said on an approval, counted or not.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn of(&self, approval: &ApprovalId) -> Result<Vec<OpenVote>, DatabaseError> {
        let records: Vec<VoteRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT voter, salt, reason, at FROM votes WHERE approval = $1 ORDER BY at, voter",
            )
            .bind(approval.as_str())
            .fetch_all(pool)
            .await
        })?;
        let read = |record: VoteRecord| {
            let bad = bad_row("votes", approval.as_str());
            Ok(OpenVote {
                by: name(record.voter).map_err(bad)?,
                reason: record.reason,
                salt: record.salt,
                at: at(record.at),
            })
        };
        records.into_iter().map(read).collect()
    }
}

#[derive(FromRow)]
struct VoteRecord {
    voter: String,
    salt: String,
    reason: Option<String>,
    at: i64,
}

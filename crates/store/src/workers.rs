//! Workers: one row a start of an executor process. A lease belongs to a worker, so one renewal a
//! second holds all runs of a process, and one mark frees them all.

use sayso_run::{BadName, Timestamp, WorkerId};
use sqlx::AssertSqlSafe;
use thiserror::Error;
use uuid::Uuid;

use crate::database::{in_transaction, on_both, write_on_both};
use crate::error::DatabaseError;
use crate::open::Store;
use crate::record::{at, bad_row, count, name};

/// One worker that is not marked dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Its id: the name and the boot id of this start.
    pub id: WorkerId,
    /// Its name, which stays over restarts.
    pub name: String,
    /// Goes up with each renewal.
    pub counter: u64,
    /// When it started.
    pub started_at: Timestamp,
    /// When it last renewed, by the database's clock; for people, never for a decision.
    pub renewed_at: Timestamp,
}

/// Why a worker could not be registered.
#[derive(Debug, Error)]
pub enum RegisterError {
    /// The name is too long or holds what is not visible ASCII.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The database did not do it.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl From<sqlx::Error> for RegisterError {
    fn from(error: sqlx::Error) -> Self {
        RegisterError::Database(error.into())
    }
}

/// How often a registration is tried when another start of the same name comes between.
const TRIES: usize = 5;

/// The table of workers.
#[derive(Debug, Clone, Copy)]
pub struct Workers<'a>(&'a Store);

impl Store {
    /// The table of workers.
    pub fn workers(&self) -> Workers<'_> {
        Workers(self)
    }
}

impl Workers<'_> {
    /// Registers a new start of `name` and marks an older start of it dead at once.
    pub async fn register(&self, name: &str) -> Result<WorkerId, RegisterError> {
        let mut tries = 0;
        loop {
            let id = WorkerId::new(format!("{name}:{}", Uuid::now_v7().simple()))?;
            match self.try_register(name, &id).await {
                Err(sqlx::Error::Database(error))
                    if error.is_unique_violation() && tries < TRIES =>
                {
                    tries += 1;
                }
                done => return done.map(|()| id).map_err(RegisterError::from),
            }
        }
    }

    async fn try_register(&self, name: &str, id: &WorkerId) -> Result<(), sqlx::Error> {
        let now = self.0.0.database.now();
        let end =
            format!("UPDATE workers SET ended_at = {now} WHERE name = $1 AND ended_at IS NULL");
        let insert = format!(
            "INSERT INTO workers (id, name, counter, started_at, renewed_at) \
             VALUES ($1, $2, 0, {now}, {now})"
        );
        in_transaction!(&self.0.0.database, |tx| {
            sqlx::query(AssertSqlSafe(end))
                .bind(name)
                .execute(&mut *tx)
                .await?;
            sqlx::query(AssertSqlSafe(insert))
                .bind(id.as_str())
                .bind(name)
                .execute(&mut *tx)
                .await?;
        });
        Ok(())
    }

    /// Renews once, as the heartbeat does once a second: the database's time, or `None` if the
    /// worker is marked dead.
    pub async fn renew(&self, worker: &WorkerId) -> Result<Option<Timestamp>, DatabaseError> {
        let sql = renew_sql(self.0.0.database.now());
        let renewed: Option<i64> = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar(AssertSqlSafe(sql))
                .bind(worker.as_str())
                .fetch_optional(pool)
                .await
        })?;
        Ok(renewed.map(at))
    }

    /// Ends a worker that gave everything back: whether it was still marked alive.
    pub async fn end(&self, worker: &WorkerId) -> Result<bool, DatabaseError> {
        self.mark(worker, None).await
    }

    /// Marks a worker dead if it has not renewed since `seen` was read: whether it was marked.
    pub async fn mark_dead(&self, worker: &WorkerId, seen: u64) -> Result<bool, DatabaseError> {
        self.mark(worker, Some(seen)).await
    }

    async fn mark(&self, worker: &WorkerId, seen: Option<u64>) -> Result<bool, DatabaseError> {
        let sql = format!(
            "UPDATE workers SET ended_at = {} \
             WHERE id = $1 AND ended_at IS NULL AND ($2 < 0 OR counter = $2)",
            self.0.0.database.now()
        );
        let seen = seen.map_or(-1, crate::journal::int);
        let marked = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(AssertSqlSafe(sql))
                .bind(worker.as_str())
                .bind(seen)
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?;
        Ok(marked == 1)
    }

    /// Every worker that is not marked dead.
    pub async fn live(&self) -> Result<Vec<Worker>, DatabaseError> {
        type Columns = (String, String, i64, i64, i64);
        let rows: Vec<Columns> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT id, name, counter, started_at, renewed_at FROM workers \
                 WHERE ended_at IS NULL ORDER BY id",
            )
            .fetch_all(pool)
            .await
        })?;
        rows.into_iter()
            .map(|(id, label, counter, started_at, renewed_at)| {
                let bad = bad_row("workers", id.clone());
                let read = || {
                    Ok(Worker {
                        id: name(id)?,
                        name: label,
                        counter: count(counter)?,
                        started_at: at(started_at),
                        renewed_at: at(renewed_at),
                    })
                };
                read().map_err(bad)
            })
            .collect()
    }
}

/// Renews `$1` unless it is marked dead.
pub(crate) fn renew_sql(now: &str) -> String {
    format!(
        "UPDATE workers SET counter = counter + 1, renewed_at = {now} \
         WHERE id = $1 AND ended_at IS NULL RETURNING renewed_at"
    )
}

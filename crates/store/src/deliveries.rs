//! Notifications that are due (S8.1). The journal makes them; notifiers share them.
//!
//! A notifier claims what is due by moving its due time ahead: if it dies, the delivery is due again
//! when that time comes. What it then says of a delivery counts only while it holds it.

use std::time::Duration;

use sayso_driver::{Notice, Recipient};
use sayso_run::{AgentName, Namespace, RunId, Timestamp};
use sqlx::{AssertSqlSafe, FromRow};

use crate::database::{Kind, on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{Why, at, bad_row, count, name};

/// A claimed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its id, which receivers deduplicate by.
    pub id: String,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The run.
    pub run: RunId,
    /// What it tells of.
    pub notice: Notice,
    /// Whom.
    pub to: Recipient,
    /// Attempts before this one.
    pub attempts: u32,
    /// The bytes that were sent first, once they were made.
    pub body: Option<Vec<u8>>,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// The receiver took it.
    Sent,
    /// It will not be tried again.
    Failed {
        /// Why.
        error: String,
    },
    /// It will be tried again.
    Again {
        /// When.
        due_at: Timestamp,
        /// Why it did not work this time.
        error: String,
    },
}

/// The table of deliveries.
#[derive(Debug, Clone, Copy)]
pub struct Deliveries<'a>(&'a Store);

impl Store {
    /// The table of deliveries.
    pub fn deliveries(&self) -> Deliveries<'_> {
        Deliveries(self)
    }
}

impl Deliveries<'_> {
    /// Cancels what is due although its approval was decided, or its run was retried, meanwhile: how
    /// many.
    pub async fn cancel_decided(&self) -> Result<u64, DatabaseError> {
        let sql = format!(
            "UPDATE deliveries SET state = 'cancelled', updated_at = {now} \
             WHERE state = 'due' AND (EXISTS (SELECT 1 FROM approvals a \
             WHERE a.id = deliveries.approval AND a.status <> 'pending') \
             OR approval IS NULL AND EXISTS (SELECT 1 FROM runs r \
             WHERE r.id = deliveries.run AND r.status <> 'failed'))",
            now = self.0.0.database.now()
        );
        Ok(write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(AssertSqlSafe(sql))
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?)
    }

    /// Takes what is due, for `lease`, and whose approval is still pending, or whose run is still
    /// failed; the longest due first.
    pub async fn claim(
        &self,
        holder: &str,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<Delivery>, DatabaseError> {
        refuse_nul(&[("holder", holder)])?;
        let lock = match self.0.kind() {
            Kind::Postgres => "FOR UPDATE OF d SKIP LOCKED",
            Kind::Sqlite => "",
        };
        let sql = format!(
            "WITH taken AS MATERIALIZED (SELECT d.id FROM deliveries d \
             WHERE d.state = 'due' AND d.due_at <= {at_once} AND (EXISTS (SELECT 1 FROM approvals a \
             WHERE a.id = d.approval AND a.status = 'pending') \
             OR d.approval IS NULL AND EXISTS (SELECT 1 FROM runs r \
             WHERE r.id = d.run AND r.status = 'failed')) \
             ORDER BY d.due_at, d.id LIMIT $3 {lock}) \
             UPDATE deliveries SET holder = $1, due_at = {now} + $2, updated_at = {now} \
             WHERE id IN (SELECT id FROM taken) \
             RETURNING id, namespace, agent, run, approval, notice, url, secret, target, \
             attempts, body",
            at_once = self.0.0.database.at_once(),
            now = self.0.0.database.now()
        );
        let lease = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX);
        let records: Vec<DeliveryRecord> = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(holder)
                .bind(lease)
                .bind(i64::from(limit))
                .fetch_all(pool)
                .await
        })?;
        records.into_iter().map(DeliveryRecord::read).collect()
    }

    /// Keeps the bytes that are about to be sent first, so that every retry sends the same: whether
    /// the holder still holds it. Bytes that were kept before stay.
    pub async fn keep_body(
        &self,
        id: &str,
        holder: &str,
        body: &[u8],
    ) -> Result<bool, DatabaseError> {
        refuse_nul(&[("id", id), ("holder", holder)])?;
        let kept = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(
                "UPDATE deliveries SET body = COALESCE(body, $3) \
                 WHERE id = $1 AND holder = $2 AND state = 'due'",
            )
            .bind(id)
            .bind(holder)
            .bind(body)
            .execute(pool)
            .await
            .map(|done| done.rows_affected())
        })?;
        Ok(kept == 1)
    }

    /// Records an attempt and gives the delivery back: whether the holder still held it.
    pub async fn record(
        &self,
        id: &str,
        holder: &str,
        attempt: &Attempt,
    ) -> Result<bool, DatabaseError> {
        let (state, due_at, error) = match attempt {
            Attempt::Sent => ("sent", None, None),
            Attempt::Failed { error } => ("failed", None, Some(error.as_str())),
            Attempt::Again { due_at, error } => {
                ("due", Some(due_at.micros()), Some(error.as_str()))
            }
        };
        refuse_nul(&[
            ("id", id),
            ("holder", holder),
            ("error", error.unwrap_or_default()),
        ])?;
        let sql = format!(
            "UPDATE deliveries SET state = $3, due_at = COALESCE($4, due_at), last_error = $5, \
             attempts = attempts + 1, holder = NULL, updated_at = {now} \
             WHERE id = $1 AND holder = $2 AND state = 'due'",
            now = self.0.0.database.now()
        );
        let recorded = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(AssertSqlSafe(sql))
                .bind(id)
                .bind(holder)
                .bind(state)
                .bind(due_at)
                .bind(error)
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?;
        Ok(recorded == 1)
    }

    /// When the next delivery is due, if there is one: how long a notifier may sleep.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, DatabaseError> {
        let due: Option<i64> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT MIN(due_at) FROM deliveries WHERE state = 'due'")
                .fetch_one(pool)
                .await
        })?;
        Ok(due.map(at))
    }
}

#[derive(FromRow)]
struct DeliveryRecord {
    id: String,
    namespace: String,
    agent: String,
    run: String,
    approval: Option<String>,
    notice: String,
    url: Option<String>,
    secret: Option<String>,
    target: Option<String>,
    attempts: i64,
    body: Option<Vec<u8>>,
}

impl DeliveryRecord {
    fn read(self) -> Result<Delivery, DatabaseError> {
        let bad = bad_row("deliveries", self.id.clone());
        let read = || -> Result<Delivery, Why> {
            Ok(Delivery {
                id: self.id,
                namespace: name(self.namespace)?,
                agent: name(self.agent)?,
                run: name(self.run)?,
                notice: {
                    let approval = self.approval.map(name).transpose()?;
                    Notice::read(&self.notice, approval)
                        .ok_or_else(|| format!("`{}` is no notice", self.notice))?
                },
                to: match (self.target, self.url) {
                    (Some(target), _) => Recipient::Target(target),
                    (None, Some(url)) => Recipient::Bundle {
                        url,
                        secret: self.secret,
                    },
                    (None, None) => return Err("it goes nowhere".to_owned()),
                },
                attempts: count(self.attempts)?,
                body: self.body,
            })
        };
        read().map_err(bad)
    }
}

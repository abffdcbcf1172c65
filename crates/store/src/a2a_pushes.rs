//! Where A2A clients want to be told of their tasks (S6.13), and how far they were told.
//!
//! What is owed follows from the run: every state that came after the one that was told last. So a
//! push is claimed, told and moved on, and if the one that held it dies, it is owed again.

use std::time::Duration;

use sayso_run::{AgentName, Namespace, PrincipalId, RunId, Status, Timestamp};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, FromRow};

use crate::database::{Kind, on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::journal::int;
use crate::open::Store;
use crate::record::{Why, bad_row, count, name};
use crate::secrets::{Place, SecretKeys, SecretsError};

/// Where to, and with what: sealed in the database.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushTarget {
    /// The receiver's URL.
    pub url: String,
    /// What the receiver knows the task by; empty for none.
    pub token: String,
    /// The HTTP scheme of its credentials; empty for none.
    pub scheme: String,
    /// The credentials; empty for none.
    pub credentials: String,
}

impl std::fmt::Debug for PushTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PushTarget")
    }
}

/// A push to store.
#[derive(Debug, Clone)]
pub struct NewPush {
    /// The run.
    pub run: RunId,
    /// Its id, unique for the run.
    pub id: String,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// Who wants it.
    pub principal: PrincipalId,
    /// Where to.
    pub target: PushTarget,
    /// The run's last step that its client knows of.
    pub told_seq: u64,
    /// The status that its client knows of.
    pub told_status: Status,
}

/// A push with its target, opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The run.
    pub run: RunId,
    /// Its id.
    pub id: String,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// Where to.
    pub target: PushTarget,
    /// The last step that was told of.
    pub told_seq: u64,
    /// The status that was told last.
    pub told_status: Status,
    /// Failed attempts since then.
    pub attempts: u32,
}

/// What came of a look at a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// The receiver knows of everything up to this step.
    UpTo {
        /// The step.
        seq: u64,
        /// The status at it.
        status: Status,
        /// Whether nothing follows.
        last: bool,
    },
    /// It will be tried again.
    Again {
        /// When.
        due_at: Timestamp,
        /// Why it did not work this time.
        error: String,
    },
    /// It is not tried again.
    Failed {
        /// Why.
        error: String,
    },
}

/// The table of pushes.
#[derive(Debug, Clone, Copy)]
pub struct A2aPushes<'a>(&'a Store);

impl Store {
    /// The table of pushes.
    pub fn a2a_pushes(&self) -> A2aPushes<'_> {
        A2aPushes(self)
    }
}

const COLUMNS: &str = "run, id, namespace, agent, key_id, sealed, told_seq, told_status, attempts";

impl A2aPushes<'_> {
    /// Stores a push, or puts it in the place of the one with its id.
    ///
    /// # Errors
    ///
    /// When it cannot be sealed, or the database does not work.
    pub async fn put(&self, keys: &SecretKeys, new: &NewPush) -> Result<(), SecretsError> {
        refuse_nul(&[("id", &new.id)])?;
        let bound = bound_to(&new.run, &new.id);
        let place = place(&new.namespace, &bound);
        let target = serde_json::to_vec(&new.target).expect("texts make JSON");
        let sealed = keys.seal(place, &target);
        let sealed = sealed.map_err(|why| cannot(&new.id, why))?;
        let now = self.0.0.clock.now().micros();
        write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(
                "INSERT INTO a2a_pushes (run, id, namespace, agent, principal, key_id, sealed, \
                 state, told_seq, told_status, attempts, due_at, created_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', $8, $9, 0, $10, $10) \
                 ON CONFLICT (run, id) DO UPDATE SET principal = EXCLUDED.principal, \
                 key_id = EXCLUDED.key_id, sealed = EXCLUDED.sealed, state = 'open', \
                 attempts = 0, due_at = EXCLUDED.due_at, holder = NULL",
            )
            .bind(new.run.as_str())
            .bind(new.id.as_str())
            .bind(new.namespace.as_str())
            .bind(new.agent.as_str())
            .bind(new.principal.as_str())
            .bind(keys.current())
            .bind(sealed)
            .bind(int(new.told_seq))
            .bind(new.told_status.as_str())
            .bind(now)
            .execute(pool)
            .await
            .map(|done| done.rows_affected())
        })?;
        Ok(())
    }

    /// The pushes of a run by their ids, opened.
    ///
    /// # Errors
    ///
    /// When one cannot be opened, or the database does not work.
    pub async fn list(
        &self,
        keys: &SecretKeys,
        namespace: &Namespace,
        run: &RunId,
    ) -> Result<Vec<Push>, SecretsError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM a2a_pushes WHERE namespace = $1 AND run = $2 ORDER BY id"
        );
        let records: Vec<PushRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(run.as_str())
                .fetch_all(pool)
                .await
        })?;
        records
            .into_iter()
            .map(|record| record.open(keys))
            .collect()
    }

    /// Removes one: whether there was one.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn delete(
        &self,
        namespace: &Namespace,
        run: &RunId,
        id: &str,
    ) -> Result<bool, DatabaseError> {
        refuse_nul(&[("id", id)])?;
        let gone = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query("DELETE FROM a2a_pushes WHERE namespace = $1 AND run = $2 AND id = $3")
                .bind(namespace.as_str())
                .bind(run.as_str())
                .bind(id)
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?;
        Ok(gone == 1)
    }

    /// Whether a run went on since one of its receivers was told: a look that writes nothing.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn any_due(&self) -> Result<bool, DatabaseError> {
        let sql = format!(
            "SELECT 1 FROM a2a_pushes p JOIN runs r ON r.id = p.run WHERE p.state = 'open' \
             AND p.due_at <= {at_once} AND r.seq > p.told_seq LIMIT 1",
            at_once = self.0.0.database.at_once()
        );
        let found: Option<i32> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar(AssertSqlSafe(sql))
                .fetch_optional(pool)
                .await
        })?;
        Ok(found.is_some())
    }

    /// Takes pushes whose runs went on since they were told, for `lease`; the longest due first.
    /// Those that cannot be opened are told apart by their ids, and are failed.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn claim(
        &self,
        keys: &SecretKeys,
        holder: &str,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<Push>, DatabaseError> {
        refuse_nul(&[("holder", holder)])?;
        let lock = match self.0.kind() {
            Kind::Postgres => "FOR UPDATE OF p SKIP LOCKED",
            Kind::Sqlite => "",
        };
        let sql = format!(
            "WITH taken AS MATERIALIZED (SELECT p.run, p.id FROM a2a_pushes p \
             WHERE p.state = 'open' AND p.due_at <= {at_once} AND EXISTS (SELECT 1 FROM runs r \
             WHERE r.id = p.run AND r.seq > p.told_seq) \
             ORDER BY p.due_at, p.run, p.id LIMIT $3 {lock}) \
             UPDATE a2a_pushes SET holder = $1, due_at = {now} + $2 \
             WHERE (run, id) IN (SELECT run, id FROM taken) RETURNING {COLUMNS}",
            at_once = self.0.0.database.at_once(),
            now = self.0.0.database.now()
        );
        let lease = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX);
        let records: Vec<PushRecord> = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(holder)
                .bind(lease)
                .bind(i64::from(limit))
                .fetch_all(pool)
                .await
        })?;
        let mut taken = Vec::new();
        for record in records {
            let (run, id) = (record.run.clone(), record.id.clone());
            match record.open(keys) {
                Ok(push) => taken.push(push),
                Err(SecretsError::Database(error)) => return Err(error),
                Err(error) => {
                    let error = error.to_string();
                    let failed = Told::Failed { error };
                    self.settle(&run, &id, holder, &failed).await?;
                }
            }
        }
        Ok(taken)
    }

    /// Records what came of a look at a claimed push and gives it back: whether the holder still held
    /// it.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn record(
        &self,
        push: &Push,
        holder: &str,
        told: &Told,
    ) -> Result<bool, DatabaseError> {
        self.settle(push.run.as_str(), &push.id, holder, told).await
    }

    async fn settle(
        &self,
        run: &str,
        id: &str,
        holder: &str,
        told: &Told,
    ) -> Result<bool, DatabaseError> {
        let (state, seq, status, due_at, error) = match told {
            Told::UpTo { seq, status, last } => {
                let state = if *last { "done" } else { "open" };
                (state, Some(int(*seq)), Some(status.as_str()), None, None)
            }
            Told::Again { due_at, error } => (
                "open",
                None,
                None,
                Some(due_at.micros()),
                Some(error.as_str()),
            ),
            Told::Failed { error } => ("failed", None, None, None, Some(error.as_str())),
        };
        refuse_nul(&[
            ("id", id),
            ("holder", holder),
            ("error", error.unwrap_or_default()),
        ])?;
        let sql = format!(
            "UPDATE a2a_pushes SET state = $4, told_seq = COALESCE($5, told_seq), \
             told_status = COALESCE($6, told_status), due_at = COALESCE($7, {now}), \
             last_error = $8, attempts = CASE WHEN $8 IS NULL THEN 0 ELSE attempts + 1 END, \
             holder = NULL WHERE run = $1 AND id = $2 AND holder = $3 AND state = 'open'",
            now = self.0.0.database.now()
        );
        let recorded = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(AssertSqlSafe(sql))
                .bind(run)
                .bind(id)
                .bind(holder)
                .bind(state)
                .bind(seq)
                .bind(status)
                .bind(due_at)
                .bind(error)
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?;
        Ok(recorded == 1)
    }
}

/// What a sealed target is bound to, beside its namespace: no secret has such a name.
fn bound_to(run: &RunId, id: &str) -> String {
    format!("a2a push {run} {id}")
}

fn place<'p>(namespace: &'p Namespace, bound: &'p str) -> Place<'p> {
    Place {
        namespace: namespace.as_str(),
        agent: "",
        name: bound,
    }
}

fn cannot(id: &str, why: crate::secrets::SealError) -> SecretsError {
    SecretsError::Seal {
        name: format!("target of the push {id}"),
        why,
    }
}

#[derive(FromRow)]
struct PushRecord {
    run: String,
    id: String,
    namespace: String,
    agent: String,
    key_id: String,
    sealed: Vec<u8>,
    told_seq: i64,
    told_status: String,
    attempts: i64,
}

impl PushRecord {
    fn open(self, keys: &SecretKeys) -> Result<Push, SecretsError> {
        let bad = || bad_row("a2a_pushes", format!("{}, {}", self.run, self.id));
        let namespace: Namespace = name(self.namespace.clone()).map_err(bad())?;
        let run: RunId = name(self.run.clone()).map_err(bad())?;
        let bound = bound_to(&run, &self.id);
        let target = keys.open(place(&namespace, &bound), &self.key_id, &self.sealed);
        let target = target.map_err(|why| cannot(&self.id, why))?;
        let read = || -> Result<Push, Why> {
            Ok(Push {
                target: serde_json::from_str(&target).map_err(|error| error.to_string())?,
                agent: name(self.agent.clone())?,
                told_seq: count(self.told_seq)?,
                told_status: Status::parse(&self.told_status)
                    .ok_or_else(|| format!("`{}` is no status", self.told_status))?,
                attempts: count(self.attempts)?,
                id: self.id.clone(),
                namespace,
                run,
            })
        };
        Ok(read().map_err(bad())?)
    }
}

//! Targets: where a namespace is told of approvals and failures (S8.2).
//!
//! Whoever makes notifications due asks for the targets of a namespace with each held call, so they
//! are known for a second without asking: a namespace without targets costs its runs one look a
//! second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sayso_driver::{Takes, Target};
use sayso_run::{Namespace, PrincipalId, Timestamp};
use sqlx::{AssertSqlSafe, FromRow};

use crate::database::{in_transaction, on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{Why, at, bad_row, name};

/// How long the targets of a namespace are known without asking.
const FRESH: Duration = Duration::from_secs(1);

/// The most targets that a namespace may have: each held call makes one delivery for each.
pub const MAX_TARGETS: usize = 20;

/// What a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// Gets a signed POST like a bundle's `notify`.
    Webhook,
    /// A mailbox.
    Email,
    /// An incoming webhook as Slack has it.
    Slack,
}

impl TargetKind {
    /// All of them.
    pub const ALL: [TargetKind; 3] = [TargetKind::Webhook, TargetKind::Email, TargetKind::Slack];

    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            TargetKind::Webhook => "webhook",
            TargetKind::Email => "email",
            TargetKind::Slack => "slack",
        }
    }

    fn read(word: &str) -> Result<Self, Why> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == word);
        kind.ok_or_else(|| format!("`{word}` is no kind of target"))
    }
}

/// One target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetRow {
    /// Its name, unique in the namespace.
    pub name: String,
    /// What it is.
    pub kind: TargetKind,
    /// The URL, or the mailbox. A URL may be a secret itself: only its origin is shown.
    pub address: String,
    /// The name of the secret that signs what a webhook gets.
    pub secret: Option<String>,
    /// What it gets unasked.
    pub takes: Takes,
    /// Who added it.
    pub created_by: PrincipalId,
    /// When.
    pub created_at: Timestamp,
}

/// A target to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTarget {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TargetKind,
    /// The URL, or the mailbox.
    pub address: String,
    /// The name of the secret that signs what a webhook gets.
    pub secret: Option<String>,
    /// What it gets unasked.
    pub takes: Takes,
}

/// What came of adding a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It is there.
    Added,
    /// There is one of this name.
    Exists,
    /// The namespace has [`MAX_TARGETS`].
    TooMany,
}

/// The targets that this process has read lately, by namespace.
#[derive(Debug, Default)]
pub(crate) struct KnownTargets(Mutex<HashMap<Namespace, Read>>);

/// What was read, and when.
type Read = (Instant, Arc<[Target]>);

impl KnownTargets {
    fn get(&self, namespace: &Namespace) -> Option<Arc<[Target]>> {
        // Insertions leave the map whole, whoever panicked.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, targets) = known.get(namespace)?;
        (read.elapsed() < FRESH).then(|| Arc::clone(targets))
    }

    fn put(&self, namespace: &Namespace, read: Instant, targets: Arc<[Target]>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (read, _)| read.elapsed() < FRESH);
        known.insert(namespace.clone(), (read, targets));
    }

    fn forget(&self, namespace: &Namespace) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(namespace);
    }
}

/// The table of targets.
#[derive(Debug, Clone, Copy)]
pub struct Targets<'a>(&'a Store);

impl Store {
    /// The table of targets.
    pub fn targets(&self) -> Targets<'_> {
        Targets(self)
    }
}

impl Targets<'_> {
    /// Adds a target, unless its name is taken or there are too many.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn add(
        &self,
        namespace: &Namespace,
        target: &NewTarget,
        by: &PrincipalId,
    ) -> Result<Added, DatabaseError> {
        refuse_nul(&[
            ("name", &target.name),
            ("address", &target.address),
            ("secret", target.secret.as_deref().unwrap_or_default()),
        ])?;
        let there = self.list(namespace).await?;
        if there.iter().any(|row| row.name == target.name) {
            return Ok(Added::Exists);
        }
        if there.len() >= MAX_TARGETS {
            return Ok(Added::TooMany);
        }
        let sql = format!(
            "INSERT INTO targets (namespace, name, kind, address, secret, approvals, failures, \
             created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, {now}) \
             ON CONFLICT DO NOTHING",
            now = self.0.0.database.now()
        );
        let added = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(&target.name)
                .bind(target.kind.as_str())
                .bind(&target.address)
                .bind(&target.secret)
                .bind(i64::from(target.takes.approvals))
                .bind(i64::from(target.takes.failures))
                .bind(by.as_str())
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?;
        self.0.0.targets.forget(namespace);
        Ok(if added == 1 {
            Added::Added
        } else {
            Added::Exists
        })
    }

    /// Removes a target, and what is still to be sent to it: the target that there was, or `None`.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn remove(
        &self,
        namespace: &Namespace,
        target: &str,
    ) -> Result<Option<TargetRow>, DatabaseError> {
        refuse_nul(&[("name", target)])?;
        let cancel = format!(
            "UPDATE deliveries SET state = 'cancelled', updated_at = {now} \
             WHERE namespace = $1 AND target = $2 AND state = 'due'",
            now = self.0.0.database.now()
        );
        let record: Option<TargetRecord> = in_transaction!(&self.0.0.database, |tx| {
            let removed = sqlx::query_as(
                "DELETE FROM targets WHERE namespace = $1 AND name = $2 RETURNING name, kind, \
                 address, secret, approvals, failures, created_by, created_at",
            )
            .bind(namespace.as_str())
            .bind(target)
            .fetch_optional(&mut *tx)
            .await?;
            sqlx::query(AssertSqlSafe(cancel))
                .bind(namespace.as_str())
                .bind(target)
                .execute(&mut *tx)
                .await?;
            removed
        });
        self.0.0.targets.forget(namespace);
        record.map(TargetRecord::read).transpose()
    }

    /// The targets of a namespace by name.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<TargetRow>, DatabaseError> {
        let records: Vec<TargetRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT name, kind, address, secret, approvals, failures, created_by, created_at \
                 FROM targets WHERE namespace = $1 ORDER BY name",
            )
            .bind(namespace.as_str())
            .fetch_all(pool)
            .await
        })?;
        records.into_iter().map(TargetRecord::read).collect()
    }

    /// One target by its name.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn get(
        &self,
        namespace: &Namespace,
        target: &str,
    ) -> Result<Option<TargetRow>, DatabaseError> {
        refuse_nul(&[("name", target)])?;
        let record: Option<TargetRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT name, kind, address, secret, approvals, failures, created_by, created_at \
                 FROM targets WHERE namespace = $1 AND name = $2",
            )
            .bind(namespace.as_str())
            .bind(target)
            .fetch_optional(pool)
            .await
        })?;
        record.map(TargetRecord::read).transpose()
    }

    /// What the targets of a namespace take, as this process knows it: at most a second old.
    pub(crate) async fn takers(
        &self,
        namespace: &Namespace,
    ) -> Result<Arc<[Target]>, DatabaseError> {
        if let Some(known) = self.0.0.targets.get(namespace) {
            return Ok(known);
        }
        let read = Instant::now();
        let rows = self.list(namespace).await?.into_iter();
        let takers: Arc<[Target]> = rows
            .map(|row| Target {
                name: row.name,
                takes: row.takes,
            })
            .collect();
        self.0.0.targets.put(namespace, read, Arc::clone(&takers));
        Ok(takers)
    }
}

#[derive(FromRow)]
struct TargetRecord {
    name: String,
    kind: String,
    address: String,
    secret: Option<String>,
    approvals: i64,
    failures: i64,
    created_by: String,
    created_at: i64,
}

impl TargetRecord {
    fn read(self) -> Result<TargetRow, DatabaseError> {
        let bad = bad_row("targets", self.name.clone());
        let read = || -> Result<TargetRow, Why> {
            Ok(TargetRow {
                name: self.name,
                kind: TargetKind::read(&self.kind)?,
                address: self.address,
                secret: self.secret,
                takes: Takes {
                    approvals: self.approvals != 0,
                    failures: self.failures != 0,
                },
                created_by: name(self.created_by)?,
                created_at: at(self.created_at),
            })
        };
        read().map_err(bad)
    }
}

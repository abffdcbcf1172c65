//! Roles: the operations that an agent may perform at most (S3.9).

use sayso_run::{AgentName, Namespace, Timestamp};
use sqlx::FromRow;

use crate::agents::BUMP;
use crate::database::{in_transaction, on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{at, bad_row, name};

/// The role that every namespace has and that permits everything.
pub const UNRESTRICTED: &str = "unrestricted";

/// One role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRow {
    /// Its name within the namespace.
    pub name: String,
    /// Globs over the operations that it permits.
    pub permits: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// What came of removing a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// It is gone.
    Done,
    /// There is no such role.
    NoRole,
    /// These agents have it.
    InUse(Vec<AgentName>),
}

/// What came of giving an agent a role, or taking it away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attached {
    /// It is done; the role that the agent had before.
    Done(Option<String>),
    /// There is no such agent.
    NoAgent,
    /// There is no such role.
    NoRole,
}

/// The table of roles.
///
/// Every change begins with the one row that all of them write to, so they happen one after the
/// other: a role that is being attached is not removed meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Roles<'a>(&'a Store);

impl Store {
    /// The table of roles.
    pub fn roles(&self) -> Roles<'_> {
        Roles(self)
    }
}

impl Roles<'_> {
    /// Makes a role or changes what it permits: what it permitted before, if it is not new.
    pub async fn put(
        &self,
        namespace: &Namespace,
        role: &str,
        permits: &[String],
    ) -> Result<Option<Vec<String>>, DatabaseError> {
        let permits = serde_json::to_string(permits).expect("lists of strings have a JSON form");
        refuse_nul(&[("role", role)])?;
        let now = self.0.0.clock.now().micros();
        let before: Option<String> = in_transaction!(&self.0.0.database, |tx| {
            sqlx::query(BUMP).execute(&mut *tx).await?;
            let before =
                sqlx::query_scalar("SELECT permits FROM roles WHERE namespace = $1 AND name = $2")
                    .bind(namespace.as_str())
                    .bind(role)
                    .fetch_optional(&mut *tx)
                    .await?;
            sqlx::query(
                "INSERT INTO roles (namespace, name, permits, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $4) ON CONFLICT (namespace, name) \
                 DO UPDATE SET permits = EXCLUDED.permits, updated_at = EXCLUDED.updated_at",
            )
            .bind(namespace.as_str())
            .bind(role)
            .bind(permits)
            .bind(now)
            .execute(&mut *tx)
            .await?;
            before
        });
        let read = |text: String| permits_of(role, &text);
        before.map(read).transpose()
    }

    /// Removes a role unless an agent has it.
    pub async fn delete(
        &self,
        namespace: &Namespace,
        role: &str,
    ) -> Result<Removed, DatabaseError> {
        refuse_nul(&[("role", role)])?;
        let (removed, having) = in_transaction!(&self.0.0.database, |tx| {
            sqlx::query(BUMP).execute(&mut *tx).await?;
            let having: Vec<String> = sqlx::query_scalar(HAVING)
                .bind(namespace.as_str())
                .bind(role)
                .fetch_all(&mut *tx)
                .await?;
            let removed = if having.is_empty() {
                sqlx::query("DELETE FROM roles WHERE namespace = $1 AND name = $2")
                    .bind(namespace.as_str())
                    .bind(role)
                    .execute(&mut *tx)
                    .await?
                    .rows_affected()
            } else {
                0
            };
            (removed, having)
        });
        if !having.is_empty() {
            return agents(having).map(Removed::InUse);
        }
        Ok(match removed {
            0 => Removed::NoRole,
            _ => Removed::Done,
        })
    }

    /// Gives an agent a role, or takes it away: only a role that there is.
    pub async fn attach(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
        role: Option<&str>,
    ) -> Result<Attached, DatabaseError> {
        refuse_nul(&[("role", role.unwrap_or_default())])?;
        let now = self.0.0.clock.now().micros();
        let attached = in_transaction!(&self.0.0.database, |tx| {
            sqlx::query(BUMP).execute(&mut *tx).await?;
            let before: Option<Option<String>> =
                sqlx::query_scalar("SELECT role FROM agents WHERE namespace = $1 AND name = $2")
                    .bind(namespace.as_str())
                    .bind(agent.as_str())
                    .fetch_optional(&mut *tx)
                    .await?;
            let known: i64 =
                sqlx::query_scalar("SELECT COUNT(*) FROM roles WHERE namespace = $1 AND name = $2")
                    .bind(namespace.as_str())
                    .bind(role)
                    .fetch_one(&mut *tx)
                    .await?;
            match before {
                None => Attached::NoAgent,
                Some(_) if role.is_some() && known == 0 => Attached::NoRole,
                Some(before) => {
                    sqlx::query(
                        "UPDATE agents SET role = $3, updated_at = $4 \
                         WHERE namespace = $1 AND name = $2",
                    )
                    .bind(namespace.as_str())
                    .bind(agent.as_str())
                    .bind(role)
                    .bind(now)
                    .execute(&mut *tx)
                    .await?;
                    Attached::Done(before)
                }
            }
        });
        Ok(attached)
    }

    /// The agents that have a role, by name.
    pub async fn agents(
        &self,
        namespace: &Namespace,
        role: &str,
    ) -> Result<Vec<AgentName>, DatabaseError> {
        refuse_nul(&[("role", role)])?;
        let names: Vec<String> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar(HAVING)
                .bind(namespace.as_str())
                .bind(role)
                .fetch_all(pool)
                .await
        })?;
        agents(names)
    }

    /// One role.
    pub async fn get(
        &self,
        namespace: &Namespace,
        role: &str,
    ) -> Result<Option<RoleRow>, DatabaseError> {
        refuse_nul(&[("role", role)])?;
        let record: Option<RoleRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT name, permits, created_at, updated_at FROM roles \
                 WHERE namespace = $1 AND name = $2",
            )
            .bind(namespace.as_str())
            .bind(role)
            .fetch_optional(pool)
            .await
        })?;
        record.map(RoleRecord::read).transpose()
    }

    /// The roles of a namespace, by name.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<RoleRow>, DatabaseError> {
        let records: Vec<RoleRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT name, permits, created_at, updated_at FROM roles \
                 WHERE namespace = $1 ORDER BY name",
            )
            .bind(namespace.as_str())
            .fetch_all(pool)
            .await
        })?;
        records.into_iter().map(RoleRecord::read).collect()
    }
}

const HAVING: &str = "SELECT name FROM agents WHERE namespace = $1 AND role = $2 ORDER BY name";

fn agents(names: Vec<String>) -> Result<Vec<AgentName>, DatabaseError> {
    let read = |text: String| {
        let bad = bad_row("agents", text.clone());
        name(text).map_err(bad)
    };
    names.into_iter().map(read).collect()
}

fn permits_of(role: &str, text: &str) -> Result<Vec<String>, DatabaseError> {
    let bad = bad_row("roles", role);
    serde_json::from_str(text).map_err(|error| bad(format!("`permits`: {error}")))
}

#[derive(FromRow)]
struct RoleRecord {
    name: String,
    permits: String,
    created_at: i64,
    updated_at: i64,
}

impl RoleRecord {
    fn read(self) -> Result<RoleRow, DatabaseError> {
        Ok(RoleRow {
            permits: permits_of(&self.name, &self.permits)?,
            name: self.name,
            created_at: at(self.created_at),
            updated_at: at(self.updated_at),
        })
    }
}

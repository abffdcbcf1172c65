//! Roles: the operations that an agent may perform at most (S3.9).

use sayso_run::{Namespace, Timestamp};
use sqlx::FromRow;

use crate::agents::BUMP;
use crate::database::{in_transaction, on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{Why, at, bad_row};

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

/// The table of roles.
#[derive(Debug, Clone, Copy)]
pub struct Roles<'a>(&'a Store);

impl Store {
    /// The table of roles.
    pub fn roles(&self) -> Roles<'_> {
        Roles(self)
    }
}

impl Roles<'_> {
    /// Makes a role or changes what it permits.
    pub async fn put(
        &self,
        namespace: &Namespace,
        role: &str,
        permits: &[String],
    ) -> Result<(), DatabaseError> {
        let permits = serde_json::to_string(permits).expect("lists of strings have a JSON form");
        refuse_nul(&[("role", role)])?;
        let now = self.0.0.clock.now().micros();
        in_transaction!(&self.0.0.database, |tx| {
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
            sqlx::query(BUMP).execute(&mut *tx).await?;
        });
        Ok(())
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

#[derive(FromRow)]
struct RoleRecord {
    name: String,
    permits: String,
    created_at: i64,
    updated_at: i64,
}

impl RoleRecord {
    fn read(self) -> Result<RoleRow, DatabaseError> {
        let bad = bad_row("roles", self.name.clone());
        let permits = serde_json::from_str(&self.permits)
            .map_err(|error| -> Why { format!("`permits`: {error}") });
        Ok(RoleRow {
            name: self.name,
            permits: permits.map_err(bad)?,
            created_at: at(self.created_at),
            updated_at: at(self.updated_at),
        })
    }
}

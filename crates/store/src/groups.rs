//! Groups of principals (S6.12).

use std::collections::BTreeSet;

use sayso_run::{Namespace, PrincipalId, Timestamp};
use sqlx::FromRow;

use crate::database::{on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{Why, at, bad_row, name};

/// A principal in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    /// The group.
    pub group: String,
    /// The principal.
    pub principal: PrincipalId,
    /// Who added them.
    pub added_by: PrincipalId,
    /// When.
    pub added_at: Timestamp,
}

/// The table of groups. A group is there as long as somebody is in it.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a>(&'a Store);

impl Store {
    /// The table of groups.
    pub fn groups(&self) -> Groups<'_> {
        Groups(self)
    }
}

impl Groups<'_> {
    /// Adds a principal. False if they were in it.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn add(
        &self,
        namespace: &Namespace,
        group: &str,
        principal: &PrincipalId,
        by: &PrincipalId,
    ) -> Result<bool, DatabaseError> {
        refuse_nul(&[("group", group)])?;
        let now = self.0.0.clock.now().micros();
        let added = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(
                "INSERT INTO groups (namespace, name, principal, added_by, added_at) \
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
            )
            .bind(namespace.as_str())
            .bind(group)
            .bind(principal.as_str())
            .bind(by.as_str())
            .bind(now)
            .execute(pool)
            .await
            .map(|done| done.rows_affected())
        })?;
        Ok(added == 1)
    }

    /// Takes a principal out. False if they were not in it.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn remove(
        &self,
        namespace: &Namespace,
        group: &str,
        principal: &PrincipalId,
    ) -> Result<bool, DatabaseError> {
        refuse_nul(&[("group", group)])?;
        let removed = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query("DELETE FROM groups WHERE namespace = $1 AND name = $2 AND principal = $3")
                .bind(namespace.as_str())
                .bind(group)
                .bind(principal.as_str())
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?;
        Ok(removed == 1)
    }

    /// Everybody who is in a group of a namespace, by group and name.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<MemberRow>, DatabaseError> {
        let records: Vec<MemberRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT name, principal, added_by, added_at FROM groups \
                 WHERE namespace = $1 ORDER BY name, principal",
            )
            .bind(namespace.as_str())
            .fetch_all(pool)
            .await
        })?;
        records.into_iter().map(MemberRecord::read).collect()
    }

    /// The groups that a principal is in.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn of(
        &self,
        namespace: &Namespace,
        principal: &PrincipalId,
    ) -> Result<BTreeSet<String>, DatabaseError> {
        let names: Vec<String> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT name FROM groups WHERE namespace = $1 AND principal = $2")
                .bind(namespace.as_str())
                .bind(principal.as_str())
                .fetch_all(pool)
                .await
        })?;
        Ok(names.into_iter().collect())
    }

    /// Whether a principal of this name was ever given a token.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn knows(
        &self,
        namespace: &Namespace,
        principal: &PrincipalId,
    ) -> Result<bool, DatabaseError> {
        let known: i64 = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT COUNT(*) FROM principals WHERE namespace = $1 AND name = $2")
                .bind(namespace.as_str())
                .bind(principal.as_str())
                .fetch_one(pool)
                .await
        })?;
        Ok(known > 0)
    }
}

#[derive(FromRow)]
struct MemberRecord {
    name: String,
    principal: String,
    added_by: String,
    added_at: i64,
}

impl MemberRecord {
    fn read(self) -> Result<MemberRow, DatabaseError> {
        let bad = bad_row("groups", self.name.clone());
        let read = || -> Result<MemberRow, Why> {
            Ok(MemberRow {
                group: self.name,
                principal: name(self.principal)?,
                added_by: name(self.added_by)?,
                added_at: at(self.added_at),
            })
        };
        read().map_err(bad)
    }
}

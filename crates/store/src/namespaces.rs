//! Namespaces and the principals in them.

use sayso_run::{Namespace, PrincipalId};

use crate::agents::BUMP;
use crate::database::{in_transaction, on_both};
use crate::error::DatabaseError;
use crate::open::Store;
use crate::record::{bad_row, name};
use crate::roles::UNRESTRICTED;

/// The table of namespaces.
#[derive(Debug, Clone, Copy)]
pub struct Namespaces<'a>(&'a Store);

impl Store {
    /// The table of namespaces.
    pub fn namespaces(&self) -> Namespaces<'_> {
        Namespaces(self)
    }
}

impl Namespaces<'_> {
    /// Makes the namespace with its role `unrestricted`, unless it exists: whether it is new.
    pub async fn ensure(&self, namespace: &Namespace) -> Result<bool, DatabaseError> {
        if self.exists(namespace).await? {
            return Ok(false);
        }
        let now = self.0.0.clock.now().micros();
        let made = in_transaction!(&self.0.0.database, |tx| {
            let made = sqlx::query(
                "INSERT INTO namespaces (name, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            )
            .bind(namespace.as_str())
            .bind(now)
            .execute(&mut *tx)
            .await?
            .rows_affected();
            sqlx::query(
                "INSERT INTO roles (namespace, name, permits, created_at, updated_at) \
                 VALUES ($1, $2, '[\"*\"]', $3, $3) ON CONFLICT DO NOTHING",
            )
            .bind(namespace.as_str())
            .bind(UNRESTRICTED)
            .bind(now)
            .execute(&mut *tx)
            .await?;
            sqlx::query(BUMP).execute(&mut *tx).await?;
            made
        });
        Ok(made == 1)
    }

    /// Whether there is such a namespace.
    pub async fn exists(&self, namespace: &Namespace) -> Result<bool, DatabaseError> {
        let found: Option<i64> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT created_at FROM namespaces WHERE name = $1")
                .bind(namespace.as_str())
                .fetch_optional(pool)
                .await
        })?;
        Ok(found.is_some())
    }

    /// Every namespace, by name.
    pub async fn list(&self) -> Result<Vec<Namespace>, DatabaseError> {
        let names: Vec<String> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT name FROM namespaces ORDER BY name")
                .fetch_all(pool)
                .await
        })?;
        names
            .into_iter()
            .map(|text| {
                let bad = bad_row("namespaces", text.clone());
                name(text).map_err(bad)
            })
            .collect()
    }

    /// The principals of a namespace, by name. A principal is made with its first token.
    pub async fn principals(
        &self,
        namespace: &Namespace,
    ) -> Result<Vec<PrincipalId>, DatabaseError> {
        let names: Vec<String> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT name FROM principals WHERE namespace = $1 ORDER BY name")
                .bind(namespace.as_str())
                .fetch_all(pool)
                .await
        })?;
        names
            .into_iter()
            .map(|text| {
                let bad = bad_row("principals", text.clone());
                name(text).map_err(bad)
            })
            .collect()
    }
}

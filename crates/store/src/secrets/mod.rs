//! Stored secrets (S3.10): sealed values by namespace, agent and name.

mod seal;

use std::collections::BTreeSet;

use sayso_run::{AgentName, Namespace, PrincipalId, Timestamp};
use sqlx::FromRow;
use thiserror::Error;

use self::seal::Place;
pub use self::seal::{SealError, SecretKeys};
use crate::database::{in_transaction, on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{at, bad_row, name};

/// What may be known of a secret: everything but its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    /// Its name.
    pub name: String,
    /// The agent whose own it is; none if it is the namespace's.
    pub agent: Option<AgentName>,
    /// Id of the key that sealed it.
    pub key_id: String,
    /// Who set it last.
    pub set_by: PrincipalId,
    /// When it was set first.
    pub created_at: Timestamp,
    /// When it was set last.
    pub updated_at: Timestamp,
}

/// A secret with its value, opened.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenSecret {
    /// Its name.
    pub name: String,
    /// The agent whose own it is; none if it is the namespace's.
    pub agent: Option<AgentName>,
    /// Its value.
    pub value: String,
}

impl std::fmt::Debug for OpenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenSecret({} of {:?})", self.name, self.agent)
    }
}

/// Why secrets could not be stored or read.
#[derive(Debug, Error)]
pub enum SecretsError {
    /// The database did not work.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A value cannot be sealed or opened.
    #[error("the secret `{name}` cannot be used")]
    Seal {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        why: SealError,
    },
    /// There are secrets, and no key is configured here.
    #[error("no key of secrets is configured here (secrets.key_file)")]
    NoKey,
}

impl From<sqlx::Error> for SecretsError {
    fn from(error: sqlx::Error) -> Self {
        SecretsError::Database(error.into())
    }
}

/// The table of secrets.
#[derive(Debug, Clone, Copy)]
pub struct Secrets<'a>(&'a Store);

impl Store {
    /// The table of secrets.
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets(self)
    }
}

const COLUMNS: &str = "SELECT namespace, agent, name, key_id, sealed, set_by, created_at, updated_at \
    FROM secrets";

impl Secrets<'_> {
    /// Stores a value under a name, or puts it in the place of the one before. True if it is new.
    ///
    /// # Errors
    ///
    /// When it cannot be sealed, or the database does not work.
    pub async fn put(
        &self,
        keys: &SecretKeys,
        namespace: &Namespace,
        agent: Option<&AgentName>,
        name: &str,
        value: &str,
        by: &PrincipalId,
    ) -> Result<bool, SecretsError> {
        refuse_nul(&[("name", name)])?;
        let place = Place {
            namespace: namespace.as_str(),
            agent: agent.map_or("", AgentName::as_str),
            name,
        };
        let sealed = keys.seal(place, value.as_bytes());
        let sealed = sealed.map_err(|why| cannot(name, why))?;
        let now = self.0.0.clock.now().micros();
        let created: i64 = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar(
                "INSERT INTO secrets \
                 (namespace, agent, name, key_id, sealed, set_by, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (namespace, agent, name) \
                 DO UPDATE SET key_id = EXCLUDED.key_id, sealed = EXCLUDED.sealed, \
                 set_by = EXCLUDED.set_by, updated_at = EXCLUDED.updated_at RETURNING created_at",
            )
            .bind(place.namespace)
            .bind(place.agent)
            .bind(name)
            .bind(keys.current())
            .bind(sealed)
            .bind(by.as_str())
            .bind(now)
            .fetch_one(pool)
            .await
        })?;
        Ok(created == now)
    }

    /// Removes one. False if there is none.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn delete(
        &self,
        namespace: &Namespace,
        agent: Option<&AgentName>,
        name: &str,
    ) -> Result<bool, DatabaseError> {
        refuse_nul(&[("name", name)])?;
        let done = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query("DELETE FROM secrets WHERE namespace = $1 AND agent = $2 AND name = $3")
                .bind(namespace.as_str())
                .bind(agent.map_or("", AgentName::as_str))
                .bind(name)
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?;
        Ok(done == 1)
    }

    /// The secrets of a namespace by name, without their values.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<SecretRow>, DatabaseError> {
        let records = self.records(namespace).await?;
        records.into_iter().map(SecretRecord::row).collect()
    }

    /// The names that are set for an agent, its own or its namespace's.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn names(
        &self,
        namespace: &Namespace,
        agent: &str,
    ) -> Result<BTreeSet<String>, DatabaseError> {
        let records = self.records(namespace).await?.into_iter();
        let theirs = records.filter(|record| record.agent.is_empty() || record.agent == agent);
        Ok(theirs.map(|record| record.name).collect())
    }

    /// Every secret of a namespace, opened: those of all agents too, since none of them is to be seen
    /// in any text.
    ///
    /// # Errors
    ///
    /// When one cannot be opened: what cannot be known cannot be kept out of texts.
    pub async fn open(
        &self,
        keys: Option<&SecretKeys>,
        namespace: &Namespace,
    ) -> Result<Vec<OpenSecret>, SecretsError> {
        let records = self.records(namespace).await?;
        records
            .into_iter()
            .map(|record| record.open(keys))
            .collect()
    }

    /// The value that an agent has under a name: its own, else its namespace's. Without an agent, the
    /// namespace's alone.
    ///
    /// # Errors
    ///
    /// When it cannot be opened, or the database does not work.
    pub async fn find(
        &self,
        keys: Option<&SecretKeys>,
        namespace: &Namespace,
        agent: Option<&AgentName>,
        name: &str,
    ) -> Result<Option<String>, SecretsError> {
        refuse_nul(&[("name", name)])?;
        let sql = format!(
            "{COLUMNS} WHERE namespace = $1 AND name = $2 AND agent IN ('', $3) \
             ORDER BY agent DESC LIMIT 1"
        );
        let record: Option<SecretRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(sqlx::AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(name)
                .bind(agent.map_or("", AgentName::as_str))
                .fetch_optional(pool)
                .await
        })?;
        let opened = record.map(|record| record.open(keys)).transpose()?;
        Ok(opened.map(|secret| secret.value))
    }

    /// Seals every secret of the installation anew that another key than the current one has sealed:
    /// how many, and how many there are.
    ///
    /// # Errors
    ///
    /// When one cannot be opened: nothing is changed then.
    pub async fn seal_anew(&self, keys: &SecretKeys) -> Result<(u64, u64), SecretsError> {
        let counted = in_transaction!(&self.0.0.database, |tx| {
            let records: Vec<SecretRecord> = sqlx::query_as(sqlx::AssertSqlSafe(COLUMNS))
                .fetch_all(&mut *tx)
                .await?;
            let all = records.len() as u64;
            let mut anew = 0;
            for record in records
                .into_iter()
                .filter(|record| record.key_id != keys.current())
            {
                let opened = record.open(Some(keys))?;
                let sealed = keys.seal(record.place(), opened.value.as_bytes());
                let sealed = sealed.map_err(|why| cannot(&record.name, why))?;
                // A value that was set meanwhile stays.
                anew += sqlx::query(
                    "UPDATE secrets SET key_id = $4, sealed = $5 \
                     WHERE namespace = $1 AND agent = $2 AND name = $3 AND sealed = $6",
                )
                .bind(&record.namespace)
                .bind(&record.agent)
                .bind(&record.name)
                .bind(keys.current())
                .bind(sealed)
                .bind(&record.sealed)
                .execute(&mut *tx)
                .await?
                .rows_affected();
            }
            (anew, all)
        });
        Ok(counted)
    }

    async fn records(&self, namespace: &Namespace) -> Result<Vec<SecretRecord>, DatabaseError> {
        let sql = format!("{COLUMNS} WHERE namespace = $1 ORDER BY name, agent");
        let records = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(sqlx::AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .fetch_all(pool)
                .await
        })?;
        Ok(records)
    }
}

fn cannot(name: &str, why: SealError) -> SecretsError {
    SecretsError::Seal {
        name: name.to_owned(),
        why,
    }
}

#[derive(FromRow)]
struct SecretRecord {
    namespace: String,
    agent: String,
    name: String,
    key_id: String,
    sealed: Vec<u8>,
    set_by: String,
    created_at: i64,
    updated_at: i64,
}

impl SecretRecord {
    fn place(&self) -> Place<'_> {
        Place {
            namespace: &self.namespace,
            agent: &self.agent,
            name: &self.name,
        }
    }

    fn agent(&self) -> Result<Option<AgentName>, DatabaseError> {
        let bad = bad_row("secrets", self.name.clone());
        if self.agent.is_empty() {
            return Ok(None);
        }
        name(self.agent.clone()).map(Some).map_err(bad)
    }

    fn open(&self, keys: Option<&SecretKeys>) -> Result<OpenSecret, SecretsError> {
        let keys = keys.ok_or(SecretsError::NoKey)?;
        let value = keys.open(self.place(), &self.key_id, &self.sealed);
        Ok(OpenSecret {
            name: self.name.clone(),
            agent: self.agent()?,
            value: value.map_err(|why| cannot(&self.name, why))?,
        })
    }

    fn row(self) -> Result<SecretRow, DatabaseError> {
        let agent = self.agent()?;
        let bad = bad_row("secrets", self.name.clone());
        Ok(SecretRow {
            name: self.name,
            agent,
            key_id: self.key_id,
            set_by: name(self.set_by).map_err(bad)?,
            created_at: at(self.created_at),
            updated_at: at(self.updated_at),
        })
    }
}

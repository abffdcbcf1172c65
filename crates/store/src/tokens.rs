//! Tokens: only their hash is stored (S6.11).

use sayso_run::{Digest, Namespace, PrincipalId, Timestamp, Trust};
use sqlx::FromRow;
use uuid::Uuid;

use crate::database::{in_transaction, on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{Why, at, bad_row, name, time, word};

/// Tells those who keep tokens that one was made or revoked.
const BUMP: &str = "UPDATE meta SET value = value + 1 WHERE key = 'token_version'";

/// A token to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The tenant that it opens.
    pub namespace: Namespace,
    /// Its name, for people.
    pub name: String,
    /// Whose it is; made if it is new.
    pub principal: PrincipalId,
    /// SHA-256 of the secret text.
    pub hash: Digest,
    /// What it may do.
    pub scopes: Vec<String>,
    /// The trust of what is started with it.
    pub trust: Trust,
    /// Who made it.
    pub created_by: PrincipalId,
    /// When it ends by itself, if it does.
    pub expires_at: Option<Timestamp>,
}

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Its id.
    pub id: String,
    /// The tenant that it opens.
    pub namespace: Namespace,
    /// Its name, for people.
    pub name: String,
    /// Whose it is.
    pub principal: PrincipalId,
    /// What it may do.
    pub scopes: Vec<String>,
    /// The trust of what is started with it.
    pub trust: Trust,
    /// Who made it.
    pub created_by: PrincipalId,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

impl TokenRow {
    /// Whether it opens anything at this time.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// The table of tokens.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a>(&'a Store);

impl Store {
    /// The table of tokens.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens(self)
    }
}

const TOKEN: &str = "SELECT id, namespace, name, principal, scopes, trust, created_by, created_at, \
    expires_at, revoked_at FROM tokens WHERE ";

impl Tokens<'_> {
    /// Goes up with every token that is made or revoked.
    pub async fn version(&self) -> Result<u64, DatabaseError> {
        let version: i64 = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT value FROM meta WHERE key = 'token_version'")
                .fetch_one(pool)
                .await
        })?;
        Ok(version.unsigned_abs())
    }

    /// Makes a token, and its principal if it is new.
    pub async fn create(&self, new: &NewToken) -> Result<TokenRow, DatabaseError> {
        let scopes = serde_json::to_string(&new.scopes).expect("lists of strings have a JSON form");
        refuse_nul(&[("name", &new.name)])?;
        let id = format!("tok_{}", Uuid::now_v7().simple());
        let now = self.0.0.clock.now();
        in_transaction!(&self.0.0.database, |tx| {
            sqlx::query(
                "INSERT INTO principals (namespace, name, created_at) VALUES ($1, $2, $3) \
                 ON CONFLICT DO NOTHING",
            )
            .bind(new.namespace.as_str())
            .bind(new.principal.as_str())
            .bind(now.micros())
            .execute(&mut *tx)
            .await?;
            sqlx::query(
                "INSERT INTO tokens (id, namespace, name, principal, hash, scopes, trust, \
                 created_by, created_at, expires_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            )
            .bind(id.as_str())
            .bind(new.namespace.as_str())
            .bind(new.name.as_str())
            .bind(new.principal.as_str())
            .bind(new.hash.as_bytes().as_slice())
            .bind(scopes.as_str())
            .bind(new.trust.as_str())
            .bind(new.created_by.as_str())
            .bind(now.micros())
            .bind(time(new.expires_at))
            .execute(&mut *tx)
            .await?;
            sqlx::query(BUMP).execute(&mut *tx).await?;
        });
        Ok(TokenRow {
            id,
            namespace: new.namespace.clone(),
            name: new.name.clone(),
            principal: new.principal.clone(),
            scopes: new.scopes.clone(),
            trust: new.trust,
            created_by: new.created_by.clone(),
            created_at: now,
            expires_at: new.expires_at,
            revoked_at: None,
        })
    }

    /// The token with this hash, in whatever namespace, expired and revoked ones included:
    /// [`TokenRow::is_valid`] says whether it opens anything.
    pub async fn find(&self, hash: &Digest) -> Result<Option<TokenRow>, DatabaseError> {
        const SQL: &str = "SELECT id, namespace, name, principal, scopes, trust, created_by, \
            created_at, expires_at, revoked_at FROM tokens WHERE hash = $1";
        let record: Option<TokenRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(SQL)
                .bind(hash.as_bytes().as_slice())
                .fetch_optional(pool)
                .await
        })?;
        record.map(TokenRecord::read).transpose()
    }

    /// The tokens of a namespace, newest first.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<TokenRow>, DatabaseError> {
        let sql = format!("{TOKEN} namespace = $1 ORDER BY created_at DESC, id DESC");
        let records: Vec<TokenRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(sqlx::AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .fetch_all(pool)
                .await
        })?;
        records.into_iter().map(TokenRecord::read).collect()
    }

    /// Revokes a token of the namespace: the token, revoked now or before; `None` if there is none.
    pub async fn revoke(
        &self,
        namespace: &Namespace,
        id: &str,
    ) -> Result<Option<TokenRow>, DatabaseError> {
        refuse_nul(&[("id", id)])?;
        let now = self.0.0.clock.now().micros();
        let sql = format!("{TOKEN} namespace = $1 AND id = $2");
        let record: Option<TokenRecord> = in_transaction!(&self.0.0.database, |tx| {
            let revoked = sqlx::query(
                "UPDATE tokens SET revoked_at = $3 \
                 WHERE namespace = $1 AND id = $2 AND revoked_at IS NULL",
            )
            .bind(namespace.as_str())
            .bind(id)
            .bind(now)
            .execute(&mut *tx)
            .await?
            .rows_affected();
            if revoked > 0 {
                sqlx::query(BUMP).execute(&mut *tx).await?;
            }
            sqlx::query_as(sqlx::AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(id)
                .fetch_optional(&mut *tx)
                .await?
        });
        record.map(TokenRecord::read).transpose()
    }
}

#[derive(FromRow)]
struct TokenRecord {
    id: String,
    namespace: String,
    name: String,
    principal: String,
    scopes: String,
    trust: String,
    created_by: String,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

impl TokenRecord {
    fn read(self) -> Result<TokenRow, DatabaseError> {
        let bad = bad_row("tokens", self.id.clone());
        let read = || -> Result<TokenRow, Why> {
            Ok(TokenRow {
                id: self.id,
                namespace: name(self.namespace)?,
                name: self.name,
                principal: name(self.principal)?,
                scopes: serde_json::from_str(&self.scopes)
                    .map_err(|error| format!("`scopes`: {error}"))?,
                trust: word(&self.trust)?,
                created_by: name(self.created_by)?,
                created_at: at(self.created_at),
                expires_at: self.expires_at.map(at),
                revoked_at: self.revoked_at.map(at),
            })
        };
        read().map_err(bad)
    }
}

//! What the authenticator asks of the database.

use async_trait::async_trait;
use sayso_driver::Journal;
use sayso_run::{Digest, Timestamp};
use sayso_store::{DatabaseError, Store};

use super::{Caller, Scope, SecretHash};

/// A token as stored, by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredToken {
    /// Whom it speaks for.
    pub(crate) caller: Caller,
    /// Whether it was revoked.
    pub(crate) revoked: bool,
}

/// The database cannot say.
#[derive(Debug, Clone, thiserror::Error)]
#[error("tokens cannot be checked: {0}")]
pub(crate) struct CannotTell(pub(crate) String);

/// Where tokens are kept.
#[async_trait]
pub(crate) trait TokenSource: Send + Sync + 'static {
    /// A number that changes with every revocation.
    async fn version(&self) -> Result<u64, CannotTell>;

    /// The token with this hash.
    async fn token(&self, hash: &SecretHash) -> Result<Option<StoredToken>, CannotTell>;

    /// The database's time, without asking it.
    fn now(&self) -> Timestamp;
}

#[async_trait]
impl TokenSource for Store {
    async fn version(&self) -> Result<u64, CannotTell> {
        self.tokens().version().await.map_err(cannot_tell)
    }

    async fn token(&self, hash: &SecretHash) -> Result<Option<StoredToken>, CannotTell> {
        let row = self
            .tokens()
            .find(&Digest::from_bytes(*hash))
            .await
            .map_err(cannot_tell)?;
        Ok(row.map(|row| StoredToken {
            revoked: row.revoked_at.is_some(),
            caller: Caller {
                token: row.id,
                namespace: row.namespace,
                principal: row.principal,
                // What this version does not know grants nothing.
                scopes: row
                    .scopes
                    .iter()
                    .filter_map(|word| Scope::parse(word))
                    .collect(),
                trust: row.trust,
                expires_at: row.expires_at,
            },
        }))
    }

    fn now(&self) -> Timestamp {
        Journal::now(self)
    }
}

fn cannot_tell(error: DatabaseError) -> CannotTell {
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    CannotTell(cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")))
}

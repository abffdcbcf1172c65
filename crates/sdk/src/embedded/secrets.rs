use std::sync::Arc;

use async_trait::async_trait;
use sayso_run::Namespace;
use sayso_tools::{KnownSecrets, Secrets, StorageError};

/// Secrets that the process itself gave its agents.
#[derive(Debug)]
pub(crate) struct Given(pub(crate) Arc<KnownSecrets>);

#[async_trait]
impl Secrets for Given {
    async fn of(&self, _: &Namespace) -> Result<Arc<KnownSecrets>, StorageError> {
        Ok(Arc::clone(&self.0))
    }
}

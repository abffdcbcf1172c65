//! What the toolbox needs stored. The implementation is wired in where services meet adapters.

use async_trait::async_trait;
use sayso_run::{CallId, Namespace, RunId, ToolSetId};
use thiserror::Error;

/// The store did not do what it was asked.
#[derive(Debug, Clone, Error)]
#[error("the store failed: {0}")]
pub struct StorageError(pub String);

/// Where tool sets live: immutable texts under the digest of their content.
#[async_trait]
pub trait ToolSets: Send + Sync + 'static {
    /// Keeps a set. Putting the same one again changes nothing.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if it may not have been kept.
    async fn put(&self, id: &ToolSetId, json: &str) -> Result<(), StorageError>;

    /// The text that was kept under an id; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if the store cannot be asked.
    async fn get(&self, id: &ToolSetId) -> Result<Option<String>, StorageError>;
}

/// An artifact as an agent made it (S9.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewArtifact {
    /// The tenant.
    pub namespace: Namespace,
    /// The run that made it.
    pub run: RunId,
    /// The call that made it.
    pub call: CallId,
    /// A file name without path separators and control characters, 1 to 255 bytes.
    pub name: String,
    /// Its MIME type, as the agent gave it.
    pub mime_type: String,
    /// The content, at most [`MAX_ARTIFACT_BYTES`](crate::MAX_ARTIFACT_BYTES).
    pub content: String,
    /// The same however often the call is sent: an artifact of this key is made once.
    pub idempotency_key: String,
}

/// Where artifacts live.
#[async_trait]
pub trait Artifacts: Send + Sync + 'static {
    /// Keeps an artifact and returns its id; with a key that was used before, the id of then.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if it may not have been kept.
    async fn put(&self, artifact: NewArtifact) -> Result<String, StorageError>;
}

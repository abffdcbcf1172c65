//! The store as the toolbox sees it.

use async_trait::async_trait;
use sayso_driver::ToolSet;
use sayso_run::{Digest, ToolSetId};
use sayso_store::Store;
use sayso_tools::{Artifacts, NewArtifact, StorageError, ToolSets};

/// Tool sets and artifacts in the database.
#[derive(Debug, Clone)]
pub struct ToolStorage(pub Store);

fn failed(error: impl std::fmt::Display) -> StorageError {
    StorageError(error.to_string())
}

#[async_trait]
impl ToolSets for ToolStorage {
    async fn put(&self, id: &ToolSetId, json: &str) -> Result<(), StorageError> {
        let set = ToolSet::from_json(json).map_err(failed)?;
        if set.id != *id {
            return Err(failed(format!("what is to be kept as {id} is another set")));
        }
        self.0.tool_sets().put(&set).await.map_err(failed)
    }

    async fn get(&self, id: &ToolSetId) -> Result<Option<String>, StorageError> {
        let set = self.0.tool_sets().get(id).await.map_err(failed)?;
        Ok(set.map(|set| set.to_json()))
    }
}

#[async_trait]
impl Artifacts for ToolStorage {
    async fn put(&self, artifact: NewArtifact) -> Result<String, StorageError> {
        let key = Digest::of_parts(&[b"sayso.artifact", artifact.idempotency_key.as_bytes()]);
        let id = format!("art_{}", &key.to_hex()[..32]);
        let new = sayso_store::NewArtifact {
            id: id.clone(),
            namespace: artifact.namespace,
            run: artifact.run,
            name: artifact.name,
            mime: artifact.mime_type,
            content: artifact.content.into_bytes(),
        };
        self.0.artifacts().put(&new).await.map_err(failed)?;
        Ok(id)
    }
}

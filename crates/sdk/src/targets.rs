use sayso_wire::v1;

use crate::{Client, Error};

/// Targets. Scopes and codes of refusals are those of `TargetService`.
impl Client {
    /// Adds a target.
    ///
    /// # Errors
    ///
    /// `target.exists`, `target.too_many`, `request.invalid`.
    pub async fn create_target(
        &self,
        target: v1::CreateTargetRequest,
    ) -> Result<v1::Target, Error> {
        let answer = self.targets().create_target(target).await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        Ok(answer.into_inner().target.unwrap_or_default())
    }

    /// Lists targets by name.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub async fn list_targets(&self) -> Result<v1::ListTargetsResponse, Error> {
        let answer = self.targets().list_targets(v1::ListTargetsRequest {}).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Sends a test message to a target, once: what came of it.
    ///
    /// # Errors
    ///
    /// `target.not_found`, `request.invalid`.
    pub async fn test_target(&self, name: &str) -> Result<v1::TestTargetResponse, Error> {
        let request = v1::TestTargetRequest {
            name: name.to_owned(),
        };
        let answer = self.targets().test_target(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Removes a target.
    ///
    /// # Errors
    ///
    /// `target.not_found`, `request.invalid`.
    pub async fn delete_target(&self, name: &str) -> Result<(), Error> {
        let request = v1::DeleteTargetRequest {
            name: name.to_owned(),
        };
        let answer = self.targets().delete_target(request).await;
        answer.map_err(|status| self.failed(&status))?;
        Ok(())
    }
}

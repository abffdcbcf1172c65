use sayso_wire::v1;

use crate::{Client, Error};

/// Secrets. Scopes and codes of refusals are those of `SecretService`.
impl Client {
    /// Stores a value under a name, for an agent alone if one is named.
    ///
    /// # Errors
    ///
    /// `secret.malformed`, `secret.no_key`.
    pub async fn set_secret(
        &self,
        name: &str,
        agent: Option<&str>,
        value: &str,
    ) -> Result<v1::SetSecretResponse, Error> {
        let request = v1::SetSecretRequest {
            name: name.to_owned(),
            agent: agent.unwrap_or_default().to_owned(),
            value: value.to_owned(),
        };
        let answer = self.secrets().set_secret(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Lists secrets by name, without their values.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub async fn list_secrets(&self) -> Result<v1::ListSecretsResponse, Error> {
        let answer = self.secrets().list_secrets(v1::ListSecretsRequest {}).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Removes a secret: the namespace's, or an agent's own.
    ///
    /// # Errors
    ///
    /// `secret.not_found`.
    pub async fn delete_secret(&self, name: &str, agent: Option<&str>) -> Result<(), Error> {
        let request = v1::DeleteSecretRequest {
            name: name.to_owned(),
            agent: agent.unwrap_or_default().to_owned(),
        };
        let answer = self.secrets().delete_secret(request).await;
        answer.map_err(|status| self.failed(&status))?;
        Ok(())
    }

    /// Encrypts every secret of the installation with the key that is configured now.
    ///
    /// # Errors
    ///
    /// `secret.no_key`, `secret.unreadable`.
    pub async fn rotate_secret_key(&self) -> Result<v1::RotateSecretKeyResponse, Error> {
        let request = v1::RotateSecretKeyRequest {};
        let answer = self.secrets().rotate_secret_key(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}

use sayso_wire::v1;
use sayso_wire::v1::revoke_token_request::Token as Which;

use crate::{Client, Error};

/// Tokens. Scopes and codes of refusals are those of `TokenService`.
impl Client {
    /// Makes a token. Its secret is in the answer and nowhere else.
    ///
    /// # Errors
    ///
    /// `token.exists`, `token.no_scope`, `token.lifetime`, `token.operator_trust`.
    pub async fn create_token(
        &self,
        request: v1::CreateTokenRequest,
    ) -> Result<v1::CreateTokenResponse, Error> {
        let answer = self.tokens().create_token(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Lists tokens, newest first, without their secrets.
    ///
    /// # Errors
    ///
    /// `page.malformed`.
    pub async fn list_tokens(
        &self,
        request: v1::ListTokensRequest,
    ) -> Result<v1::ListTokensResponse, Error> {
        let answer = self.tokens().list_tokens(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Ends a token, by id or by name.
    ///
    /// # Errors
    ///
    /// `token.not_found`.
    pub async fn revoke_token(&self, token: Which) -> Result<v1::Token, Error> {
        let request = v1::RevokeTokenRequest { token: Some(token) };
        let answer = self.tokens().revoke_token(request).await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        answer.into_inner().token.ok_or(Error::Incomplete("token"))
    }
}

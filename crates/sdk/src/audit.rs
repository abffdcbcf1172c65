use sayso_wire::v1;

use crate::{Client, Error};

/// The audit log. Scopes and codes of refusals are those of `AuditService`.
impl Client {
    /// Lists entries of the audit log, newest first.
    ///
    /// # Errors
    ///
    /// `page.malformed`, `request.invalid`.
    pub async fn list_audit_entries(
        &self,
        request: v1::ListAuditEntriesRequest,
    ) -> Result<v1::ListAuditEntriesResponse, Error> {
        let answer = self.audit().list_audit_entries(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Checks the hash chain and the seals of the audit log. A broken one is an answer.
    ///
    /// # Errors
    ///
    /// Those of every method.
    pub async fn verify_audit(&self) -> Result<v1::VerifyAuditResponse, Error> {
        let answer = self.audit().verify_audit(v1::VerifyAuditRequest {}).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}

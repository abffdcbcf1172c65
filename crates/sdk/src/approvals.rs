use futures::{Stream, StreamExt};
use sayso_wire::v1;

use crate::{Client, Error};

/// Approvals. Scopes and codes of refusals are those of `ApprovalService`.
impl Client {
    /// Lists approvals, newest first.
    ///
    /// # Errors
    ///
    /// `page.malformed`, `request.invalid`.
    pub async fn list_approvals(
        &self,
        request: v1::ListApprovalsRequest,
    ) -> Result<v1::ListApprovalsResponse, Error> {
        let answer = self.approvals().list_approvals(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// The approvals of a run that wait for a person now, oldest first.
    ///
    /// # Errors
    ///
    /// Those of every method.
    pub async fn pending_approvals(&self, run_id: &str) -> Result<Vec<v1::Approval>, Error> {
        let mut pending = Vec::new();
        let mut request = v1::ListApprovalsRequest {
            statuses: vec![v1::ApprovalStatus::Pending.into()],
            run_id: run_id.to_owned(),
            page_size: 500,
            ..v1::ListApprovalsRequest::default()
        };
        loop {
            let page = self.list_approvals(request.clone()).await?;
            pending.extend(page.approvals);
            if page.next_page_token.is_empty() {
                pending.sort_by_key(|approval| approval.sequence);
                return Ok(pending);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Reads an approval.
    ///
    /// # Errors
    ///
    /// `approval.not_found`.
    pub async fn get_approval(&self, approval_id: &str) -> Result<v1::Approval, Error> {
        let request = v1::GetApprovalRequest {
            approval_id: approval_id.to_owned(),
        };
        let answer = self.approvals().get_approval(request).await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        answer
            .into_inner()
            .approval
            .ok_or(Error::Incomplete("approval"))
    }

    /// Decides an approval. A decision without a message is always safe to send again.
    ///
    /// # Errors
    ///
    /// `approval.not_found`, `approval.already_decided`, `approval.expired`,
    /// `approval.own_request`, `run.ended`, `request.key_reused`.
    pub async fn decide_approval(
        &self,
        request: v1::DecideApprovalRequest,
    ) -> Result<v1::DecideApprovalResponse, Error> {
        let answer = self.approvals().decide_approval(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Decides several calls of a run in one response, all or nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Client::decide_approval`], `run.not_found`, `request.empty`,
    /// `approval.seen_missing`.
    pub async fn respond_to_run(
        &self,
        request: v1::RespondToRunRequest,
    ) -> Result<v1::RespondToRunResponse, Error> {
        let answer = self.approvals().respond_to_run(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Streams approvals as they are asked for, decided and closed. It ends with an error when the
    /// connection breaks; calling it again with `snapshot` goes on.
    ///
    /// # Errors
    ///
    /// Those of every method.
    pub async fn watch_approvals(
        &self,
        request: v1::WatchApprovalsRequest,
    ) -> Result<impl Stream<Item = Result<v1::WatchApprovalsResponse, Error>> + use<>, Error> {
        let answer = self.approvals().watch_approvals(request).await;
        let stream = answer.map_err(|status| self.failed(&status))?.into_inner();
        let client = self.clone();
        Ok(stream.map(move |message| message.map_err(|status| client.failed(&status))))
    }
}

use sayso_wire::v1;

use crate::{Client, Error};

/// Feedback. Scopes and codes of refusals are those of `FeedbackService`.
impl Client {
    /// Rates a task.
    ///
    /// # Errors
    ///
    /// `task.not_found`, `request.invalid`.
    pub async fn record_feedback(
        &self,
        request: v1::RecordFeedbackRequest,
    ) -> Result<v1::Feedback, Error> {
        let answer = self.feedback().record_feedback(request).await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        let recorded = answer.into_inner().feedback;
        recorded.ok_or(Error::Incomplete("feedback"))
    }

    /// Lists feedback, newest first, and sums it up.
    ///
    /// # Errors
    ///
    /// `page.malformed`, `request.invalid`.
    pub async fn list_feedback(
        &self,
        request: v1::ListFeedbackRequest,
    ) -> Result<v1::ListFeedbackResponse, Error> {
        let answer = self.feedback().list_feedback(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}

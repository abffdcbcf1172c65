use sayso_wire::v1;

use crate::{Client, Error};

/// Feedback. Scopes and codes of refusals are those of `FeedbackService`.
impl Client {
    /// Lists feedback, newest first.
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

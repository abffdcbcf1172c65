use sayso_wire::v1;

use crate::{Client, Error};

/// Pauses. Scopes and codes of refusals are those of `PauseService`.
impl Client {
    /// Pauses an agent, or the whole namespace.
    ///
    /// # Errors
    ///
    /// `agent.not_found`.
    pub async fn pause(
        &self,
        agent: Option<&str>,
        reason: &str,
    ) -> Result<v1::PauseResponse, Error> {
        let request = v1::PauseRequest {
            agent: agent.unwrap_or_default().to_owned(),
            reason: reason.to_owned(),
        };
        let answer = self.pauses().pause(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Ends a pause; the pause that it was.
    ///
    /// # Errors
    ///
    /// `pause.not_found`.
    pub async fn resume(&self, agent: Option<&str>) -> Result<v1::Pause, Error> {
        let request = v1::ResumeRequest {
            agent: agent.unwrap_or_default().to_owned(),
        };
        let answer = self.pauses().resume(request).await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        answer.into_inner().pause.ok_or(Error::Incomplete("pause"))
    }

    /// What is paused now.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub async fn list_pauses(&self) -> Result<Vec<v1::Pause>, Error> {
        let answer = self.pauses().list_pauses(v1::ListPausesRequest {}).await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        Ok(answer.into_inner().pauses)
    }
}

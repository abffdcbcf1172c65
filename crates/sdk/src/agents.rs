use sayso_wire::v1;

use crate::{Client, Error};

/// Agents. Scopes and codes of refusals are those of `AgentService`.
impl Client {
    /// Deploys a bundle, YAML or JSON.
    ///
    /// # Errors
    ///
    /// `bundle.invalid`, with every mistake as a field.
    pub async fn deploy_agent(&self, bundle: &str) -> Result<v1::DeployAgentResponse, Error> {
        let request = v1::DeployAgentRequest {
            bundle: bundle.to_owned(),
        };
        let answer = self.agents().deploy_agent(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Checks a bundle. Mistakes are an answer.
    ///
    /// # Errors
    ///
    /// Those of every method.
    pub async fn validate_agent(&self, bundle: &str) -> Result<v1::ValidateAgentResponse, Error> {
        let request = v1::ValidateAgentRequest {
            bundle: bundle.to_owned(),
        };
        let answer = self.agents().validate_agent(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Reads an agent with the bundle of a revision, or of the current one.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `agent.revision_not_found`.
    pub async fn get_agent(
        &self,
        name: &str,
        revision: Option<&str>,
    ) -> Result<v1::GetAgentResponse, Error> {
        let request = v1::GetAgentRequest {
            name: name.to_owned(),
            revision_id: revision.unwrap_or_default().to_owned(),
        };
        let answer = self.agents().get_agent(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Lists agents by name.
    ///
    /// # Errors
    ///
    /// `page.malformed`.
    pub async fn list_agents(
        &self,
        request: v1::ListAgentsRequest,
    ) -> Result<v1::ListAgentsResponse, Error> {
        let answer = self.agents().list_agents(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Lists an agent's log, newest first.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `page.malformed`.
    pub async fn list_agent_logs(
        &self,
        request: v1::ListAgentLogsRequest,
    ) -> Result<v1::ListAgentLogsResponse, Error> {
        let answer = self.agents().list_agent_logs(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}

use sayso_wire::v1;

use crate::{Client, Error};

/// Questions about what bundles say. Scopes and codes of refusals are those of `PolicyService`.
impl Client {
    /// Says of one call which rule, setting or floor decides.
    ///
    /// # Errors
    ///
    /// `bundle.invalid`, `policy.bad_arguments`, `agent.not_found`, `agent.revision_not_found`,
    /// `run.not_found`, `policy.no_call`.
    pub async fn explain_call(
        &self,
        request: v1::ExplainCallRequest,
    ) -> Result<v1::ExplainCallResponse, Error> {
        let answer = self.policies().explain_call(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Runs the cases that stand beside a bundle. A case that fails is an answer.
    ///
    /// # Errors
    ///
    /// `bundle.invalid`, `policy.bad_cases`.
    pub async fn test_policy(
        &self,
        bundle: &str,
        cases: &str,
    ) -> Result<v1::TestPolicyResponse, Error> {
        let request = v1::TestPolicyRequest {
            bundle: bundle.to_owned(),
            cases: cases.to_owned(),
        };
        let answer = self.policies().test_policy(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Judges recorded runs under a bundle that need not be deployed, one page of them.
    ///
    /// # Errors
    ///
    /// `bundle.invalid`, `page.malformed`, `run.not_found`.
    pub async fn replay_runs(
        &self,
        request: v1::ReplayRunsRequest,
    ) -> Result<v1::ReplayRunsResponse, Error> {
        let answer = self.policies().replay_runs(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}

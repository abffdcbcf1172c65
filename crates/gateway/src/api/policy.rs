//! `sayso.v1.PolicyService`.

use std::mem::take;

use sayso_wire::v1::policy_service_server::PolicyService;
use sayso_wire::{internal, v1};
use tonic::{Request, Response, Status};

use super::Api;
use crate::auth::Session;
use crate::page::Pages;
use crate::refuse;
use crate::request::Check;

const SIBLING: &str = "policy service";

#[tonic::async_trait]
impl PolicyService for Api {
    async fn explain_call(
        &self,
        request: Request<v1::ExplainCallRequest>,
    ) -> Result<Response<v1::ExplainCallResponse>, Status> {
        let session = Session::of(&request);
        let explain = internal::ExplainRequest {
            namespace: session.caller().namespace.to_string(),
            request: Some(request.into_inner()),
        };
        let answer = self.0.judgements().explain(explain).await;
        let answer = answer.map_err(|status| refuse::sibling(SIBLING, &status))?;
        Ok(Response::new(
            answer.into_inner().response.unwrap_or_default(),
        ))
    }

    async fn test_policy(
        &self,
        request: Request<v1::TestPolicyRequest>,
    ) -> Result<Response<v1::TestPolicyResponse>, Status> {
        let asked = request.into_inner();
        let mut check = Check::new();
        check.text("bundle", &asked.bundle);
        check.text("cases", &asked.cases);
        check.done()?;
        let test = internal::TestRequest {
            request: Some(asked),
        };
        let answer = self.0.judgements().test(test).await;
        let answer = answer.map_err(|status| refuse::sibling(SIBLING, &status))?;
        Ok(Response::new(
            answer.into_inner().response.unwrap_or_default(),
        ))
    }

    async fn replay_runs(
        &self,
        request: Request<v1::ReplayRunsRequest>,
    ) -> Result<Response<v1::ReplayRunsResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let mut check = Check::new();
        check.text("bundle", &asked.bundle);
        check.time("after", asked.after.as_ref());
        check.done()?;
        let (token, size) = (take(&mut asked.page_token), take(&mut asked.page_size));
        let pages = Pages::of(&asked);
        asked.page_token = pages.read(&token)?.unwrap_or_default();
        asked.page_size = size;
        let replay = internal::ReplayRequest {
            namespace: session.caller().namespace.to_string(),
            request: Some(asked),
        };
        let answer = self.0.judgements().replay(replay).await;
        let answer = answer.map_err(|status| refuse::sibling(SIBLING, &status))?;
        let mut answer = answer.into_inner().response.unwrap_or_default();
        let next = take(&mut answer.next_page_token);
        answer.next_page_token = pages.next((!next.is_empty()).then_some(next));
        Ok(Response::new(answer))
    }
}

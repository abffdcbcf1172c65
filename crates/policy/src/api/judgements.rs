//! The internal `JudgementService`.

use sayso_driver::JudgedEdit;
use sayso_rules::Bundle;
use sayso_service::error::{Coded, Kind};
use sayso_wire::code;
use sayso_wire::internal::judgement_service_server::JudgementService;
use sayso_wire::internal::{
    ExplainRequest, ExplainResponse, JudgeEditRequest, JudgeEditResponse, ReplayRequest,
    ReplayResponse, TestRequest, TestResponse,
};
use tonic::{Request, Response, Status};

use super::{Api, namespace};
use crate::cases::{BadCases, Cases};
use crate::{edit, explain, refuse, replay};

#[tonic::async_trait]
impl JudgementService for Api {
    async fn explain(
        &self,
        request: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        let request = request.into_inner();
        let namespace = namespace("namespace", &request.namespace)?;
        let asked = request.request.unwrap_or_default();
        let answer = explain::answer(&self.0.store, &namespace, asked).await?;
        Ok(Response::new(ExplainResponse {
            response: Some(answer),
        }))
    }

    async fn test(&self, request: Request<TestRequest>) -> Result<Response<TestResponse>, Status> {
        let asked = request.into_inner().request.unwrap_or_default();
        let bundle = Bundle::parse(&asked.bundle).map_err(|errors| refuse::bundle(&errors))?;
        let cases = Cases::parse(&asked.cases).map_err(bad_cases)?;
        Ok(Response::new(TestResponse {
            response: Some(cases.run(&bundle)),
        }))
    }

    async fn replay(
        &self,
        request: Request<ReplayRequest>,
    ) -> Result<Response<ReplayResponse>, Status> {
        let request = request.into_inner();
        let namespace = namespace("namespace", &request.namespace)?;
        let asked = request.request.unwrap_or_default();
        let answer = replay::replay(&self.0.store, &namespace, &asked).await?;
        Ok(Response::new(ReplayResponse {
            response: Some(answer),
        }))
    }

    async fn judge_edit(
        &self,
        request: Request<JudgeEditRequest>,
    ) -> Result<Response<JudgeEditResponse>, Status> {
        let asked = request.into_inner();
        let namespace = namespace("namespace", &asked.namespace)?;
        let judged = edit::judge(&self.0, &namespace, &asked).await?;
        Ok(Response::new(told(&judged)))
    }
}

fn told(judged: &JudgedEdit) -> JudgeEditResponse {
    JudgeEditResponse {
        judged_json: serde_json::to_string(judged)
            .expect("a judged edit holds only strings, numbers and lists of them"),
    }
}

fn bad_cases(bad: BadCases) -> Coded {
    let sentence = format!("{bad}; nothing was judged.");
    let refused = Coded::new(Kind::Invalid, code::POLICY_BAD_CASES, sentence);
    let place = match bad.path.as_str() {
        "" => "cases",
        path => path,
    };
    refused.field(place, bad.message)
}

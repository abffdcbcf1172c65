//! The internal gRPC API.

use sayso_driver::WriteError;
use sayso_engine::{Answered, Asked, idempotency, respond};
use sayso_herald::coded;
use sayso_run::{
    BadName, Ballot, CallId, Namespace, PrincipalId, Response as Said, RunId, RunState, Trust,
};
use sayso_service::error::{Coded, Kind};
use sayso_wire::decision::{BadDecision, item};
use sayso_wire::internal::approval_hub_service_server::ApprovalHubService;
use sayso_wire::internal::{Reach, RespondRequest, RespondResponse};
use sayso_wire::v1;
use tonic::{Request, Response, Status};

use crate::ApprovalHub;
use crate::edit::{self, Wanted};

pub(crate) struct Api(pub(crate) ApprovalHub);

#[tonic::async_trait]
impl ApprovalHubService for Api {
    async fn respond(
        &self,
        request: Request<RespondRequest>,
    ) -> Result<Response<RespondResponse>, Status> {
        let (asked, edit) = asked(request.into_inner())?;
        let by = asked.response.by.clone();
        let salt = salt()?;
        let answered = match &edit {
            Some(edit) => edit::respond_edited(&self.0, asked, edit, &salt).await?,
            None => answered(&self.0, asked, &salt).await.map_err(coded)?,
        };
        Ok(Response::new(answer(&answered, &by)))
    }
}

/// Carries a response to its run.
pub(crate) async fn answered(
    hub: &ApprovalHub,
    asked: Asked,
    salt: &str,
) -> Result<Answered, WriteError> {
    respond(&hub.store, &*hub.herald, &hub.store, &hub.key, asked, salt).await
}

/// Keeps what is said with a vote from being guessed from its hash.
fn salt() -> Result<String, Coded> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| Coded::internal("drawing a salt", &error))?;
    Ok(hex::encode(salt))
}

fn asked(request: RespondRequest) -> Result<(Asked, Option<Wanted>), Coded> {
    let caller = request
        .caller
        .ok_or_else(|| invalid("caller", "required"))?;
    let run = name("run_id", RunId::new(&request.run_id))?;
    let edit = Wanted::of(&request.decisions)?;
    let decisions = request
        .decisions
        .into_iter()
        .map(|decision| item(decision).map_err(not_a_decision))
        .collect::<Result<Vec<_>, Coded>>()?;
    let mut response = Said {
        by: name("caller.principal", PrincipalId::new(&caller.principal))?,
        decisions,
        message: request.message,
        goes_on: request.goes_on,
        seen: request.seen_sequence,
        idempotency: None,
        ballot: Ballot::default(),
    };
    let edits = edit.as_ref().map(Wanted::to_string).unwrap_or_default();
    response.idempotency = idempotency(request.idempotency_key, &run, &response, &edits);
    let asked = Asked {
        namespace: name("caller.namespace", Namespace::new(&caller.namespace))?,
        reaches_all: caller.reach() == Reach::Namespace,
        run,
        response,
        trust: Trust::try_from(caller.trust()).map_err(|_| invalid("caller.trust", "required"))?,
        redaction: None,
    };
    Ok((asked, edit))
}

fn answer(answered: &Answered, by: &PrincipalId) -> RespondResponse {
    let state = &answered.wrote.state;
    let repeated = answered.wrote.steps.is_empty();
    RespondResponse {
        run_id: state.run().to_string(),
        outcomes: answered
            .decided
            .iter()
            .filter_map(|id| outcome(state, id, by, repeated))
            .collect(),
        later_held: answered
            .later
            .iter()
            .filter_map(|id| later_held(state, id))
            .collect(),
        run_status: v1::RunStatus::from(state.status()).into(),
        last_sequence: state.seq(),
    }
}

fn outcome(
    state: &RunState,
    id: &CallId,
    by: &PrincipalId,
    repeated: bool,
) -> Option<v1::DecisionOutcome> {
    let call = state.call(id)?;
    let approval = call.approval.as_ref()?;
    let votes = approval.votes.len();
    let cast = approval.votes.iter().find(|vote| vote.by == *by);
    if let (None, Some(cast)) = (&approval.outcome, cast) {
        return Some(v1::DecisionOutcome {
            approval_id: approval.id.to_string(),
            call_id: call.id.to_string(),
            tool: call.tool.clone(),
            verdict: v1::Verdict::Approve.into(),
            decided_by: String::new(),
            decided_at: Some(sayso_wire::timestamp(cast.at)),
            reason: String::new(),
            already_recorded: repeated,
            votes: u32::try_from(votes).unwrap_or(u32::MAX),
            votes_needed: approval.quorum.needed(),
        });
    }
    let recorded = approval.outcome.as_ref()?;
    let verdict = if recorded.denied.is_none() {
        v1::Verdict::Approve
    } else {
        v1::Verdict::Deny
    };
    Some(v1::DecisionOutcome {
        approval_id: approval.id.to_string(),
        call_id: call.id.to_string(),
        tool: call.tool.clone(),
        verdict: verdict.into(),
        decided_by: recorded
            .by
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        decided_at: Some(sayso_wire::timestamp(recorded.at)),
        reason: recorded.reason.clone().unwrap_or_default(),
        already_recorded: repeated && (recorded.by.as_ref() == Some(by) || cast.is_some()),
        votes: u32::try_from(votes + usize::from(recorded.denied.is_none())).unwrap_or(u32::MAX),
        votes_needed: approval.quorum.needed(),
    })
}

fn later_held(state: &RunState, id: &CallId) -> Option<v1::LaterHeld> {
    let call = state.call(id)?;
    Some(v1::LaterHeld {
        approval_id: call.approval.as_ref()?.id.to_string(),
        call_id: call.id.to_string(),
        tool: call.tool.clone(),
    })
}

fn not_a_decision(bad: BadDecision) -> Coded {
    let field = format!("decisions.{}", bad.field());
    Coded::new(
        Kind::Invalid,
        "request.invalid",
        format!("a decision cannot be read: {bad}"),
    )
    .field(field, bad.to_string())
}

fn invalid(field: &'static str, rule: &'static str) -> Coded {
    Coded::new(Kind::Invalid, "request.invalid", format!("{field}: {rule}")).field(field, rule)
}

fn name<T>(field: &'static str, given: Result<T, BadName>) -> Result<T, Coded> {
    given.map_err(|bad| {
        Coded::new(Kind::Invalid, "request.invalid", bad.to_string()).field(field, bad.rule)
    })
}

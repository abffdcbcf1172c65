//! The scheduler, the approval hub and the policy service, as small as they can be.

use std::sync::Arc;

use sayso_driver::{
    AppendError, Decided, Journal, NewMessage, WriteError, Wrote, converse, start, write,
};
use sayso_herald::{Herald, coded};
use sayso_run::{
    AgentName, ChainKey, ConversationId, Digest, IdempotencyKey, Input, Namespace, PrincipalId,
    Response as Said, RevisionId, RunId, RunState, Source, Start, TaskId, TriggerReceived,
};
use sayso_service::error::{Coded, Kind};
use sayso_store::{Deploy, Store};
use sayso_wire::decision::{given, item};
use sayso_wire::internal::approval_hub_service_server::{
    ApprovalHubService, ApprovalHubServiceServer,
};
use sayso_wire::internal::policy_service_server::{PolicyService, PolicyServiceServer};
use sayso_wire::internal::scheduler_service_server::{SchedulerService, SchedulerServiceServer};
use sayso_wire::internal::{
    Caller, CancelRunRequest, CancelRunResponse, DeployRequest, DeployResponse, GetRevisionRequest,
    GetRevisionResponse, GetRoleRequest, GetRoleResponse, Reach, RespondRequest, RespondResponse,
    RetryRunRequest, RetryRunResponse, SendMessageRequest, SendMessageResponse, StartRunRequest,
    StartRunResponse, ValidateRequest, ValidateResponse,
};
use sayso_wire::time::timestamp;
use sayso_wire::v1;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

#[derive(Clone)]
pub(crate) struct Siblings {
    pub(crate) store: Store,
    pub(crate) herald: Arc<Herald>,
    pub(crate) key: ChainKey,
}

impl Siblings {
    pub(crate) fn routes(&self) -> Routes {
        Routes::new(SchedulerServiceServer::new(self.clone()))
            .add_service(ApprovalHubServiceServer::new(self.clone()))
            .add_service(PolicyServiceServer::new(self.clone()))
            .prepare()
    }

    /// Lets a run take an input, as whoever may give it.
    pub(crate) async fn write(
        &self,
        run: &RunId,
        input: impl Fn(&RunState) -> Input + Send + Sync,
    ) -> Result<Wrote, WriteError> {
        write(&self.store, &*self.herald, &self.key, run, |state, now| {
            let steps = state.decide(input(state), now)?;
            Ok(Decided {
                steps,
                not_after: None,
            })
        })
        .await
    }

    async fn reachable(&self, caller: &Caller, run: &str) -> Result<RunId, Status> {
        let run = RunId::new(run).map_err(bad)?;
        let loaded = self
            .store
            .load(&run)
            .await
            .map_err(WriteError::from)
            .map_err(coded)?;
        let trigger = loaded.map(|loaded| loaded.state.trigger().clone());
        let reaches = trigger.is_some_and(|trigger| {
            trigger.namespace.as_str() == caller.namespace
                && (caller.reach() == Reach::Namespace
                    || trigger.principal.as_str() == caller.principal)
        });
        match reaches {
            true => Ok(run),
            false => Err(coded(WriteError::NotFound(run)).into()),
        }
    }
}

fn bad(error: impl std::fmt::Display) -> Status {
    Coded::new(Kind::Invalid, "request.invalid", error.to_string()).into()
}

fn principal(caller: &Caller) -> Result<PrincipalId, Status> {
    PrincipalId::new(&caller.principal).map_err(bad)
}

fn idempotency(key: String, content: &str) -> Option<IdempotencyKey> {
    let request = Digest::of(content.as_bytes());
    given(key).map(|key| IdempotencyKey { key, request })
}

#[tonic::async_trait]
impl SchedulerService for Siblings {
    async fn start_run(
        &self,
        request: Request<StartRunRequest>,
    ) -> Result<Response<StartRunResponse>, Status> {
        let request = request.into_inner();
        let caller = request.caller.expect("a caller");
        let id = uuid::Uuid::now_v7().simple();
        let content = format!("{} {}", request.agent, request.input);
        let trigger = TriggerReceived {
            task: TaskId::new(format!("task_{id}")).expect("an id"),
            namespace: Namespace::new(&caller.namespace).map_err(bad)?,
            agent: AgentName::new(&request.agent).map_err(bad)?,
            revision: RevisionId::new(&request.revision_id).map_err(bad)?,
            source: Source::Start,
            input: request.input,
            principal: principal(&caller)?,
            trust: caller.trust().try_into().map_err(bad)?,
            idempotency: idempotency(request.idempotency_key, &content),
            trigger: None,
            tick: None,
            traceparent: given(request.traceparent),
            parent: None,
            conversation: None,
        };
        let run = RunId::new(format!("run_{id}")).expect("an id");
        let asked = Start { run, trigger };
        let outcome = start(&self.store, &*self.herald, &self.key, asked)
            .await
            .map_err(coded)?;
        let state = self
            .store
            .load(&outcome.run)
            .await
            .expect("read")
            .expect("it is there")
            .state;
        Ok(Response::new(StartRunResponse {
            run_id: outcome.run.to_string(),
            task_id: state.trigger().task.to_string(),
            created_at: Some(timestamp(state.started_at())),
            already_started: !outcome.new,
        }))
    }

    async fn cancel_run(
        &self,
        request: Request<CancelRunRequest>,
    ) -> Result<Response<CancelRunResponse>, Status> {
        let request = request.into_inner();
        let caller = request.caller.expect("a caller");
        let run = self.reachable(&caller, &request.run_id).await?;
        let by = principal(&caller)?;
        let reason = given(request.reason);
        let cancel = |_: &RunState| Input::Cancel {
            by: by.clone(),
            reason: reason.clone(),
            idempotency: None,
        };
        let state = self.write(&run, cancel).await.map_err(coded)?.state;
        Ok(Response::new(CancelRunResponse {
            run_status: v1::RunStatus::from(state.status()).into(),
            last_sequence: state.seq(),
        }))
    }

    async fn retry_run(
        &self,
        request: Request<RetryRunRequest>,
    ) -> Result<Response<RetryRunResponse>, Status> {
        let request = request.into_inner();
        let caller = request.caller.expect("a caller");
        let run = self.reachable(&caller, &request.run_id).await?;
        let by = principal(&caller)?;
        let retry = |_: &RunState| Input::Retry { by: by.clone() };
        let state = self.write(&run, retry).await.map_err(coded)?.state;
        Ok(Response::new(RetryRunResponse {
            run_status: v1::RunStatus::from(state.status()).into(),
            last_sequence: state.seq(),
        }))
    }

    async fn send_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<SendMessageResponse>, Status> {
        let request = request.into_inner();
        let caller = request.caller.expect("a caller");
        let id = uuid::Uuid::now_v7().simple();
        let new = NewMessage {
            conversation: ConversationId::new(&request.conversation_id).map_err(bad)?,
            namespace: Namespace::new(&caller.namespace).map_err(bad)?,
            sender: principal(&caller)?,
            reaches_all: caller.reach() == Reach::Namespace,
            trust: caller.trust().try_into().map_err(bad)?,
            outside: given(request.outside_name),
            text: request.text,
            key: given(request.idempotency_key),
            ids: (
                RunId::new(format!("run_{id}")).expect("an id"),
                TaskId::new(format!("task_{id}")).expect("an id"),
            ),
            revision: RevisionId::new(&request.revision_id).map_err(bad)?,
            traceparent: given(request.traceparent),
        };
        let heard = converse(&self.store, &*self.herald, &self.key, new).await;
        let heard = heard.map_err(coded)?;
        Ok(Response::new(SendMessageResponse {
            run_id: heard.run.to_string(),
            sequence: heard.seq,
            started_run: heard.began,
            already_sent: heard.repeated,
        }))
    }
}

#[tonic::async_trait]
impl ApprovalHubService for Siblings {
    async fn respond(
        &self,
        request: Request<RespondRequest>,
    ) -> Result<Response<RespondResponse>, Status> {
        let request = request.into_inner();
        let mut caller = request.caller.expect("a caller");
        if !request.decisions.is_empty() {
            caller.reach = Reach::Namespace.into();
        }
        let run = self.reachable(&caller, &request.run_id).await?;
        let content = format!("{:?} {:?}", request.decisions, request.message);
        let decisions = request.decisions.into_iter().map(item);
        let said = Said {
            by: principal(&caller)?,
            decisions: decisions.collect::<Result<_, _>>().map_err(bad)?,
            message: request.message,
            goes_on: request.goes_on,
            seen: request.seen_sequence,
            idempotency: idempotency(request.idempotency_key, &content),
            ballot: sayso_run::Ballot::default(),
        };
        let wrote = write(&self.store, &*self.herald, &self.key, &run, |state, now| {
            Ok(Decided {
                not_after: state.decides_before(&said),
                steps: state.decide(Input::Respond(said.clone()), now)?,
            })
        })
        .await;
        let wrote = match wrote {
            Err(WriteError::Append(AppendError::TooLate)) => {
                let late = "the approval expired: it counts as denied";
                return Err(Coded::new(Kind::Precondition, "approval.expired", late).into());
            }
            other => other.map_err(coded)?,
        };
        let decided = wrote.state.calls().iter().filter_map(|call| {
            let approval = call.approval.as_ref()?;
            let recorded = approval.outcome.as_ref()?;
            Some(v1::DecisionOutcome {
                approval_id: approval.id.to_string(),
                call_id: call.id.to_string(),
                tool: call.tool.clone(),
                verdict: match recorded.denied {
                    None => v1::Verdict::Approve.into(),
                    Some(_) => v1::Verdict::Deny.into(),
                },
                decided_by: recorded.by.as_ref()?.to_string(),
                decided_at: Some(timestamp(recorded.at)),
                reason: recorded.reason.clone().unwrap_or_default(),
                already_recorded: wrote.steps.is_empty(),
                votes: 1,
                votes_needed: 1,
            })
        });
        Ok(Response::new(RespondResponse {
            run_id: run.to_string(),
            outcomes: decided.collect(),
            later_held: Vec::new(),
            run_status: v1::RunStatus::from(wrote.state.status()).into(),
            last_sequence: wrote.state.seq(),
        }))
    }
}

#[tonic::async_trait]
impl PolicyService for Siblings {
    /// A bundle is wrong if it says so.
    async fn validate(
        &self,
        request: Request<ValidateRequest>,
    ) -> Result<Response<ValidateResponse>, Status> {
        let bundle = request.into_inner().bundle;
        let finding = v1::BundleFinding {
            code: "bundle.unknown_field".into(),
            path: "wrong".into(),
            message: "there is no such field".into(),
        };
        let wrong = bundle.contains("wrong");
        Ok(Response::new(ValidateResponse {
            errors: wrong.then_some(finding).into_iter().collect(),
            revision_id: if wrong {
                String::new()
            } else {
                Digest::of(bundle.as_bytes()).to_hex()
            },
            ..ValidateResponse::default()
        }))
    }

    /// A bundle is JSON here, with a `name`.
    async fn deploy(
        &self,
        request: Request<DeployRequest>,
    ) -> Result<Response<DeployResponse>, Status> {
        let request = request.into_inner();
        let caller = request.caller.expect("a caller");
        let json: serde_json::Value = serde_json::from_str(&request.bundle).map_err(bad)?;
        let Some(name) = json["name"].as_str() else {
            let coded = Coded::new(Kind::Invalid, "bundle.invalid", "The bundle has a mistake.");
            return Err(coded.field("name", "bundle.missing: is required").into());
        };
        let deploy = Deploy {
            namespace: Namespace::new(&caller.namespace).map_err(bad)?,
            agent: AgentName::new(name).map_err(bad)?,
            revision: RevisionId::new(Digest::of(request.bundle.as_bytes()).to_hex())
                .map_err(bad)?,
            bundle: request.bundle.clone(),
            role: Some("unrestricted".into()),
            triggers: Vec::new(),
            by: principal(&caller)?,
        };
        let deployed = self.store.agents().deploy(&deploy).await.map_err(bad)?;
        Ok(Response::new(DeployResponse {
            revision: Some(v1::Revision {
                id: deploy.revision.to_string(),
                agent: name.to_owned(),
                author: caller.principal,
                created_at: Some(timestamp(Journal::now(&self.store))),
            }),
            warnings: Vec::new(),
            created: deployed.new_revision,
            changes: None,
        }))
    }

    async fn get_revision(
        &self,
        _: Request<GetRevisionRequest>,
    ) -> Result<Response<GetRevisionResponse>, Status> {
        Err(Status::unimplemented("the gateway does not ask for it"))
    }

    async fn get_role(
        &self,
        _: Request<GetRoleRequest>,
    ) -> Result<Response<GetRoleResponse>, Status> {
        Err(Status::unimplemented("the gateway does not ask for it"))
    }
}

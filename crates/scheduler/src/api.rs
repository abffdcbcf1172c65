//! The internal gRPC API.

use sayso_driver::{NewMessage, WriteError, converse};
use sayso_engine::{Asker, NewRun, StartOrigin, admit, cancel, new_ids, retry};
use sayso_run::{
    AgentName, BadName, ConversationId, Namespace, PrincipalId, Refusal, RevisionId, RunId, Source,
    Trust,
};
use sayso_service::error::{Coded, Kind};
use sayso_wire::internal::scheduler_service_server::SchedulerService;
use sayso_wire::internal::{
    Caller, CancelRunRequest, CancelRunResponse, Reach, RetryRunRequest, RetryRunResponse,
    SendMessageRequest, SendMessageResponse, StartRunRequest, StartRunResponse,
};
use tonic::{Request, Response, Status};

use crate::Scheduler;

pub(crate) struct Api(pub(crate) Scheduler);

#[tonic::async_trait]
impl SchedulerService for Api {
    async fn start_run(
        &self,
        request: Request<StartRunRequest>,
    ) -> Result<Response<StartRunResponse>, Status> {
        let request = request.into_inner();
        let source = Source::try_from(request.source()).map_err(|_| unsaid())?;
        let caller = required(request.caller)?;
        let origin = match source {
            Source::Webhook => StartOrigin::Webhook(request.trigger),
            Source::Start => StartOrigin::Asked,
            // Ticks are taken here, children begin with a step of their parent, and messages have a
            // method of their own.
            Source::Cron | Source::Agent | Source::Chat => return Err(unsaid().into()),
        };
        let new = NewRun {
            ids: new_ids(),
            namespace: name("caller.namespace", Namespace::new(&caller.namespace))?,
            agent: name("agent", AgentName::new(&request.agent))?,
            revision: name("revision_id", RevisionId::new(&request.revision_id))?,
            principal: name("caller.principal", PrincipalId::new(&caller.principal))?,
            trust: trust(&caller)?,
            input: request.input,
            origin,
            idempotency_key: not_empty(request.idempotency_key),
            traceparent: not_empty(request.traceparent),
        };
        let (store, herald, key) = self.0.pen();
        let outcome = admit(store, herald, key, new).await.map_err(refused)?;
        Ok(Response::new(StartRunResponse {
            run_id: outcome.run.to_string(),
            task_id: outcome.task.to_string(),
            created_at: Some(sayso_wire::timestamp(outcome.created_at)),
            already_started: !outcome.new,
        }))
    }

    async fn cancel_run(
        &self,
        request: Request<CancelRunRequest>,
    ) -> Result<Response<CancelRunResponse>, Status> {
        let request = request.into_inner();
        let asker = asker(request.caller)?;
        let run = name("run_id", RunId::new(&request.run_id))?;
        let key = not_empty(request.idempotency_key);
        let reason = not_empty(request.reason);
        let (store, herald, chain) = self.0.pen();
        let cancelling = cancel(store, herald, chain, asker, &run, reason, key);
        let wrote = cancelling.await.map_err(refused)?;
        Ok(Response::new(CancelRunResponse {
            run_status: sayso_wire::v1::RunStatus::from(wrote.state.status()).into(),
            last_sequence: wrote.state.seq(),
        }))
    }

    async fn retry_run(
        &self,
        request: Request<RetryRunRequest>,
    ) -> Result<Response<RetryRunResponse>, Status> {
        let request = request.into_inner();
        let asker = asker(request.caller)?;
        let run = name("run_id", RunId::new(&request.run_id))?;
        let (store, herald, key) = self.0.pen();
        let retrying = retry(store, herald, key, asker, &run);
        let wrote = retrying.await.map_err(refused)?;
        Ok(Response::new(RetryRunResponse {
            run_status: sayso_wire::v1::RunStatus::from(wrote.state.status()).into(),
            last_sequence: wrote.state.seq(),
        }))
    }

    async fn send_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<SendMessageResponse>, Status> {
        let request = request.into_inner();
        let caller = required(request.caller)?;
        let trust = trust(&caller)?;
        let asker = asker(Some(caller))?;
        let id = &request.conversation_id;
        let new = NewMessage {
            conversation: name("conversation_id", ConversationId::new(id))?,
            namespace: asker.namespace,
            sender: asker.principal,
            reaches_all: asker.reaches_all,
            trust,
            outside: not_empty(request.outside_name),
            text: request.text,
            key: not_empty(request.idempotency_key),
            ids: new_ids(),
            revision: name("revision_id", RevisionId::new(&request.revision_id))?,
            traceparent: not_empty(request.traceparent),
        };
        let (store, herald, key) = self.0.pen();
        let heard = converse(store, herald, key, new).await;
        let heard = heard.map_err(|error| match error {
            WriteError::Refused(Refusal::UnknownTarget(_)) => no_conversation(),
            error => refused(error),
        })?;
        Ok(Response::new(SendMessageResponse {
            run_id: heard.run.to_string(),
            sequence: heard.seq,
            started_run: heard.began,
            already_sent: heard.repeated,
        }))
    }
}

fn no_conversation() -> Coded {
    Coded::new(
        Kind::NotFound,
        sayso_wire::code::CONVERSATION_NOT_FOUND,
        "there is no such conversation in this namespace",
    )
}

fn required(caller: Option<Caller>) -> Result<Caller, Coded> {
    caller.ok_or_else(|| {
        Coded::new(
            Kind::Invalid,
            "request.invalid",
            "the request names no caller",
        )
    })
}

fn asker(caller: Option<Caller>) -> Result<Asker, Coded> {
    let caller = required(caller)?;
    Ok(Asker {
        namespace: name("caller.namespace", Namespace::new(&caller.namespace))?,
        principal: name("caller.principal", PrincipalId::new(&caller.principal))?,
        reaches_all: caller.reach() == Reach::Namespace,
    })
}

fn trust(caller: &Caller) -> Result<Trust, Coded> {
    Trust::try_from(caller.trust()).map_err(|_| {
        Coded::new(
            Kind::Invalid,
            "request.invalid",
            "the caller's trust is not said",
        )
        .field("caller.trust", "required")
    })
}

fn unsaid() -> Coded {
    Coded::new(
        Kind::Invalid,
        "request.invalid",
        "what makes the run start is not said",
    )
    .field("source", "required")
}

fn name<T>(field: &'static str, given: Result<T, BadName>) -> Result<T, Coded> {
    given.map_err(|bad| {
        Coded::new(Kind::Invalid, "request.invalid", bad.to_string()).field(field, bad.rule)
    })
}

fn not_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Why nothing was written, with its stable code.
fn refused(error: WriteError) -> Coded {
    sayso_herald::coded(error)
}

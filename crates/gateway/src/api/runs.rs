//! `sayso.v1.RunService`.

use std::mem::take;

use futures::stream::unfold;
use sayso_driver::{ActionRow, RunRow};
use sayso_run::{AgentName, EndedBy, Namespace, PrincipalId, RunId, Status as RunStatus, TaskId};
use sayso_service::error::Coded;
use sayso_service::telemetry::propagate;
use sayso_store::{PageRequest, RunFilter, VerifyError};
use sayso_wire::v1::run_service_server::RunService;
use sayso_wire::{code, internal, v1};
use tonic::{Request, Response, Status, Streaming};

use super::{Api, Streamed, import, on_behalf, pauses};
use crate::auth::{Reach, Session};
use crate::page::{ENTRIES, Pages, STEPS};
use crate::request::{CHECKED, Check};
use crate::watch::Position;
use crate::{Shared, page, refuse, show};

#[tonic::async_trait]
impl RunService for Api {
    async fn start_run(
        &self,
        request: Request<v1::StartRunRequest>,
    ) -> Result<Response<v1::StartRunResponse>, Status> {
        let session = Session::of(&request);
        let traceparent = traceparent(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let agent = check.id::<AgentName>("agent", &asked.agent);
        check.text("input", &asked.input);
        check.key(&asked.idempotency_key);
        check.done()?;
        let agent = agent.expect(CHECKED);

        let namespace = &session.caller().namespace;
        let current = self.0.current.get(&self.0.store, namespace, &agent).await?;
        let revision = current.ok_or_else(refuse::no_agent)?;
        let start = internal::StartRunRequest {
            caller: Some(on_behalf(&session)?),
            agent: asked.agent,
            revision_id: revision.to_string(),
            input: asked.input.clone(),
            source: v1::StartSource::Start.into(),
            idempotency_key: asked.idempotency_key,
            traceparent,
            trigger: String::new(),
        };
        let started = self.0.scheduler().start_run(start).await;
        let started = started.map_err(|status| refuse::sibling("scheduler", &status))?;
        let started = started.into_inner();
        let already_started = started.already_started;
        let run = if already_started {
            let run = RunId::new(&started.run_id);
            let run = run.map_err(|bad| Coded::internal("reading the scheduler's answer", &bad))?;
            show::run(visible_run(&self.0, &session, &run).await?)
        } else {
            just_started(&session, agent, revision.to_string(), asked.input, started)
        };
        Ok(Response::new(v1::StartRunResponse {
            run: Some(run),
            already_started,
        }))
    }

    async fn get_run(
        &self,
        request: Request<v1::GetRunRequest>,
    ) -> Result<Response<v1::GetRunResponse>, Status> {
        let session = Session::of(&request);
        let run = run_id(&request.get_ref().run_id)?;
        let row = visible_run(&self.0, &session, &run).await?;
        let namespace = row.namespace.clone();
        let lowered = trust_lowered(&self.0, &namespace, &run, row.seq).await?;
        let shown = pauses::shown(&self.0, &namespace, vec![row]).await?;
        let shown = shown.into_iter().next().map(|run| v1::Run {
            trust_lowered: lowered,
            ..run
        });
        Ok(Response::new(v1::GetRunResponse { run: shown }))
    }

    async fn list_runs(
        &self,
        request: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = ENTRIES.of(take(&mut asked.page_size));
        let token = take(&mut asked.page_token);
        let pages = Pages::of(&asked);
        let after = pages.read(&token)?;
        let Some(wanted) = Wanted::of(&session, asked)? else {
            return Ok(Response::new(v1::ListRunsResponse::default()));
        };
        let namespace = &session.caller().namespace;
        let runs = self.0.store.runs();
        let filter = &wanted.filter;
        let fetch = |page: PageRequest| async move { runs.list(namespace, filter, &page).await };
        let keeps = |row: &RunRow| wanted.keeps(row);
        let rows = page::read(size, after, fetch, keeps, weight).await;
        let (rows, next) = rows.map_err(|error| page::failed("listing runs", error))?;
        Ok(Response::new(v1::ListRunsResponse {
            runs: pauses::shown(&self.0, namespace, rows).await?,
            next_page_token: pages.next(next),
        }))
    }

    type WatchRunStream = Streamed<v1::WatchRunResponse>;

    async fn watch_run(
        &self,
        request: Request<v1::WatchRunRequest>,
    ) -> Result<Response<Self::WatchRunStream>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let run = run_id(&asked.run_id)?;
        let position = Position {
            from: asked.from_sequence,
            steps_only: asked.steps_only,
        };
        let sees = |requester: &PrincipalId| session.sees(requester);
        let follow = self
            .0
            .watching
            .follow(&run, session.lease(), position, sees)
            .await?;
        let stream = unfold(follow, |mut follow| async move {
            let message = follow.next().await?;
            Some((message.map_err(Status::from), follow))
        });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn list_run_steps(
        &self,
        request: Request<v1::ListRunStepsRequest>,
    ) -> Result<Response<v1::ListRunStepsResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = STEPS.of(take(&mut asked.page_size));
        let token = take(&mut asked.page_token);
        let run = run_id(&asked.run_id)?;
        let pages = Pages::of(&asked);
        let after = match pages.read_number(&token)? {
            Some(last) => last,
            None => asked.from_sequence.saturating_sub(1),
        };
        let row = visible_run(&self.0, &session, &run).await?;
        let steps = self
            .0
            .store
            .runs()
            .steps(&row.namespace, &run, after, size)
            .await;
        let mut steps = steps.map_err(|error| refuse::database("listing steps", error))?;
        steps.truncate(page::fitting(&steps, |step| step.shown().len()));
        let last = steps.last().map_or(after, |step| step.seq);
        Ok(Response::new(v1::ListRunStepsResponse {
            next_page_token: pages.next((last < row.seq).then_some(last)),
            steps: steps.iter().map(show::step).collect(),
        }))
    }

    async fn list_run_actions(
        &self,
        request: Request<v1::ListRunActionsRequest>,
    ) -> Result<Response<v1::ListRunActionsResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = STEPS.of(take(&mut asked.page_size));
        let token = take(&mut asked.page_token);
        let run = run_id(&asked.run_id)?;
        let pages = Pages::of(&asked);
        let after = pages.read_number(&token)?.unwrap_or(0);
        let row = visible_run(&self.0, &session, &run).await?;
        let actions = self.0.store.runs().actions(&row.namespace, &run).await;
        let actions = actions.map_err(|error| refuse::database("listing actions", error))?;
        let total = actions.len();
        let skipped = usize::try_from(after).unwrap_or(usize::MAX).min(total);
        let mut rest: Vec<ActionRow> = actions
            .into_iter()
            .skip(skipped)
            .take(size as usize)
            .collect();
        let weight = |row: &ActionRow| row.args.len() + row.result.as_ref().map_or(0, String::len);
        rest.truncate(page::fitting(&rest, weight));
        let seen = skipped + rest.len();
        Ok(Response::new(v1::ListRunActionsResponse {
            next_page_token: pages.next((seen < total).then_some(seen)),
            actions: rest.into_iter().map(show::action).collect(),
        }))
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let run = check.id::<RunId>("run_id", &asked.run_id);
        check.text("reason", &asked.reason);
        check.key(&asked.idempotency_key);
        check.done()?;
        let cancel = internal::CancelRunRequest {
            caller: Some(on_behalf(&session)?),
            run_id: asked.run_id,
            reason: asked.reason,
            idempotency_key: asked.idempotency_key,
        };
        let cancelled = self.0.scheduler().cancel_run(cancel).await;
        let row = changed(
            &self.0,
            &session,
            &run.expect(CHECKED),
            "scheduler",
            cancelled,
        )
        .await?;
        Ok(Response::new(v1::CancelRunResponse {
            run: Some(show::run(row)),
        }))
    }

    async fn reply_to_run(
        &self,
        request: Request<v1::ReplyToRunRequest>,
    ) -> Result<Response<v1::ReplyToRunResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let run = check.id::<RunId>("run_id", &asked.run_id);
        check.text("message", &asked.message);
        check.key(&asked.idempotency_key);
        check.done()?;
        if asked.message.is_empty() {
            return Err(refuse::empty("message").into());
        }
        let reply = internal::RespondRequest {
            caller: Some(on_behalf(&session)?),
            run_id: asked.run_id,
            decisions: Vec::new(),
            message: Some(asked.message),
            goes_on: true,
            seen_sequence: None,
            idempotency_key: asked.idempotency_key,
        };
        let replied = self.0.hub().respond(reply).await;
        let row = changed(
            &self.0,
            &session,
            &run.expect(CHECKED),
            "approval hub",
            replied,
        )
        .await?;
        Ok(Response::new(v1::ReplyToRunResponse {
            run: Some(show::run(row)),
        }))
    }

    async fn retry_run(
        &self,
        request: Request<v1::RetryRunRequest>,
    ) -> Result<Response<v1::RetryRunResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let run = run_id(&asked.run_id)?;
        let retry = internal::RetryRunRequest {
            caller: Some(on_behalf(&session)?),
            run_id: asked.run_id,
        };
        let retried = self.0.scheduler().retry_run(retry).await;
        let row = changed(&self.0, &session, &run, "scheduler", retried).await?;
        Ok(Response::new(v1::RetryRunResponse {
            run: Some(show::run(row)),
        }))
    }

    async fn import_run(
        &self,
        request: Request<Streaming<v1::ImportRunRequest>>,
    ) -> Result<Response<v1::ImportRunResponse>, Status> {
        let session = Session::of(&request);
        let mut parts = request.into_inner();
        let mut text = Vec::new();
        while let Some(part) = parts.message().await? {
            text.extend_from_slice(&part.part);
            if text.len() > import::MAX_BYTES {
                return Err(import::too_large().into());
            }
        }
        let imported = import::import(&self.0, &session, text).await?;
        Ok(Response::new(imported))
    }

    async fn verify_run(
        &self,
        request: Request<v1::VerifyRunRequest>,
    ) -> Result<Response<v1::VerifyRunResponse>, Status> {
        let session = Session::of(&request);
        let run = run_id(&request.get_ref().run_id)?;
        let row = visible_run(&self.0, &session, &run).await?;
        let verified = self
            .0
            .store
            .runs()
            .verify(&row.namespace, &run, &self.0.keys)
            .await;
        let result = match verified {
            Ok(head) => v1::verify_run_response::Result::Verified(head.into()),
            Err(VerifyError::Broken(broken)) => {
                v1::verify_run_response::Result::Broken(broken.into())
            }
            Err(VerifyError::NotFound(_)) => return Err(refuse::no_run().into()),
            Err(VerifyError::Database(error)) => {
                return Err(refuse::database("verifying a run", error).into());
            }
        };
        Ok(Response::new(v1::VerifyRunResponse {
            result: Some(result),
        }))
    }
}

/// The run after a sibling was asked to change it. Siblings do not know read-only copies; whoever sees
/// one is told what it is.
async fn changed<T>(
    shared: &Shared,
    session: &Session,
    run: &RunId,
    sibling: &'static str,
    answer: Result<Response<T>, Status>,
) -> Result<RunRow, Coded> {
    match answer {
        Ok(_) => visible_run(shared, session, run).await,
        Err(status) => {
            let refused = refuse::sibling(sibling, &status);
            if refused.code != code::RUN_NOT_FOUND {
                return Err(refused);
            }
            let row = visible_run(shared, session, run).await?;
            Err(match row.imported_from {
                Some(_) => refuse::read_only(),
                None => refused,
            })
        }
    }
}

/// The trace that a start belongs to: the span of this call, or what the caller sent where this
/// process records no spans.
pub(crate) fn traceparent<T>(request: &Request<T>) -> String {
    let sent = || {
        request
            .metadata()
            .get("traceparent")?
            .to_str()
            .ok()
            .map(str::to_owned)
    };
    let own = propagate::traceparent();
    own.or_else(|| sent().filter(|sent| is_traceparent(sent)))
        .unwrap_or_default()
}

/// Whether it is `vv-<32 digits>-<16 digits>-ff`.
fn is_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    [2, 32, 16, 2].into_iter().all(|length| {
        parts
            .next()
            .is_some_and(|part| part.len() == length && hex(part))
    }) && parts.next().is_none()
}

fn run_id(given: &str) -> Result<RunId, Coded> {
    let mut check = Check::new();
    let run = check.id("run_id", given);
    check.done()?;
    Ok(run.expect(CHECKED))
}

/// A run that the caller may see. What is not there, another namespace's, or out of reach, answers
/// alike (B43).
pub(super) async fn visible_run(
    shared: &Shared,
    session: &Session,
    run: &RunId,
) -> Result<RunRow, Coded> {
    let row = shared
        .store
        .runs()
        .get(&session.caller().namespace, run)
        .await;
    let row = row.map_err(|error| refuse::database("reading a run", error))?;
    let visible = |row: &RunRow| session.sees(&row.principal);
    row.filter(visible).ok_or_else(refuse::no_run)
}

/// A run as it was stored a moment ago, without reading it again.
fn just_started(
    session: &Session,
    agent: AgentName,
    revision_id: String,
    input: String,
    started: internal::StartRunResponse,
) -> v1::Run {
    let caller = session.caller();
    v1::Run {
        id: started.run_id,
        task_id: started.task_id,
        namespace: caller.namespace.to_string(),
        agent: agent.to_string(),
        revision_id,
        source: v1::StartSource::Start.into(),
        requester: caller.principal.to_string(),
        trust: v1::Trust::from(caller.trust).into(),
        input,
        status: v1::RunStatus::Pending.into(),
        last_sequence: 1,
        usage: Some(v1::TokenUsage::default()),
        created_at: started.created_at,
        updated_at: started.created_at,
        duration: Some(prost_types::Duration::default()),
        ..v1::Run::default()
    }
}

/// Which runs are listed.
struct Wanted {
    filter: RunFilter,
    /// Filters that the store does not have.
    ended_by: Vec<EndedBy>,
    task: Option<TaskId>,
}

impl Wanted {
    /// `None` if nothing that the caller may see can match.
    fn of(session: &Session, asked: v1::ListRunsRequest) -> Result<Option<Wanted>, Coded> {
        let mut check = Check::new();
        let ended_by = check.each::<v1::EndedBy, EndedBy>("ended_by", &asked.ended_by);
        let mut filter = RunFilter {
            agent: check.filter::<AgentName>("agent", &asked.agent),
            statuses: check.each::<v1::RunStatus, RunStatus>("statuses", &asked.statuses),
            ended_by: match ended_by[..] {
                [only] => Some(only),
                _ => None,
            },
            requester: check.filter::<PrincipalId>("requester", &asked.requester),
            parent: check.filter::<RunId>("parent_run_id", &asked.parent_run_id),
            since: check.time("created_after", asked.created_after.as_ref()),
            until: check.time("created_before", asked.created_before.as_ref()),
        };
        let task = check.filter::<TaskId>("task_id", &asked.task_id);
        check.done()?;
        let some = within_reach(session, &mut filter.requester)?;
        Ok(some.then_some(Wanted {
            filter,
            ended_by,
            task,
        }))
    }

    fn keeps(&self, row: &RunRow) -> bool {
        let ended_by = |by| self.ended_by.contains(&by);
        (self.ended_by.is_empty() || row.ended_by.is_some_and(ended_by))
            && self.task.as_ref().is_none_or(|task| *task == row.task)
    }
}

/// The bytes of a run's texts.
fn weight(row: &RunRow) -> usize {
    let texts = [&row.output, &row.error_message];
    let more: usize = texts.into_iter().flatten().map(String::len).sum();
    row.input.len() + more
}

/// Narrows a filter to what the caller may see; false if nothing is left.
pub(super) fn within_reach(
    session: &Session,
    requester: &mut Option<PrincipalId>,
) -> Result<bool, Coded> {
    if session.reach()? == Reach::Namespace {
        return Ok(true);
    }
    let own = &session.caller().principal;
    let own_or_all = requester.as_ref().is_none_or(|asked| asked == own);
    *requester = Some(own.clone());
    Ok(own_or_all)
}

/// What lowered a run's trust last, up to a step (S5.8).
pub(super) async fn trust_lowered(
    shared: &Shared,
    namespace: &Namespace,
    run: &RunId,
    up_to: u64,
) -> Result<Option<v1::TrustLowered>, Coded> {
    let step = shared
        .store
        .runs()
        .last_of(namespace, run, "trust_lowered", up_to)
        .await;
    let step = step.map_err(|error| refuse::database("reading what lowered the trust", error))?;
    Ok(step.as_ref().and_then(show::trust_lowered))
}

//! `sayso.v1.PauseService`.

use sayso_driver::RunRow;
use sayso_run::{AgentName, Namespace, Status as RunStatus};
use sayso_service::error::{Coded, Kind};
use sayso_store::PauseRow;
use sayso_wire::v1::pause_service_server::PauseService;
use sayso_wire::{code, v1};
use serde_json::json;
use tonic::{Request, Response, Status};

use super::Api;
use crate::auth::Session;
use crate::request::Check;
use crate::{Shared, audit, refuse, show};

#[tonic::async_trait]
impl PauseService for Api {
    async fn pause(
        &self,
        request: Request<v1::PauseRequest>,
    ) -> Result<Response<v1::PauseResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let agent = check.filter::<AgentName>("agent", &asked.agent);
        check.text("reason", &asked.reason);
        check.done()?;
        let caller = session.caller();
        if let Some(agent) = &agent {
            let found = self.0.store.agents().get(&caller.namespace, agent).await;
            let found = found.map_err(|error| refuse::database("reading an agent", error))?;
            found.ok_or_else(refuse::no_agent)?;
        }
        let reason = Some(asked.reason.as_str()).filter(|reason| !reason.is_empty());
        let pauses = self.0.store.pauses();
        let begun = pauses.begin(&caller.namespace, agent.as_ref(), reason, &caller.principal);
        let begun = begun.await;
        let (new, pause) = begun.map_err(|error| refuse::database("pausing", error))?;
        if new {
            let details = json!({ "reason": pause.reason });
            record(&self.0, &session, "pause.begin", agent.as_ref(), details).await?;
        }
        Ok(Response::new(v1::PauseResponse {
            pause: Some(show::pause(&pause)),
            already_paused: !new,
        }))
    }

    async fn resume(
        &self,
        request: Request<v1::ResumeRequest>,
    ) -> Result<Response<v1::ResumeResponse>, Status> {
        let session = Session::of(&request);
        let mut check = Check::new();
        let agent = check.filter::<AgentName>("agent", &request.get_ref().agent);
        check.done()?;
        let namespace = &session.caller().namespace;
        let ended = self.0.store.pauses().end(namespace, agent.as_ref()).await;
        let ended = ended.map_err(|error| refuse::database("ending a pause", error))?;
        let pause = ended.ok_or_else(|| not_paused(agent.as_ref()))?;
        let details = json!({ "paused_by": pause.paused_by.as_str() });
        record(&self.0, &session, "pause.end", agent.as_ref(), details).await?;
        Ok(Response::new(v1::ResumeResponse {
            pause: Some(show::pause(&pause)),
        }))
    }

    async fn list_pauses(
        &self,
        request: Request<v1::ListPausesRequest>,
    ) -> Result<Response<v1::ListPausesResponse>, Status> {
        let session = Session::of(&request);
        let pauses = active(&self.0, &session.caller().namespace).await?;
        Ok(Response::new(v1::ListPausesResponse {
            pauses: pauses.iter().map(show::pause).collect(),
        }))
    }
}

async fn active(shared: &Shared, namespace: &Namespace) -> Result<Vec<PauseRow>, Coded> {
    let active = shared.store.pauses().active(namespace).await;
    active.map_err(|error| refuse::database("listing pauses", error))
}

/// Runs as they are shown, each with the pause because of which it stands still.
pub(super) async fn shown(
    shared: &Shared,
    namespace: &Namespace,
    rows: Vec<RunRow>,
) -> Result<Vec<v1::Run>, Coded> {
    // Whoever waits for a person does not stand still because of a pause.
    let could_go_on = |row: &RunRow| matches!(row.status, RunStatus::Pending | RunStatus::Running);
    let pauses = if rows.iter().any(could_go_on) {
        active(shared, namespace).await?
    } else {
        Vec::new()
    };
    let pause_of = |row: &RunRow| {
        let of = |pause: &&PauseRow| pause.agent.as_ref().is_none_or(|agent| *agent == row.agent);
        pauses.iter().find(of).filter(|_| could_go_on(row))
    };
    let shown = rows.into_iter().map(|row| {
        let pause = pause_of(&row).map(show::pause);
        v1::Run {
            pause,
            ..show::run(row)
        }
    });
    Ok(shown.collect())
}

/// Writes down who paused or resumed what (S10.8).
async fn record(
    shared: &Shared,
    session: &Session,
    action: &'static str,
    agent: Option<&AgentName>,
    details: serde_json::Value,
) -> Result<(), Coded> {
    let caller = session.caller();
    let (store, key, actor) = (&shared.store, &shared.key, audit::actor(caller));
    let subject = agent.map_or(caller.namespace.as_str(), AgentName::as_str);
    let namespace = &caller.namespace;
    let done = audit::done(store, key, namespace, &actor, action, subject, details);
    done.await.map_err(audit::failed)
}

fn not_paused(agent: Option<&AgentName>) -> Coded {
    let what = match agent {
        Some(agent) => format!("The agent {agent}"),
        None => "The namespace".to_owned(),
    };
    Coded::new(
        Kind::NotFound,
        code::PAUSE_NOT_FOUND,
        format!("{what} is not paused by itself."),
    )
}

//! `sayso.v1.AgentService`.

use std::mem::take;

use futures::future::try_join_all;
use sayso_run::{AgentName, Namespace, RevisionId, RunId};
use sayso_service::error::{Coded, Kind};
use sayso_store::{AgentRow, LogEntry, PageRequest, RevisionRow};
use sayso_wire::v1::agent_service_server::AgentService;
use sayso_wire::{code, internal, v1};
use serde_json::json;
use tonic::{Request, Response, Status};

use super::{Api, on_behalf, record};
use crate::auth::Session;
use crate::page::{ENTRIES, Pages};
use crate::request::{CHECKED, Check};
use crate::{Shared, page, refuse, show};

#[tonic::async_trait]
impl AgentService for Api {
    async fn deploy_agent(
        &self,
        request: Request<v1::DeployAgentRequest>,
    ) -> Result<Response<v1::DeployAgentResponse>, Status> {
        let session = Session::of(&request);
        let bundle = bundle(request.into_inner().bundle)?;
        let deploy = internal::DeployRequest {
            caller: Some(on_behalf(&session)?),
            bundle,
        };
        let deployed = self.0.policy().deploy(deploy).await;
        let deployed = deployed.map_err(|status| refuse::sibling("policy service", &status))?;
        let deployed = deployed.into_inner();
        record_deploy(&self.0, &session, &deployed).await?;
        let changes = deployed.changes.unwrap_or_default();
        Ok(Response::new(v1::DeployAgentResponse {
            revision: deployed.revision,
            warnings: deployed.warnings,
            created: deployed.created,
            replaced_revision_id: changes.before_revision_id,
            changes: changes.changes,
            omitted_changes: changes.omitted,
        }))
    }

    async fn validate_agent(
        &self,
        request: Request<v1::ValidateAgentRequest>,
    ) -> Result<Response<v1::ValidateAgentResponse>, Status> {
        let session = Session::of(&request);
        let validate = internal::ValidateRequest {
            namespace: session.caller().namespace.to_string(),
            bundle: bundle(request.into_inner().bundle)?,
        };
        let found = self.0.policy().validate(validate).await;
        let found = found.map_err(|status| refuse::sibling("policy service", &status))?;
        let found = found.into_inner();
        let changes = found.changes.unwrap_or_default();
        Ok(Response::new(v1::ValidateAgentResponse {
            errors: found.errors,
            omitted_errors: found.omitted_errors,
            warnings: found.warnings,
            revision_id: found.revision_id,
            current_revision_id: changes.before_revision_id,
            changes: changes.changes,
            omitted_changes: changes.omitted,
        }))
    }

    async fn get_agent(
        &self,
        request: Request<v1::GetAgentRequest>,
    ) -> Result<Response<v1::GetAgentResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let name = check.id::<AgentName>("name", &asked.name);
        let revision = check.filter::<RevisionId>("revision_id", &asked.revision_id);
        check.done()?;
        let namespace = &session.caller().namespace;
        let row = agent(&self.0, namespace, &name.expect(CHECKED)).await?;
        let current = stored(&self.0, namespace, &row, &row.revision).await?;
        let wanted = match revision {
            Some(id) if id != row.revision => stored(&self.0, namespace, &row, &id).await?,
            Some(_) | None => current.clone(),
        };
        Ok(Response::new(v1::GetAgentResponse {
            agent: Some(show::agent(namespace, row, &current.bundle)),
            revision: Some(show::revision(&asked.name, &wanted)),
            bundle_json: wanted.bundle,
        }))
    }

    async fn list_agents(
        &self,
        request: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = ENTRIES.of(take(&mut asked.page_size)) as usize;
        let token = take(&mut asked.page_token);
        let pages = Pages::of(&asked);
        let after = pages.read(&token)?;
        let namespace = &session.caller().namespace;
        let rows = self.0.store.agents().list(namespace).await;
        let mut rows = rows.map_err(|error| refuse::database("listing agents", error))?;
        if let Some(after) = &after {
            rows.retain(|row| row.name.as_str() > after.as_str());
        }
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more).map(|row| row.name.to_string());
        let bundles: Vec<_> = rows
            .iter()
            .map(|row| stored(&self.0, namespace, row, &row.revision))
            .collect();
        let bundles = try_join_all(bundles).await?;
        let agents = rows.into_iter().zip(bundles);
        Ok(Response::new(v1::ListAgentsResponse {
            agents: agents
                .map(|(row, current)| show::agent(namespace, row, &current.bundle))
                .collect(),
            next_page_token: pages.next(next),
        }))
    }

    async fn list_agent_logs(
        &self,
        request: Request<v1::ListAgentLogsRequest>,
    ) -> Result<Response<v1::ListAgentLogsResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = ENTRIES.of(take(&mut asked.page_size));
        let token = take(&mut asked.page_token);
        let pages = Pages::of(&asked);
        let mut check = Check::new();
        let name = check.id::<AgentName>("agent", &asked.agent);
        let run = check.filter::<RunId>("run_id", &asked.run_id);
        let since = check.time("after", asked.after.as_ref());
        check.done()?;
        let name = name.expect(CHECKED);
        let from = pages.read(&token)?;
        let namespace = &session.caller().namespace;
        agent(&self.0, namespace, &name).await?;
        let logs = self.0.store.agent_logs();
        let agent = &name;
        let fetch = |page: PageRequest| async move { logs.list(namespace, agent, &page).await };
        let keeps = |entry: &LogEntry| {
            since.is_none_or(|since| entry.at >= since)
                && run
                    .as_ref()
                    .is_none_or(|run| entry.run.as_ref() == Some(run))
        };
        let rows = page::read(size, from, fetch, keeps, |entry| entry.message.len()).await;
        let (rows, next) = rows.map_err(|error| page::failed("listing a log", error))?;
        Ok(Response::new(v1::ListAgentLogsResponse {
            entries: rows.into_iter().map(show::log_entry).collect(),
            next_page_token: pages.next(next),
        }))
    }
}

/// Writes down by whom and what was deployed, and, each by itself, the reviews that were switched and
/// the role that was attached with it (S5.5, S10.8).
async fn record_deploy(
    shared: &Shared,
    session: &Session,
    deployed: &internal::DeployResponse,
) -> Result<(), Coded> {
    let revision = deployed.revision.clone().unwrap_or_default();
    let (agent, id) = (revision.agent.as_str(), revision.id.as_str());
    let nothing = internal::RevisionChanges::default();
    let changes = deployed.changes.as_ref().unwrap_or(&nothing);
    let changed: Vec<&str> = changes
        .changes
        .iter()
        .map(|change| change.path.as_str())
        .collect();
    let details = json!({
        "revision": id,
        "created": deployed.created,
        "replaced": changes.before_revision_id,
        "changed": changed,
        "more_changed": changes.omitted,
    });
    record(shared, session, "agent.deploy", agent, details).await?;
    for switch in &changes.reviews {
        let details = json!({
            "tool": switch.tool,
            "before": switch.before,
            "after": switch.after,
            "revision": id,
        });
        record(shared, session, "review.switch", agent, details).await?;
    }
    if !changes.role.is_empty() && changes.role != changes.before_role {
        let details = json!({ "role": changes.role, "replaced": changes.before_role });
        record(shared, session, "role.attach", agent, details).await?;
    }
    Ok(())
}

fn bundle(text: String) -> Result<String, Coded> {
    let mut check = Check::new();
    check.text("bundle", &text);
    if text.is_empty() {
        check.wrong("bundle", "is required");
    }
    check.done()?;
    Ok(text)
}

async fn agent(
    shared: &Shared,
    namespace: &Namespace,
    name: &AgentName,
) -> Result<AgentRow, Coded> {
    let row = shared.store.agents().get(namespace, name).await;
    let row = row.map_err(|error| refuse::database("reading an agent", error))?;
    row.ok_or_else(refuse::no_agent)
}

async fn stored(
    shared: &Shared,
    namespace: &Namespace,
    agent: &AgentRow,
    revision: &RevisionId,
) -> Result<RevisionRow, Coded> {
    let row = shared
        .store
        .agents()
        .revision(namespace, &agent.name, revision)
        .await;
    let row = row.map_err(|error| refuse::database("reading a revision", error))?;
    row.ok_or_else(|| {
        Coded::new(
            Kind::NotFound,
            code::AGENT_REVISION_NOT_FOUND,
            "The agent has no such revision; leave it out to read the current one.",
        )
    })
}

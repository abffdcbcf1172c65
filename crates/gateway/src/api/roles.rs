//! `sayso.v1.RoleService`. Every change is written down, with what it widened and narrowed (S10.8).

use std::mem::take;

use sayso_run::AgentName;
use sayso_service::error::{Coded, Kind};
use sayso_wire::v1::role_service_server::RoleService;
use sayso_wire::{code, internal, v1};
use serde_json::json;
use tonic::{Request, Response, Status};

use super::{Api, on_behalf, record};
use crate::auth::Session;
use crate::page::{ENTRIES, Pages};
use crate::request::{CHECKED, Check};
use crate::{Shared, refuse, show};

const SIBLING: &str = "policy service";

#[tonic::async_trait]
impl RoleService for Api {
    async fn put_role(
        &self,
        request: Request<v1::PutRoleRequest>,
    ) -> Result<Response<v1::PutRoleResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let put = internal::PutRoleRequest {
            caller: Some(on_behalf(&session)?),
            request: Some(asked),
        };
        let answer = self.0.roles().put_role(put).await;
        let answer = answer.map_err(|status| refuse::sibling(SIBLING, &status))?;
        let changed = answer.into_inner().response.unwrap_or_default();
        let role = changed.role.as_ref().map_or("", |role| role.name.as_str());
        let details = json!({
            "created": changed.created,
            "added": changed.added,
            "removed": changed.removed,
        });
        record(&self.0, &session, "role.put", role, details).await?;
        Ok(Response::new(changed))
    }

    async fn get_role(
        &self,
        request: Request<v1::GetRoleRequest>,
    ) -> Result<Response<v1::GetRoleResponse>, Status> {
        let session = Session::of(&request);
        let mut check = Check::new();
        let name = check.word("name", request.into_inner().name);
        if name.is_none() {
            check.wrong("name", "is required");
        }
        check.done()?;
        let name = name.expect(CHECKED);
        let namespace = &session.caller().namespace;
        let roles = self.0.store.roles();
        let reading = |error| refuse::database("reading a role", error);
        let row = roles.get(namespace, &name).await.map_err(reading)?;
        let row = row.ok_or_else(no_role)?;
        let agents = roles.agents(namespace, &name).await.map_err(reading)?;
        Ok(Response::new(v1::GetRoleResponse {
            role: Some(show::role(namespace, row)),
            agents: agents.into_iter().map(String::from).collect(),
        }))
    }

    async fn list_roles(
        &self,
        request: Request<v1::ListRolesRequest>,
    ) -> Result<Response<v1::ListRolesResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = ENTRIES.of(take(&mut asked.page_size)) as usize;
        let token = take(&mut asked.page_token);
        let pages = Pages::of(&asked);
        let after = pages.read(&token)?;
        let namespace = &session.caller().namespace;
        let rows = self.0.store.roles().list(namespace).await;
        let mut rows = rows.map_err(|error| refuse::database("listing roles", error))?;
        if let Some(after) = &after {
            rows.retain(|row| row.name.as_str() > after.as_str());
        }
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more).map(|row| row.name.clone());
        let shown = |row| show::role(namespace, row);
        Ok(Response::new(v1::ListRolesResponse {
            roles: rows.into_iter().map(shown).collect(),
            next_page_token: pages.next(next),
        }))
    }

    async fn delete_role(
        &self,
        request: Request<v1::DeleteRoleRequest>,
    ) -> Result<Response<v1::DeleteRoleResponse>, Status> {
        let session = Session::of(&request);
        let role = request.into_inner().name;
        let delete = internal::DeleteRoleRequest {
            caller: Some(on_behalf(&session)?),
            role: role.clone(),
        };
        let answer = self.0.roles().delete_role(delete).await;
        answer.map_err(|status| refuse::sibling(SIBLING, &status))?;
        record(&self.0, &session, "role.delete", &role, json!({})).await?;
        Ok(Response::new(v1::DeleteRoleResponse {}))
    }

    async fn attach_role(
        &self,
        request: Request<v1::AttachRoleRequest>,
    ) -> Result<Response<v1::AttachRoleResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        check.id::<AgentName>("agent", &asked.agent);
        if asked.role.is_empty() {
            check.wrong("role", "is required");
        }
        check.done()?;
        let before = set(&self.0, &session, &asked.agent, &asked.role).await?;
        let details = json!({ "role": asked.role, "replaced": before });
        record(&self.0, &session, "role.attach", &asked.agent, details).await?;
        Ok(Response::new(v1::AttachRoleResponse { replaced: before }))
    }

    async fn detach_role(
        &self,
        request: Request<v1::DetachRoleRequest>,
    ) -> Result<Response<v1::DetachRoleResponse>, Status> {
        let session = Session::of(&request);
        let agent = request.into_inner().agent;
        let mut check = Check::new();
        check.id::<AgentName>("agent", &agent);
        check.done()?;
        let before = set(&self.0, &session, &agent, "").await?;
        let details = json!({ "role": before });
        record(&self.0, &session, "role.detach", &agent, details).await?;
        Ok(Response::new(v1::DetachRoleResponse { detached: before }))
    }
}

/// Gives an agent a role, or none: the one that it had.
async fn set(shared: &Shared, session: &Session, agent: &str, role: &str) -> Result<String, Coded> {
    let set = internal::SetRoleRequest {
        caller: Some(on_behalf(session)?),
        agent: agent.to_owned(),
        role: role.to_owned(),
    };
    let answer = shared.roles().set_role(set).await;
    let answer = answer.map_err(|status| refuse::sibling(SIBLING, &status))?;
    Ok(answer.into_inner().before)
}

fn no_role() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::ROLE_NOT_FOUND,
        "There is no such role here; `sayso role ls` lists those that there are.",
    )
}

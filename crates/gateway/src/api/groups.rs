//! `sayso.v1.GroupService` (S6.12). Every change is written down.

use sayso_rules::bundle::is_agent_name;
use sayso_run::PrincipalId;
use sayso_service::error::{Coded, Kind};
use sayso_store::MemberRow;
use sayso_wire::time::timestamp;
use sayso_wire::v1::group_service_server::GroupService;
use sayso_wire::{code, v1};
use serde_json::json;
use tonic::{Request, Response, Status};

use super::{Api, record};
use crate::auth::Session;
use crate::refuse;
use crate::request::{CHECKED, Check};

#[tonic::async_trait]
impl GroupService for Api {
    async fn add_to_group(
        &self,
        request: Request<v1::AddToGroupRequest>,
    ) -> Result<Response<v1::AddToGroupResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let principal = member(&asked.group, &asked.principal)?;
        let (caller, groups) = (session.caller(), self.0.store.groups());
        let failed = |error| refuse::database("adding to a group", error);
        let known = groups.knows(&caller.namespace, &principal).await;
        if !known.map_err(failed)? {
            return Err(no_principal().into());
        }
        let by = &caller.principal;
        let added = groups.add(&caller.namespace, &asked.group, &principal, by);
        let added = added.await.map_err(failed)?;
        let details = json!({ "principal": asked.principal, "added": added });
        record(&self.0, &session, "group.add", &asked.group, details).await?;
        Ok(Response::new(v1::AddToGroupResponse { added }))
    }

    async fn remove_from_group(
        &self,
        request: Request<v1::RemoveFromGroupRequest>,
    ) -> Result<Response<v1::RemoveFromGroupResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let principal = member(&asked.group, &asked.principal)?;
        let groups = self.0.store.groups();
        let namespace = &session.caller().namespace;
        let removed = groups.remove(namespace, &asked.group, &principal).await;
        if !removed.map_err(|error| refuse::database("taking out of a group", error))? {
            return Err(not_member().into());
        }
        let details = json!({ "principal": asked.principal });
        record(&self.0, &session, "group.remove", &asked.group, details).await?;
        Ok(Response::new(v1::RemoveFromGroupResponse {}))
    }

    async fn list_groups(
        &self,
        request: Request<v1::ListGroupsRequest>,
    ) -> Result<Response<v1::ListGroupsResponse>, Status> {
        let session = Session::of(&request);
        let rows = self
            .0
            .store
            .groups()
            .list(&session.caller().namespace)
            .await;
        let rows = rows.map_err(|error| refuse::database("listing groups", error))?;
        let mut groups: Vec<v1::Group> = Vec::new();
        for row in rows {
            if groups.last().is_none_or(|group| group.name != row.group) {
                groups.push(v1::Group {
                    name: row.group.clone(),
                    members: Vec::new(),
                });
            }
            let group = groups.last_mut().expect("one was pushed");
            group.members.push(shown(row));
        }
        Ok(Response::new(v1::ListGroupsResponse { groups }))
    }
}

fn member(group: &str, principal: &str) -> Result<PrincipalId, Coded> {
    let mut check = Check::new();
    if !is_agent_name(group) {
        check.wrong("group", "must be 1 to 63 of a-z, 0-9 and -");
    }
    let principal = check.id::<PrincipalId>("principal", principal);
    check.done()?;
    Ok(principal.expect(CHECKED))
}

fn shown(row: MemberRow) -> v1::GroupMember {
    v1::GroupMember {
        principal: row.principal.into(),
        added_by: row.added_by.into(),
        added_at: Some(timestamp(row.added_at)),
    }
}

fn no_principal() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::GROUP_NO_PRINCIPAL,
        "There is no such principal here; `sayso token create --name NAME` makes one.",
    )
}

fn not_member() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::GROUP_NOT_MEMBER,
        "They are not in this group; `sayso group ls` lists who is in which.",
    )
}

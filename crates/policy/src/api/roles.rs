//! The internal `RoleService`.

use sayso_run::{AgentName, Namespace};
use sayso_service::error::Coded;
use sayso_store::RoleRow;
use sayso_wire::internal::role_service_server::RoleService;
use sayso_wire::internal::{
    Caller, DeleteRoleRequest, DeleteRoleResponse, PutRoleRequest, PutRoleResponse, SetRoleRequest,
    SetRoleResponse,
};
use sayso_wire::time::timestamp;
use sayso_wire::v1;
use tonic::{Request, Response, Status};

use super::{Api, namespace};
use crate::refuse::{invalid, name};
use crate::roles::{delete, put, set};

#[tonic::async_trait]
impl RoleService for Api {
    async fn put_role(
        &self,
        request: Request<PutRoleRequest>,
    ) -> Result<Response<PutRoleResponse>, Status> {
        let request = request.into_inner();
        let (namespace, by) = caller(request.caller)?;
        let asked = request.request.unwrap_or_default();
        let changed = put(&self.0.store, &namespace, &asked.name, asked.permits).await?;
        tracing::info!(%namespace, role = asked.name, by, created = changed.created, "a role was written");
        Ok(Response::new(PutRoleResponse {
            response: Some(v1::PutRoleResponse {
                role: Some(shown(&namespace, changed.role)),
                created: changed.created,
                added: changed.added,
                removed: changed.removed,
            }),
        }))
    }

    async fn delete_role(
        &self,
        request: Request<DeleteRoleRequest>,
    ) -> Result<Response<DeleteRoleResponse>, Status> {
        let request = request.into_inner();
        let (namespace, by) = caller(request.caller)?;
        delete(&self.0.store, &namespace, &request.role).await?;
        tracing::info!(%namespace, role = request.role, by, "a role was removed");
        Ok(Response::new(DeleteRoleResponse {}))
    }

    async fn set_role(
        &self,
        request: Request<SetRoleRequest>,
    ) -> Result<Response<SetRoleResponse>, Status> {
        let request = request.into_inner();
        let (namespace, by) = caller(request.caller)?;
        let agent = name("agent", AgentName::new(&request.agent))?;
        let role = (!request.role.is_empty()).then_some(request.role.as_str());
        let before = set(&self.0.store, &namespace, &agent, role).await?;
        tracing::info!(%namespace, %agent, role, by, "an agent's role was set");
        Ok(Response::new(SetRoleResponse {
            before: before.unwrap_or_default(),
        }))
    }
}

/// The tenant, and who asks.
fn caller(caller: Option<Caller>) -> Result<(Namespace, String), Coded> {
    let caller = caller.ok_or_else(|| invalid("caller", "is required"))?;
    let namespace = namespace("caller.namespace", &caller.namespace)?;
    Ok((namespace, caller.principal))
}

fn shown(namespace: &Namespace, row: RoleRow) -> v1::Role {
    v1::Role {
        name: row.name,
        namespace: namespace.to_string(),
        permits: row.permits,
        created_at: Some(timestamp(row.created_at)),
        updated_at: Some(timestamp(row.updated_at)),
    }
}

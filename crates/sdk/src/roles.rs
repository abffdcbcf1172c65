use sayso_wire::v1;

use crate::{Client, Error};

/// Roles. Scopes and codes of refusals are those of `RoleService`.
impl Client {
    /// Makes a role, or changes what it permits: all of it from now on.
    ///
    /// # Errors
    ///
    /// `request.invalid` with every bad pattern as a field, `role.unrestricted`.
    pub async fn put_role(
        &self,
        name: &str,
        permits: Vec<String>,
    ) -> Result<v1::PutRoleResponse, Error> {
        let request = v1::PutRoleRequest {
            name: name.to_owned(),
            permits,
        };
        let answer = self.roles().put_role(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Reads a role and the agents that have it.
    ///
    /// # Errors
    ///
    /// `role.not_found`.
    pub async fn get_role(&self, name: &str) -> Result<v1::GetRoleResponse, Error> {
        let request = v1::GetRoleRequest {
            name: name.to_owned(),
        };
        let answer = self.roles().get_role(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Lists roles by name.
    ///
    /// # Errors
    ///
    /// `page.malformed`.
    pub async fn list_roles(
        &self,
        request: v1::ListRolesRequest,
    ) -> Result<v1::ListRolesResponse, Error> {
        let answer = self.roles().list_roles(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Removes a role that no agent has.
    ///
    /// # Errors
    ///
    /// `role.not_found`, `role.in_use`, `role.unrestricted`.
    pub async fn delete_role(&self, name: &str) -> Result<(), Error> {
        let request = v1::DeleteRoleRequest {
            name: name.to_owned(),
        };
        let answer = self.roles().delete_role(request).await;
        answer.map_err(|status| self.failed(&status))?;
        Ok(())
    }

    /// Gives an agent a role in place of the one that it has.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `role.not_found`.
    pub async fn attach_role(
        &self,
        agent: &str,
        role: &str,
    ) -> Result<v1::AttachRoleResponse, Error> {
        let request = v1::AttachRoleRequest {
            agent: agent.to_owned(),
            role: role.to_owned(),
        };
        let answer = self.roles().attach_role(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Takes an agent's role away.
    ///
    /// # Errors
    ///
    /// `agent.not_found`.
    pub async fn detach_role(&self, agent: &str) -> Result<v1::DetachRoleResponse, Error> {
        let request = v1::DetachRoleRequest {
            agent: agent.to_owned(),
        };
        let answer = self.roles().detach_role(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}

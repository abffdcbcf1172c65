use sayso_wire::v1;

use crate::{Client, Error};

/// Groups. Scopes and codes of refusals are those of `GroupService`.
impl Client {
    /// Adds a principal to a group: whether they were not in it before.
    ///
    /// # Errors
    ///
    /// `group.no_principal`, `request.invalid`.
    pub async fn add_to_group(&self, group: &str, principal: &str) -> Result<bool, Error> {
        let request = v1::AddToGroupRequest {
            group: group.to_owned(),
            principal: principal.to_owned(),
        };
        let answer = self.groups().add_to_group(request).await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        Ok(answer.into_inner().added)
    }

    /// Takes a principal out of a group.
    ///
    /// # Errors
    ///
    /// `group.not_member`, `request.invalid`.
    pub async fn remove_from_group(&self, group: &str, principal: &str) -> Result<(), Error> {
        let request = v1::RemoveFromGroupRequest {
            group: group.to_owned(),
            principal: principal.to_owned(),
        };
        let answer = self.groups().remove_from_group(request).await;
        answer.map_err(|status| self.failed(&status))?;
        Ok(())
    }

    /// Lists groups by name.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub async fn list_groups(&self) -> Result<v1::ListGroupsResponse, Error> {
        let answer = self.groups().list_groups(v1::ListGroupsRequest {}).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}

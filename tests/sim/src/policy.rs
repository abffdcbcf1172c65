use std::sync::Arc;

use sayso_driver::{PolicyUnavailable, Revision};
use sayso_rules::Role;
use sayso_run::{AgentName, Namespace, RevisionId};

use crate::sky::Part;
use crate::world::World;

/// The policy service, as workers reach it.
pub(crate) struct Policy(pub(crate) Arc<World>);

impl Policy {
    async fn ask(&self) -> Result<(), PolicyUnavailable> {
        let trip = self.0.sky.trip();
        self.0.kernel.sleep(trip).await;
        if self.0.sky.is_away(Part::Policy) {
            return Err(PolicyUnavailable("it does not answer".into()));
        }
        Ok(())
    }
}

impl sayso_driver::Policy for Policy {
    async fn revision(
        &self,
        _: &Namespace,
        _: &AgentName,
        _: &RevisionId,
    ) -> Result<Arc<Revision>, PolicyUnavailable> {
        self.ask().await?;
        Ok(Arc::clone(&self.0.revision))
    }

    async fn current(
        &self,
        _: &Namespace,
        _: &AgentName,
    ) -> Result<Option<RevisionId>, PolicyUnavailable> {
        self.ask().await?;
        Ok(Some(self.0.revision.id.clone()))
    }

    async fn role(
        &self,
        _: &Namespace,
        _: &AgentName,
    ) -> Result<Option<Arc<Role>>, PolicyUnavailable> {
        self.ask().await?;
        let attached = !self.0.sky.is_away(Part::Role);
        Ok(attached.then(|| Arc::clone(&self.0.role)))
    }

    async fn paused(&self, _: &Namespace, _: &AgentName) -> Result<bool, PolicyUnavailable> {
        self.ask().await?;
        Ok(self.0.disk.look(|tables| tables.paused))
    }
}

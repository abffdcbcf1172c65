//! Policy as an embedded agent's worker sees it: revisions and roles straight from the journal's file.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use sayso_driver::{Policy, PolicyUnavailable, Revision};
use sayso_rules::{Bundle, Glob, Role};
use sayso_run::{AgentName, Namespace, RevisionId};
use sayso_store::Store;

/// Revisions and roles of a store.
#[derive(Debug)]
pub(crate) struct StoredPolicy {
    store: Store,
    /// Whether there is anybody to ask (S6.14).
    asks: bool,
    /// Few, and they never change: one for each bundle that a live run was started with.
    revisions: Mutex<HashMap<RevisionId, Arc<Revision>>>,
}

impl StoredPolicy {
    pub(crate) fn new(store: Store, asks: bool) -> Self {
        Self {
            store,
            asks,
            revisions: Mutex::default(),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<RevisionId, Arc<Revision>>> {
        self.revisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
        id: &RevisionId,
    ) -> Result<Revision, PolicyUnavailable> {
        let row = self.store.agents().revision(namespace, agent, id).await;
        let row = row.map_err(unavailable)?;
        let row = row.ok_or_else(|| unavailable(format!("there is no revision {id}")))?;
        let bundle = Bundle::parse(&row.bundle);
        let bundle = bundle
            .map_err(|errors| unavailable(format!("the revision {id} cannot be read: {errors}")))?;
        if bundle.revision_hash() != id.as_str() {
            let why = format!("what is stored as revision {id} is another bundle");
            return Err(unavailable(why));
        }
        let revision = Revision::new(id.clone(), bundle).by(row.deployed_by);
        Ok(if self.asks {
            revision
        } else {
            revision.without_approvers()
        })
    }
}

fn unavailable(why: impl Display) -> PolicyUnavailable {
    PolicyUnavailable(why.to_string())
}

impl Policy for StoredPolicy {
    async fn revision(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
        revision: &RevisionId,
    ) -> Result<Arc<Revision>, PolicyUnavailable> {
        if let Some(known) = self.known().get(revision) {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(self.read(namespace, agent, revision).await?);
        self.known().insert(revision.clone(), Arc::clone(&read));
        Ok(read)
    }

    async fn role(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<Option<Arc<Role>>, PolicyUnavailable> {
        let agent = self.store.agents().get(namespace, agent).await;
        let Some(name) = agent.map_err(unavailable)?.and_then(|agent| agent.role) else {
            return Ok(None);
        };
        let row = self.store.roles().get(namespace, &name).await;
        let Some(row) = row.map_err(unavailable)? else {
            return Ok(None);
        };
        let globs = row.permits.iter().map(|glob| Glob::new(glob));
        let permits = globs.collect::<Result<_, _>>().map_err(unavailable)?;
        let name = row.name;
        Ok(Some(Arc::new(Role { name, permits })))
    }

    async fn current(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<Option<RevisionId>, PolicyUnavailable> {
        let agent = self.store.agents().get(namespace, agent).await;
        Ok(agent.map_err(unavailable)?.map(|agent| agent.revision))
    }
}

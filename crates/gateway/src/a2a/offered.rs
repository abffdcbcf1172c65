//! Which agents are offered: those whose current bundle says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sayso_rules::Bundle;
use sayso_rules::bundle::A2a as Block;
use sayso_run::{AgentName, Namespace, RevisionId, Timestamp};
use sayso_service::error::Coded;

use crate::{Shared, refuse};

/// How many agents are remembered before all are forgotten.
const REMEMBERED: usize = 4096;

/// An agent that A2A clients may call.
#[derive(Debug)]
pub(super) struct Offered {
    /// Its tenant.
    pub(super) namespace: Namespace,
    /// Its name.
    pub(super) agent: AgentName,
    /// Its current revision.
    pub(super) revision: RevisionId,
    /// When that was deployed first.
    pub(super) deployed: Timestamp,
    /// What the agent is for.
    pub(super) description: Option<String>,
    /// How it is offered.
    pub(super) block: Block,
}

/// Agents by tenant and name, each with its revision, and how that is offered if it is.
type Known = HashMap<(Namespace, AgentName), (RevisionId, Option<Arc<Offered>>)>;

/// Reads whether agents are offered; a revision is read once.
#[derive(Debug, Default)]
pub(crate) struct OfferedAgents {
    known: Mutex<Known>,
}

impl OfferedAgents {
    /// The agent, if it is offered now.
    ///
    /// # Errors
    ///
    /// When the database does not answer.
    pub(super) async fn get(
        &self,
        shared: &Shared,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<Option<Arc<Offered>>, Coded> {
        let current = shared.current.get(&shared.store, namespace, agent).await?;
        let Some(revision) = current else {
            return Ok(None);
        };
        let place = (namespace.clone(), agent.clone());
        if let Some((known, offered)) = self.known().get(&place)
            && *known == revision
        {
            return Ok(offered.clone());
        }
        let offered = read(shared, namespace, agent, &revision).await?;
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(place, (revision, offered.clone()));
        Ok(offered)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // Insertions leave the table whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(
    shared: &Shared,
    namespace: &Namespace,
    agent: &AgentName,
    revision: &RevisionId,
) -> Result<Option<Arc<Offered>>, Coded> {
    let row = shared
        .store
        .agents()
        .revision(namespace, agent, revision)
        .await;
    let row = row.map_err(|error| refuse::database("reading a revision", error))?;
    let Some(row) = row else {
        return Ok(None);
    };
    let bundle = Bundle::parse(&row.bundle)
        .map_err(|errors| Coded::internal("reading a revision", &errors))?;
    Ok(bundle.a2a.map(|block| {
        Arc::new(Offered {
            namespace: namespace.clone(),
            agent: agent.clone(),
            revision: revision.clone(),
            deployed: row.created_at,
            description: bundle.description,
            block,
        })
    }))
}

//! Policy as this worker sees it: revisions are immutable and kept; an agent's role is at most a
//! second old, and once policy has not answered for two seconds nothing runs (S3.9, S5.13).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sayso_driver::{Policy, PolicyUnavailable, Revision};
use sayso_rules::{Bundle, Role};
use sayso_run::{AgentName, Namespace, PrincipalId, RevisionId};
use sayso_service::peer::Peer;
use sayso_wire::internal::policy_service_client::PolicyServiceClient;
use sayso_wire::internal::{GetRevisionRequest, GetRoleRequest};
use tonic::Code;

/// How old a role may be before policy is asked again.
const FRESH: Duration = Duration::from_secs(1);
/// How old it may be while policy does not answer.
const STALE: Duration = Duration::from_secs(2);
/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How old the word that an agent is paused may be: it goes on soon after (S10.6).
const FRESH_PAUSE: Duration = Duration::from_millis(100);
/// How many revisions are kept.
const KEPT_REVISIONS: usize = 1_024;

type AgentKey = (Namespace, AgentName);

#[derive(Debug, Clone)]
struct KnownRole {
    role: Option<Arc<Role>>,
    version: u64,
    paused: bool,
    asked: Instant,
}

impl KnownRole {
    fn is_fresh(&self) -> bool {
        let limit = if self.paused { FRESH_PAUSE } else { FRESH };
        self.asked.elapsed() < limit
    }
}

/// The policy service behind its caches.
#[derive(Debug)]
pub(crate) struct PolicyClient {
    peer: Peer,
    revisions: Mutex<HashMap<(Namespace, RevisionId), Arc<Revision>>>,
    roles: Mutex<HashMap<AgentKey, KnownRole>>,
}

impl PolicyClient {
    pub(crate) fn new(peer: Peer) -> Self {
        Self {
            peer,
            revisions: Mutex::default(),
            roles: Mutex::default(),
        }
    }

    fn client(&self) -> PolicyServiceClient<Peer> {
        PolicyServiceClient::new(self.peer.clone())
    }

    fn known_role(&self, key: &AgentKey) -> Option<KnownRole> {
        self.roles
            .lock()
            .expect("no code panics while it holds the roles")
            .get(key)
            .cloned()
    }

    /// The agent as policy has it now, or had it a moment ago.
    async fn agent(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<KnownRole, PolicyUnavailable> {
        let key = (namespace.clone(), agent.clone());
        let known = self.known_role(&key);
        if let Some(known) = known.as_ref().filter(|known| known.is_fresh()) {
            return Ok(known.clone());
        }
        match self.ask_role(&key, known.as_ref()).await {
            Ok(fresh) => {
                self.roles
                    .lock()
                    .expect("no code panics while it holds the roles")
                    .insert(key, fresh.clone());
                Ok(fresh)
            }
            Err(error) => known
                .filter(|known| known.asked.elapsed() < STALE)
                .ok_or(error),
        }
    }

    async fn ask_role(
        &self,
        key: &AgentKey,
        known: Option<&KnownRole>,
    ) -> Result<KnownRole, PolicyUnavailable> {
        let request = GetRoleRequest {
            namespace: key.0.to_string(),
            agent: key.1.to_string(),
            known_version: known.map_or(0, |known| known.version),
        };
        let asked = Instant::now();
        let mut client = self.client();
        let answer = tokio::time::timeout(PATIENCE, client.get_role(request))
            .await
            .map_err(|_| PolicyUnavailable("it did not answer in time".into()))?
            .map_err(|status| PolicyUnavailable(status.message().to_owned()))?
            .into_inner();
        let role = match (answer.unchanged, known) {
            (true, Some(known)) => known.role.clone(),
            _ => answer
                .role_json
                .map(|json| serde_json::from_str(&json).map(Arc::new))
                .transpose()
                .map_err(|error| PolicyUnavailable(format!("its role cannot be read: {error}")))?,
        };
        Ok(KnownRole {
            role,
            version: answer.version,
            paused: answer.paused,
            asked,
        })
    }
}

impl Policy for PolicyClient {
    async fn revision(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
        revision: &RevisionId,
    ) -> Result<Arc<Revision>, PolicyUnavailable> {
        let key = (namespace.clone(), revision.clone());
        if let Some(known) = self
            .revisions
            .lock()
            .expect("no code panics while it holds the revisions")
            .get(&key)
        {
            return Ok(Arc::clone(known));
        }
        let request = GetRevisionRequest {
            namespace: namespace.to_string(),
            agent: agent.to_string(),
            revision_id: revision.to_string(),
        };
        let mut client = self.client();
        let answer = tokio::time::timeout(PATIENCE, client.get_revision(request))
            .await
            .map_err(|_| PolicyUnavailable("it did not answer in time".into()))?
            .map_err(|status| PolicyUnavailable(status.message().to_owned()))?
            .into_inner();
        let bundle = Bundle::parse(&answer.bundle_json).map_err(|errors| {
            PolicyUnavailable(format!("the revision {revision} cannot be read: {errors}"))
        })?;
        if bundle.revision_hash() != revision.as_str() {
            return Err(PolicyUnavailable(format!(
                "what is stored as revision {revision} is another bundle"
            )));
        }
        let author = answer.revision.map(|revision| revision.author);
        let author = PrincipalId::new(author.unwrap_or_default()).map_err(|error| {
            PolicyUnavailable(format!("who deployed {revision} cannot be read: {error}"))
        })?;
        let known = Arc::new(Revision::new(revision.clone(), bundle).by(author));
        let mut revisions = self
            .revisions
            .lock()
            .expect("no code panics while it holds the revisions");
        if revisions.len() >= KEPT_REVISIONS {
            revisions.clear();
        }
        revisions.insert(key, Arc::clone(&known));
        Ok(known)
    }

    async fn current(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<Option<RevisionId>, PolicyUnavailable> {
        let request = GetRevisionRequest {
            namespace: namespace.to_string(),
            agent: agent.to_string(),
            revision_id: String::new(),
        };
        let mut client = self.client();
        let answer = tokio::time::timeout(PATIENCE, client.get_revision(request))
            .await
            .map_err(|_| PolicyUnavailable("it did not answer in time".into()))?;
        let revision = match answer {
            Ok(answer) => answer.into_inner().revision,
            Err(status) if status.code() == Code::NotFound => return Ok(None),
            Err(status) => return Err(PolicyUnavailable(status.message().to_owned())),
        };
        let id = revision.map(|revision| revision.id).unwrap_or_default();
        match RevisionId::new(id) {
            Ok(id) => Ok(Some(id)),
            Err(error) => Err(PolicyUnavailable(error.to_string())),
        }
    }

    async fn role(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<Option<Arc<Role>>, PolicyUnavailable> {
        Ok(self.agent(namespace, agent).await?.role)
    }

    async fn paused(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<bool, PolicyUnavailable> {
        Ok(self.agent(namespace, agent).await?.paused)
    }
}

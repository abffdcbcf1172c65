//! Deploying a bundle.
//!
//! The revision's id is the hash of the bundle in its canonical form, so two texts that say the same
//! are one revision, and who deployed it first, and when, stays on record (S1.3). What the
//! transaction writes is the revision unless it exists, the agent that points at it, the role that
//! the bundle names, and its schedules and webhooks (S8.5); a bundle without a role leaves the
//! agent's as it is (S3.9).

use sayso_rules::Bundle;
use sayso_run::{AgentName, Namespace, PrincipalId, RevisionId};
use sayso_service::error::Coded;
use sayso_store::{Deploy, DeployError, RevisionRow, Store};

use crate::changes::{Changes, changes};
use crate::check::{Finding, check};
use crate::read::revision;
use crate::refuse::{database, webhook_taken};

/// What a deploy did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The agent.
    pub(crate) agent: AgentName,
    /// The revision that its next runs use.
    pub(crate) revision: RevisionRow,
    /// What is allowed but probably not meant.
    pub(crate) warnings: Vec<Finding>,
    /// Whether the revision is new.
    pub(crate) created: bool,
    /// What it changes.
    pub(crate) difference: Difference,
}

/// What a bundle changes against the revision that is current.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// The revision that is current; none for an agent that is new.
    pub(crate) before: Option<RevisionId>,
    /// The agent's role; none if it has none.
    pub(crate) role_before: Option<String>,
    /// The role that the bundle names.
    pub(crate) role: Option<String>,
    /// The changes; none against nothing.
    pub(crate) changes: Changes,
}

/// Compares a bundle with what is deployed under its name.
///
/// Two people who deploy the same agent at the same moment are both told the difference to what
/// was there before them.
pub(crate) async fn difference(
    store: &Store,
    namespace: &Namespace,
    bundle: &Bundle,
) -> Result<Difference, Coded> {
    let agent = AgentName::new(&bundle.name).expect("a bundle's name was checked by the same rule");
    let current = store.agents().get(namespace, &agent).await;
    let current = current.map_err(|error| database("reading the agent", &error))?;
    let canonical = bundle.to_canonical_json();
    let Some(current) = current else {
        return Ok(Difference {
            role: bundle.role.clone(),
            // Nothing changes, but a review that a first revision sets is set by somebody.
            changes: Changes {
                reviews: changes("{}", &canonical).reviews,
                ..Changes::default()
            },
            ..Difference::default()
        });
    };
    let row = revision(store, namespace, &agent, Some(&current.revision)).await?;
    Ok(Difference {
        before: Some(current.revision),
        role_before: current.role,
        role: bundle.role.clone(),
        changes: changes(&row.bundle, &canonical),
    })
}

/// Deploys a bundle's text, or refuses it and changes nothing.
pub(crate) async fn deploy(
    store: &Store,
    namespace: &Namespace,
    by: &PrincipalId,
    text: &str,
) -> Result<Outcome, Coded> {
    let (bundle, warnings) = check(store, namespace, text).await?.sound()?;
    let agent = AgentName::new(&bundle.name).expect("a bundle's name was checked by the same rule");
    let id = RevisionId::new(bundle.revision_hash()).expect("a SHA-256 has 64 hex digits");
    let request = Deploy {
        namespace: namespace.clone(),
        agent: agent.clone(),
        revision: id.clone(),
        bundle: bundle.to_canonical_json(),
        role: bundle.role.clone(),
        triggers: bundle.triggers.clone(),
        by: by.clone(),
    };
    let difference = difference(store, namespace, &bundle).await?;
    let deployed = store.agents().deploy(&request).await;
    let deployed = deployed.map_err(|error| match error {
        DeployError::WebhookTaken { webhook, agent } => webhook_taken(&bundle, &webhook, &agent),
        DeployError::Database(error) => database("deploying the bundle", &error),
    })?;
    tracing::info!(%namespace, %agent, revision = %id, %by, new = deployed.new_revision, "deployed");
    Ok(Outcome {
        revision: revision(store, namespace, &agent, Some(&id)).await?,
        agent,
        warnings,
        created: deployed.new_revision,
        difference,
    })
}

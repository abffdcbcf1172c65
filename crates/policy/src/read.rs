//! Revisions and roles, as whoever judges calls asks for them.

use sayso_driver::Journal;
use sayso_rules::{BadGlob, Glob, Role};
use sayso_run::{AgentName, Digest, Namespace, RevisionId, Timestamp};
use sayso_service::error::Coded;
use sayso_store::{AgentRow, DatabaseError, RevisionRow, RoleRow, Store};

use crate::refuse::{database, no_agent, no_revision};

/// An agent's role at one moment.
#[derive(Debug)]
pub(crate) struct RoleNow {
    /// The role as JSON; none if the agent has none.
    pub(crate) json: Option<String>,
    /// Changes with the role; never zero.
    pub(crate) version: u64,
    /// Whether the agent is paused (S10.6).
    pub(crate) paused: bool,
    /// When the database was asked.
    pub(crate) read_at: Timestamp,
}

/// A revision of an agent, or its current one.
pub(crate) async fn revision(
    store: &Store,
    namespace: &Namespace,
    agent: &AgentName,
    wanted: Option<&RevisionId>,
) -> Result<RevisionRow, Coded> {
    let current;
    let id = match wanted {
        Some(id) => id,
        None => {
            current = agent_row(store, namespace, agent).await?.revision;
            &current
        }
    };
    let found = store.agents().revision(namespace, agent, id).await;
    match found.map_err(|error| database("reading the revision", &error))? {
        Some(row) => Ok(row),
        None => {
            agent_row(store, namespace, agent).await?;
            Err(no_revision())
        }
    }
}

/// The role that an agent has now (S3.9).
///
/// Both rows are read at every question. The time is taken before the first of them, so the answer
/// is never older than it says. A role's name whose row is missing permits nothing: no role.
pub(crate) async fn role(
    store: &Store,
    namespace: &Namespace,
    agent: &AgentName,
) -> Result<RoleNow, Coded> {
    let read_at = store.now();
    let json = match agent_row(store, namespace, agent).await?.role {
        Some(name) => role_json(store, namespace, &name).await?,
        None => None,
    };
    let paused = store.pauses().holds(namespace, agent).await;
    Ok(RoleNow {
        version: version(json.as_deref()),
        json,
        paused: paused.map_err(|error| database("reading the pauses", &error))?,
        read_at,
    })
}

async fn role_json(
    store: &Store,
    namespace: &Namespace,
    name: &str,
) -> Result<Option<String>, Coded> {
    let doing = "reading the role";
    let row = store
        .roles()
        .get(namespace, name)
        .await
        .map_err(|error| database(doing, &error))?;
    let Some(row) = row else {
        return Ok(None);
    };
    let role = compile(row).map_err(|bad| Coded::internal(doing, &bad))?;
    Ok(Some(
        serde_json::to_string(&role).expect("names and globs become JSON"),
    ))
}

fn compile(row: RoleRow) -> Result<Role, BadGlob> {
    let permits = row
        .permits
        .iter()
        .map(|glob| Glob::new(glob))
        .collect::<Result<_, _>>()?;
    Ok(Role {
        name: row.name,
        permits,
    })
}

/// The version of what is answered: a number drawn from the role itself, so that it changes exactly
/// when the answer would, whichever row the change was made in.
fn version(json: Option<&str>) -> u64 {
    let digest = match json {
        Some(json) => Digest::of_parts(&[b"role", json.as_bytes()]),
        None => Digest::of_parts(&[b"no role"]),
    };
    let first: [u8; 8] = digest.as_bytes()[..8]
        .try_into()
        .expect("a digest has 32 bytes");
    u64::from_be_bytes(first).max(1)
}

async fn agent_row(
    store: &Store,
    namespace: &Namespace,
    agent: &AgentName,
) -> Result<AgentRow, Coded> {
    let found: Result<Option<AgentRow>, DatabaseError> = store.agents().get(namespace, agent).await;
    found
        .map_err(|error| database("reading the agent", &error))?
        .ok_or_else(no_agent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3.9: the version tells roles apart, and no role from any of them.
    #[test]
    fn s3_9_the_version_follows_what_the_role_permits() {
        let versions = [None, Some("{}"), Some(r#"{"name":"a"}"#)].map(version);
        assert!(versions.iter().all(|version| *version != 0));
        assert_ne!(versions[0], versions[1]);
        assert_ne!(versions[1], versions[2]);
        assert_eq!(version(Some("{}")), versions[1]);
    }
}

use sayso_run::Namespace;
use sayso_store::{AgentRow, LogEntry, LogLevel, RevisionRow};
use sayso_wire::time::timestamp;
use sayso_wire::v1;
use serde::Deserialize;

/// The tier of a bundle that names none (S4.7).
const DEFAULT_TIER: &str = "balanced";

/// What a list shows of a bundle.
#[derive(Debug, Default, Deserialize)]
struct Bundle {
    description: Option<String>,
    tier: Option<String>,
}

/// An agent; description and tier are its current bundle's.
pub(crate) fn agent(namespace: &Namespace, row: AgentRow, bundle: &str) -> v1::Agent {
    // A stored bundle was checked when it was deployed; what a later version wrote otherwise is
    // shown without these two.
    let bundle: Bundle = serde_json::from_str(bundle).unwrap_or_default();
    v1::Agent {
        name: row.name.into(),
        namespace: namespace.to_string(),
        description: bundle.description.unwrap_or_default(),
        revision_id: row.revision.into(),
        role: row.role.unwrap_or_default(),
        tier: bundle.tier.unwrap_or_else(|| DEFAULT_TIER.to_owned()),
        created_at: Some(timestamp(row.created_at)),
        updated_at: Some(timestamp(row.updated_at)),
    }
}

/// A revision of an agent.
pub(crate) fn revision(agent: &str, row: &RevisionRow) -> v1::Revision {
    v1::Revision {
        id: row.id.to_string(),
        agent: agent.to_owned(),
        author: row.deployed_by.to_string(),
        created_at: Some(timestamp(row.created_at)),
    }
}

/// An entry of an agent's log.
pub(crate) fn log_entry(row: LogEntry) -> v1::AgentLogEntry {
    let level = match row.level {
        LogLevel::Info => v1::LogLevel::Info,
        LogLevel::Warning => v1::LogLevel::Warn,
        LogLevel::Error => v1::LogLevel::Error,
    };
    v1::AgentLogEntry {
        at: Some(timestamp(row.at)),
        level: level.into(),
        code: row.code,
        message: row.message,
        run_id: row.run.map(String::from).unwrap_or_default(),
        approval_id: String::new(),
    }
}

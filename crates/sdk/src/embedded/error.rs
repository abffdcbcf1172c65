use std::fmt::Display;
use std::path::PathBuf;

use sayso_models::ConfigProblems;
use sayso_rules::BundleErrors;
use sayso_store::{DatabaseError, DeployError, OpenError};
use thiserror::Error;

/// Why an agent was not built. Nothing of it runs.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The bundle has mistakes; all of them are listed (S5.11).
    #[error(transparent)]
    Bundle(BundleErrors),
    /// The bundle asks for what an embedded agent does not do.
    #[error("the bundle's `{path}` needs the services: {why}")]
    Unsupported {
        /// The key.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// An agent has no role, so nothing it does would be permitted (S3.9).
    #[error("the agent `{0}` has no role: name one in its bundle, such as `role: unrestricted`")]
    NoRole(String),
    /// A bundle names a role that was not given.
    #[error("there is no role `{0}`: give it with `role`, or name `unrestricted`")]
    RoleUnknown(String),
    /// What a role permits is no list of globs.
    #[error("the role `{role}` permits `{glob}`, which is no pattern of tool names")]
    RoleInvalid {
        /// The role.
        role: String,
        /// The pattern.
        glob: String,
    },
    /// A tool cannot be used.
    #[error("the tool `{name}` cannot be used: {why}")]
    Tool {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// The name of a principal or group is none.
    #[error("`{name}` cannot name an approver: {why}")]
    Approver {
        /// What was given.
        name: String,
        /// Why.
        why: String,
    },
    /// A rule asks for more approvers than there are.
    #[error("the bundle's `{path}` asks for {needed} of those who decide, and {given} may")]
    TooFewApprovers {
        /// The key.
        path: String,
        /// How many it takes.
        needed: u32,
        /// How many there are.
        given: u32,
    },
    /// Two agents of one name.
    #[error("two agents are called `{0}`")]
    Twice(String),
    /// The models cannot be used; all mistakes are listed.
    #[error(transparent)]
    Models(ConfigProblems),
    /// An agent's tier has no model.
    #[error("no model was given for the tier `{0}`")]
    NoModel(String),
    /// Another process, or another agent of this one, uses the journal.
    #[error("another agent uses the journal: it holds {0}")]
    InUse(PathBuf),
    /// The journal is there, and the key that seals its timelines is not.
    #[error(
        "the journal's key {0} is missing: put it back, or give it with `Journal::chain_key`; \
         nothing that was recorded would verify with a new one"
    )]
    KeyMissing(PathBuf),
    /// A file or folder of the journal cannot be used.
    #[error("{what} cannot be used")]
    Journal {
        /// Which.
        what: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The journal cannot be opened.
    #[error("the journal cannot be opened")]
    Open(#[from] OpenError),
    /// The journal does not take the agent.
    #[error("the journal does not take the agent")]
    Database(#[source] DatabaseError),
}

impl BuildError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            BuildError::Bundle(_) => "bundle.invalid",
            BuildError::Unsupported { .. } => "bundle.unsupported",
            BuildError::NoRole(_) => "run.no_role",
            BuildError::RoleUnknown(_) => "role.not_found",
            BuildError::RoleInvalid { .. } => "role.invalid",
            BuildError::Tool { .. } => "tool.invalid",
            BuildError::Approver { .. } => "approver.invalid",
            BuildError::TooFewApprovers { .. } => "approver.too_few",
            BuildError::Twice(_) => "agent.twice",
            BuildError::Models(_) => "config.invalid",
            BuildError::NoModel(_) => "model.missing",
            BuildError::InUse(_) => "journal.in_use",
            BuildError::KeyMissing(_) => "journal.key_missing",
            BuildError::Journal { .. } => "journal.unusable",
            BuildError::Open(error) => error.code(),
            BuildError::Database(error) => error.code(),
        }
    }

    pub(crate) fn journal(what: impl Display, source: std::io::Error) -> Self {
        Self::Journal {
            what: what.to_string(),
            source,
        }
    }
}

impl From<DatabaseError> for BuildError {
    fn from(error: DatabaseError) -> Self {
        BuildError::Database(error)
    }
}

impl From<DeployError> for BuildError {
    fn from(error: DeployError) -> Self {
        match error {
            DeployError::Database(error) => BuildError::Database(error),
            DeployError::WebhookTaken { .. } => {
                unreachable!("a bundle with triggers was refused before")
            }
        }
    }
}

//! The bundle: the whole file that defines an agent.
//!
//! A bundle is YAML 1.2 or JSON. It is taken whole or refused whole, with every
//! mistake in it (S5.11, S10.5): unknown fields, wrong types, duplicate keys and
//! bad names, globs, durations and sizes. What the file may say but this version
//! does not do is refused too (`bundle.unsupported`), never accepted and ignored:
//! a rule that is not enforced is worse than none.
//!
//! A parsed bundle is *resolved*: defaults that matter to a run (tier, the
//! rules' default, the time an approval waits) are filled in and stand in the
//! canonical form, so a stored revision keeps its meaning if a default changes.

mod a2a;
mod approvers;
mod canonical;
mod conditions;
mod error;
mod fields;
mod json;
mod marks;
mod node;
mod parse;
mod parse_permissions;
mod parse_tools;
mod plain;
mod pointer;
pub mod secrets;
mod text;
mod triggers;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

pub use a2a::{A2a, A2aInput, MAX_SKILLS, Skill};
pub use approvers::{Approvers, Escalation, EscalationTo, Excluded};
pub use conditions::{
    Alternative, Preset, Provenance, Rule, Scalar, ValueCondition, ValueSource, When,
};
pub use error::{BundleError, BundleErrors, MAX_REPORTED};
pub use marks::{ArgRole, Effect, RoleMark, ToolMarks};
pub use plain::to_json;
pub use pointer::Pointer;
pub(crate) use pointer::Step;
pub use text::{is_agent_name, is_secret_name};
pub use triggers::{CronTrigger, HookTrust, MAX_TRIGGERS, Trigger, WebhookTrigger};

use crate::glob::Glob;
pub use crate::review::{Builtin, Review};

/// The largest bundle, in bytes.
pub const MAX_BUNDLE: usize = 1024 * 1024;

/// How long an approval waits where a bundle says nothing (S6.8).
pub const DEFAULT_APPROVAL_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The tier of a bundle that names none (S4.7).
pub const DEFAULT_TIER: &str = "balanced";

/// Everything that defines an agent.
///
/// Made by [`Bundle::parse`] alone, so that what it holds has been checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Bundle {
    /// The agent's name, `[a-z0-9-]{1,63}`.
    pub name: String,
    /// What the agent is for, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The role to attach at deploy (S3.9); without one the agent's runs fail
    /// until a role is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The tier of models that answers (S4.7).
    pub tier: String,
    /// The system prompt, in the author's words; may be empty.
    pub instructions: String,
    /// Whether the agent gets `ask_person` (S1.8).
    pub interaction: bool,
    /// Who puts held calls into a sentence for the reviewer (S6.2).
    #[serde(skip_serializing_if = "SummaryBy::is_run")]
    pub summary: SummaryBy,
    /// The built-in tools granted.
    pub builtins: BTreeSet<Builtin>,
    /// The MCP servers granted, by name (S3.5).
    pub servers: BTreeMap<String, Server>,
    /// The agents that it may start (S3.6); with any, it gets `start_agent`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub agents: BTreeSet<String>,
    /// Marks on tools, in file order.
    #[serde(serialize_with = "canonical::tools")]
    pub tools: Vec<(Glob, ToolMarks)>,
    /// What may run; `None` where the file has no such block (S5.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// What starts the agent by itself (S8.5), in file order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// How it is offered to A2A clients (S6.13); not at all if there is no such block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a2a: Option<A2a>,
}

/// Who puts a held call into a sentence for the reviewer (S6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryBy {
    /// The run's own data alone.
    #[default]
    Run,
    /// A model as well, whose sentence follows.
    Model,
}

impl SummaryBy {
    /// Every way, with the word for it.
    pub const ALL: [(&'static str, SummaryBy); 2] =
        [("run", SummaryBy::Run), ("model", SummaryBy::Model)];

    fn is_run(&self) -> bool {
        *self == SummaryBy::Run
    }
}

/// An MCP server of a bundle (S3.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Server {
    /// How it is reached.
    #[serde(flatten)]
    pub transport: Transport,
    /// Whether the server's own claims about its tools are believed (S5.8).
    pub trust_annotations: bool,
    /// Whether each run gets a process or session of its own.
    pub per_run: bool,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Transport {
    /// A process, spoken to over its standard input and output.
    Stdio {
        /// The program and its arguments; never empty.
        command: Vec<String>,
        /// Environment variables added for the process.
        env: BTreeMap<String, String>,
    },
    /// A server spoken to over streamable HTTP.
    Http {
        /// Its `http` or `https` URL.
        url: String,
        /// Headers sent with each request.
        headers: BTreeMap<String, String>,
    },
}

/// The `permissions` block (S5.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Permissions {
    /// Rules that stand before the file's own in each class (S5.9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// The verdict where no rule matches; unless the file says otherwise, `allow`
    /// with a preset and `ask` without (S5.3, S5.9).
    pub default: Action,
    /// The rules in file order; `rules#N` is the one at index N.
    pub rules: Vec<Rule>,
    /// How long an approval waits before it counts as denied (S6.8).
    #[serde(serialize_with = "canonical::known_duration")]
    pub approval_timeout: Duration,
    /// Where new approvals are announced (S8.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
}

/// What happens to a call: runs, waits for a person, or does not run (S5.1).
///
/// Ordered from the loosest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The call runs.
    Allow,
    /// The call waits for a person's approval.
    Ask,
    /// The call does not run.
    Deny,
}

impl Action {
    /// The word that bundles and interfaces use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where new approvals are announced (S8.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Notify {
    /// The `http` or `https` URL that gets a POST for each.
    pub url: String,
    /// The name of the secret that signs it; without one it is not signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl Bundle {
    /// Parses and checks a bundle, YAML or JSON.
    ///
    /// # Errors
    ///
    /// [`BundleErrors`] with every mistake found, in the order of the fields.
    /// A text that is not YAML or JSON at all has one, with its line.
    pub fn parse(text: &str) -> Result<Self, BundleErrors> {
        parse::bundle(text)
    }

    /// The bundle as JSON, always the same bytes for the same bundle.
    ///
    /// It is itself a bundle: parsing it gives this bundle back.
    #[must_use]
    pub fn to_canonical_json(&self) -> String {
        canonical::json(self)
    }

    /// The hash that names a revision: lowercase hex SHA-256 of the canonical
    /// JSON.
    #[must_use]
    pub fn revision_hash(&self) -> String {
        canonical::hash(&self.to_canonical_json())
    }

    /// How long this agent's approvals wait (S6.8).
    #[must_use]
    pub fn approval_timeout(&self) -> Duration {
        self.permissions
            .as_ref()
            .map_or(DEFAULT_APPROVAL_TIMEOUT, |p| p.approval_timeout)
    }
}

#[cfg(test)]
mod condition_tests;
#[cfg(test)]
mod tests;

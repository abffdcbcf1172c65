//! What a run is started by, what it is told and offered.

use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use crate::digest::Digest;
use crate::id::{AgentName, CallId, Namespace, PrincipalId, RevisionId, RunId, TaskId, ToolSetId};
use crate::time::Timestamp;

/// How far the origin of a task is trusted: only ever lowered (S5.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// From outside: mail, webhooks, web pages.
    Untrusted,
    /// From a principal of the namespace; the default of a token.
    Trusted,
    /// From those who operate the installation.
    Operator,
}

impl Trust {
    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Trust::Untrusted => "untrusted",
            Trust::Trusted => "trusted",
            Trust::Operator => "operator",
        }
    }
}

/// What made a run start (S1.1). Open for the sources that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An explicit start through the API or the command line.
    Start,
    /// A tick of a schedule (S8.5).
    Cron,
    /// A call of a webhook (S8.5).
    Webhook,
    /// Another agent's call of `start_agent` (S3.6).
    Agent,
    /// A message of a conversation (S9.1).
    Chat,
    /// A message of an A2A client (S6.13).
    A2a,
}

impl Source {
    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Start => "start",
            Source::Cron => "cron",
            Source::Webhook => "webhook",
            Source::Agent => "agent",
            Source::Chat => "chat",
            Source::A2a => "a2a",
        }
    }
}

/// A tick of a schedule that started a run (S8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// When it was due.
    pub due_at: Timestamp,
    /// Ticks after it that had passed as well when it was noticed; this run stands for them.
    #[serde(default)]
    pub skipped: u32,
}

/// A key that makes a request safe to send again, with the digest of what was asked (S1.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// The caller's key, at most 255 bytes.
    pub key: String,
    /// Digest of the request's content: the same key with other content is refused.
    pub request: Digest,
}

/// The task as it arrived; always the first step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerReceived {
    /// The task that this run executes.
    pub task: TaskId,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The revision that the run keeps for life (S1.3).
    pub revision: RevisionId,
    /// What made it start.
    pub source: Source,
    /// What was asked.
    pub input: String,
    /// Who asked; may decide none of the run's approvals (S6.10).
    pub principal: PrincipalId,
    /// The trust of the source.
    pub trust: Trust,
    /// The trigger: a webhook's name, a schedule as in `30 2 * * * Europe/Berlin`, or the context of
    /// an A2A client's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The tick, of a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Tick>,
    /// The key of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyKey>,
    /// W3C trace context of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Whose child the run is, if an agent started it (S3.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<Parent>>,
    /// The conversation that the run belongs to, if a message of one started it (S9.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Box<Conversation>>,
}

/// Where a run that another agent started stands in the tree of delegation (S3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The run that started it.
    pub run: RunId,
    /// That run's task.
    pub task: TaskId,
    /// That run's agent.
    pub agent: AgentName,
    /// The call of `start_agent`.
    pub call: CallId,
    /// The run at the root of the tree.
    pub root_run: RunId,
    /// The root run's task.
    pub root_task: TaskId,
    /// How far below the root: 1 for a child of the root.
    pub depth: u32,
    /// What the root's principal had said by then: only that vouches for values, not what the
    /// parent's model wrote (S5.9).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// What the run may offer its model; the definitions are stored once under this id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsListed {
    /// Id of the definitions.
    pub set: ToolSetId,
    /// How many tools the set holds.
    pub count: u32,
}

/// A message of a person (or another system) into the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The text.
    pub text: String,
    /// The calls of `ask_person` that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<CallId>,
    /// The key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyKey>,
    /// How far whoever wrote it is trusted, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Who wrote it, if somebody outside did and the actor only passes it on: such words vouch for
    /// nothing (S5.9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<String>,
}

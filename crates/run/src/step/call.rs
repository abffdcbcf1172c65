//! Calls: proposed, sent, answered.

use serde::{Deserialize, Serialize};

use super::end::EndedBy;
use super::start::Trust;
use crate::digest::{CallDigest, Digest};
use crate::id::{AgentName, ApprovalId, CallId, RevisionId, RunId, TaskId, WorkerId};

/// A call that the model proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our id of the call.
    pub call: CallId,
    /// The tool as registered, or what the model wrote if there is no such tool.
    pub tool: String,
    /// The tool as the model names it.
    pub model_name: String,
    /// The exact argument bytes, which are what is shown, hashed, approved and sent (S3.7).
    pub args: String,
    /// Digest of the tool's definition; none if there is no such tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Digest>,
}

/// A call is about to be sent. Winning the append of this step is the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// The call.
    pub call: CallId,
    /// What runs; a difference to what was approved fails closed.
    pub digest: CallDigest,
    /// The rule that allowed it; none if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The approval that let it through; none if a rule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The worker that sends it.
    pub worker: WorkerId,
    /// Whether it may be sent again when its outcome is unknown (S4.5).
    pub idempotent: bool,
    /// Whether what it returns may be an outsider's words (S5.8).
    #[serde(default, skip_serializing_if = "is_false")]
    pub untrusted_output: bool,
    /// Whether what it returns is secret (S5.9).
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitive_output: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a tool is marked with, as far as a run has to know it when it calls the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Whether a call may be sent again when its outcome is unknown (S4.5).
    pub idempotent: bool,
    /// Whether what it returns may be an outsider's words: it lowers the run's trust (S5.8).
    pub untrusted_output: bool,
    /// Whether what it returns is secret (S5.9).
    pub sensitive_output: bool,
}

/// The run is trusted less from here on (S5.7, S5.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustLowered {
    /// The call whose result may be an outsider's words; none if the message before it is what lowers
    /// the trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Its tool as registered; empty without a call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// How far the run was trusted.
    pub from: Trust,
    /// How far it is trusted now.
    pub to: Trust,
}

/// Another worker goes on with a run whose lease was not given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOver {
    /// The new worker.
    pub worker: WorkerId,
    /// Its epoch.
    pub epoch: u64,
}

/// How a call ended, where it was not denied or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The tool answered.
    Ok,
    /// The tool answered with an error of its own.
    Error,
    /// The tool did not answer in time; it may have acted.
    Timeout,
    /// The arguments do not fit the tool's schema; nothing ran (S3.7).
    InvalidArguments,
    /// The role does not permit the operation; nothing ran (S3.9).
    PermissionDenied,
    /// What would run is not what was approved; nothing ran (S6.1).
    Mismatch,
    /// The tool could not be reached; nothing was sent.
    Unreachable,
    /// It was sent, the run has ended, and its worker was lost before it told what came of it.
    Unknown,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call.
    pub call: CallId,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// What the model is told.
    pub content: String,
    /// Bytes cut from the content (S3.8); zero if it is whole.
    #[serde(default)]
    pub cut_bytes: u64,
    /// Time from sending to the answer, in microseconds; zero if nothing was sent.
    #[serde(default)]
    pub took_micros: u64,
    /// Id of an artifact that the call made, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

/// The same call once too often: not executed, never held (S4.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatLoop {
    /// The call.
    pub call: CallId,
    /// The how-manieth identical call in a row it is.
    pub count: u32,
}

/// A call of `start_agent` became a run of its own (S3.6); the parent waits for its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildStarted {
    /// The call.
    pub call: CallId,
    /// What was let through.
    pub digest: CallDigest,
    /// The rule that allowed it; none if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The approval that let it through; none if a rule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The new run.
    pub child: RunId,
    /// Its task.
    pub task: TaskId,
    /// Its agent.
    pub agent: AgentName,
    /// Its revision.
    pub revision: RevisionId,
    /// What it is asked.
    pub input: String,
    /// How far it is trusted at first: as far as its parent is then.
    pub trust: Trust,
}

/// A child has ended, and its output is the call's result (S3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildFinished {
    /// The call.
    pub call: CallId,
    /// The child.
    pub child: RunId,
    /// What ended it.
    pub ended_by: EndedBy,
    /// What the parent's model is told: the child's output, or why there is none.
    pub content: String,
    /// How far it was trusted in the end.
    pub trust: Trust,
}

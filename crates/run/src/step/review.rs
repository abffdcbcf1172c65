//! What people are asked, and what they decide.

use serde::{Deserialize, Serialize};

use crate::digest::{CallDigest, Digest};
use crate::id::{ApprovalId, CallId};
use crate::money::Money;
use crate::origin::ArgumentOrigin;
use crate::quorum::{EscalatedTo, OpenVote, Quorum};
use crate::step::Usage;
use crate::time::Timestamp;

/// A call is held until a person decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolBlocked {
    /// The call.
    pub call: CallId,
    /// The approval that decides it.
    pub approval: ApprovalId,
    /// What the approval is bound to.
    pub digest: CallDigest,
    /// The rule that asked, such as `rules#2`, `default`, `review`, `floor`.
    pub rule: String,
    /// Why it asked, in one sentence.
    pub reason: String,
    /// One sentence for the reviewer (S6.2).
    pub summary: String,
    /// When it counts as denied.
    pub expires_at: Timestamp,
    /// What it takes to approve it, where that is more than one who may decide.
    #[serde(default, skip_serializing_if = "Quorum::is_plain")]
    pub quorum: Quorum,
    /// Where each value of the arguments came from (S6.3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<ArgumentOrigin>,
}

/// Somebody approved a call that takes more than one: sealed until it is decided. The step's actor
/// is who.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoteCast {
    /// The call.
    pub call: CallId,
    /// Its approval.
    pub approval: ApprovalId,
    /// What was voted on.
    pub digest: CallDigest,
    /// Hash of what was said, with a salt.
    pub sealed: Digest,
}

/// A person changed the arguments of a held call: a new proposal, which stands in the place of the old
/// one (S6.7). The votes before it are void. The step's actor is who.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolEdited {
    /// The call.
    pub call: CallId,
    /// Its approval.
    pub approval: ApprovalId,
    /// What was changed: the digest before.
    pub before: CallDigest,
    /// What the approval is bound to from here on.
    pub digest: CallDigest,
    /// The exact argument bytes from here on.
    pub args: String,
    /// One sentence for the reviewer.
    pub summary: String,
    /// What it takes to approve it now.
    #[serde(default, skip_serializing_if = "Quorum::is_plain")]
    pub quorum: Quorum,
    /// Where each value of the arguments came from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<ArgumentOrigin>,
}

/// Nobody has decided for a while: another group may decide as well, or a target is reminded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalated {
    /// The call.
    pub call: CallId,
    /// Its approval.
    pub approval: ApprovalId,
    /// Whom it goes to.
    #[serde(flatten)]
    pub to: EscalatedTo,
}

/// A model has put a held call into one sentence for the reviewer (S6.2). It stands beside the call and
/// the run's own sentence; nothing is decided or executed by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryWritten {
    /// The call.
    pub call: CallId,
    /// Its approval.
    pub approval: ApprovalId,
    /// What the sentence is about.
    pub digest: CallDigest,
    /// The sentence.
    pub text: String,
    /// Amounts and names in it that occur neither in the arguments nor in the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported: Vec<String>,
    /// The model that wrote it, by its configured name.
    pub model: String,
    /// Its tokens.
    pub usage: Usage,
    /// What it cost, if the model has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// The run waits for the approvals of the calls just blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitingApproval {
    /// The approvals, in call order.
    pub approvals: Vec<ApprovalId>,
    /// What it is about, in one sentence.
    pub summary: String,
}

/// Approve or deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run, once.
    Approve,
    /// The call does not run.
    Deny,
}

/// A person let a call through; the step's actor is who.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolApproved {
    /// The call.
    pub call: CallId,
    /// Its approval.
    pub approval: ApprovalId,
    /// What was approved.
    pub digest: CallDigest,
    /// The reason given, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the run goes on without the calls that stay undecided (S6.5).
    #[serde(default)]
    pub goes_on: bool,
    /// The votes before this one, opened, in the order in which they were cast.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<OpenVote>,
}

/// Why a call was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenyCause {
    /// A person said no.
    Person,
    /// A rule denies it.
    Rule,
    /// The agent was never granted the tool, or there is no such tool.
    NotGranted,
    /// Nobody decided in time.
    Timeout,
    /// The run was cancelled.
    Cancelled,
    /// The run ended first.
    RunEnded,
    /// An identical later call took its place.
    Superseded,
}

impl DenyCause {
    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            DenyCause::Person => "person",
            DenyCause::Rule => "rule",
            DenyCause::NotGranted => "not_granted",
            DenyCause::Timeout => "timeout",
            DenyCause::Cancelled => "cancelled",
            DenyCause::RunEnded => "run_ended",
            DenyCause::Superseded => "superseded",
        }
    }
}

/// A call will not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDenied {
    /// The call.
    pub call: CallId,
    /// Its approval, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// Why.
    pub cause: DenyCause,
    /// A person's reason, or the rule's sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule, where one denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Whether the run goes on without the calls that stay undecided (S6.5).
    #[serde(default)]
    pub goes_on: bool,
    /// The approvals that were voted before a person denied it, opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<OpenVote>,
}

/// The run waits for a person's message (S1.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitingInput {
    /// The call of `ask_person`.
    pub call: CallId,
    /// The question.
    pub question: String,
}

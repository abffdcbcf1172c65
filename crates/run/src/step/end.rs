//! How a run ends, and goes on.

use serde::{Deserialize, Serialize};

use super::answer::Usage;
use super::start::IdempotencyKey;
use crate::failure::FailureCode;
use crate::id::{CallId, RevisionId, RunId, TaskId};

/// What ended a run (S1.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The model's last answer.
    Answer,
    /// The cycle cap (S4.1).
    MaxCycles,
    /// The namespace's budget (S4.6).
    SpendingCap,
    /// A provider's billing refusal (S4.6).
    ProviderBilling,
    /// A failure.
    Error,
    /// A cancel.
    Cancelled,
}

impl EndedBy {
    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            EndedBy::Answer => "answer",
            EndedBy::MaxCycles => "max_cycles",
            EndedBy::SpendingCap => "spending_cap",
            EndedBy::ProviderBilling => "provider_billing",
            EndedBy::Error => "error",
            EndedBy::Cancelled => "cancelled",
        }
    }
}

/// The run ends before its model has seen a message of its conversation: the next run begins with it,
/// in the same append (S1.9, S4.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continued {
    /// The next run.
    pub run: RunId,
    /// Its task.
    pub task: TaskId,
    /// The agent's revision now.
    pub revision: RevisionId,
    /// Sequence number of the message that the next run begins with: the last one that the model has
    /// not seen. Those before it are part of what it begins with, too.
    pub message: u64,
}

/// The run is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// What it says in the end.
    pub output: String,
    /// What ended it.
    pub ended_by: EndedBy,
    /// From the first step to this one, in microseconds.
    pub duration_micros: u64,
    /// All tokens of the run.
    pub usage: Usage,
}

/// The run failed; always its last step until a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The stable code.
    pub code: FailureCode,
    /// The underlying message.
    pub message: String,
    /// The calls whose outcome is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<CallId>,
}

/// A failed run goes on (S1.5); the step's actor is who retried it, or the system where a retry was
/// scheduled (S1.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retried {
    /// The retry, from 1.
    pub attempt: u32,
}

/// The run was cancelled; the step's actor is who.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// The reason given, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyKey>,
}

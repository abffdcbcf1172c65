use thiserror::Error;

use super::Status;
use super::call::ApprovalOutcome;
use crate::id::{ApprovalId, CallId, ConversationId, RunId};
use crate::limits;
use crate::time::Timestamp;

/// Why a run does not take an input. [`Refusal::code`] is what users see.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The run has ended.
    #[error("the run is {}; nothing changes it any more", .0.as_str())]
    Terminal(Status),
    /// Only failed runs can be retried.
    #[error("the run is {}; only a failed run can be retried", .0.as_str())]
    NotFailed(Status),
    /// The retries are used up.
    #[error(
        "the run was retried {} times, which is the limit; start a new one",
        limits::MAX_RETRIES
    )]
    RetriesUsedUp,
    /// Another run waits for it, or has waited for it: that one is retried (S3.6).
    #[error("the run {0} started this one; retry that one")]
    IsChild(RunId),
    /// The conversation has gone on without the run (S1.9).
    #[error("the conversation {0} has gone on since this run failed; say it there again")]
    MovedOn(ConversationId),
    /// The run has no such approval or call.
    #[error("the run has no such approval or call: {0}")]
    UnknownTarget(String),
    /// The approval was decided or closed before.
    #[error("{approval} was already decided: {}", describe(.recorded))]
    AlreadyDecided {
        /// The approval.
        approval: ApprovalId,
        /// The record, which stands.
        recorded: Box<ApprovalOutcome>,
    },
    /// Nobody decided in time.
    #[error("{approval} expired at {expires_at}: it counts as denied")]
    Expired {
        /// The approval.
        approval: ApprovalId,
        /// When it expired.
        expires_at: Timestamp,
    },
    /// Nobody decides their own request (S6.10).
    #[error(
        "you asked for this run, so another person has to decide it: make a token for one with `sayso token create --name NAME --scope approver`"
    )]
    OwnRequest,
    /// The rule that asked bars this person (S6.12).
    #[error("whoever {0} cannot decide this; another approver has to")]
    Excluded(&'static str),
    /// The rule that asked leaves it to a group (S6.12).
    #[error("members of the group `{0}` decide this; `sayso group add {0} NAME` adds one")]
    NotInGroup(String),
    /// One vote a principal, and it is final (S6.12).
    #[error("you have approved {0} already, and a vote is final")]
    VotedBefore(ApprovalId),
    /// What was said with an earlier vote is missing, or is not what was sealed (S6.12).
    #[error("what was said with an earlier vote on {0} is not what was sealed: nothing is decided")]
    BrokenVote(ApprovalId),
    /// Somebody has edited the call, and the decision does not name what it is now (S6.7).
    #[error(
        "{0} is not what you saw: somebody has edited it; look at it again and decide by its digest"
    )]
    Changed(ApprovalId),
    /// The same idempotency key was used with other content.
    #[error("the idempotency key `{0}` was used before with other content")]
    KeyReused(String),
    /// A decision by tool does not say what the person saw.
    #[error("a decision by tool has to name the sequence number that was seen")]
    SeenMissing,
    /// A response with nothing in it.
    #[error("a response needs a decision or a message")]
    Empty,
    /// The text is too long.
    #[error(
        "the text has {bytes} bytes; at most {} are taken",
        limits::MAX_TEXT_BYTES
    )]
    TooLong {
        /// Its size.
        bytes: usize,
    },
    /// The text holds a NUL, which no database column takes.
    #[error("the text holds a NUL character")]
    HoldsNul,
    /// A worker's report does not fit the timeline: another worker went on, or it came twice.
    #[error("the report does not fit the timeline: {0}")]
    Stale(&'static str),
    /// A worker's report names a call that is not open for it.
    #[error("{call} is not open for this report: {why}")]
    CallNotOpen {
        /// The call.
        call: CallId,
        /// Why not.
        why: &'static str,
    },
}

impl Refusal {
    /// The stable code that users see.
    pub const fn code(&self) -> &'static str {
        match self {
            Refusal::Terminal(_) => "run.ended",
            Refusal::NotFailed(_) => "run.not_failed",
            Refusal::RetriesUsedUp => "run.retries_used_up",
            Refusal::IsChild(_) => "run.is_child",
            Refusal::MovedOn(_) => "conversation.moved_on",
            Refusal::UnknownTarget(_) => "approval.not_found",
            Refusal::AlreadyDecided { .. } => "approval.already_decided",
            Refusal::Expired { .. } => "approval.expired",
            Refusal::OwnRequest => "approval.own_request",
            Refusal::Excluded(_) => "approval.excluded",
            Refusal::NotInGroup(_) => "approval.not_in_group",
            Refusal::VotedBefore(_) => "approval.voted_before",
            Refusal::BrokenVote(_) => "approval.broken_vote",
            Refusal::Changed(_) => "approval.changed",
            Refusal::KeyReused(_) => "request.key_reused",
            Refusal::SeenMissing => "approval.seen_missing",
            Refusal::Empty => "request.empty",
            Refusal::TooLong { .. } => "request.too_large",
            Refusal::HoldsNul => "request.invalid_text",
            Refusal::Stale(_) | Refusal::CallNotOpen { .. } => "run.stale",
        }
    }
}

fn describe(outcome: &ApprovalOutcome) -> String {
    let what = match outcome.denied {
        None => "approved".to_owned(),
        Some(cause) => format!("denied ({})", cause.as_str()),
    };
    match &outcome.by {
        Some(by) => format!("{what} by {by} at {}", outcome.at),
        None => format!("{what} at {}", outcome.at),
    }
}

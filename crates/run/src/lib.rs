//! The run core: what a run is, and nothing about where it is stored or who performs it.
//!
//! A run's **timeline** is an ordered list of [`Step`]s and the only truth. [`RunState`] is a fold
//! over it and has four verbs:
//!
//! * [`RunState::apply`] takes a step that happened; history cannot be argued with.
//! * [`RunState::decide`] takes an [`Input`] from outside and answers with the steps that it causes,
//!   or with a [`Refusal`].
//! * [`RunState::next`] says what is owed: effects to perform, something to wait for, or nothing.
//! * [`RunState::messages`] is the conversation as the model may see it: well-formed whatever was
//!   approved, denied, left open, interrupted or cancelled (S4.8).
//!
//! The crate is pure: no clock, no randomness, no I/O, no iteration in hash order. Time and ids come
//! in as arguments, so the same inputs always give the same run.

mod actor;
mod chain;
mod conversation;
mod digest;
mod failure;
#[cfg(feature = "hooks")]
pub mod hooks;
mod id;
pub mod limits;
mod money;
mod origin;
mod quorum;
mod state;
mod step;
mod summary;
mod support;
mod time;
mod transcript;

pub use actor::{Actor, UnknownActor};
pub use chain::{
    Broken, ChainKey, ChainKeys, Head, Recorded, Seal, StoredLink, verify, verify_links,
};
pub use conversation::{Conversation, Earlier, Said, SaidKind, Speaker, remembered};
pub use digest::{CallDigest, Digest, Fingerprint, NotADigest};
pub use failure::{FailureCode, advice};
pub use id::{
    AgentName, ApprovalId, BadName, CallId, ConversationId, Namespace, PrincipalId, RevisionId,
    RunId, TaskId, ToolSetId, WorkerId,
};
pub use money::{BadMoney, Currency, Money, Price};
pub use origin::{ArgumentOrigin, OriginKind};
pub use quorum::{CastVote, EscalatedTo, Escalation, OpenVote, Quorum};
pub use state::{
    ActionStatus, Answer, ApprovalOutcome, Ballot, Brief, Call, Child, ChildEnd, Clearance,
    Corrupt, Decision, DecisionItem, Edit, Edited, Effect, Finished, HeldCall, Input, Judgement,
    Lowered, ModelFailure, NewChild, Next, Outcome, Phase, Placeholder, Proposed, Refusal,
    Response, Ruling, RunState, Saying, Start, Status, Summarised, Target, ToolOutput, WaitFor,
    Words, WrittenSummary,
};
pub use step::{
    AssistantMessage, AwaitingApproval, AwaitingInput, Cancelled, ChildFinished, ChildStarted,
    Compaction, CompactionKind, Completion, Continued, DenyCause, EndedBy, Escalated, Failed,
    IdempotencyKey, Marks, ModelFailover, Parent, RepeatLoop, Retried, RetryScheduled, Source,
    SpendingCap, Step, StepError, StepKind, SummaryWritten, TakenOver, Thinking, Tick,
    ToolApproved, ToolBlocked, ToolCall, ToolDenied, ToolEdited, ToolOutcome, ToolResult,
    ToolStarted, ToolsListed, TriggerReceived, Trust, TrustLowered, Usage, UserMessage, Verdict,
    VoteCast,
};
pub use summary::summarise;
pub use time::{Month, Timestamp};
pub use transcript::{CallMessage, Message, ResultMessage, ThinkingMessage};

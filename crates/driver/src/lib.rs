//! The one loop that performs what a run owes, and the one way to write to a timeline.
//!
//! Generic over what it needs: a [`Journal`] that holds timelines, [`Models`], [`Tools`],
//! [`Policy`], and a [`Herald`] that tells the world. It knows no adapter.
//!
//! * [`Driver::drive`] is what an executor does with a wake-up.
//! * [`write()`] and [`start()`] are what everybody else does.

mod converse;
mod drive;
mod edit;
mod evidence;
mod hold;
#[cfg(feature = "hooks")]
pub mod hooks;
mod journal;
mod judge;
mod lane;
mod notices;
mod project;
mod redact;
mod replay;
mod resolved;
mod rows;
mod session;
mod summarising;
mod tree;
mod world;
mod write;

pub use converse::{Heard, NewMessage, converse, retry};
pub use drive::{Driven, Driver};
pub use edit::{EditRefused, JudgedEdit, judge_edit};
pub use hold::delegating::DelegationLimits;
pub use journal::{
    Append, AppendError, Appended, Budget, ConversationNow, Conversations, Journal, KeyedMessage,
    LeaseChange, LoadError, Loaded, NewRun, StartKey, TakenTick, Talk, Tree, Written,
};
pub use lane::Lane;
pub use project::{Projected, project, run_row};
pub use replay::{RecordedVerdict, Rejudged, explain, rejudge};
pub use resolved::ResolvedTools;
pub use rows::{
    ActionRow, ApprovalRow, ApprovalStatus, Deciders, DeliveryRow, FeedbackRow, LeaseRow, Lineage,
    MessageRow, Notice, Recipient, RunRow, Takes, Target, UsageRow,
};
pub use world::{
    Deltas, Fence, Herald, ListError, ModelCall, ModelReply, ModelRequest, Models, Policy,
    PolicyUnavailable, Revision, SecretsUnavailable, ToolDefinition, ToolHints, ToolKind,
    ToolReply, ToolRequest, ToolSet, Tools,
};
pub use write::{
    Decided, StartOutcome, WriteError, Wrote, start, start_at, write, write_for_lost,
    write_redacted,
};

/// The tool by which a model asks a person (S1.8).
pub const ASK_PERSON: &str = "ask_person";

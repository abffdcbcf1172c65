//! The one loop that performs what a run owes, and the one way to write to a timeline.
//!
//! Generic over what it needs: a [`Journal`] that holds timelines, [`Models`], [`Tools`],
//! [`Policy`], and a [`Herald`] that tells the world. It knows no adapter.

mod journal;
mod rows;
mod world;

pub use journal::{
    Append, AppendError, Appended, Journal, LeaseChange, LoadError, Loaded, StartKey, Written,
};
pub use rows::{
    ActionRow, ApprovalRow, ApprovalStatus, DeliveryRow, FeedbackRow, LeaseRow, RunRow,
};
pub use world::{
    Deltas, Fence, Herald, ListError, ModelCall, ModelReply, ModelRequest, Models, Policy,
    PolicyUnavailable, Revision, ToolDefinition, ToolHints, ToolKind, ToolReply, ToolRequest,
    ToolSet, Tools,
};

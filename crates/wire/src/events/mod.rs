//! What the world is told: CloudEvents 1.0 in binary mode, and live messages.
//!
//! A step's event holds all that a watcher is sent, so that whoever serves watchers need not read
//! the database for it. The attributes are message headers (`ce-id`, `ce-type` and so on); the body
//! is one JSON object:
//!
//! ```json
//! {"run":"run_…","status":"running","seq":7,"at":"2026-03-01T09:30:00.000000Z",
//!  "actor":"agent:support","type":"tool_call","version":1,"content":{…},
//!  "content_sha256":"…","hash":"…","seal":{"key":"…","mac":"…"}}
//! ```
//!
//! `content` is the view with secrets masked (S3.10), byte for byte; `status` is where the run
//! stands after the append that brought the step; `seal` is there only where the step has one. A
//! change of an approval has an event of its own beside its step's, on a subject of its own, with
//! the same body and the extension attribute `ce-approval`.
//!
//! **Ids are derived** (`<run>:<sequence>`), so publishing again after an unclear answer is the same
//! event, and readers drop what they have seen (S8.4). Order is not the broker's promise either:
//! `ce-sequence` is, 20 digits wide so that it also sorts as text.
//!
//! **Large bodies stay at home**: over [`MAX_BODY`] the event has no body, and `ce-dataref` says
//! where the step can be read.
//!
//! Bytes are written straight into the buffer that is sent: this is done for every step of every
//! run.

mod live;
mod read;
mod write;

use sayso_run::{
    AgentName, ApprovalId, DenyCause, Escalated, Namespace, Recorded, RunId, Status, Step,
    SummaryWritten, ToolApproved, ToolBlocked, ToolDenied, ToolEdited, VoteCast,
};

use crate::step::StepView;
use crate::subjects;

pub use live::{BadLive, Live};
pub use read::{ApprovalNews, BadEvent, StepNews, Told, read_approval, read_step};

/// The largest body of an event, in bytes.
pub const MAX_BODY: usize = 512 * 1024;

/// What is sent on a control subject when a run was cancelled: whoever drives it looks at its
/// timeline now instead of with its next append. The timeline alone says what is true.
pub const CANCEL_HINT: &[u8] = br#"{"hint":"cancel"}"#;

/// An event, ready to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Where to.
    pub subject: String,
    /// Says which happening this is: the broker and readers drop a second one.
    pub id: String,
    /// The CloudEvents attributes, and the content type.
    pub headers: Vec<(String, String)>,
    /// The body; empty if it was too large.
    pub body: Vec<u8>,
}

/// The run that an event is about, and whose it is.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The tenant.
    pub namespace: &'a Namespace,
    /// The agent.
    pub agent: &'a AgentName,
    /// The run.
    pub run: &'a RunId,
}

/// What happened to an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalChange {
    /// It was asked for.
    Requested,
    /// A person decided it.
    Decided,
    /// It was closed without a decision, or expired.
    Closed,
    /// Nobody has decided it for a while: others may as well.
    Escalated,
    /// It was edited, voted on, or put into words by a model, and is pending as before.
    Updated,
}

impl ApprovalChange {
    /// Every change.
    pub const ALL: [ApprovalChange; 5] = [
        ApprovalChange::Requested,
        ApprovalChange::Decided,
        ApprovalChange::Closed,
        ApprovalChange::Escalated,
        ApprovalChange::Updated,
    ];

    /// The word that the event's type has.
    pub const fn as_str(self) -> &'static str {
        match self {
            ApprovalChange::Requested => "requested",
            ApprovalChange::Decided => "decided",
            ApprovalChange::Closed => "closed",
            ApprovalChange::Escalated => "escalated",
            ApprovalChange::Updated => "updated",
        }
    }

    /// What a step does to an approval, if it does anything to one.
    pub fn of(step: &Step) -> Option<(&ApprovalId, ApprovalChange)> {
        match step {
            Step::ToolBlocked(ToolBlocked { approval, .. }) => {
                Some((approval, ApprovalChange::Requested))
            }
            Step::ToolApproved(ToolApproved { approval, .. }) => {
                Some((approval, ApprovalChange::Decided))
            }
            Step::ToolDenied(ToolDenied {
                approval: Some(approval),
                cause,
                ..
            }) => Some((approval, ApprovalChange::by(*cause))),
            Step::Escalated(Escalated { approval, .. }) => {
                Some((approval, ApprovalChange::Escalated))
            }
            Step::ToolEdited(ToolEdited { approval, .. })
            | Step::VoteCast(VoteCast { approval, .. })
            | Step::SummaryWritten(SummaryWritten { approval, .. }) => {
                Some((approval, ApprovalChange::Updated))
            }
            Step::ToolDenied(ToolDenied { approval: None, .. })
            | Step::TriggerReceived(_)
            | Step::ToolsListed(_)
            | Step::UserMessage(_)
            | Step::Thinking(_)
            | Step::AssistantMessage(_)
            | Step::ToolCall(_)
            | Step::AwaitingApproval(_)
            | Step::ToolStarted(_)
            | Step::TrustLowered(_)
            | Step::TakenOver(_)
            | Step::ToolResult(_)
            | Step::RepeatLoop(_)
            | Step::AwaitingInput(_)
            | Step::ChildStarted(_)
            | Step::ChildFinished(_)
            | Step::Compaction(_)
            | Step::RetryScheduled(_)
            | Step::ModelFailover(_)
            | Step::SpendingCap(_)
            | Step::Completion(_)
            | Step::Failed(_)
            | Step::Retried(_)
            | Step::Cancelled(_) => None,
        }
    }

    fn by(cause: DenyCause) -> Self {
        match cause {
            DenyCause::Person => ApprovalChange::Decided,
            DenyCause::Rule
            | DenyCause::NotGranted
            | DenyCause::Timeout
            | DenyCause::Cancelled
            | DenyCause::RunEnded
            | DenyCause::Superseded => ApprovalChange::Closed,
        }
    }
}

/// The event of a recorded step. `content` is its content for readers, one JSON object with secrets
/// masked; `status` is where the run stands after the append.
pub fn step_event(
    origin: &Origin<'_>,
    recorded: &Recorded<Step>,
    content: &str,
    status: Status,
) -> Event {
    let kind = recorded.step.kind();
    let view = StepView::recorded(recorded, content);
    let mut event = write::event(write::Attributes {
        subject: subjects::step(origin.namespace, origin.agent, kind),
        id: write::id(origin.run, recorded.seq),
        kind: write::step_type(kind),
        origin,
        view: &view,
    });
    write::body(&mut event, origin.run, &view, status);
    event
}

/// The event of what a recorded step does to an approval, if it does anything to one; otherwise as
/// [`step_event`].
pub fn approval_event(
    origin: &Origin<'_>,
    recorded: &Recorded<Step>,
    content: &str,
    status: Status,
) -> Option<Event> {
    let (approval, change) = ApprovalChange::of(&recorded.step)?;
    let view = StepView::recorded(recorded, content);
    let mut event = write::event(write::Attributes {
        subject: subjects::approval(origin.namespace, origin.agent, change),
        id: format!("{}:approval", write::id(origin.run, recorded.seq)),
        kind: write::approval_type(change).to_owned(),
        origin,
        view: &view,
    });
    event
        .headers
        .push(("ce-approval".to_owned(), approval.to_string()));
    write::body(&mut event, origin.run, &view, status);
    Some(event)
}

#[cfg(test)]
mod tests;

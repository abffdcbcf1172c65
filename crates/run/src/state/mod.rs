//! The state of a run: a fold over its timeline.
//!
//! | status | reached by | left by |
//! |---|---|---|
//! | `pending` | the start; an automatic retry that is not due yet | the first step of a worker; the retry |
//! | `running` | work is owed or under way | waiting, or an end |
//! | `awaiting_approval` | every call of the last answer is settled but those held, and nobody said to go on | a decision, a message, expiry, cancel |
//! | `awaiting_input` | the model asked a person | a message, cancel |
//! | `completed` | `completion` | never |
//! | `failed` | `error` | `retried`, at most five times |
//! | `cancelled` | `cancelled` | never |
//!
//! The status is derived, not stored: it follows from [`RunState::next`].
//!
//! A call moves `Proposed → Held → Cleared → Started → Finished`, or leaves earlier by a denial. A
//! started call whose worker was lost is `Unknown`: its outcome may still arrive, and only an
//! idempotent one is started again.

mod apply;
mod approving;
mod call;
mod compact;
mod decide;
mod delegate;
mod next;
mod refusal;

use std::collections::BTreeMap;

use crate::actor::Actor;
use crate::chain::Head;
use crate::id::{ApprovalId, CallId, PrincipalId, RunId, ToolSetId, WorkerId};
use crate::limits;
use crate::money::Money;
use crate::step::{EndedBy, Failed, IdempotencyKey, TriggerReceived, Trust, Usage};

pub use apply::Corrupt;
pub use call::{
    ActionStatus, ApprovalOutcome, Call, Child, Clearance, Edited, Finished, HeldCall, Outcome,
    Phase, Placeholder, WrittenSummary,
};
pub use compact::Brief;
pub(crate) use compact::SMALL_RESULT;
pub use decide::{
    Answer, Ballot, ChildEnd, Decision, DecisionItem, Edit, Input, Judgement, ModelFailure,
    NewChild, Proposed, Response, Ruling, Start, Summarised, Target, ToolOutput,
};
pub use next::{Effect, Next, WaitFor};
pub use refusal::Refusal;

/// Where a run stands (S1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Stored, not yet taken up by a worker.
    Pending,
    /// Work is owed or under way.
    Running,
    /// A person's message is needed.
    AwaitingInput,
    /// A person's decision is needed.
    AwaitingApproval,
    /// Ended with an output.
    Completed,
    /// Ended with an error; can be retried.
    Failed,
    /// Ended by a person.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 7] = [
        Status::Pending,
        Status::Running,
        Status::AwaitingInput,
        Status::AwaitingApproval,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
    ];

    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Running => "running",
            Status::AwaitingInput => "awaiting_input",
            Status::AwaitingApproval => "awaiting_approval",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// Whether nothing but a retry of `failed` leads out of it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }

    /// Reads the word; `waiting_approval` is taken for `awaiting_approval` (S1.2).
    pub fn parse(word: &str) -> Option<Status> {
        if word == "waiting_approval" {
            return Some(Status::AwaitingApproval);
        }
        Status::ALL
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Completed {
        output: String,
        ended_by: EndedBy,
    },
    Failed(Failed),
    /// By whom.
    Cancelled(Actor),
}

/// One entry of the conversation; the results of an answer's calls are read from the calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    User(String),
    Assistant {
        text: String,
        model: String,
        thinking: Vec<crate::step::Thinking>,
        calls: Vec<CallId>,
    },
    LateResult(CallId),
    /// A call of which the model was told that it waits was sent, and its outcome is unknown.
    UnknownOutcome(CallId),
}

/// What a person said to a run after it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Sequence number of the step.
    pub seq: u64,
    /// Who.
    pub by: PrincipalId,
    /// The words.
    pub text: String,
}

/// What lowered a run's trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowered {
    /// The call.
    pub call: CallId,
    /// Sequence number of the step.
    pub seq: u64,
}

/// The folded timeline of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunState {
    pub(crate) run: RunId,
    pub(crate) trigger: TriggerReceived,
    pub(crate) head: Head,
    pub(crate) started_at: crate::time::Timestamp,
    pub(crate) begun: bool,
    pub(crate) tools: Option<ToolSetId>,
    pub(crate) end: Option<End>,
    pub(crate) ended_at: Option<crate::time::Timestamp>,
    pub(crate) cycles: u32,
    pub(crate) usage: Usage,
    /// In the currency of the first answer that had a price.
    pub(crate) cost: Option<Money>,
    pub(crate) retries: u32,
    pub(crate) automatic_retries: u32,
    /// The automatic retry that it waits for, and when that is due.
    pub(crate) scheduled: Option<(u32, crate::time::Timestamp)>,
    pub(crate) takeovers: u32,
    /// Sequence number of the last takeover or retry: what was asked of a model before is void.
    pub(crate) resumed_seq: u64,
    pub(crate) worker: Option<WorkerId>,
    /// Tokens of the last answer and its request, while they tell the size of the conversation.
    pub(crate) measured: Option<Usage>,
    /// The last turn of which the results' content was taken out; 0 if there is none.
    pub(crate) pruned_upto: u32,
    /// What stands for the first turns.
    pub(crate) brief: Option<Brief>,
    /// Calls in the order in which they were proposed.
    pub(crate) calls: Vec<Call>,
    pub(crate) call_index: BTreeMap<CallId, usize>,
    /// The conversation that the model has seen.
    pub(crate) seen: Vec<Entry>,
    /// What it has not seen yet, with the sequence number of the step that brought it.
    pub(crate) unseen: Vec<(u64, Entry)>,
    /// Thinking that came before an answer which is still to follow.
    pub(crate) thinking: Vec<crate::step::Thinking>,
    /// Calls that the last answer announced and that still have to follow.
    pub(crate) announced: u32,
    /// A person responded since the last answer: go on without what is undecided.
    pub(crate) goes_on: bool,
    /// How far it is trusted now.
    pub(crate) trust: Trust,
    pub(crate) trust_lowered: Option<Lowered>,
    pub(crate) secret_read: bool,
    pub(crate) words: Vec<Words>,
    /// Requests that carried a key, by principal and key.
    pub(crate) keys: BTreeMap<(String, String), IdempotencyKey>,
}

impl RunState {
    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// What started it.
    pub fn trigger(&self) -> &TriggerReceived {
        &self.trigger
    }

    /// The end of its timeline so far.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Sequence number of its last step.
    pub fn seq(&self) -> u64 {
        self.head.seq
    }

    /// Time of its first step.
    pub fn started_at(&self) -> crate::time::Timestamp {
        self.started_at
    }

    /// Time at which it ended, if it has.
    pub fn ended_at(&self) -> Option<crate::time::Timestamp> {
        self.ended_at
    }

    /// The definitions of the tools offered, once they were listed.
    pub fn tools(&self) -> Option<&ToolSetId> {
        self.tools.as_ref()
    }

    /// Think-and-call cycles so far.
    pub fn cycles(&self) -> u32 {
        self.cycles
    }

    /// How far it is trusted now (S5.7).
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// What lowered its trust, if anything did.
    pub fn trust_lowered_by(&self) -> Option<&Lowered> {
        self.trust_lowered.as_ref()
    }

    /// Whether it has called a tool whose results are secret (S5.9).
    pub fn secret_read(&self) -> bool {
        self.secret_read
    }

    /// What people said to it after its input, in order.
    pub fn words(&self) -> &[Words] {
        &self.words
    }

    /// Tokens so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// What its answers cost so far; none if no model had a price. Prices of one installation have
    /// one currency; what costs another one, after that was changed, is not added.
    pub fn cost(&self) -> Option<Money> {
        self.cost
    }

    /// Retries so far.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Whether it may be what kills its workers: several were lost in a row while they held it, and it
    /// came no further.
    pub fn is_suspected(&self) -> bool {
        self.end.is_none() && self.takeovers >= limits::SUSPECTED_TAKEOVERS
    }

    /// Its calls, in the order in which they were proposed.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// One call.
    pub fn call(&self, id: &CallId) -> Option<&Call> {
        self.call_index.get(id).map(|&at| &self.calls[at])
    }

    pub(crate) fn call_mut(&mut self, id: &CallId) -> Option<&mut Call> {
        self.call_index.get(id).map(|&at| &mut self.calls[at])
    }

    /// The call that an approval decides.
    pub fn call_of(&self, approval: &ApprovalId) -> Option<&Call> {
        self.calls.iter().find(|call| {
            call.approval
                .as_ref()
                .is_some_and(|held| held.id == *approval)
        })
    }

    /// Calls that wait for a person, in call order.
    pub fn held(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.phase == Phase::Held)
    }

    /// The output of a completed run.
    pub fn output(&self) -> Option<&str> {
        match &self.end {
            Some(End::Completed { output, .. }) => Some(output),
            Some(End::Failed(_) | End::Cancelled(_)) | None => None,
        }
    }

    /// The failure of a failed run.
    pub fn failure(&self) -> Option<&Failed> {
        match &self.end {
            Some(End::Failed(failed)) => Some(failed),
            Some(End::Completed { .. } | End::Cancelled(_)) | None => None,
        }
    }

    /// Who cancelled it, if somebody did.
    pub fn cancelled_by(&self) -> Option<&Actor> {
        match &self.end {
            Some(End::Cancelled(by)) => Some(by),
            Some(End::Completed { .. } | End::Failed(_)) | None => None,
        }
    }

    /// What ended it, if it has ended (S1.7).
    pub fn ended_by(&self) -> Option<EndedBy> {
        self.end.as_ref().map(|end| match end {
            End::Completed { ended_by, .. } => *ended_by,
            End::Failed(_) => EndedBy::Error,
            End::Cancelled(_) => EndedBy::Cancelled,
        })
    }

    /// Whether started calls are still open: a late result may follow the end.
    pub fn has_open_calls(&self) -> bool {
        self.calls
            .iter()
            .any(|call| matches!(call.phase, Phase::Started { .. }))
    }

    /// Where the run stands (S1.2).
    pub fn status(&self) -> Status {
        match &self.end {
            Some(End::Completed { .. }) => Status::Completed,
            Some(End::Failed(_)) => Status::Failed,
            Some(End::Cancelled(_)) => Status::Cancelled,
            None if !self.begun => Status::Pending,
            None => match self.next() {
                Next::Wait(WaitFor::Approval { .. }) => Status::AwaitingApproval,
                Next::Wait(WaitFor::Input) => Status::AwaitingInput,
                Next::Wait(WaitFor::Retry { .. }) => Status::Pending,
                Next::Wait(WaitFor::Results | WaitFor::Child) | Next::Owed(_) | Next::Done => {
                    Status::Running
                }
            },
        }
    }
}

use serde::{Deserialize, Serialize};

use crate::digest::{CallDigest, Digest, Fingerprint};
use crate::id::{ApprovalId, CallId, PrincipalId, RunId, WorkerId};
use crate::origin::ArgumentOrigin;
use crate::quorum::{CastVote, EscalatedTo, Quorum};
use crate::step::{DenyCause, ToolOutcome, Trust};
use crate::time::Timestamp;

/// How a call was let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clearance {
    /// By a rule or setting, without a person.
    Rule(String),
    /// By a person.
    Person(PrincipalId),
}

/// What came of a call in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The tool's result, or why there is none although it was to run.
    Result {
        /// How it ended.
        outcome: ToolOutcome,
        /// What the model is told.
        content: String,
    },
    /// It was denied.
    Denied {
        /// Why.
        cause: DenyCause,
        /// A person's reason or the rule's sentence.
        reason: Option<String>,
    },
    /// The loop breaker stopped it.
    RepeatLoop {
        /// The how-manieth identical call in a row it was.
        count: u32,
    },
}

/// A settled call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What came of it.
    pub outcome: Outcome,
    /// Sequence number of the step that settled it.
    pub seq: u64,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Proposed by the model, not yet judged.
    Proposed,
    /// Waits for a person's decision.
    Held,
    /// Waits for a person's answer: a call of `ask_person`.
    Asked,
    /// A person approved it; it is to run.
    Cleared,
    /// Sent, or about to be, by this worker.
    Started {
        /// The worker.
        worker: WorkerId,
        /// Whether it may be sent again when its outcome is unknown.
        idempotent: bool,
    },
    /// A call of `start_agent` that became a run of its own, which has not ended (S3.6).
    Delegated,
    /// Started by a worker that was lost: it ran, or it did not.
    Unknown {
        /// The lost worker.
        worker: WorkerId,
        /// Whether it may be sent again.
        idempotent: bool,
    },
    /// Settled.
    Finished(Finished),
}

/// The run that a call of `start_agent` became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The run.
    pub run: RunId,
    /// How far it was trusted in the end, once it has ended.
    pub trust: Option<Trust>,
}

/// The approval of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCall {
    /// The approval.
    pub id: ApprovalId,
    /// The rule that asked.
    pub rule: String,
    /// Why it asked.
    pub reason: String,
    /// One sentence for the reviewer.
    pub summary: String,
    /// A model's sentence beside it, once there is one.
    pub written: Option<WrittenSummary>,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When it counts as denied.
    pub expires_at: Timestamp,
    /// Sequence number of the step that held it as it is now: an edit holds it anew.
    pub seq: u64,
    /// Where each value of the arguments came from.
    pub origins: Vec<ArgumentOrigin>,
    /// What it takes to approve it.
    pub quorum: Quorum,
    /// Whom it was escalated to by now, in the order of `quorum.escalate`.
    pub escalated: Vec<EscalatedTo>,
    /// Approvals that were cast and do not decide it yet, in their order.
    pub votes: Vec<CastVote>,
    /// How it was decided or closed, once it was.
    pub outcome: Option<ApprovalOutcome>,
}

impl HeldCall {
    /// When it is escalated next, if it is once more.
    pub fn escalates_at(&self) -> Option<Timestamp> {
        let next = self.quorum.escalate.get(self.escalated.len())?;
        Some(self.requested_at.plus_micros(next.after_micros))
    }

    /// Groups that may decide as well by now.
    pub fn widened(&self) -> impl Iterator<Item = &String> {
        self.escalated.iter().filter_map(|to| match to {
            EscalatedTo::Group(group) => Some(group),
            EscalatedTo::Target(_) => None,
        })
    }
}

/// What a model wrote of a held call for the reviewer (S6.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenSummary {
    /// The sentence.
    pub text: String,
    /// Amounts and names in it that nothing supports.
    pub unsupported: Vec<String>,
    /// The model.
    pub model: String,
}

/// A call that a person changed before it was decided (S6.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// Who changed it last.
    pub by: PrincipalId,
    /// The exact argument bytes that the model proposed.
    pub proposed: String,
}

/// How an approval was decided or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalOutcome {
    /// `None`: approved; else why it was denied or closed.
    pub denied: Option<DenyCause>,
    /// Who; none for expiry, the run's end and superseding.
    pub by: Option<PrincipalId>,
    /// The reason given.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// The status of an action (S2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionStatus {
    /// Not yet judged, or waits for a person.
    PendingReview,
    /// A rule let it through; under way or unknown.
    AutoApproved,
    /// A person let it through; not yet finished.
    Approved,
    /// It did not and will not run.
    Rejected,
    /// The tool answered.
    Executed,
    /// It failed: invalid arguments, the loop breaker, a permission, or the tool's own error.
    Failed,
}

impl ActionStatus {
    /// Every status.
    pub const ALL: [ActionStatus; 6] = [
        ActionStatus::PendingReview,
        ActionStatus::AutoApproved,
        ActionStatus::Approved,
        ActionStatus::Rejected,
        ActionStatus::Executed,
        ActionStatus::Failed,
    ];

    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            ActionStatus::PendingReview => "pending_review",
            ActionStatus::AutoApproved => "auto_approved",
            ActionStatus::Approved => "approved",
            ActionStatus::Rejected => "rejected",
            ActionStatus::Executed => "executed",
            ActionStatus::Failed => "failed",
        }
    }
}

/// One call that the model proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its id.
    pub id: CallId,
    /// The cycle whose answer proposed it.
    pub cycle: u32,
    /// The tool as registered.
    pub tool: String,
    /// The tool as the model names it.
    pub model_name: String,
    /// The exact argument bytes.
    pub args: String,
    /// Digest of the tool's definition; none if there is no such tool.
    pub definition: Option<Digest>,
    /// What an approval binds.
    pub digest: CallDigest,
    /// What makes it the same as another call.
    pub fingerprint: Fingerprint,
    /// When it was proposed.
    pub proposed_at: Timestamp,
    /// Where it stands.
    pub phase: Phase,
    /// What a person made of it, if one did: `args`, `digest` and `fingerprint` are then the person's.
    pub edited: Option<Edited>,
    /// How it was let through, once it was.
    pub clearance: Option<Clearance>,
    /// Its approval, if one was asked for.
    pub approval: Option<HeldCall>,
    /// Sequence number of the step that first started it.
    pub started_seq: Option<u64>,
    /// The worker that sent it last.
    pub sent_by: Option<WorkerId>,
    /// The run that it became, if it is one of `start_agent` that was let through.
    pub child: Option<Child>,
    /// Whether its result may be an outsider's words, once it was started (S5.8).
    pub untrusted_output: bool,
    /// The worker that sent it was lost and the run failed over it (S4.5).
    pub unknown: bool,
    /// What the model was told in place of a result, if it was asked without one: the result then
    /// reaches it as a note.
    pub placeheld: Option<Placeholder>,
}

/// What stands for a result that is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder {
    /// A person has not decided.
    AwaitingReview,
    /// It was sent, and nobody knows whether it took effect.
    Unknown,
}

impl Call {
    /// The exact argument bytes that the model proposed, whatever a person made of them.
    pub fn proposed_args(&self) -> &str {
        let edited = self.edited.as_ref();
        edited.map_or(&self.args, |edited| &edited.proposed)
    }

    /// Whether it has its one result.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished(_))
    }

    /// Whether it was sent and nobody knows what came of it (S4.5).
    pub(crate) fn is_in_doubt(&self) -> bool {
        match &self.phase {
            Phase::Finished(finished) => matches!(
                finished.outcome,
                Outcome::Result {
                    outcome: ToolOutcome::Unknown,
                    ..
                }
            ),
            Phase::Proposed
            | Phase::Held
            | Phase::Asked
            | Phase::Cleared
            | Phase::Started { .. }
            | Phase::Delegated
            | Phase::Unknown { .. } => self.unknown,
        }
    }

    /// What stands for its result in a request that is made now.
    pub(crate) fn placeholder(&self) -> Placeholder {
        if self.unknown {
            Placeholder::Unknown
        } else {
            Placeholder::AwaitingReview
        }
    }

    /// Its status as an action (S2.5).
    pub fn action_status(&self) -> ActionStatus {
        match &self.phase {
            Phase::Proposed | Phase::Held | Phase::Asked => ActionStatus::PendingReview,
            Phase::Cleared => ActionStatus::Approved,
            Phase::Started { .. } | Phase::Delegated | Phase::Unknown { .. } => {
                match self.clearance {
                    Some(Clearance::Person(_)) => ActionStatus::Approved,
                    Some(Clearance::Rule(_)) | None => ActionStatus::AutoApproved,
                }
            }
            Phase::Finished(finished) => match &finished.outcome {
                Outcome::Result {
                    outcome: ToolOutcome::Ok,
                    ..
                } => ActionStatus::Executed,
                Outcome::Result {
                    outcome:
                        ToolOutcome::Error
                        | ToolOutcome::Timeout
                        | ToolOutcome::InvalidArguments
                        | ToolOutcome::PermissionDenied
                        | ToolOutcome::Mismatch
                        | ToolOutcome::Unknown
                        | ToolOutcome::Unreachable,
                    ..
                }
                | Outcome::RepeatLoop { .. } => ActionStatus::Failed,
                Outcome::Denied { .. } => ActionStatus::Rejected,
            },
        }
    }
}

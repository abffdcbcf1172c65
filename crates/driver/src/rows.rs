//! The tables projected from timelines, as rows. They are written in the transaction of the append
//! that changes them and never by anything else; a projection can always be made again from the
//! timeline.

use sayso_run::{
    ActionStatus, AgentName, ApprovalId, ArgumentOrigin, CallDigest, CallId, ConversationId,
    DenyCause, Digest, EndedBy, HeldCall, Money, Month, Namespace, PrincipalId, RevisionId, RunId,
    Said, Source, Status, TaskId, Timestamp, Trust, Usage, WorkerId, WrittenSummary,
};
use serde::{Deserialize, Serialize};

/// A run as lists and pages show it: one row of `runs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// The task that it executes.
    pub task: TaskId,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The pinned revision.
    pub revision: RevisionId,
    /// Who asked.
    pub principal: PrincipalId,
    /// The trust now.
    pub trust: Trust,
    /// What was asked.
    pub input: String,
    /// What made it start.
    pub source: Source,
    /// The trigger that made it start.
    pub trigger: Option<String>,
    /// The run of which this one is a read-only copy.
    pub imported_from: Option<RunId>,
    /// Whose child it is, if an agent started it.
    pub lineage: Option<Lineage>,
    /// The conversation that it belongs to.
    pub conversation: Option<ConversationId>,
    /// Where it stands.
    pub status: Status,
    /// Sequence number of its last step.
    pub seq: u64,
    /// What ended it.
    pub ended_by: Option<EndedBy>,
    /// The output of a completed run.
    pub output: Option<String>,
    /// The code of a failed run.
    pub error_code: Option<String>,
    /// The message of a failed run.
    pub error_message: Option<String>,
    /// Think-and-call cycles.
    pub cycles: u32,
    /// Retries.
    pub retries: u32,
    /// Tokens.
    pub usage: Usage,
    /// What they cost; none if no model had a price.
    pub cost: Option<Money>,
    /// When its first step was recorded.
    pub created_at: Timestamp,
    /// When its last step was recorded.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When the first of its pending approvals expires.
    pub expires_at: Option<Timestamp>,
    /// Whether started calls are open: of an ended run, a late result may still come.
    pub open_calls: bool,
}

/// Where a run that an agent started stands in the tree of delegation (S3.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The run that started it.
    pub parent_run: RunId,
    /// That run's task.
    pub parent_task: TaskId,
    /// The run at the root.
    pub root_run: RunId,
    /// The root run's task.
    pub root_task: TaskId,
}

/// The lease and outbox columns of a run, beside its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRow {
    /// Raised by every claim.
    pub epoch: u64,
    /// The worker that holds it.
    pub worker: Option<WorkerId>,
    /// Whether that worker's row is still marked alive.
    pub worker_alive: bool,
    /// Since when work is owed and nobody was seen to do it.
    pub ready_at: Option<Timestamp>,
    /// Whether its agent or its namespace is paused (S10.6).
    pub paused: bool,
    /// The last step whose event the broker acknowledged.
    pub published: u64,
}

/// One attempted call: a row of `actions` (S2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionRow {
    /// The run.
    pub run: RunId,
    /// The call.
    pub call: CallId,
    /// The tool as registered.
    pub tool: String,
    /// Its status.
    pub status: ActionStatus,
    /// The exact argument bytes.
    pub args: String,
    /// What an approval binds.
    pub digest: CallDigest,
    /// How it was let through: a rule's id, or `principal:NAME`; none if it was not.
    pub cleared_by: Option<String>,
    /// What came of it, as the model was told; none while open.
    pub result: Option<String>,
    /// Why it did not run.
    pub denied: Option<DenyCause>,
    /// When it was proposed.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalStatus {
    /// A person has to decide.
    Pending,
    /// A person approved it.
    Approved,
    /// A person denied it.
    Denied,
    /// Nobody decided in time: it counts as denied.
    Expired,
    /// Closed without a decision: cancelled, superseded, or by the run's end.
    Closed,
}

impl ApprovalStatus {
    /// Every status.
    pub const ALL: [ApprovalStatus; 5] = [
        ApprovalStatus::Pending,
        ApprovalStatus::Approved,
        ApprovalStatus::Denied,
        ApprovalStatus::Expired,
        ApprovalStatus::Closed,
    ];

    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            ApprovalStatus::Pending => "pending",
            ApprovalStatus::Approved => "approved",
            ApprovalStatus::Denied => "denied",
            ApprovalStatus::Expired => "expired",
            ApprovalStatus::Closed => "closed",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// Who may decide an approval, where that is not anybody who may, and who has voted (S6.12). Stored
/// as one JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deciders {
    /// The group whose members decide; anybody who may decide if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Groups that were let in since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widened: Vec<String>,
    /// How many have to approve.
    pub needed: u32,
    /// Whether whoever deployed the revision is barred.
    #[serde(default)]
    pub no_author: bool,
    /// Whether everybody who wrote into the run is barred.
    #[serde(default)]
    pub no_writers: bool,
    /// Who has approved it and did not decide it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voters: Vec<PrincipalId>,
}

impl Deciders {
    /// Of an approval that takes more than one who may decide.
    pub(crate) fn of(held: &HeldCall) -> Option<Self> {
        let quorum = &held.quorum;
        (!quorum.is_plain()).then(|| Self {
            group: quorum.group.clone(),
            widened: held.widened().cloned().collect(),
            needed: quorum.needed(),
            no_author: quorum.author.is_some(),
            no_writers: quorum.no_writers,
            voters: held.votes.iter().map(|vote| vote.by.clone()).collect(),
        })
    }

    /// Every group that may decide.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let groups = self.group.iter().chain(&self.widened);
        groups.map(String::as_str)
    }
}

/// One approval: a row of `approvals` (S6.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRow {
    /// The approval.
    pub approval: ApprovalId,
    /// The tenant.
    pub namespace: Namespace,
    /// The run.
    pub run: RunId,
    /// The call that it decides.
    pub call: CallId,
    /// The agent.
    pub agent: AgentName,
    /// Where each value of the arguments came from.
    pub origins: Vec<ArgumentOrigin>,
    /// Who may decide it; none if anybody who may.
    pub deciders: Option<Deciders>,
    /// When it is escalated next.
    pub escalates_at: Option<Timestamp>,
    /// Who asked for the run; cannot decide it (S6.10).
    pub requester: PrincipalId,
    /// The tool as registered.
    pub tool: String,
    /// The exact argument bytes.
    pub args: String,
    /// The bytes that the model proposed, where a person has edited them.
    pub original: Option<String>,
    /// Who has edited them last.
    pub edited_by: Option<PrincipalId>,
    /// What it is bound to.
    pub digest: CallDigest,
    /// Digest of the tool's definition.
    pub definition: Digest,
    /// The task's input.
    pub task_input: String,
    /// The run's trust when it was asked for.
    pub trust: Trust,
    /// The rule that asked.
    pub rule: String,
    /// Why it asked.
    pub reason: String,
    /// One sentence for the reviewer.
    pub summary: String,
    /// A model's sentence beside it.
    pub written: Option<WrittenSummary>,
    /// Sequence number of the step that held the call.
    pub seq: u64,
    /// Where it stands.
    pub status: ApprovalStatus,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When it counts as denied.
    pub expires_at: Timestamp,
    /// Who decided; none for expiry and closing by the system.
    pub decided_by: Option<PrincipalId>,
    /// When it was decided or closed.
    pub decided_at: Option<Timestamp>,
    /// The reason given.
    pub decision_reason: Option<String>,
    /// Why it was denied or closed.
    pub closed_cause: Option<DenyCause>,
    /// What came of the call, once something did (S6.3): its action's status.
    pub action_status: ActionStatus,
}

/// A message of a conversation (S9.1): a row of `messages`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// The conversation.
    pub conversation: ConversationId,
    /// The run whose step holds it.
    pub run: RunId,
    /// The message.
    pub said: Said,
}

/// A person's decision as feedback (S7.2): a row of `feedback`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackRow {
    /// The task that is rated.
    pub task: TaskId,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The run.
    pub run: RunId,
    /// The approval, which makes the row unique.
    pub approval: ApprovalId,
    /// Who decided.
    pub by: PrincipalId,
    /// Millionths: 1,000,000 for approved, 0 for denied.
    pub score_millionths: i64,
    /// The reason given.
    pub note: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What answers cost that one worker recorded in one append: added to a row of `usage` (S4.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// The tenant.
    pub namespace: Namespace,
    /// The month of the step.
    pub month: Month,
    /// The worker: nobody else writes to its row.
    pub worker: WorkerId,
    /// What was spent; none of answers of a model without a price.
    pub spent: Option<Money>,
    /// The tokens.
    pub tokens: Usage,
}

/// What a notification tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A call waits for a person (S8.1).
    Pending(ApprovalId),
    /// It still waits, and a rule has a target reminded of it (S6.12).
    Escalated(ApprovalId),
    /// The run failed (S8.2).
    Failed,
}

impl Notice {
    /// The word that is stored, and that receivers get as the type.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Notice::Pending(_) => "approval.pending",
            Notice::Escalated(_) => "approval.escalated",
            Notice::Failed => "run.failed",
        }
    }

    /// The approval that it is about; none of a failure.
    pub const fn approval(&self) -> Option<&ApprovalId> {
        match self {
            Notice::Pending(approval) | Notice::Escalated(approval) => Some(approval),
            Notice::Failed => None,
        }
    }

    /// What a stored word and approval stand for.
    pub fn read(word: &str, approval: Option<ApprovalId>) -> Option<Self> {
        match (word, approval) {
            ("approval.pending", Some(approval)) => Some(Notice::Pending(approval)),
            ("approval.escalated", Some(approval)) => Some(Notice::Escalated(approval)),
            ("run.failed", None) => Some(Notice::Failed),
            _ => None,
        }
    }
}

/// Whom a notification goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// Where the agent's bundle says (S8.1).
    Bundle {
        /// Where to.
        url: String,
        /// Name of the signing secret.
        secret: Option<String>,
    },
    /// A target of the namespace by name (S8.2): what it is when the notification is sent counts.
    Target(String),
}

/// What a target gets without being asked to (S8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takes {
    /// Every new pending approval.
    pub approvals: bool,
    /// Every run that fails.
    pub failures: bool,
}

/// A target of a namespace, as far as whoever makes notifications due has to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// What it gets.
    pub takes: Takes,
}

/// A notification that is due: a row of `deliveries`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// Unique by what it tells of and whom: the same append makes it once.
    pub id: String,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The run.
    pub run: RunId,
    /// What it tells of.
    pub notice: Notice,
    /// Whom.
    pub to: Recipient,
    /// When it is due first.
    pub due_at: Timestamp,
}

//! The steps of a timeline: a stored format. A type, a version and a content, which is one JSON
//! object; what was written once is read for ever. The set is open (S2.2): an unknown type or a
//! newer version decodes to [`StepError::Unknown`], which a reader shows and an executor leaves to
//! a newer one.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::digest::{CallDigest, Digest};
use crate::failure::FailureCode;
use crate::id::{
    AgentName, ApprovalId, CallId, Namespace, PrincipalId, RevisionId, RunId, TaskId, ToolSetId,
    WorkerId,
};
use crate::money::Money;
use crate::origin::ArgumentOrigin;
use crate::quorum::{OpenVote, Quorum};
use crate::time::Timestamp;

/// How far the origin of a task is trusted: only ever lowered (S5.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// From outside: mail, webhooks, web pages.
    Untrusted,
    /// From a principal of the namespace; the default of a token.
    Trusted,
    /// From those who operate the installation.
    Operator,
}

impl Trust {
    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Trust::Untrusted => "untrusted",
            Trust::Trusted => "trusted",
            Trust::Operator => "operator",
        }
    }
}

/// What made a run start (S1.1). Open for the sources that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An explicit start through the API or the command line.
    Start,
    /// A tick of a schedule (S8.5).
    Cron,
    /// A call of a webhook (S8.5).
    Webhook,
    /// Another agent's call of `start_agent` (S3.6).
    Agent,
}

impl Source {
    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Start => "start",
            Source::Cron => "cron",
            Source::Webhook => "webhook",
            Source::Agent => "agent",
        }
    }
}

/// A tick of a schedule that started a run (S8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// When it was due.
    pub due_at: Timestamp,
    /// Ticks after it that had passed as well when it was noticed; this run stands for them.
    #[serde(default)]
    pub skipped: u32,
}

/// A key that makes a request safe to send again, with the digest of what was asked (S1.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// The caller's key, at most 255 bytes.
    pub key: String,
    /// Digest of the request's content: the same key with other content is refused.
    pub request: Digest,
}

/// Tokens of one model answer, as the provider counted them, or as they were counted here where it
/// did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input: u64,
    /// Of those, read from the provider's cache.
    pub cached: u64,
    /// Tokens of the answer, thinking included.
    pub output: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
    }
}

/// The task as it arrived; always the first step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerReceived {
    /// The task that this run executes.
    pub task: TaskId,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The revision that the run keeps for life (S1.3).
    pub revision: RevisionId,
    /// What made it start.
    pub source: Source,
    /// What was asked.
    pub input: String,
    /// Who asked; may decide none of the run's approvals (S6.10).
    pub principal: PrincipalId,
    /// The trust of the source.
    pub trust: Trust,
    /// The trigger: a webhook's name, or a schedule as in `30 2 * * * Europe/Berlin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The tick, of a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Tick>,
    /// The key of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyKey>,
    /// W3C trace context of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Whose child the run is, if an agent started it (S3.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<Parent>>,
}

/// Where a run that another agent started stands in the tree of delegation (S3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The run that started it.
    pub run: RunId,
    /// That run's task.
    pub task: TaskId,
    /// That run's agent.
    pub agent: AgentName,
    /// The call of `start_agent`.
    pub call: CallId,
    /// The run at the root of the tree.
    pub root_run: RunId,
    /// The root run's task.
    pub root_task: TaskId,
    /// How far below the root: 1 for a child of the root.
    pub depth: u32,
    /// What the root's principal had said by then: only that vouches for values, not what the
    /// parent's model wrote (S5.9).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// What the run may offer its model; the definitions are stored once under this id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsListed {
    /// Id of the definitions.
    pub set: ToolSetId,
    /// How many tools the set holds.
    pub count: u32,
}

/// A message of a person (or another system) into the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The text.
    pub text: String,
    /// The calls of `ask_person` that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<CallId>,
    /// The key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyKey>,
}

/// What the model thought, where the provider tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// The text.
    pub text: String,
    /// The provider's signature, needed to send the thinking back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// One model answer; its calls follow as [`ToolCall`]s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The think-and-call cycle, from 1.
    pub cycle: u32,
    /// The sequence number of the last step that the request was built from.
    pub seen: u64,
    /// The text; may be empty when the answer is calls only.
    pub text: String,
    /// How many calls follow.
    pub calls: u32,
    /// The model that answered, by its configured name.
    pub model: String,
    /// Its tokens.
    pub usage: Usage,
    /// What it costs; none if the model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// A call that the model proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our id of the call.
    pub call: CallId,
    /// The tool as registered, or what the model wrote if there is no such tool.
    pub tool: String,
    /// The tool as the model names it.
    pub model_name: String,
    /// The exact argument bytes, which are what is shown, hashed, approved and sent (S3.7).
    pub args: String,
    /// Digest of the tool's definition; none if there is no such tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Digest>,
}

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

/// Nobody has decided for a while: another group may decide as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalated {
    /// The call.
    pub call: CallId,
    /// Its approval.
    pub approval: ApprovalId,
    /// The group.
    pub group: String,
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

/// A call is about to be sent. Winning the append of this step is the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// The call.
    pub call: CallId,
    /// What runs; a difference to what was approved fails closed.
    pub digest: CallDigest,
    /// The rule that allowed it; none if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The approval that let it through; none if a rule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The worker that sends it.
    pub worker: WorkerId,
    /// Whether it may be sent again when its outcome is unknown (S4.5).
    pub idempotent: bool,
    /// Whether what it returns may be an outsider's words (S5.8).
    #[serde(default, skip_serializing_if = "is_false")]
    pub untrusted_output: bool,
    /// Whether what it returns is secret (S5.9).
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitive_output: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a tool is marked with, as far as a run has to know it when it calls the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Whether a call may be sent again when its outcome is unknown (S4.5).
    pub idempotent: bool,
    /// Whether what it returns may be an outsider's words: it lowers the run's trust (S5.8).
    pub untrusted_output: bool,
    /// Whether what it returns is secret (S5.9).
    pub sensitive_output: bool,
}

/// The run is trusted less from here on (S5.7, S5.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustLowered {
    /// The call whose result may be an outsider's words.
    pub call: CallId,
    /// Its tool as registered.
    pub tool: String,
    /// How far the run was trusted.
    pub from: Trust,
    /// How far it is trusted now.
    pub to: Trust,
}

/// Another worker goes on with a run whose lease was not given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOver {
    /// The new worker.
    pub worker: WorkerId,
    /// Its epoch.
    pub epoch: u64,
}

/// How a call ended, where it was not denied or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The tool answered.
    Ok,
    /// The tool answered with an error of its own.
    Error,
    /// The tool did not answer in time; it may have acted.
    Timeout,
    /// The arguments do not fit the tool's schema; nothing ran (S3.7).
    InvalidArguments,
    /// The role does not permit the operation; nothing ran (S3.9).
    PermissionDenied,
    /// What would run is not what was approved; nothing ran (S6.1).
    Mismatch,
    /// The tool could not be reached; nothing was sent.
    Unreachable,
    /// It was sent, the run has ended, and its worker was lost before it told what came of it.
    Unknown,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call.
    pub call: CallId,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// What the model is told.
    pub content: String,
    /// Bytes cut from the content (S3.8); zero if it is whole.
    #[serde(default)]
    pub cut_bytes: u64,
    /// Time from sending to the answer, in microseconds; zero if nothing was sent.
    #[serde(default)]
    pub took_micros: u64,
    /// Id of an artifact that the call made, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

/// The same call once too often: not executed, never held (S4.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatLoop {
    /// The call.
    pub call: CallId,
    /// The how-manieth identical call in a row it is.
    pub count: u32,
}

/// The run waits for a person's message (S1.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitingInput {
    /// The call of `ask_person`.
    pub call: CallId,
    /// The question.
    pub question: String,
}

/// A model was unavailable and the next of its chain was asked (S4.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailover {
    /// The unavailable model.
    pub from: String,
    /// The next one.
    pub to: String,
    /// Why, in a sentence.
    pub reason: String,
}

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

/// The namespace has spent what it may in a month (S4.6); the completion follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendingCap {
    /// The cap.
    pub cap: Money,
    /// What was spent when it was met.
    pub spent: Money,
    /// When the month, and with it the sum, begins anew.
    pub resets_at: Timestamp,
}

impl SpendingCap {
    /// The sentence that is the run's output.
    pub fn sentence(&self, namespace: &Namespace) -> String {
        let resets_at = self.resets_at.to_string();
        format!(
            "Stopped: the namespace {namespace} has spent {} of its monthly cap of {}; the cap resets on {} at 00:00 UTC.",
            self.spent,
            self.cap,
            resets_at.get(..10).unwrap_or_default()
        )
    }
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

/// A call of `start_agent` became a run of its own (S3.6); the parent waits for its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildStarted {
    /// The call.
    pub call: CallId,
    /// What was let through.
    pub digest: CallDigest,
    /// The rule that allowed it; none if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The approval that let it through; none if a rule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The new run.
    pub child: RunId,
    /// Its task.
    pub task: TaskId,
    /// Its agent.
    pub agent: AgentName,
    /// Its revision.
    pub revision: RevisionId,
    /// What it is asked.
    pub input: String,
    /// How far it is trusted at first: as far as its parent is then.
    pub trust: Trust,
}

/// A child has ended, and its output is the call's result (S3.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildFinished {
    /// The call.
    pub call: CallId,
    /// The child.
    pub child: RunId,
    /// What ended it.
    pub ended_by: EndedBy,
    /// What the parent's model is told: the child's output, or why there is none.
    pub content: String,
    /// How far it was trusted in the end.
    pub trust: Trust,
}

/// How a conversation was made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionKind {
    /// The content of older results was taken out.
    Prune,
    /// Older turns were replaced by a brief.
    Brief,
}

impl CompactionKind {
    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            CompactionKind::Prune => "prune",
            CompactionKind::Brief => "brief",
        }
    }
}

/// The conversation neared the model's context limit and was made smaller (S4.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// How.
    pub kind: CompactionKind,
    /// The last turn that is concerned: it, and those before it.
    pub upto: u32,
    /// Tokens of the request that was too large.
    pub tokens: u64,
    /// The brief that stands for those turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<String>,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its tokens.
    #[serde(default)]
    pub usage: Usage,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// No model could be asked: the run waits as `pending` and is retried by itself (S1.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryScheduled {
    /// The retry, counted like those by hand.
    pub attempt: u32,
    /// When it is due.
    pub due_at: Timestamp,
    /// The code of what went wrong.
    pub code: FailureCode,
    /// The underlying message.
    pub message: String,
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

/// A step could not be read.
#[derive(Debug, Error)]
pub enum StepError {
    /// A newer version of sayso wrote it.
    #[error("step type `{kind}` version {version} is not known to this version of sayso")]
    Unknown {
        /// The stored type.
        kind: String,
        /// The stored version.
        version: u16,
    },
    /// The content is not what its type says.
    #[error("the content of a `{kind}` step cannot be read")]
    Content {
        /// The step's type.
        kind: StepKind,
        /// What the decoder says.
        #[source]
        source: serde_json::Error,
    },
}

macro_rules! steps {
    ($($variant:ident($content:ident) = $word:literal v $version:literal),* $(,)?) => {
        /// One entry of a timeline.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Step {
            $(#[doc = concat!("`", $word, "`")] $variant($content),)*
        }

        /// The type of a step, as it is stored and shown.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum StepKind {
            $(#[doc = concat!("`", $word, "`")] $variant,)*
        }

        impl StepKind {
            /// Every type that this version knows.
            pub const ALL: &'static [StepKind] = &[$(StepKind::$variant),*];

            /// The stored word.
            pub const fn as_str(self) -> &'static str {
                match self { $(StepKind::$variant => $word),* }
            }

            /// The version that this code writes.
            pub const fn version(self) -> u16 {
                match self { $(StepKind::$variant => $version),* }
            }
        }

        impl Step {
            /// The type.
            pub const fn kind(&self) -> StepKind {
                match self { $(Step::$variant(_) => StepKind::$variant),* }
            }

            /// The content as the JSON object that is stored and hashed.
            pub fn encode(&self) -> String {
                let written = match self { $(Step::$variant(content) => serde_json::to_string(content)),* };
                written.expect("step contents hold only strings, numbers and lists of them")
            }

            /// Reads a stored step.
            pub fn decode(kind: &str, version: u16, content: &str) -> Result<Step, StepError> {
                match (kind, version) {
                    $(($word, $version) => serde_json::from_str(content)
                        .map(Step::$variant)
                        .map_err(|source| StepError::Content { kind: StepKind::$variant, source }),)*
                    _ => Err(StepError::Unknown { kind: kind.to_owned(), version }),
                }
            }
        }
    };
}

steps! {
    TriggerReceived(TriggerReceived) = "trigger_received" v 1,
    ToolsListed(ToolsListed) = "tools_listed" v 1,
    UserMessage(UserMessage) = "user_message" v 1,
    Thinking(Thinking) = "thinking" v 1,
    AssistantMessage(AssistantMessage) = "assistant_message" v 1,
    ToolCall(ToolCall) = "tool_call" v 1,
    ToolBlocked(ToolBlocked) = "tool_blocked" v 1,
    AwaitingApproval(AwaitingApproval) = "awaiting_approval" v 1,
    ToolEdited(ToolEdited) = "tool_edited" v 1,
    VoteCast(VoteCast) = "vote_cast" v 1,
    Escalated(Escalated) = "escalated" v 1,
    ToolApproved(ToolApproved) = "tool_approved" v 1,
    ToolDenied(ToolDenied) = "tool_denied" v 1,
    ToolStarted(ToolStarted) = "tool_started" v 1,
    TrustLowered(TrustLowered) = "trust_lowered" v 1,
    TakenOver(TakenOver) = "taken_over" v 1,
    ToolResult(ToolResult) = "tool_result" v 1,
    RepeatLoop(RepeatLoop) = "repeat_loop" v 1,
    AwaitingInput(AwaitingInput) = "awaiting_input" v 1,
    ChildStarted(ChildStarted) = "child_started" v 1,
    ChildFinished(ChildFinished) = "child_finished" v 1,
    Compaction(Compaction) = "compaction" v 1,
    ModelFailover(ModelFailover) = "model_failover" v 1,
    SpendingCap(SpendingCap) = "spending_cap" v 1,
    Completion(Completion) = "completion" v 1,
    Failed(Failed) = "error" v 1,
    RetryScheduled(RetryScheduled) = "retry_scheduled" v 1,
    Retried(Retried) = "retried" v 1,
    Cancelled(Cancelled) = "cancelled" v 1,
}

impl StepKind {
    /// Whether the chain's head is sealed with the key that the database does not have: at steps
    /// where the run pauses or ends (S2.3).
    pub const fn is_sealed(self) -> bool {
        matches!(
            self,
            StepKind::AwaitingApproval
                | StepKind::AwaitingInput
                | StepKind::RetryScheduled
                | StepKind::Completion
                | StepKind::Failed
                | StepKind::Cancelled
        )
    }
}

impl std::fmt::Display for StepKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2.2: what this version does not know is told apart from what is broken.
    #[test]
    fn an_unknown_type_or_version_is_not_a_broken_step() {
        assert!(matches!(
            Step::decode("dream", 1, "{}"),
            Err(StepError::Unknown { .. })
        ));
        assert!(matches!(
            Step::decode("retried", 2, "{}"),
            Err(StepError::Unknown { .. })
        ));
        assert!(matches!(
            Step::decode("retried", 1, "{}"),
            Err(StepError::Content { .. })
        ));
        assert_eq!(
            Step::decode("retried", 1, r#"{"attempt":1,"later":true}"#).unwrap(),
            Step::Retried(Retried { attempt: 1 })
        );
    }

    /// S3.7: argument bytes come back as they went in, however odd.
    #[test]
    fn exact_argument_bytes_survive_storage() {
        let args = "{\"amount\": 1.10,\n \"n\":123456789012345678901234567890, \"s\":\"\\u00e9é\u{202e}\"}";
        let step = Step::ToolCall(ToolCall {
            call: CallId::of(1, 1),
            tool: "shop.refund".into(),
            model_name: "shop_refund".into(),
            args: args.into(),
            definition: None,
        });
        let read = Step::decode("tool_call", 1, &step.encode()).unwrap();
        assert_eq!(read, step);
    }
}

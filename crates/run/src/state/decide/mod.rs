//! What comes from outside, and whether the run takes it.
//!
//! `decide` answers with the steps that an input causes, in order, each with its actor; the caller
//! appends them at the sequence number of the state that decided. If that append meets a conflict,
//! the caller folds the new steps and decides again: nothing is locked while anyone thinks.

mod answer;
mod calls;
mod compact;
mod delegate;
mod people;
mod summary;
mod worker;

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Refusal, RunState};
use crate::actor::Actor;
use crate::digest::{CallDigest, Digest};
use crate::id::{
    AgentName, ApprovalId, CallId, PrincipalId, RevisionId, RunId, ToolSetId, WorkerId,
};
use crate::money::Money;
use crate::origin::ArgumentOrigin;
use crate::quorum::{OpenVote, Quorum};
use crate::step::{
    Compaction, CompactionKind, EndedBy, IdempotencyKey, Marks, ModelFailover, Source, SpendingCap,
    Step, Thinking, ToolOutcome, TriggerReceived, Trust, Usage, Verdict,
};
use crate::time::Timestamp;
use crate::{failure::FailureCode, limits};

/// What a run is asked to take in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A worker listed the tools.
    ToolsListed {
        /// Id of the definitions.
        set: ToolSetId,
        /// How many there are.
        count: u32,
    },
    /// A worker claimed the run over a lease that was not given back.
    TakenOver {
        /// The worker.
        worker: WorkerId,
        /// Its epoch.
        epoch: u64,
    },
    /// A model answered.
    Answer(Answer),
    /// No model could be asked.
    ModelFailed(ModelFailure),
    /// The namespace has spent what it may: the run completes instead of asking (S4.6).
    SpendingCap(SpendingCap),
    /// Calls were judged, in order; those allowed are started by the worker.
    Judged {
        /// One judgement a call.
        judgements: Vec<Judgement>,
        /// The worker that starts what is allowed.
        worker: WorkerId,
        /// How long an approval waits (S6.8).
        approval_timeout: Duration,
    },
    /// A worker is about to send an approved call, or an idempotent one again.
    Execute {
        /// The call.
        call: CallId,
        /// The worker.
        worker: WorkerId,
        /// What its tool is marked with.
        marks: Marks,
    },
    /// An approved call cannot be sent any more: it is answered with why (S3.6, S3.9).
    Withhold {
        /// The call.
        call: CallId,
        /// The kind of reason.
        outcome: ToolOutcome,
        /// The reason, for the model.
        message: String,
    },
    /// An approved call of `start_agent` becomes a run of its own (S3.6).
    Delegate {
        /// The call.
        call: CallId,
        /// The new run.
        child: NewChild,
    },
    /// A run that this one started has ended.
    ChildEnded(ChildEnd),
    /// The run that started this one has ended, so nobody waits for it any more.
    ParentEnded {
        /// Whoever cancelled that run, or the system.
        by: Actor,
    },
    /// The content of older results is taken out of the conversation (S4.4).
    Prune {
        /// The last turn that is concerned.
        upto: u32,
        /// Tokens of the request that was too large.
        tokens: u64,
    },
    /// A brief takes the place of older turns (S4.4).
    Brief {
        /// The last turn that it stands for.
        upto: u32,
        /// Tokens of the request that was too large.
        tokens: u64,
        /// The brief.
        text: String,
        /// The model that wrote it.
        model: String,
        /// Its tokens.
        usage: Usage,
        /// What it costs.
        cost: Option<Money>,
    },
    /// A model has put a held call into one sentence for the reviewer (S6.2).
    Summarised(Summarised),
    /// What came of a sent call.
    Output(ToolOutput),
    /// No worker has gone on with the run for too long (S4.5).
    Reap {
        /// Who says so, in place of a worker.
        worker: WorkerId,
        /// The sentence for people.
        message: String,
    },
    /// The run has ended, and the worker that has sent calls of it was lost: what came of them is
    /// unknown (S4.5).
    Lost,
    /// The run cannot go on.
    Fail {
        /// The stable code.
        code: FailureCode,
        /// The underlying message.
        message: String,
    },
    /// The interruption that [`crate::Effect::Interrupt`] owes.
    Interrupt,
    /// The completion that [`crate::Effect::Complete`] owes.
    Complete,
    /// The same where [`RunState::unanswered`] is left to the conversation's next run.
    Continue {
        /// The agent's revision now.
        revision: RevisionId,
    },
    /// A person decides, writes, or both.
    Respond(Response),
    /// A message comes, and nothing is decided with it.
    Say(Saying),
    /// A person cancels.
    Cancel {
        /// Who.
        by: PrincipalId,
        /// Why, if they say so.
        reason: Option<String>,
        /// The key of the request.
        idempotency: Option<IdempotencyKey>,
    },
    /// A person retries.
    Retry {
        /// Who.
        by: PrincipalId,
    },
    /// Time has passed.
    Tick,
}

/// A start: the run's id and its first step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The id of the new run.
    pub run: RunId,
    /// What started it.
    pub trigger: TriggerReceived,
}

impl Start {
    /// The first step, or why the start is refused.
    pub fn decide(&self) -> Result<(Actor, Step), Refusal> {
        check_text(&self.trigger.input)?;
        let actor = match self.trigger.source {
            Source::Start | Source::Chat | Source::A2a => {
                Actor::Principal(self.trigger.principal.clone())
            }
            // Nobody asked now; the principal is who stands behind the trigger (S6.10).
            Source::Cron | Source::Webhook => Actor::System,
            Source::Agent => match &self.trigger.parent {
                Some(parent) => Actor::Agent(parent.agent.clone()),
                None => return Err(Refusal::Stale("no agent started it")),
            },
        };
        Ok((actor, Step::TriggerReceived(self.trigger.clone())))
    }
}

/// One model answer, complete to its last byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The cycle that was asked for.
    pub cycle: u32,
    /// Sequence number of the state that the request was built from.
    pub seen: u64,
    /// Models that were unavailable on the way, in order.
    pub failovers: Vec<ModelFailover>,
    /// The thinking, where the provider tells.
    pub thinking: Vec<Thinking>,
    /// The text.
    pub text: String,
    /// The calls, in order.
    pub calls: Vec<Proposed>,
    /// The model that answered.
    pub model: String,
    /// Its tokens.
    pub usage: Usage,
    /// What it costs; none if the model has no price.
    pub cost: Option<Money>,
}

/// A call in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    /// The tool as registered, or what the model wrote if there is no such tool.
    pub tool: String,
    /// The tool as the model wrote it.
    pub model_name: String,
    /// The exact argument bytes.
    pub args: String,
    /// Digest of the tool's definition; none if there is no such tool.
    pub definition: Option<Digest>,
}

/// Every model of the tier's chain failed, or one refused for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFailure {
    /// The cycle that was asked for.
    pub cycle: u32,
    /// Models that were unavailable on the way.
    pub failovers: Vec<ModelFailover>,
    /// The stable code.
    pub code: FailureCode,
    /// The underlying message.
    pub message: String,
    /// The provider's name, if it refused for money: the run then completes (S4.6).
    pub billing: Option<String>,
}

/// What policy, schema and role say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The call.
    pub call: CallId,
    /// What they say.
    pub ruling: Ruling,
    /// Its arguments as people may see them, where that differs from what is sent (S3.10).
    pub shown: Option<String>,
}

/// The ruling on one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// It runs at once.
    Allow {
        /// The rule or setting that allowed it.
        rule: String,
        /// What its tool is marked with.
        marks: Marks,
    },
    /// It starts another agent at once (S3.6).
    Delegate {
        /// The rule or setting that allowed it.
        rule: String,
        /// The new run.
        child: NewChild,
    },
    /// A person decides.
    Ask {
        /// The rule or setting that asked.
        rule: String,
        /// Why, in one sentence.
        reason: String,
        /// What it takes to approve it.
        quorum: Quorum,
        /// Where each value of its arguments came from.
        origins: Vec<ArgumentOrigin>,
    },
    /// It is a question to a person (S1.8).
    AskPerson {
        /// The question.
        question: String,
    },
    /// A rule denies it (S5.6).
    Deny {
        /// The rule.
        rule: String,
        /// Why, in one sentence.
        reason: String,
    },
    /// It was never granted, or there is no such tool (S5.6).
    NotGranted,
    /// Its arguments do not fit the schema (S3.7).
    InvalidArguments {
        /// What is wrong, for the model.
        message: String,
    },
    /// The role does not permit it (S3.9).
    PermissionDenied {
        /// Names role and operation, for the model.
        message: String,
    },
}

/// A model's sentence on a held call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summarised {
    /// The approval.
    pub approval: ApprovalId,
    /// What the model was shown.
    pub digest: CallDigest,
    /// What it wrote.
    pub text: String,
    /// The model.
    pub model: String,
    /// Its tokens.
    pub usage: Usage,
    /// What they cost.
    pub cost: Option<Money>,
}

/// A run that a call of `start_agent` becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChild {
    /// Its agent.
    pub agent: AgentName,
    /// The agent's revision now.
    pub revision: RevisionId,
    /// What it is asked.
    pub input: String,
}

/// How a run that another one started has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnd {
    /// The run.
    pub run: RunId,
    /// What ended it.
    pub ended_by: EndedBy,
    /// Its output, or the message of its failure.
    pub text: String,
    /// How far it was trusted in the end.
    pub trust: Trust,
}

/// What came of a sent call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// The call.
    pub call: CallId,
    /// The worker that sent it.
    pub worker: WorkerId,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// What the model is told, already cut (S3.8).
    pub content: String,
    /// Bytes that were cut.
    pub cut_bytes: u64,
    /// From sending to the answer, in microseconds.
    pub took_micros: u64,
    /// Id of an artifact that the call made.
    pub artifact: Option<String>,
}

/// A message to a run, with how far whoever wrote it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saying {
    /// Who sends it.
    pub by: PrincipalId,
    /// The text.
    pub text: String,
    /// How far whoever wrote it is trusted: a run that takes it in is trusted no further (S5.7).
    pub trust: Trust,
    /// Who wrote it, if somebody outside did.
    pub outside: Option<String>,
    /// The key of the request.
    pub idempotency: Option<IdempotencyKey>,
}

/// A person's response to a run: decisions, a message, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Who.
    pub by: PrincipalId,
    /// The decisions; all are taken, or none.
    pub decisions: Vec<DecisionItem>,
    /// A message to the agent.
    pub message: Option<String>,
    /// Whether the run goes on without what stays undecided; a message always makes it go on.
    pub goes_on: bool,
    /// The sequence number that the person saw; needed for decisions by tool (S6.4).
    pub seen: Option<u64>,
    /// The key of the request.
    pub idempotency: Option<IdempotencyKey>,
    /// What votes need, where it takes several people.
    pub ballot: Ballot,
}

/// What a vote needs that the timeline does not have (S6.12).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ballot {
    /// The groups that the person is in now.
    pub groups: BTreeSet<String>,
    /// Seals what the person says, if it does not decide: random.
    pub salt: String,
    /// What was said with the votes that were cast before, by approval.
    pub votes: Vec<(ApprovalId, OpenVote)>,
}

/// One decision of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionItem {
    /// What is decided.
    pub target: Target,
    /// How.
    pub decision: Decision,
}

/// What a decision names (S6.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One approval.
    Approval(ApprovalId),
    /// One call.
    Call(CallId),
    /// Every call of this tool that was pending when the person looked.
    Tool(String),
}

/// Approve or deny, with a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Which.
    pub verdict: Verdict,
    /// Why, if the person says so.
    pub reason: Option<String>,
    /// What the person saw; without it a decision counts for what the model proposed, not for what
    /// somebody else has made of it since.
    pub saw: Option<CallDigest>,
    /// What the person makes of the call, if it is to run otherwise than proposed (S6.7).
    pub edit: Option<Edit>,
}

impl Decision {
    /// A decision on what the model proposed.
    pub const fn new(verdict: Verdict, reason: Option<String>) -> Self {
        Self {
            verdict,
            reason,
            saw: None,
            edit: None,
        }
    }
}

/// A call's arguments as a person wants them, judged already (S6.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The exact argument bytes.
    pub args: String,
    /// The same as people may see them, where that differs (S3.10).
    pub shown: Option<String>,
    /// Where each value came from.
    pub origins: Vec<ArgumentOrigin>,
    /// What it takes to approve it, where the rules ask; none if they would let it through.
    pub quorum: Option<Quorum>,
    /// Sequence number of the state that it was judged in: it holds for that one alone.
    pub judged_at: u64,
}

/// Steps that an input causes, each with who made it happen.
pub(crate) type Caused = Vec<(Actor, Step)>;

impl RunState {
    /// Takes an input, or refuses it. `now` is the database's time.
    pub fn decide(&self, input: Input, now: Timestamp) -> Result<Vec<(Actor, Step)>, Refusal> {
        match input {
            Input::ToolsListed { set, count } => self.tools_listed(set, count),
            Input::TakenOver { worker, epoch } => self.takes_over(worker, epoch),
            Input::Answer(answer) => self.answered(answer, now),
            Input::ModelFailed(failure) => self.model_failed(failure, now),
            Input::SpendingCap(met) => self.capped(met, now),
            Input::Judged {
                judgements,
                worker,
                approval_timeout,
            } => self.judged(judgements, &worker, now.plus(approval_timeout)),
            Input::Execute {
                call,
                worker,
                marks,
            } => self.executes(call, worker, marks),
            Input::Delegate { call, child } => self.delegates(call, child),
            Input::ChildEnded(end) => self.child_ended(end),
            Input::ParentEnded { by } => self.parent_ended(&by),
            Input::Prune { upto, tokens } => self.prunes(upto, tokens),
            Input::Brief {
                upto,
                tokens,
                text,
                model,
                usage,
                cost,
            } => self.takes_brief(Compaction {
                kind: CompactionKind::Brief,
                upto,
                tokens,
                brief: Some(text),
                model: Some(model),
                usage,
                cost,
            }),
            Input::Withhold {
                call,
                outcome,
                message,
            } => self.withheld(call, outcome, message),
            Input::Summarised(summarised) => self.summarised(summarised),
            Input::Output(output) => self.output_of(output),
            Input::Lost => self.lost(),
            Input::Fail { code, message } => self.fails(code, message),
            Input::Reap { worker, message } => self.reaped(worker, message),
            Input::Interrupt => self.interrupted(),
            Input::Complete => self.completes(now),
            Input::Continue { revision } => self.continues(revision, now),
            Input::Respond(response) => self.responded(response, now),
            Input::Say(saying) => self.told(saying),
            Input::Cancel {
                by,
                reason,
                idempotency,
            } => self.cancels(by, reason, idempotency),
            Input::Retry { by } => self.retries_by(by),
            Input::Tick => Ok(self.ticked(now)),
        }
    }

    fn agent(&self) -> Actor {
        Actor::Agent(self.trigger.agent.clone())
    }

    fn check_live(&self) -> Result<(), Refusal> {
        if self.end.is_some() {
            Err(Refusal::Terminal(self.status()))
        } else {
            Ok(())
        }
    }
}

fn check_text(text: &str) -> Result<(), Refusal> {
    if text.len() > limits::MAX_TEXT_BYTES {
        return Err(Refusal::TooLong { bytes: text.len() });
    }
    if text.contains('\0') {
        return Err(Refusal::HoldsNul);
    }
    Ok(())
}

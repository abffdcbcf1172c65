//! Starting other agents (S3.6): a call of `start_agent` becomes a run of its own, and that run's end
//! is the call's result.

use super::{Caused, ChildEnd, NewChild};
use crate::actor::Actor;
use crate::id::{CallId, RunId, TaskId};
use crate::state::{Call, End, Phase, Refusal, RunState};
use crate::step::{
    Cancelled, ChildFinished, ChildStarted, DenyCause, EndedBy, Step, Trust, TrustLowered,
};

impl RunState {
    /// An approved call of `start_agent` becomes a run.
    pub(super) fn delegates(&self, id: CallId, child: NewChild) -> Result<Caused, Refusal> {
        self.check_live()?;
        match self.call(&id) {
            Some(call) if call.phase == Phase::Cleared => {
                Ok(vec![delegated(&self.run, call, child, None, self.trust)])
            }
            Some(_) | None => Err(Refusal::CallNotOpen {
                call: id,
                why: "it is not approved and waiting to be started",
            }),
        }
    }

    /// A child's end is a fact, taken once by a call that waits for it, also after the parent's end; a
    /// failed parent takes it once it is retried. What a child says that has read an outsider's words
    /// is as little trusted as the child was.
    pub(super) fn child_ended(&self, end: ChildEnd) -> Result<Caused, Refusal> {
        if matches!(self.end, Some(End::Failed(_))) {
            return Err(Refusal::Terminal(self.status()));
        }
        let is_child = |call: &&Call| {
            call.phase == Phase::Delegated
                && call
                    .child
                    .as_ref()
                    .is_some_and(|child| child.run == end.run)
        };
        let Some(call) = self.calls.iter().find(is_child) else {
            return Err(Refusal::Stale("no call waits for this run"));
        };
        let content = match end.ended_by {
            EndedBy::Answer
            | EndedBy::MaxCycles
            | EndedBy::SpendingCap
            | EndedBy::ProviderBilling => end.text,
            EndedBy::Error => format!("the run {} failed: {}", end.run, end.text),
            EndedBy::Cancelled => format!("the run {} was cancelled", end.run),
        };
        let finished = ChildFinished {
            call: call.id.clone(),
            child: end.run,
            ended_by: end.ended_by,
            content,
            trust: end.trust,
        };
        let mut caused = vec![(Actor::System, Step::ChildFinished(finished))];
        if self.end.is_none() && end.trust < self.trust {
            let lowered = TrustLowered {
                call: Some(call.id.clone()),
                tool: call.tool.clone(),
                from: self.trust,
                to: end.trust,
            };
            caused.push((Actor::System, Step::TrustLowered(lowered)));
        }
        Ok(caused)
    }

    /// Nobody waits for this run any more: it is cancelled, in the name of whoever cancelled the one that
    /// did (S1.4).
    pub(super) fn parent_ended(&self, by: &Actor) -> Result<Caused, Refusal> {
        self.check_live()?;
        let Some(parent) = &self.trigger.parent else {
            return Err(Refusal::Stale("no run started it"));
        };
        let reason = format!("the run {} that started it has ended", parent.run);
        let mut caused = self.close_open(DenyCause::Cancelled, by, Some(&reason));
        let cancelled = Cancelled {
            reason: Some(reason),
            idempotency: None,
        };
        caused.push((by.clone(), Step::Cancelled(cancelled)));
        Ok(caused)
    }
}

/// A call becomes a run: let through by a rule, or else by the person who approved it.
pub(super) fn delegated(
    parent: &RunId,
    call: &Call,
    child: NewChild,
    rule: Option<String>,
    trust: Trust,
) -> (Actor, Step) {
    let approval = match &rule {
        Some(_) => None,
        None => call.approval.as_ref().map(|approval| approval.id.clone()),
    };
    let started = ChildStarted {
        call: call.id.clone(),
        digest: call.digest,
        rule,
        approval,
        child: RunId::of_child(parent, &call.id),
        task: TaskId::of_child(parent, &call.id),
        agent: child.agent,
        revision: child.revision,
        input: child.input,
        trust,
    };
    (Actor::System, Step::ChildStarted(started))
}

//! Folding: history cannot be argued with. A step that cannot have happened makes the timeline
//! corrupt, which stops the run loudly; it is never skipped.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Call, Clearance, End, Entry, Finished, Lowered, Outcome, Phase, RunState, Words};
use crate::actor::Actor;
use crate::chain::{Head, Recorded};
use crate::digest::{CallDigest, Digest, Fingerprint};
use crate::id::{CallId, PrincipalId, RunId};
use crate::money::Money;
use crate::step::{
    AssistantMessage, Cancelled, Step, ToolCall, ToolResult, ToolStarted, TrustLowered, Usage,
    UserMessage,
};
use crate::time::Timestamp;

/// A timeline that cannot have come about.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the timeline of {run} is corrupt at step {seq}: {why}")]
pub struct Corrupt {
    /// The run.
    pub run: RunId,
    /// The step that does not fit.
    pub seq: u64,
    /// Why it does not.
    pub why: String,
}

impl RunState {
    /// The state after the first step.
    pub fn begin(run: RunId, first: &Recorded) -> Result<Self, Corrupt> {
        let Step::TriggerReceived(trigger) = &first.step else {
            return Err(Corrupt {
                run,
                seq: first.seq,
                why: "it does not begin with `trigger_received`".into(),
            });
        };
        if first.seq != 1 {
            return Err(Corrupt {
                run,
                seq: first.seq,
                why: "its first step is not number 1".into(),
            });
        }
        Ok(Self {
            run,
            head: first.head(),
            started_at: first.at,
            begun: false,
            tools: None,
            end: None,
            ended_at: None,
            cycles: 0,
            usage: Usage::default(),
            cost: None,
            retries: 0,
            automatic_retries: 0,
            scheduled: None,
            measured: None,
            pruned_upto: 0,
            brief: None,
            takeovers: 0,
            resumed_seq: 0,
            worker: None,
            calls: Vec::new(),
            call_index: BTreeMap::new(),
            seen: Vec::new(),
            unseen: vec![(1, Entry::User(trigger.input.clone()))],
            thinking: Vec::new(),
            announced: 0,
            goes_on: false,
            keys: BTreeMap::new(),
            trust: trigger.trust,
            trust_lowered: None,
            secret_read: false,
            words: Vec::new(),
            trigger: trigger.clone(),
        })
    }

    /// The state after a whole timeline; `None` if there are no steps.
    pub fn fold<'a>(
        run: &RunId,
        steps: impl IntoIterator<Item = &'a Recorded>,
    ) -> Result<Option<Self>, Corrupt> {
        let mut steps = steps.into_iter();
        let Some(first) = steps.next() else {
            return Ok(None);
        };
        let mut state = Self::begin(run.clone(), first)?;
        for step in steps {
            state.apply(step)?;
        }
        Ok(Some(state))
    }

    /// Takes the next step of the timeline.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<(), Corrupt> {
        let corrupt = |run: &RunId, why: String| Corrupt {
            run: run.clone(),
            seq: recorded.seq,
            why,
        };
        if recorded.seq != self.head.seq + 1 {
            return Err(corrupt(
                &self.run,
                format!("step {} was expected", self.head.seq + 1),
            ));
        }
        let was_terminal = self.end.is_some();
        self.head = Head {
            seq: recorded.seq,
            at: recorded.at,
            hash: recorded.hash,
        };
        self.apply_step(recorded)
            .map_err(|why| corrupt(&self.run, why))?;
        let is_late = matches!(recorded.step, Step::ToolResult(_) | Step::ChildFinished(_));
        if was_terminal && self.end.is_some() && !is_late {
            return Err(corrupt(
                &self.run,
                format!("`{}` after the end", recorded.step.kind()),
            ));
        }
        Ok(())
    }

    fn apply_step(&mut self, recorded: &Recorded) -> Result<(), String> {
        let (seq, at) = (recorded.seq, recorded.at);
        match &recorded.step {
            Step::TriggerReceived(_) => return Err("a second `trigger_received`".into()),
            Step::ToolsListed(listed) => {
                self.begun = true;
                self.tools = Some(listed.set.clone());
            }
            Step::UserMessage(message) => self.user_message(&recorded.actor, message, seq)?,
            Step::Thinking(thinking) => self.thinking.push(thinking.clone()),
            Step::AssistantMessage(message) => self.assistant_message(message)?,
            Step::ToolCall(call) => self.tool_call(call, at)?,
            Step::ToolBlocked(blocked) => self.tool_blocked(blocked, seq, at)?,
            Step::ToolEdited(edited) => self.tool_edited(&recorded.actor, edited, seq)?,
            Step::VoteCast(vote) => self.vote_cast(&recorded.actor, vote, at)?,
            Step::Escalated(escalated) => self.escalated(escalated)?,
            Step::SummaryWritten(written) => self.summary_written(written)?,
            Step::ToolApproved(approved) => self.tool_approved(&recorded.actor, approved, at)?,
            Step::ToolDenied(denied) => self.tool_denied(&recorded.actor, denied, seq, at)?,
            Step::ToolStarted(started) => self.tool_started(started, seq)?,
            Step::TrustLowered(lowered) => self.trust_lowered(lowered, seq)?,
            Step::TakenOver(taken) => {
                self.resumed_seq = seq;
                self.taken_over(taken);
            }
            Step::ToolResult(result) => self.tool_result(result, seq)?,
            Step::RepeatLoop(repeated) => {
                let outcome = Outcome::RepeatLoop {
                    count: repeated.count,
                };
                self.finish(&repeated.call, outcome, seq)?;
            }
            Step::ChildStarted(started) => self.child_started(started, seq)?,
            Step::ChildFinished(finished) => self.child_finished(finished, seq)?,
            Step::Compaction(compaction) => self.compacted(compaction)?,
            // What is waited for follows from the calls; these tell people.
            Step::AwaitingApproval(_) | Step::ModelFailover(_) | Step::SpendingCap(_) => {}
            Step::AwaitingInput(asked) => {
                self.call_in(&asked.call, |phase| matches!(phase, Phase::Proposed))?
                    .phase = Phase::Asked;
            }
            Step::Completion(completion) => {
                let end = End::Completed {
                    output: completion.output.clone(),
                    ended_by: completion.ended_by,
                };
                self.ended(end, at);
            }
            Step::Failed(failed) => {
                for id in &failed.unknown {
                    let call = self.call_in(id, |phase| matches!(phase, Phase::Unknown { .. }))?;
                    call.unknown = true;
                    if call.placeheld.is_some() {
                        self.unseen.push((seq, Entry::UnknownOutcome(id.clone())));
                    }
                }
                self.ended(End::Failed(failed.clone()), at);
            }
            Step::Cancelled(cancelled) => self.cancelled(&recorded.actor, cancelled, at),
            Step::RetryScheduled(retry) => {
                self.automatic_retries += 1;
                self.scheduled = Some((retry.attempt, retry.due_at));
            }
            Step::Retried(retried) => {
                let failed = matches!(self.end, Some(End::Failed(_)));
                if !failed && self.scheduled.take().is_none() {
                    return Err("`retried` although it had not failed".into());
                }
                self.retries = retried.attempt;
                self.resumed_seq = seq;
                self.takeovers = 0;
                self.end = None;
                self.ended_at = None;
            }
        }
        Ok(())
    }

    fn user_message(
        &mut self,
        actor: &Actor,
        message: &UserMessage,
        seq: u64,
    ) -> Result<(), String> {
        if let (Actor::Principal(by), Some(key)) = (actor, &message.idempotency) {
            self.keys
                .insert((by.to_string(), key.key.clone()), key.clone());
        }
        for call in &message.answers {
            let outcome = Outcome::Result {
                outcome: crate::step::ToolOutcome::Ok,
                content: message.text.clone(),
            };
            self.finish(call, outcome, seq)?;
        }
        if let Actor::Principal(by) = actor {
            self.words.push(Words {
                seq,
                by: by.clone(),
                text: message.text.clone(),
            });
        }
        if message.answers.is_empty() {
            let entry = Entry::User(message.text.clone());
            self.unseen.push((seq, entry));
        }
        self.goes_on = true;
        Ok(())
    }

    fn cancelled(&mut self, actor: &Actor, cancelled: &Cancelled, at: Timestamp) {
        if let (Actor::Principal(by), Some(key)) = (actor, &cancelled.idempotency) {
            self.keys
                .insert((by.to_string(), key.key.clone()), key.clone());
        }
        self.ended(End::Cancelled(actor.clone()), at);
    }

    fn ended(&mut self, end: End, at: Timestamp) {
        self.begun = true;
        self.scheduled = None;
        self.ended_at = Some(at);
        self.end = Some(end);
    }

    /// Moves what the request showed the model before the answer, keeps the rest for the next
    /// request, and gives every call of the answer before that had no result in the request its
    /// placeholder (S4.8, S6.5).
    fn assistant_message(&mut self, message: &AssistantMessage) -> Result<(), String> {
        if message.cycle != self.cycles + 1 {
            return Err(format!(
                "answer {} after {} cycles",
                message.cycle, self.cycles
            ));
        }
        if self.announced > 0 {
            return Err(format!(
                "{} calls of the answer before are missing",
                self.announced
            ));
        }
        let mut late = Vec::new();
        for call in self
            .calls
            .iter_mut()
            .filter(|call| call.placeheld.is_none())
        {
            match &call.phase {
                Phase::Finished(finished) if finished.seq <= message.seen => {}
                Phase::Finished(finished) => {
                    call.placeheld = Some(call.placeholder());
                    late.push((finished.seq, Entry::LateResult(call.id.clone())));
                }
                Phase::Proposed
                | Phase::Held
                | Phase::Asked
                | Phase::Cleared
                | Phase::Started { .. }
                | Phase::Delegated
                | Phase::Unknown { .. } => {
                    call.placeheld = Some(call.placeholder());
                }
            }
        }
        self.unseen.extend(late);
        self.unseen.sort_by_key(|(seq, _)| *seq);
        let still_unseen = self
            .unseen
            .split_off(self.unseen.partition_point(|(seq, _)| *seq <= message.seen));
        let shown = std::mem::replace(&mut self.unseen, still_unseen);
        self.seen.extend(shown.into_iter().map(|(_, entry)| entry));
        self.seen.push(Entry::Assistant {
            text: message.text.clone(),
            model: message.model.clone(),
            thinking: std::mem::take(&mut self.thinking),
            calls: Vec::new(),
        });
        self.announced = message.calls;
        self.cycles = message.cycle;
        self.measured = Some(message.usage);
        self.spend(message.usage, message.cost);
        self.takeovers = 0;
        self.goes_on = !self.unseen.is_empty();
        Ok(())
    }

    /// Counts what a model used and cost.
    pub(super) fn spend(&mut self, usage: Usage, cost: Option<Money>) {
        self.usage += usage;
        self.cost = match (self.cost, cost) {
            (Some(sum), Some(cost)) => Some(sum.plus(cost).unwrap_or(sum)),
            (sum, cost) => sum.or(cost),
        };
    }

    fn tool_call(&mut self, step: &ToolCall, at: Timestamp) -> Result<(), String> {
        let Some(Entry::Assistant { calls, .. }) = self.seen.last_mut() else {
            return Err("a call without an answer".into());
        };
        if self.announced == 0 || self.call_index.contains_key(&step.call) {
            return Err(format!("{} was not announced", step.call));
        }
        calls.push(step.call.clone());
        self.announced -= 1;
        let definition = step.definition.unwrap_or(Digest::ZERO);
        self.call_index.insert(step.call.clone(), self.calls.len());
        self.calls.push(Call {
            id: step.call.clone(),
            cycle: self.cycles,
            tool: step.tool.clone(),
            model_name: step.model_name.clone(),
            args: step.args.clone(),
            definition: step.definition,
            digest: CallDigest::of(&self.run, &step.call, &step.tool, &definition, &step.args),
            fingerprint: Fingerprint::of(&step.tool, &step.args),
            proposed_at: at,
            phase: Phase::Proposed,
            edited: None,
            clearance: None,
            approval: None,
            started_seq: None,
            sent_by: None,
            child: None,
            untrusted_output: false,
            unknown: false,
            placeheld: None,
        });
        Ok(())
    }

    fn tool_started(&mut self, step: &ToolStarted, seq: u64) -> Result<(), String> {
        let person_needed = step.approval.is_some();
        let call = self.call_in(&step.call, |phase| match phase {
            Phase::Proposed => !person_needed,
            Phase::Cleared => person_needed,
            Phase::Unknown { idempotent, .. } => *idempotent,
            Phase::Held
            | Phase::Asked
            | Phase::Started { .. }
            | Phase::Delegated
            | Phase::Finished(_) => false,
        })?;
        if call.digest != step.digest {
            return Err(format!(
                "what started as {} is not what was let through",
                step.call
            ));
        }
        if let Some(rule) = &step.rule {
            call.clearance = Some(Clearance::Rule(rule.clone()));
        }
        call.phase = Phase::Started {
            worker: step.worker.clone(),
            idempotent: step.idempotent,
        };
        call.started_seq.get_or_insert(seq);
        call.sent_by = Some(step.worker.clone());
        call.untrusted_output = step.untrusted_output;
        self.secret_read |= step.sensitive_output;
        self.worker = Some(step.worker.clone());
        Ok(())
    }

    fn trust_lowered(&mut self, step: &TrustLowered, seq: u64) -> Result<(), String> {
        if step.to >= self.trust {
            return Err("trust is only ever lowered".into());
        }
        if self.call(&step.call).is_none() {
            return Err(format!("trust was lowered by the unknown {}", step.call));
        }
        self.trust = step.to;
        self.trust_lowered = Some(Lowered {
            call: step.call.clone(),
            seq,
        });
        Ok(())
    }

    fn taken_over(&mut self, step: &crate::step::TakenOver) {
        self.worker = Some(step.worker.clone());
        self.takeovers += 1;
        for call in &mut self.calls {
            if let Phase::Started { worker, idempotent } = &call.phase {
                call.phase = Phase::Unknown {
                    worker: worker.clone(),
                    idempotent: *idempotent,
                };
            }
        }
    }

    fn tool_result(&mut self, step: &ToolResult, seq: u64) -> Result<(), String> {
        let outcome = Outcome::Result {
            outcome: step.outcome,
            content: step.content.clone(),
        };
        self.takeovers = 0;
        self.finish(&step.call, outcome, seq)
    }

    /// Settles a call. If the model was told that it has no result, the result becomes a note.
    pub(super) fn finish(&mut self, id: &CallId, outcome: Outcome, seq: u64) -> Result<(), String> {
        let call = self
            .call_mut(id)
            .ok_or_else(|| format!("there is no {id}"))?;
        // What was unknown may become known after all.
        if call.is_finished() && !call.is_in_doubt() {
            return Err(format!("{id} is in another phase"));
        }
        call.phase = Phase::Finished(Finished { outcome, seq });
        if call.placeheld.is_some() {
            let id = call.id.clone();
            self.unseen.push((seq, Entry::LateResult(id)));
        }
        Ok(())
    }

    pub(super) fn call_in(
        &mut self,
        id: &CallId,
        fits: impl Fn(&Phase) -> bool,
    ) -> Result<&mut Call, String> {
        let call = self
            .call_mut(id)
            .ok_or_else(|| format!("there is no {id}"))?;
        if fits(&call.phase) {
            Ok(call)
        } else {
            Err(format!("{id} is in another phase"))
        }
    }
}

pub(super) fn person(actor: &Actor) -> Option<PrincipalId> {
    match actor {
        Actor::Principal(id) => Some(id.clone()),
        Actor::Agent(_) | Actor::System => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Retried;

    #[test]
    fn a_timeline_that_begins_otherwise_is_corrupt() {
        let run = RunId::new("run_1").unwrap();
        let key = crate::chain::ChainKey::new("k", [1; 32]);
        let step = Step::Retried(Retried { attempt: 1 });
        let (recorded, _) = Recorded::chain(
            &Head::START,
            &run,
            Timestamp::default(),
            Actor::System,
            step,
            &key,
        );
        assert_eq!(RunState::begin(run, &recorded).unwrap_err().seq, 1);
    }
}

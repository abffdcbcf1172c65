use std::time::Duration;

use super::{Answer, Caused, ModelFailure};
use crate::actor::Actor;
use crate::digest::{Digest, Fingerprint};
use crate::failure::FailureCode;
use crate::id::{CallId, RevisionId, RunId, TaskId};
use crate::limits;
use crate::state::{Effect, Next, Phase, Refusal, RunState};
use crate::step::{
    AssistantMessage, Completion, Continued, DenyCause, EndedBy, Failed, RepeatLoop,
    RetryScheduled, SpendingCap, Step, ToolCall, ToolOutcome, ToolResult,
};
use crate::time::Timestamp;

impl RunState {
    /// An answer becomes its steps; one without calls completes the run, unless there is something
    /// that the model has not seen.
    pub(super) fn answered(&self, answer: Answer, now: Timestamp) -> Result<Caused, Refusal> {
        self.check_live()?;
        if answer.cycle != self.cycles + 1
            || answer.seen > self.head.seq
            || answer.seen < self.resumed_seq
            || self.tools.is_none()
            || self.scheduled.is_some()
        {
            return Err(Refusal::Stale("the answer is to another request"));
        }
        let mut caused: Caused = answer
            .failovers
            .into_iter()
            .map(|step| (Actor::System, Step::ModelFailover(step)))
            .collect();
        caused.extend(
            answer
                .thinking
                .into_iter()
                .map(|step| (self.agent(), Step::Thinking(step))),
        );
        let message = AssistantMessage {
            cycle: answer.cycle,
            seen: answer.seen,
            text: answer.text.clone(),
            calls: u32::try_from(answer.calls.len()).unwrap_or(u32::MAX),
            model: answer.model,
            usage: answer.usage,
            cost: answer.cost,
        };
        caused.push((self.agent(), Step::AssistantMessage(message)));
        let mut recent = self.recent_fingerprints();
        let mut after = Caused::new();
        for (index, proposed) in answer.calls.into_iter().enumerate() {
            let call = CallId::of(answer.cycle, index + 1);
            recent.push(Fingerprint::of(&proposed.tool, &proposed.args));
            if let Some(stopped) = stop(&call, index, &recent) {
                after.push((Actor::System, stopped));
            }
            let step = ToolCall {
                call,
                tool: proposed.tool,
                model_name: proposed.model_name,
                args: proposed.args,
                definition: proposed.definition,
            };
            caused.push((self.agent(), Step::ToolCall(step)));
        }
        let last_word = after.is_empty()
            && caused
                .last()
                .is_some_and(|(_, step)| matches!(step, Step::AssistantMessage(_)));
        caused.append(&mut after);
        if last_word && !self.has_more_for_model(answer.seen) {
            let usage = self.usage_with(answer.usage);
            caused.extend(self.closing(EndedBy::Answer, answer.text, usage, now));
        }
        Ok(caused)
    }

    /// Something that the model has not seen, or that will still come of a call that was let
    /// through: then no answer is the last one.
    fn has_more_for_model(&self, seen: u64) -> bool {
        #[cfg(feature = "hooks")]
        if crate::hooks::planted(crate::hooks::Fault::CompletionWithUnseenMessage) {
            return false;
        }
        self.unseen.iter().any(|(seq, _)| *seq > seen)
            || self.calls.iter().any(|call| match &call.phase {
                Phase::Cleared | Phase::Started { .. } | Phase::Delegated | Phase::Proposed => true,
                Phase::Finished(finished) => call.placeheld.is_none() && finished.seq > seen,
                Phase::Held | Phase::Asked | Phase::Unknown { .. } => false,
            })
    }

    fn recent_fingerprints(&self) -> Vec<Fingerprint> {
        let from = self.calls.len().saturating_sub(limits::LOOP_WINDOW);
        self.calls[from..]
            .iter()
            .map(|call| Fingerprint::of(&call.tool, call.proposed_args()))
            .collect()
    }

    fn usage_with(&self, more: crate::step::Usage) -> crate::step::Usage {
        let mut usage = self.usage;
        usage += more;
        usage
    }

    /// The same where the conversation's next run begins with what the model has not seen.
    pub(super) fn continues(
        &self,
        revision: RevisionId,
        now: Timestamp,
    ) -> Result<Caused, Refusal> {
        let Some(message) = self.unanswered() else {
            return Err(Refusal::Stale("the model has seen every message"));
        };
        let continued = Continued {
            run: RunId::of_next(&self.run),
            task: TaskId::of_next(&self.run),
            revision,
            message: message.seq,
        };
        let mut caused = self.completed(now)?;
        let end = caused.len().saturating_sub(1);
        caused.insert(end, (Actor::System, Step::Continued(continued)));
        Ok(caused)
    }

    /// The completion that [`crate::Effect::Complete`] owes.
    pub(super) fn completes(&self, now: Timestamp) -> Result<Caused, Refusal> {
        if self.unanswered().is_some() {
            return Err(Refusal::Stale("a message is left to the next run"));
        }
        self.completed(now)
    }

    fn completed(&self, now: Timestamp) -> Result<Caused, Refusal> {
        if self.next() != Next::Owed(vec![Effect::Complete]) {
            return Err(Refusal::Stale("no completion is owed"));
        }
        let text = self.seen.iter().rev().find_map(|entry| match entry {
            crate::state::Entry::Assistant { text, .. } if !text.is_empty() => Some(text.clone()),
            crate::state::Entry::Assistant { .. }
            | crate::state::Entry::User(_)
            | crate::state::Entry::Agent(_)
            | crate::state::Entry::LateResult(_)
            | crate::state::Entry::UnknownOutcome(_) => None,
        });
        let (ended_by, output) = if self.last_answer_stands() {
            (EndedBy::Answer, text.unwrap_or_default())
        } else {
            let limit = limits::MAX_CYCLES;
            let told = format!(
                "Stopped after {limit} think-and-call cycles: the task is too big for one run or the instructions too vague."
            );
            (
                EndedBy::MaxCycles,
                text.map_or(told.clone(), |text| format!("{text}\n\n{told}")),
            )
        };
        Ok(self.closing(ended_by, output, self.usage, now))
    }

    /// Closes what is still open as rejected by the run's end (S6.5), then completes.
    fn closing(
        &self,
        ended_by: EndedBy,
        output: String,
        usage: crate::step::Usage,
        now: Timestamp,
    ) -> Caused {
        let mut caused = self.close_open(DenyCause::RunEnded, &Actor::System, None);
        let duration_micros = u64::try_from(now.micros_since(self.started_at)).unwrap_or(0);
        caused.push((
            Actor::System,
            Step::Completion(Completion {
                output,
                ended_by,
                duration_micros,
                usage,
            }),
        ));
        caused
    }

    /// The namespace's cap is met: where a model would be asked, now or once the tools are listed,
    /// the run completes with the cap as its output (S4.6).
    pub(super) fn capped(&self, met: SpendingCap, now: Timestamp) -> Result<Caused, Refusal> {
        self.check_live()?;
        let would_ask = match self.next() {
            Next::Owed(owed) => matches!(
                owed.as_slice(),
                [Effect::AskModel { .. }] | [Effect::ListTools]
            ),
            Next::Wait(_) | Next::Done => false,
        };
        if !would_ask {
            return Err(Refusal::Stale("no model is to be asked"));
        }
        let output = met.sentence(&self.trigger.namespace);
        let mut caused = vec![(Actor::System, Step::SpendingCap(met))];
        caused.extend(self.closing(EndedBy::SpendingCap, output, self.usage, now));
        Ok(caused)
    }

    /// No model answered: the run fails, or completes where the provider refused for money (S4.6).
    pub(super) fn model_failed(
        &self,
        failure: ModelFailure,
        now: Timestamp,
    ) -> Result<Caused, Refusal> {
        self.check_live()?;
        if failure.cycle != self.cycles + 1 || self.scheduled.is_some() {
            return Err(Refusal::Stale("the failure is of another request"));
        }
        let mut caused: Caused = failure
            .failovers
            .into_iter()
            .map(|step| (Actor::System, Step::ModelFailover(step)))
            .collect();
        if let Some(provider) = failure.billing {
            let output = format!(
                "Stopped: {provider} refuses to be billed for more: {}",
                failure.message
            );
            caused.extend(self.closing(EndedBy::ProviderBilling, output, self.usage, now));
        } else if let Some(due_at) = self.next_retry(&failure.code, now) {
            let scheduled = RetryScheduled {
                attempt: self.retries + 1,
                due_at,
                code: failure.code,
                message: failure.message,
            };
            caused.push((Actor::System, Step::RetryScheduled(scheduled)));
        } else {
            caused.extend(self.close_open(DenyCause::RunEnded, &Actor::System, None));
            let failed = Failed {
                code: failure.code,
                message: failure.message,
                unknown: Vec::new(),
            };
            caused.push((Actor::System, Step::Failed(failed)));
        }
        Ok(caused)
    }
}

impl RunState {
    /// When the run is retried by itself, if it is (S1.6): only a failure that passes counts, and of
    /// an answer that was never given no tool has run.
    fn next_retry(&self, code: &FailureCode, now: Timestamp) -> Option<Timestamp> {
        let passes = code.as_str() == FailureCode::PROVIDER_UNAVAILABLE;
        let left = self.automatic_retries < limits::MAX_AUTOMATIC_RETRIES
            && self.retries < limits::MAX_RETRIES;
        (passes && left).then(|| now.plus(self.retry_delay()))
    }

    /// The core knows no chance: the run's id and the retry's number stand for it.
    fn retry_delay(&self) -> Duration {
        let retry = self.automatic_retries;
        let drawn = Digest::of_parts(&[self.run.as_str().as_bytes(), &retry.to_be_bytes()]);
        let [high, low, ..] = *drawn.as_bytes();
        let eighths = 3.0 + f64::from(u16::from_be_bytes([high, low])) / f64::from(u16::MAX) * 2.0;
        (limits::FIRST_RETRY_DELAY * 2_u32.pow(retry)).mul_f64(eighths / 4.0)
    }
}

/// A call that is answered without being judged: the loop breaker's (S4.3), or one too many.
fn stop(call: &CallId, index: usize, recent: &[Fingerprint]) -> Option<Step> {
    let this = recent.last()?;
    let count = recent
        .iter()
        .rev()
        .take_while(|fingerprint| *fingerprint == this)
        .count();
    if count >= limits::LOOP_THRESHOLD {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        return Some(Step::RepeatLoop(RepeatLoop {
            call: call.clone(),
            count,
        }));
    }
    (index >= limits::MAX_CALLS_PER_ANSWER).then(|| {
        Step::ToolResult(ToolResult {
            call: call.clone(),
            outcome: ToolOutcome::InvalidArguments,
            content: format!(
                "not executed: one answer may hold {} calls; repeat this one later",
                limits::MAX_CALLS_PER_ANSWER
            ),
            cut_bytes: 0,
            took_micros: 0,
            artifact: None,
        })
    })
}

//! Runs that this one started, as its state knows them (S3.6).

use super::{Call, Child, Clearance, Outcome, Phase, RunState};
use crate::conversation::Speaker;
use crate::step::{
    ChildFinished, ChildStarted, EndedBy, Parent, Source, ToolOutcome, TriggerReceived,
};

impl RunState {
    /// Whether runs that it started have not ended, as far as it knows.
    pub fn has_live_children(&self) -> bool {
        self.live_children().next().is_some()
    }

    /// The calls that wait for a run that they started.
    pub fn live_children(&self) -> impl Iterator<Item = &Call> {
        let calls = self.calls.iter();
        calls.filter(|call| call.phase == Phase::Delegated)
    }

    /// How far below the root of its tree it stands; 0 for the root.
    pub fn depth(&self) -> u32 {
        self.trigger
            .parent
            .as_ref()
            .map_or(0, |parent| parent.depth)
    }

    /// What the principal behind it has said so far, in order: the task, unless an outsider or an
    /// agent wrote it, and later messages (S5.9). A child has its root's.
    pub fn principal_words(&self) -> Vec<String> {
        let mut words = self.task_words();
        let principal = &self.trigger.principal;
        let later = self.words.iter();
        let later = later.filter(|words| words.by == *principal && !words.outside);
        words.extend(later.map(|words| words.text.clone()));
        words
    }

    /// What the principal had said when it was started.
    pub fn task_words(&self) -> Vec<String> {
        match (self.trigger.source, &self.trigger.parent) {
            // What a schedule asks was written by whoever stands behind it.
            (Source::Start | Source::Cron | Source::A2a, _) => vec![self.trigger.input.clone()],
            (Source::Agent, Some(parent)) => parent.words.clone(),
            (Source::Chat, _) => self.chat_words(),
            (Source::Webhook, _) | (Source::Agent, None) => Vec::new(),
        }
    }

    /// What the principal had said in the conversation by then, as far as it is whole: half a word
    /// would vouch for what was never said.
    fn chat_words(&self) -> Vec<String> {
        let Some(conversation) = &self.trigger.conversation else {
            return Vec::new();
        };
        let own = |by: &Speaker| *by == Speaker::Person(self.trigger.principal.clone());
        let earlier = conversation.earlier.iter();
        let earlier = earlier.filter(|said| own(&said.by) && said.cut_bytes == 0);
        let input = own(&conversation.by).then(|| self.trigger.input.clone());
        earlier.map(|said| said.text.clone()).chain(input).collect()
    }

    /// The trigger of a run that this one starts.
    pub fn child_trigger(&self, started: &ChildStarted) -> TriggerReceived {
        let own = &self.trigger;
        let (root_run, root_task) = match &own.parent {
            Some(parent) => (parent.root_run.clone(), parent.root_task.clone()),
            None => (self.run.clone(), own.task.clone()),
        };
        TriggerReceived {
            task: started.task.clone(),
            namespace: own.namespace.clone(),
            agent: started.agent.clone(),
            revision: started.revision.clone(),
            source: Source::Agent,
            input: started.input.clone(),
            principal: own.principal.clone(),
            trust: started.trust,
            trigger: None,
            tick: None,
            idempotency: None,
            traceparent: own.traceparent.clone(),
            parent: Some(Box::new(Parent {
                run: self.run.clone(),
                task: own.task.clone(),
                agent: own.agent.clone(),
                call: started.call.clone(),
                root_run,
                root_task,
                depth: self.depth() + 1,
                words: self.principal_words(),
            })),
            conversation: None,
        }
    }

    pub(super) fn child_started(&mut self, step: &ChildStarted, seq: u64) -> Result<(), String> {
        let person_needed = step.approval.is_some();
        let call = self.call_in(&step.call, |phase| match phase {
            Phase::Proposed => !person_needed,
            Phase::Cleared => person_needed,
            Phase::Held
            | Phase::Asked
            | Phase::Started { .. }
            | Phase::Delegated
            | Phase::Unknown { .. }
            | Phase::Finished(_) => false,
        })?;
        if call.digest != step.digest {
            return Err(format!(
                "what {} started is not what was let through",
                step.call
            ));
        }
        if let Some(rule) = &step.rule {
            call.clearance = Some(Clearance::Rule(rule.clone()));
        }
        call.phase = Phase::Delegated;
        call.started_seq = Some(seq);
        call.child = Some(Child {
            run: step.child.clone(),
            trust: None,
        });
        Ok(())
    }

    pub(super) fn child_finished(&mut self, step: &ChildFinished, seq: u64) -> Result<(), String> {
        let call = self.call_in(&step.call, |phase| *phase == Phase::Delegated)?;
        match &mut call.child {
            Some(child) if child.run == step.child => child.trust = Some(step.trust),
            Some(_) | None => return Err(format!("{} waits for another run", step.call)),
        }
        let outcome = match step.ended_by {
            EndedBy::Error | EndedBy::Cancelled => ToolOutcome::Error,
            EndedBy::Answer
            | EndedBy::MaxCycles
            | EndedBy::SpendingCap
            | EndedBy::ProviderBilling => ToolOutcome::Ok,
        };
        self.takeovers = 0;
        let content = step.content.clone();
        self.finish(&step.call, Outcome::Result { outcome, content }, seq)
    }
}

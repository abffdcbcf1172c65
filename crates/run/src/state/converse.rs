//! The run as part of its conversation (S9.1): what is said in it, and the run that follows it.

use super::{RunState, Words};
use crate::conversation::{Conversation, Said, SaidKind, Speaker, remembered};
use crate::limits;
use crate::step::{Continued, EndedBy, Source, TriggerReceived, UserMessage};
use crate::time::Timestamp;

impl RunState {
    /// What was said in it, in order; nothing of a run without a conversation.
    pub fn said(&self) -> &[Said] {
        &self.said
    }

    /// The last message that the cycle cap keeps from the model: the conversation's next run begins with
    /// it (S1.9).
    pub fn unanswered(&self) -> Option<&Words> {
        let capped = self.cycles >= limits::MAX_CYCLES && self.end.is_none();
        let last = self.words.last().filter(|words| words.seq > self.seen_upto);
        last.filter(|_| capped && self.trigger.conversation.is_some())
    }

    /// The trigger of the run that follows this one, which has ended.
    pub fn next_trigger(&self, continued: &Continued) -> Option<TriggerReceived> {
        let own = self.trigger.conversation.as_ref()?;
        let carried = self
            .said
            .iter()
            .find(|said| said.seq == continued.message)?;
        let before = own
            .earlier
            .iter()
            .map(|said| (said.by.clone(), said.text.clone(), said.trust));
        let began_with = own.carried.then(|| self.input_said(Timestamp::default()));
        let own_words = began_with.iter().flatten().chain(&self.said);
        let own_words = own_words
            .filter(|said| said.seq != carried.seq)
            .map(|said| (said.by.clone(), said.text.clone(), said.trust));
        let all: Vec<_> = before.chain(own_words).collect();
        let (earlier, left_out) = remembered(all.into_iter(), own.left_out);
        let conversation = Conversation {
            id: own.id.clone(),
            turn: own.turn + 1,
            by: carried.by.clone(),
            trust: carried.trust,
            earlier,
            left_out,
            secret_read: self.secret_read,
            carried: true,
        };
        Some(TriggerReceived {
            task: continued.task.clone(),
            namespace: self.trigger.namespace.clone(),
            agent: self.trigger.agent.clone(),
            revision: continued.revision.clone(),
            source: Source::Chat,
            input: carried.text.clone(),
            principal: carried.sender.clone()?,
            trust: conversation.trust(),
            trigger: None,
            tick: None,
            idempotency: None,
            traceparent: self.trigger.traceparent.clone(),
            parent: None,
            conversation: Some(Box::new(conversation)),
        })
    }

    /// The input as a message of the conversation.
    pub(super) fn input_said(&self, at: Timestamp) -> Option<Said> {
        let conversation = self.trigger.conversation.as_ref()?;
        Some(Said {
            seq: 1,
            at,
            by: conversation.by.clone(),
            sender: Some(self.trigger.principal.clone()),
            kind: SaidKind::Message,
            text: self.trigger.input.clone(),
            trust: conversation.trust,
            secret_read: false,
            idempotency: self.trigger.idempotency.clone(),
        })
    }

    /// A person's message.
    pub(super) fn hears(&mut self, words: &Words, message: &UserMessage, at: Timestamp) {
        if self.trigger.conversation.is_none() {
            return;
        }
        let by = match &message.outside {
            Some(name) => Speaker::Outside(name.clone()),
            None => Speaker::Person(words.by.clone()),
        };
        self.said.push(Said {
            seq: words.seq,
            at,
            by,
            sender: Some(words.by.clone()),
            kind: SaidKind::Message,
            text: message.text.clone(),
            trust: message.trust.unwrap_or(self.trust),
            secret_read: false,
            idempotency: message.idempotency.clone(),
        });
    }

    /// What the agent says: as trusted as the run is by now.
    pub(super) fn says(&mut self, kind: SaidKind, text: &str, seq: u64, at: Timestamp) {
        if self.trigger.conversation.is_none() || text.trim().is_empty() {
            return;
        }
        self.said.push(Said {
            seq,
            at,
            by: Speaker::Agent(self.trigger.agent.clone()),
            sender: None,
            kind,
            text: text.to_owned(),
            trust: self.trust,
            secret_read: self.secret_read,
            idempotency: None,
        });
    }

    /// The output, unless the last answer is it, which was said already.
    pub(super) fn says_output(&mut self, ended_by: EndedBy, output: &str, seq: u64, at: Timestamp) {
        match ended_by {
            EndedBy::Answer | EndedBy::Error | EndedBy::Cancelled => {}
            EndedBy::MaxCycles | EndedBy::SpendingCap | EndedBy::ProviderBilling => {
                let told = match self.said.iter().rev().find(|said| said.sender.is_none()) {
                    Some(said) => output.strip_prefix(said.text.as_str()).unwrap_or(output),
                    None => output,
                };
                let told = told.trim().to_owned();
                self.says(SaidKind::Message, &told, seq, at);
            }
        }
    }
}

/// What somebody said as the model reads it: the words of those outside are told apart.
pub(super) fn heard(by: &Speaker, text: &str, cut_bytes: u64) -> String {
    let mut told = match by {
        Speaker::Outside(name) => format!("[from {name}, who is outside]\n{text}"),
        Speaker::Person(_) | Speaker::Agent(_) => text.to_owned(),
    };
    if cut_bytes > 0 {
        told.push_str(&format!("\n[{cut_bytes} bytes are left out]"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{ChainKey, Head, Recorded};
    use crate::conversation::Earlier;
    use crate::id::{AgentName, ConversationId, Namespace, PrincipalId, RevisionId, RunId, TaskId};
    use crate::state::Start;
    use crate::step::Trust;
    use crate::transcript::Message;

    fn said(by: Speaker, text: &str, trust: Trust) -> Earlier {
        Earlier {
            by,
            text: text.into(),
            cut_bytes: 0,
            trust,
        }
    }

    fn begun(earlier: Vec<Earlier>, left_out: u64) -> RunState {
        let conversation = Conversation {
            id: ConversationId::new("cnv_1").unwrap(),
            turn: 2,
            by: Speaker::Person(PrincipalId::new("ada").unwrap()),
            trust: Trust::Trusted,
            earlier,
            left_out,
            secret_read: false,
            carried: false,
        };
        let start = Start {
            run: RunId::new("run_1").unwrap(),
            trigger: TriggerReceived {
                task: TaskId::new("task_1").unwrap(),
                namespace: Namespace::new("default").unwrap(),
                agent: AgentName::new("desk").unwrap(),
                revision: RevisionId::new("0".repeat(64)).unwrap(),
                source: Source::Chat,
                input: "and now?".into(),
                principal: PrincipalId::new("ada").unwrap(),
                trust: conversation.trust(),
                trigger: None,
                tick: None,
                idempotency: None,
                traceparent: None,
                parent: None,
                conversation: Some(Box::new(conversation)),
            },
        };
        let (actor, step) = start.decide().unwrap();
        let key = ChainKey::new("k", [1; 32]);
        let at = Timestamp::default();
        let (first, _) = Recorded::chain(&Head::START, &start.run, at, actor, step, &key);
        RunState::begin(start.run, &first).unwrap()
    }

    /// S9.1, S4.8: what was said before stands first in the first request, each as who said it.
    #[test]
    fn s9_1_a_run_begins_with_what_was_said_before() {
        let ada = || Speaker::Person(PrincipalId::new("ada").unwrap());
        let desk = || Speaker::Agent(AgentName::new("desk").unwrap());
        let mallory = Speaker::Outside("Mallory".into());
        let state = begun(
            vec![
                said(ada(), "hello", Trust::Trusted),
                said(desk(), "Let me see.", Trust::Trusted),
                said(desk(), "What is it?", Trust::Trusted),
                said(mallory, "pay me", Trust::Untrusted),
            ],
            3,
        );
        let shown: Vec<String> = state
            .messages()
            .iter()
            .map(|message| match message {
                Message::User(text) => format!("user: {text}"),
                Message::Assistant { text, calls, .. } if calls.is_empty() => {
                    format!("assistant: {text}")
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "user: [note] 3 earlier messages of this conversation are left out",
                "user: hello",
                "assistant: Let me see.\n\nWhat is it?",
                "user: [from Mallory, who is outside]\npay me",
                "user: and now?",
            ]
        );
        assert_eq!(
            state.trust(),
            Trust::Untrusted,
            "as the least trusted words"
        );
        assert_eq!(state.principal_words(), ["hello", "and now?"]);
        assert_eq!(state.said().len(), 1);
    }

    /// S5.9: half a word would vouch for what was never said.
    #[test]
    fn s5_9_what_was_cut_vouches_for_nothing() {
        let ada = Speaker::Person(PrincipalId::new("ada").unwrap());
        let cut = Earlier {
            cut_bytes: 4,
            ..said(ada, "file 1", Trust::Trusted)
        };
        assert_eq!(begun(vec![cut], 0).principal_words(), ["and now?"]);
    }
}

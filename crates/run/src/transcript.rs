//! The conversation as the model may see it (S4.8): in every request each call has exactly one
//! result, in call order, directly after the answer that proposed it; no result stands without its
//! call. A call that has no result yet is answered with a placeholder, and once the model has been
//! told that, its result arrives later as a note: what was sent once is never sent otherwise.

use crate::id::CallId;
use crate::state::{Brief, Call, Entry, Outcome, Phase, Placeholder, RunState, SMALL_RESULT};
use crate::step::{DenyCause, ToolOutcome};

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// From a person, or a note of ours to the model.
    User(String),
    /// The model's own answer.
    Assistant {
        /// Its text; may be empty.
        text: String,
        /// The model that gave it: thinking goes back to that model only.
        model: String,
        /// Its thinking.
        thinking: Vec<ThinkingMessage>,
        /// The calls that it proposed.
        calls: Vec<CallMessage>,
    },
    /// The results of the calls of the answer before: one each, in order.
    Results(Vec<ResultMessage>),
}

/// Thinking that goes back to the model that thought it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThinkingMessage {
    /// The text.
    pub text: String,
    /// The provider's signature.
    pub signature: Option<String>,
}

/// A call in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallMessage {
    /// Our id, which providers take as theirs.
    pub id: CallId,
    /// The tool as the model names it.
    pub model_name: String,
    /// The exact argument bytes.
    pub args: String,
}

/// A result in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultMessage {
    /// The call.
    pub id: CallId,
    /// The tool as the model names it.
    pub model_name: String,
    /// What the model is told.
    pub text: String,
    /// Whether it is to be read as an error of the call.
    pub is_error: bool,
}

const AWAITING_REVIEW: &str = "awaiting review, not executed: a person has not decided this call yet; \
     if it is approved later, its result will follow as a note";
pub(crate) const UNKNOWN: &str = "outcome unknown: the worker was interrupted after this call was sent, so it may \
     or may not have taken effect; find out before you try it again";

impl RunState {
    /// The conversation for the next request. Where a brief stands for turns (S4.4), it follows the
    /// people's words, which stay whole.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::with_capacity(self.seen.len() * 2 + self.unseen.len());
        let unseen = self.unseen.iter().map(|(_, entry)| entry);
        let briefed = self.briefed_upto();
        let mut turn = 0;
        for entry in self.seen.iter().chain(unseen) {
            let hidden = turn < briefed;
            match entry {
                Entry::User(text) => messages.push(Message::User(text.clone())),
                Entry::Agent(text) => said_before(&mut messages, text),
                Entry::LateResult(_) | Entry::UnknownOutcome(_) if hidden => {}
                Entry::LateResult(id) => {
                    let call = self
                        .call(id)
                        .expect("a late result is that of a known call");
                    messages.push(Message::User(late_note(call)));
                }
                Entry::UnknownOutcome(id) => {
                    let call = self
                        .call(id)
                        .expect("an unknown outcome is that of a known call");
                    messages.push(Message::User(unknown_note(call)));
                }
                Entry::Assistant { .. } => {
                    turn += 1;
                    match &self.brief {
                        Some(brief) if turn == brief.upto => {
                            messages.push(Message::User(self.brief_note(brief)));
                        }
                        Some(brief) if turn < brief.upto => {}
                        Some(_) | None => self.answer_messages(entry, &mut messages),
                    }
                }
            }
        }
        messages
    }

    fn answer_messages(&self, entry: &Entry, messages: &mut Vec<Message>) {
        let Entry::Assistant {
            text,
            model,
            thinking,
            calls,
        } = entry
        else {
            return;
        };
        let calls: Vec<&Call> = calls.iter().filter_map(|id| self.call(id)).collect();
        messages.push(Message::Assistant {
            text: text.clone(),
            model: model.clone(),
            thinking: thinking
                .iter()
                .map(|t| ThinkingMessage {
                    text: t.text.clone(),
                    signature: t.signature.clone(),
                })
                .collect(),
            calls: calls.iter().map(|call| call_message(call)).collect(),
        });
        if !calls.is_empty() {
            let results = calls.iter().map(|call| self.result_message(call));
            messages.push(Message::Results(results.collect()));
        }
    }

    /// The brief, and the calls of its turns that had no result: theirs still comes as a note.
    fn brief_note(&self, brief: &Brief) -> String {
        let mut note = format!(
            "[note] the turns so far were summarised to save space:\n{}",
            brief.text
        );
        let told = self.told_later(brief.upto);
        let open = self.calls.iter().filter(|call| {
            call.cycle <= brief.upto
                && (call.placeheld.is_some() || !call.is_finished())
                && !told.contains(&&call.id)
        });
        for call in open {
            let placeholder = call.placeheld.unwrap_or_else(|| call.placeholder());
            note.push_str(&format!(
                "\n\nThe call {} ({}) had no result then: {}",
                call.id,
                call.model_name,
                placeholder_text(placeholder).0
            ));
        }
        note
    }

    /// The calls whose later result is part of these turns.
    fn told_later(&self, upto: u32) -> Vec<&CallId> {
        let mut turn = 0;
        let mut told = Vec::new();
        for entry in &self.seen {
            match entry {
                Entry::Assistant { .. } => turn += 1,
                Entry::LateResult(id) if turn < upto => told.push(id),
                Entry::LateResult(_)
                | Entry::UnknownOutcome(_)
                | Entry::User(_)
                | Entry::Agent(_) => {}
            }
        }
        told
    }

    fn result_message(&self, call: &Call) -> ResultMessage {
        let (mut text, is_error) = result_text(call);
        let pruned = call.cycle <= self.pruned_upto && call.placeheld.is_none();
        if pruned && text.len() > SMALL_RESULT {
            text = format!(
                "[pruned] the {} bytes of this older result were taken out to save space; call the \
                 tool again if you need them",
                text.len()
            );
        }
        if call.placeheld.is_none() && call.is_finished() {
            text.insert_str(0, &edit_note(call));
        }
        ResultMessage {
            id: call.id.clone(),
            model_name: call.model_name.clone(),
            text,
            is_error,
        }
    }
}

/// What an agent said in the conversation before the run: one answer where it said several things.
fn said_before(messages: &mut Vec<Message>, said: &str) {
    if let Some(Message::Assistant { text, .. }) = messages.last_mut() {
        text.push_str("\n\n");
        text.push_str(said);
        return;
    }
    messages.push(Message::Assistant {
        text: said.to_owned(),
        model: String::new(),
        thinking: Vec::new(),
        calls: Vec::new(),
    });
}

/// What a model is told of a call that was approved after it was told that it waits, and sent.
fn unknown_note(call: &Call) -> String {
    format!(
        "[note] the earlier call {} ({}), which had no result then, was approved and sent:\n{}{UNKNOWN}",
        call.id,
        call.model_name,
        edit_note(call)
    )
}

/// What a person made of a call before it was let through (S6.7, B09); empty if nobody did. What the
/// model wrote stays as it is in its own answer.
fn edit_note(call: &Call) -> String {
    match (&call.edited, &call.clearance) {
        (Some(_), Some(_)) => format!(
            "[edited] a person changed the arguments of this call before it was let through; these \
             count, not the ones you wrote: {}\n",
            call.args
        ),
        (Some(_), None) | (None, _) => String::new(),
    }
}

fn call_message(call: &Call) -> CallMessage {
    CallMessage {
        id: call.id.clone(),
        model_name: call.model_name.clone(),
        args: call.proposed_args().to_owned(),
    }
}

fn result_text(call: &Call) -> (String, bool) {
    match (&call.placeheld, &call.phase) {
        (Some(placeholder), _) => placeholder_text(*placeholder),
        (None, Phase::Finished(finished)) => outcome_text(&finished.outcome),
        (None, _) => placeholder_text(call.placeholder()),
    }
}

/// What is known of a call now, as the model is told it.
pub(crate) fn told(call: &Call) -> String {
    match &call.phase {
        Phase::Finished(finished) => edit_note(call) + &outcome_text(&finished.outcome).0,
        Phase::Proposed
        | Phase::Held
        | Phase::Asked
        | Phase::Cleared
        | Phase::Started { .. }
        | Phase::Delegated
        | Phase::Unknown { .. } => placeholder_text(call.placeholder()).0,
    }
}

fn placeholder_text(placeholder: Placeholder) -> (String, bool) {
    match placeholder {
        Placeholder::AwaitingReview => (AWAITING_REVIEW.to_owned(), false),
        Placeholder::Unknown => (UNKNOWN.to_owned(), true),
    }
}

/// What the model is told of a settled call, and whether it reads as an error. A person's denial is
/// an answer, not an error (B18).
fn outcome_text(outcome: &Outcome) -> (String, bool) {
    match outcome {
        Outcome::Result { outcome, content } => (content.clone(), *outcome != ToolOutcome::Ok),
        Outcome::RepeatLoop { count } => (
            format!(
                "not executed: this is the same call with the same arguments for the {count}th time in a row; \
                 take a different approach or use different parameters"
            ),
            true,
        ),
        Outcome::Denied { cause, reason } => denial_text(*cause, reason.as_deref()),
    }
}

fn denial_text(cause: DenyCause, reason: Option<&str>) -> (String, bool) {
    let with_reason = |text: &str| match reason {
        Some(reason) if !reason.is_empty() => format!("{text} Reason: {reason}"),
        _ => text.to_owned(),
    };
    match cause {
        DenyCause::Person => (
            with_reason("denied by user: a person decided against this call; it did not run."),
            false,
        ),
        DenyCause::Timeout => (
            "expired: nobody decided this call in time; it did not run.".into(),
            false,
        ),
        DenyCause::Cancelled => (
            "cancelled: the run was cancelled; this call did not run.".into(),
            false,
        ),
        DenyCause::RunEnded => (
            "closed: the run ended before this call was decided; it did not run.".into(),
            false,
        ),
        DenyCause::Superseded => (
            "replaced by an identical later call; this one did not run.".into(),
            false,
        ),
        DenyCause::Rule | DenyCause::NotGranted => (
            "not available: there is no such tool for this agent.".into(),
            true,
        ),
    }
}

fn late_note(call: &Call) -> String {
    let (text, is_error) = match &call.phase {
        Phase::Finished(finished) => outcome_text(&finished.outcome),
        Phase::Proposed
        | Phase::Held
        | Phase::Asked
        | Phase::Cleared
        | Phase::Started { .. }
        | Phase::Delegated
        | Phase::Unknown { .. } => placeholder_text(call.placeholder()),
    };
    let kind = if is_error { "error" } else { "result" };
    format!(
        "[note] {kind} of the earlier call {} ({}), which had no result then:\n{}{text}",
        call.id,
        call.model_name,
        edit_note(call)
    )
}

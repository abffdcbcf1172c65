//! The conversation as the model may see it (S4.8): in every request each call has exactly one
//! result, in call order, directly after the answer that proposed it; no result stands without its
//! call. A call that has no result yet is answered with a placeholder, and once the model has been
//! told that, its result arrives later as a note: what was sent once is never sent otherwise.

use crate::id::CallId;
use crate::state::{Call, Entry, Outcome, Phase, Placeholder, RunState};
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
const UNKNOWN: &str = "outcome unknown: the worker was interrupted after this call was sent, so it may \
     or may not have taken effect; find out before you try it again";

impl RunState {
    /// The conversation for the next request.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::with_capacity(self.seen.len() * 2 + self.unseen.len());
        for entry in self
            .seen
            .iter()
            .chain(self.unseen.iter().map(|(_, entry)| entry))
        {
            match entry {
                Entry::User(text) => messages.push(Message::User(text.clone())),
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
                Entry::Assistant {
                    text,
                    model,
                    thinking,
                    calls,
                } => {
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
                        messages.push(Message::Results(
                            calls.iter().map(|call| result_message(call)).collect(),
                        ));
                    }
                }
            }
        }
        messages
    }
}

/// What a model is told of a call that was approved after it was told that it waits, and sent.
fn unknown_note(call: &Call) -> String {
    format!(
        "[note] the earlier call {} ({}), which had no result then, was approved and sent:\n{UNKNOWN}",
        call.id, call.model_name
    )
}

fn call_message(call: &Call) -> CallMessage {
    CallMessage {
        id: call.id.clone(),
        model_name: call.model_name.clone(),
        args: call.args.clone(),
    }
}

fn result_message(call: &Call) -> ResultMessage {
    let (text, is_error) = match (&call.placeheld, &call.phase) {
        (Some(placeholder), _) => placeholder_text(*placeholder),
        (None, Phase::Finished(finished)) => outcome_text(&finished.outcome),
        (None, _) => placeholder_text(call.placeholder()),
    };
    ResultMessage {
        id: call.id.clone(),
        model_name: call.model_name.clone(),
        text,
        is_error,
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
        | Phase::Unknown { .. } => placeholder_text(call.placeholder()),
    };
    let kind = if is_error { "error" } else { "result" };
    format!(
        "[note] {kind} of the earlier call {} ({}), which had no result then:\n{text}",
        call.id, call.model_name
    )
}

//! Messages of a task: what people and agents said.

use prost_reflect::DynamicMessage;
use serde::Deserialize;

use super::v1;
use super::v1::part::Content;
use crate::json::descriptor;
use crate::v1::RunStep;

/// What the idempotency keys of A2A messages begin with.
const PREFIX: &str = "a2a:";

/// The idempotency key of a client's message to an agent: the same message does nothing twice.
pub fn key_of(agent: &str, message_id: &str) -> String {
    format!("{PREFIX}{agent}:{message_id}")
}

/// The id of the client's message behind an idempotency key; none of another key.
pub fn message_id(key: &str) -> Option<&str> {
    let (_, id) = key.strip_prefix(PREFIX)?.split_once(':')?;
    Some(id)
}

/// What is read of a step's content. Each kind has some of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Said {
    pub(super) input: String,
    pub(super) text: String,
    pub(super) question: String,
    pub(super) summary: String,
    pub(super) output: String,
    pub(super) message: String,
    pub(super) approvals: Vec<String>,
    idempotency: Option<Key>,
}

#[derive(Debug, Deserialize)]
struct Key {
    key: String,
}

impl Said {
    /// What a step says. A content that this version does not understand says nothing.
    pub(super) fn of(step: &RunStep) -> Said {
        serde_json::from_str(&step.content_json).unwrap_or_default()
    }

    /// The client's own id of the message, or one made of the step's place.
    fn id(&self, run: &str, step: &RunStep) -> String {
        let own = self.idempotency.as_ref();
        let own = own.and_then(|key| message_id(&key.key));
        own.map_or_else(|| id_of(run, step.sequence), str::to_owned)
    }
}

/// The id of a message that a step makes.
fn id_of(run: &str, sequence: u64) -> String {
    format!("{run}-{sequence}")
}

/// A message of a task's history, if the step is one: what its client or the agent said.
pub(super) fn of_step(run: &str, context: &str, step: &RunStep) -> Option<v1::Message> {
    let said = Said::of(step);
    let (role, text) = match step.r#type.as_str() {
        "trigger_received" => (v1::Role::User, &said.input),
        "user_message" => (v1::Role::User, &said.text),
        "awaiting_input" => (v1::Role::Agent, &said.question),
        _ => return None,
    };
    let id = said.id(run, step);
    let told = match role {
        v1::Role::User => told_whole(text),
        v1::Role::Agent | v1::Role::Unspecified => None,
    };
    Some(match told {
        Some(whole) => v1::Message {
            context_id: context.to_owned(),
            task_id: run.to_owned(),
            ..whole
        },
        None => message(run, context, id, role, text.clone()),
    })
}

/// The client's message, where the agent was told all of it ([`super::whole`]).
fn told_whole(text: &str) -> Option<v1::Message> {
    if !text.starts_with("{\"messageId\":") {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let told = DynamicMessage::deserialize(descriptor::<v1::Message>(), &mut reader).ok()?;
    reader.end().ok()?;
    let told: v1::Message = told.transcode_to().ok()?;
    (told.role() == v1::Role::User && !told.parts.is_empty()).then_some(told)
}

/// What the agent's side says of where a task stands, at a step.
pub(super) fn of_status(run: &str, context: &str, step: &RunStep, text: String) -> v1::Message {
    let id = id_of(run, step.sequence);
    message(run, context, id, v1::Role::Agent, text)
}

fn message(run: &str, context: &str, id: String, role: v1::Role, text: String) -> v1::Message {
    v1::Message {
        message_id: id,
        context_id: context.to_owned(),
        task_id: run.to_owned(),
        role: role.into(),
        parts: vec![text_part(text)],
        ..v1::Message::default()
    }
}

/// A text as a part.
pub(super) fn text_part(text: String) -> v1::Part {
    v1::Part {
        content: Some(Content::Text(text)),
        ..v1::Part::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent that is told all of a message leaves it whole in the history.
    #[test]
    fn a_message_that_was_told_whole_is_read_back() {
        let sent = message("", "", "m".into(), v1::Role::User, "hi".into());
        let content = serde_json::json!({"text": super::super::whole(&sent).unwrap()});
        let step = RunStep {
            sequence: 3,
            r#type: "user_message".into(),
            content_json: content.to_string(),
            ..RunStep::default()
        };
        let read = of_step("run_1", "ctx", &step).unwrap();
        assert_eq!(
            read,
            message("run_1", "ctx", "m".into(), v1::Role::User, "hi".into())
        );
    }

    #[test]
    fn a_key_leads_back_to_its_message() {
        assert_eq!(message_id(&key_of("desk", "m:1")), Some("m:1"));
        assert_eq!(message_id("anything"), None);
    }
}

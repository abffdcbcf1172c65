//! What was said, in the form of the GenAI conventions' `gen_ai.input.messages` and
//! `gen_ai.output.messages`; only for traces that are to carry it (S10.3).

use sayso_driver::ModelRequest;
use sayso_run::Message;
use serde_json::{Value, json};

use crate::answer::Answer;

/// The conversation that a model is asked to go on with.
pub(crate) fn input(request: &ModelRequest) -> String {
    let system =
        (!request.system.is_empty()).then(|| message("system", vec![text(&request.system)]));
    let messages = request.messages.iter().map(|said| match said {
        Message::User(said) => message("user", vec![text(said)]),
        Message::Assistant {
            text: said, calls, ..
        } => {
            let calls = calls
                .iter()
                .map(|made| call(Some(made.id.as_str()), &made.model_name, &made.args));
            message("assistant", spoken(said).into_iter().chain(calls).collect())
        }
        Message::Results(results) => {
            let results = results.iter().map(|result| {
                json!({
                    "type": "tool_call_response", "id": result.id.as_str(), "response": result.text,
                })
            });
            message("tool", results.collect())
        }
    });
    Value::Array(system.into_iter().chain(messages).collect()).to_string()
}

/// What it answered.
pub(crate) fn output(answer: &Answer) -> String {
    let calls = answer
        .calls
        .iter()
        .map(|made| call(None, &made.name, &made.args));
    let parts = spoken(&answer.text).into_iter().chain(calls).collect();
    json!([message("assistant", parts)]).to_string()
}

fn message(role: &str, parts: Vec<Value>) -> Value {
    json!({"role": role, "parts": parts})
}

fn spoken(said: &str) -> Option<Value> {
    (!said.is_empty()).then(|| text(said))
}

fn text(said: &str) -> Value {
    json!({"type": "text", "content": said})
}

/// A call. Its arguments stand as the text that the model wrote: parsed, its numbers might change.
fn call(id: Option<&str>, name: &str, args: &str) -> Value {
    json!({"type": "tool_call", "id": id, "name": name, "arguments": args})
}

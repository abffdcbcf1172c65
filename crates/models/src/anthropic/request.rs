//! The body of a messages request.
//!
//! Thinking goes back to the model that thought it, and only with its signature: to another model
//! it would be refused, or be somebody else's thoughts. Blank text blocks are refused here, and so is
//! an error without text; results without text have no content at all.

use std::borrow::Cow;

use sayso_driver::ModelRequest;
use sayso_run::{ResultMessage, ThinkingMessage};
use serde::Serialize;
use serde_json::value::RawValue;

use super::REDACTED;
use crate::arguments;
use crate::conversation::{self, Reply, Side};
use crate::offer::Offer;

/// Stands for the text of an error that has none.
const SILENT_ERROR: &str = "(the tool failed and said nothing)";

#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Text {
        r#type: &'static str,
        text: &'a str,
    },
    Thinking {
        r#type: &'static str,
        thinking: &'a str,
        signature: &'a str,
    },
    Redacted {
        r#type: &'static str,
        data: &'a str,
    },
    Call {
        r#type: &'static str,
        id: &'a str,
        name: Cow<'a, str>,
        /// The exact argument bytes.
        input: &'a RawValue,
    },
    Result {
        r#type: &'static str,
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: Cow<'a, str>,
    input_schema: Box<RawValue>,
}

impl<'a> Request<'a> {
    pub(super) fn new(
        name: &str,
        model: &'a str,
        max_tokens: u32,
        request: &'a ModelRequest,
    ) -> Self {
        let messages = conversation::sides(&request.messages)
            .into_iter()
            .map(|side| match side {
                Side::User { results, texts } => Message {
                    role: "user",
                    content: results
                        .iter()
                        .map(result)
                        .chain(texts.into_iter().map(text))
                        .collect(),
                },
                Side::Assistant(reply) => Message {
                    role: "assistant",
                    content: answer(&reply, reply.model == name),
                },
            })
            .collect();
        Self {
            model,
            max_tokens,
            system: conversation::visible(&request.system),
            messages,
            tools: request
                .tools
                .iter()
                .map(|tool| offer(Offer::of(tool)))
                .collect(),
            stream: true,
        }
    }
}

fn offer(offer: Offer<'_>) -> Tool<'_> {
    Tool {
        name: offer.name,
        description: offer.description,
        input_schema: offer.schema,
    }
}

fn text(text: &str) -> Block<'_> {
    Block::Text {
        r#type: "text",
        text,
    }
}

fn answer<'a>(reply: &Reply<'a>, own: bool) -> Vec<Block<'a>> {
    let thinking: &'a [ThinkingMessage] = if own { reply.thinking } else { &[] };
    let calls = reply.calls.iter().map(|call| Block::Call {
        r#type: "tool_use",
        id: call.id.as_str(),
        name: conversation::tool_name(&call.model_name),
        input: arguments::history(&call.args),
    });
    thinking
        .iter()
        .filter_map(thought)
        .chain(reply.text.map(text))
        .chain(calls)
        .collect()
}

/// Thinking as it goes back; without a signature it cannot.
fn thought(thinking: &ThinkingMessage) -> Option<Block<'_>> {
    let signature = thinking
        .signature
        .as_deref()
        .filter(|text| !text.is_empty())?;
    Some(match signature.strip_prefix(REDACTED) {
        Some(data) => Block::Redacted {
            r#type: "redacted_thinking",
            data,
        },
        None => Block::Thinking {
            r#type: "thinking",
            thinking: &thinking.text,
            signature,
        },
    })
}

fn result(result: &ResultMessage) -> Block<'_> {
    let content = conversation::visible(&result.text);
    Block::Result {
        r#type: "tool_result",
        tool_use_id: result.id.as_str(),
        content: if result.is_error {
            content.or(Some(SILENT_ERROR))
        } else {
            content
        },
        is_error: result.is_error,
    }
}

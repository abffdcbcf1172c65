//! The body of a chat completions request.
//!
//! Thinking is not part of this format and is not sent back. A result has no error flag here, so
//! `Error: ` stands before the text of one that is to be read as an error.

use std::borrow::Cow;

use sayso_driver::ModelRequest;
use sayso_run::ResultMessage;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::arguments;
use crate::conversation::{self, Reply, Side};
use crate::offer::Offer;

/// The name under which the longest answer is sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum TokenLimit {
    /// `max_tokens`
    Plain(u32),
    /// `max_completion_tokens`
    Completion(u32),
}

#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Message<'a> {
    Text {
        role: &'static str,
        content: Cow<'a, str>,
    },
    Assistant {
        role: &'static str,
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Result {
        role: &'static str,
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Debug, Serialize)]
struct CalledFunction<'a> {
    name: Cow<'a, str>,
    /// A string that holds the exact argument bytes.
    arguments: &'a str,
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: OfferedFunction<'a>,
}

#[derive(Debug, Serialize)]
struct OfferedFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: Cow<'a, str>,
    parameters: Box<RawValue>,
}

impl<'a> Request<'a> {
    pub(super) fn new(model: &'a str, limit: TokenLimit, request: &'a ModelRequest) -> Self {
        let mut messages = Vec::with_capacity(request.messages.len() + 1);
        if let Some(system) = conversation::visible(&request.system) {
            messages.push(Message::Text {
                role: "system",
                content: system.into(),
            });
        }
        for side in conversation::sides(&request.messages) {
            match side {
                Side::User { results, texts } => {
                    messages.extend(results.iter().map(result));
                    if !texts.is_empty() {
                        messages.push(Message::Text {
                            role: "user",
                            content: texts.join("\n\n").into(),
                        });
                    }
                }
                Side::Assistant(reply) => messages.push(assistant(&reply)),
            }
        }
        let (max_tokens, max_completion_tokens) = match limit {
            TokenLimit::Plain(limit) => (Some(limit), None),
            TokenLimit::Completion(limit) => (None, Some(limit)),
        };
        Self {
            model,
            messages,
            tools: request
                .tools
                .iter()
                .map(|tool| offer(Offer::of(tool)))
                .collect(),
            max_tokens,
            max_completion_tokens,
            stream: true,
            stream_options: StreamOptions {
                include_usage: true,
            },
        }
    }
}

fn offer(offer: Offer<'_>) -> Tool<'_> {
    Tool {
        r#type: "function",
        function: OfferedFunction {
            name: offer.name,
            description: offer.description,
            parameters: offer.schema,
        },
    }
}

fn assistant<'a>(reply: &Reply<'a>) -> Message<'a> {
    Message::Assistant {
        role: "assistant",
        content: reply.text,
        tool_calls: reply
            .calls
            .iter()
            .map(|call| Call {
                id: call.id.as_str(),
                r#type: "function",
                function: CalledFunction {
                    name: conversation::tool_name(&call.model_name),
                    arguments: arguments::history(&call.args).get(),
                },
            })
            .collect(),
    }
}

fn result(result: &ResultMessage) -> Message<'_> {
    let content = if result.is_error {
        format!("Error: {}", result.text).into()
    } else {
        Cow::Borrowed(result.text.as_str())
    };
    Message::Result {
        role: "tool",
        tool_call_id: result.id.as_str(),
        content,
    }
}

//! A model provider of our own that speaks the two wire formats and keeps every request, for tests
//! that look at what is sent to a model.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// How long a provider that drops the line waits after the first half.
const HALF_HEARD: Duration = Duration::from_millis(300);

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Chat completions.
    OpenAi,
    /// Messages.
    Anthropic,
}

impl Format {
    /// The provider's word in the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            Format::OpenAi => "openai",
            Format::Anthropic => "anthropic",
        }
    }
}

/// What is answered to one request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Text, then calls with their argument bytes.
    Whole {
        /// The text.
        text: &'static str,
        /// Names as the model sees them, and arguments.
        calls: Vec<(&'static str, &'static str)>,
    },
    /// Text and half of a call, then the line drops.
    Broken {
        /// The text.
        text: &'static str,
        /// The call's name as the model sees it, and the part of its arguments that is sent.
        call: (&'static str, &'static str),
    },
}

impl Answer {
    /// Text alone.
    pub fn text(text: &'static str) -> Self {
        Self::Whole {
            text,
            calls: Vec::new(),
        }
    }

    /// Calls alone.
    pub fn calls(calls: &[(&'static str, &'static str)]) -> Self {
        Self::Whole {
            text: "",
            calls: calls.to_vec(),
        }
    }
}

#[derive(Debug)]
struct Shared {
    format: Format,
    answers: Vec<Answer>,
    requests: Mutex<Vec<Value>>,
}

/// A provider that gives its answers in order of the turns in a request, so that a request that is
/// sent twice is answered the same. It ends with the runtime that started it.
#[derive(Debug, Clone)]
pub struct Provider {
    shared: Arc<Shared>,
    port: u16,
}

impl Provider {
    /// Starts one on a port of its own.
    ///
    /// # Panics
    ///
    /// If no port can be had.
    pub async fn start(format: Format, answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            format,
            answers,
            requests: Mutex::default(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(answer))
            .route("/v1/messages", post(answer))
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { shared, port }
    }

    /// Its entry in the configuration.
    pub fn model(&self) -> Value {
        json!({
            "provider": self.shared.format.word(),
            "base_url": format!("http://127.0.0.1:{}/v1/", self.port),
            "model": "test",
            "api_key": "test",
        })
    }

    /// The bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        let requests = self.shared.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that in a request each call has exactly one result, in order, directly after the answer
    /// that made it, and no result stands without its call (S4.8); answers with the pairs of call id
    /// and result text, in order.
    ///
    /// # Panics
    ///
    /// If it is not well-formed.
    pub fn results(&self, request: &Value) -> Vec<(String, String)> {
        let messages = request["messages"]
            .as_array()
            .expect("a request has messages");
        match self.shared.format {
            Format::OpenAi => openai_results(messages),
            Format::Anthropic => anthropic_results(messages),
        }
    }
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .map(|part| part["text"].as_str().unwrap_or_default())
            .collect(),
        _ => String::new(),
    }
}

fn openai_results(messages: &[Value]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = std::collections::VecDeque::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"]
                .as_str()
                .expect("a result names its call");
            let expected: Option<String> = open.pop_front();
            assert_eq!(
                expected.as_deref(),
                Some(id),
                "results follow their calls in order"
            );
            found.push((id.to_owned(), text_of(&message["content"])));
            continue;
        }
        assert!(open.is_empty(), "a call has no result: {open:?}");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            open.push_back(call["id"].as_str().expect("a call has an id").to_owned());
        }
    }
    assert!(open.is_empty(), "a call has no result: {open:?}");
    found
}

fn anthropic_results(messages: &[Value]) -> Vec<(String, String)> {
    let blocks = |message: &Value, kind: &str| -> Vec<Value> {
        let parts = message["content"].as_array().cloned().unwrap_or_default();
        parts
            .into_iter()
            .filter(|part| part["type"] == kind)
            .collect()
    };
    let mut found = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut role_before = "assistant";
    for message in messages {
        let role = message["role"].as_str().expect("a message has a role");
        assert_ne!(role, role_before, "roles alternate");
        role_before = role;
        let results = blocks(message, "tool_result");
        let ids: Vec<_> = results
            .iter()
            .map(|result| {
                result["tool_use_id"]
                    .as_str()
                    .expect("a result names its call")
                    .to_owned()
            })
            .collect();
        assert_eq!(ids, open, "results follow their calls in order");
        found.extend(
            ids.into_iter()
                .zip(results.iter().map(|r| text_of(&r["content"]))),
        );
        open = blocks(message, "tool_use")
            .iter()
            .map(|call| call["id"].as_str().expect("a call has an id").to_owned())
            .collect();
    }
    assert!(open.is_empty(), "a call has no result: {open:?}");
    found
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).expect("requests are JSON");
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let turn = messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    shared
        .requests
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(request);
    let Some(answer) = shared.answers.get(turn) else {
        let mut gone = Response::new(Body::from("no answer is left"));
        *gone.status_mut() = StatusCode::BAD_REQUEST;
        return gone;
    };
    let (events, whole) = match answer {
        Answer::Whole { text, calls } => (shared.format.events(text, calls, true, turn), true),
        Answer::Broken { text, call } => (shared.format.events(text, &[*call], false, turn), false),
    };
    let body = if whole {
        Body::from(events.concat())
    } else {
        let sent = events
            .into_iter()
            .map(|event| Ok::<_, std::io::Error>(Bytes::from(event)));
        // What was sent has to have arrived before the line drops, or it is no half of an answer.
        let dropped = stream::once(async {
            tokio::time::sleep(HALF_HEARD).await;
            Err(std::io::Error::other("the line drops"))
        });
        Body::from_stream(stream::iter(sent).chain(dropped))
    };
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(body)
        .expect("the header is valid")
}

impl Format {
    fn events(self, text: &str, calls: &[(&str, &str)], whole: bool, turn: usize) -> Vec<String> {
        match self {
            Format::OpenAi => openai_events(text, calls, whole, turn),
            Format::Anthropic => anthropic_events(text, calls, whole, turn),
        }
    }
}

fn openai_events(text: &str, calls: &[(&str, &str)], whole: bool, turn: usize) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let event = json!({"id": "c", "object": "chat.completion.chunk", "created": 1,
            "model": "test", "choices": [choice]});
        format!("data: {event}\n\n")
    };
    let mut events = vec![chunk(
        json!({"role": "assistant", "content": text}),
        Value::Null,
    )];
    for (at, (name, args)) in calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": args});
        let call = json!({"index": at, "id": format!("w{turn}_{at}"), "type": "function", "function": function});
        events.push(chunk(json!({"tool_calls": [call]}), Value::Null));
    }
    if whole {
        let finish = if calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        };
        events.push(chunk(json!({}), finish.into()));
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
        let last = json!({"id": "c", "object": "chat.completion.chunk", "created": 1,
            "model": "test", "choices": [], "usage": usage});
        events.push(format!("data: {last}\n\ndata: [DONE]\n\n"));
    }
    events
}

fn anthropic_events(text: &str, calls: &[(&str, &str)], whole: bool, turn: usize) -> Vec<String> {
    let event = |value: Value| {
        let kind = value["type"]
            .as_str()
            .expect("an event has a type")
            .to_owned();
        format!("event: {kind}\ndata: {value}\n\n")
    };
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "test",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 1}});
    let mut events = vec![event(json!({"type": "message_start", "message": message}))];
    let mut index = 0;
    if !text.is_empty() {
        let block = json!({"type": "text", "text": ""});
        let delta = json!({"type": "text_delta", "text": text});
        events.push(event(
            json!({"type": "content_block_start", "index": 0, "content_block": block}),
        ));
        events.push(event(
            json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        ));
        events.push(event(json!({"type": "content_block_stop", "index": 0})));
        index = 1;
    }
    for (at, (name, args)) in calls.iter().enumerate() {
        let block =
            json!({"type": "tool_use", "id": format!("w{turn}_{at}"), "name": name, "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": args});
        let at = index + at;
        events.push(event(
            json!({"type": "content_block_start", "index": at, "content_block": block}),
        ));
        events.push(event(
            json!({"type": "content_block_delta", "index": at, "delta": delta}),
        ));
        if whole {
            events.push(event(json!({"type": "content_block_stop", "index": at})));
        }
    }
    if whole {
        let reason = if calls.is_empty() {
            "end_turn"
        } else {
            "tool_use"
        };
        let delta = json!({"stop_reason": reason, "stop_sequence": null});
        events.push(event(
            json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}),
        ));
        events.push(event(json!({"type": "message_stop"})));
    }
    events
}

/// A webhook's receiver, which keeps what it is sent. It ends with the runtime that started it.
#[derive(Debug, Clone)]
pub struct Receiver {
    bodies: Arc<Mutex<Vec<Value>>>,
    port: u16,
}

impl Receiver {
    /// Starts one on a port of its own.
    ///
    /// # Panics
    ///
    /// If no port can be had.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let bodies = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&bodies);
        let keep = post(move |body: Bytes| async move {
            let body = serde_json::from_slice(&body).expect("announcements are JSON");
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(body);
        });
        let router = Router::new().route("/", keep);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { bodies, port }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// What came so far.
    pub fn bodies(&self) -> Vec<Value> {
        self.bodies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

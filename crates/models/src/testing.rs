//! What the tests of this crate build their cases from.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sayso_driver::{Deltas, ModelRequest, ToolDefinition, ToolHints, ToolKind};
use sayso_run::{CallId, CallMessage, Message, ResultMessage, RunId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::{ModelConfig, ModelsConfig, Provider, Registry, Secret};

pub(crate) const KEY: &str = "sk-very-secret-key";

pub(crate) fn request(cycle: u32, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        run: RunId::new("run_1").unwrap(),
        cycle,
        tier: "balanced".into(),
        system: "You help.".into(),
        messages,
        tools: vec![],
        capped_in: None,
        redaction: Default::default(),
    }
}

pub(crate) fn call(cycle: u32, position: usize, args: &str) -> CallMessage {
    CallMessage {
        id: CallId::of(cycle, position),
        model_name: "shop_get".into(),
        args: args.into(),
    }
}

pub(crate) fn result(cycle: u32, position: usize, text: &str, is_error: bool) -> ResultMessage {
    ResultMessage {
        id: CallId::of(cycle, position),
        model_name: "shop_get".into(),
        text: text.into(),
        is_error,
    }
}

pub(crate) fn tool(registered: &str, model_name: &str) -> ToolDefinition {
    ToolDefinition {
        registered: registered.into(),
        model_name: model_name.into(),
        kind: ToolKind::Mcp,
        description: String::new(),
        input_schema: r#"{"type":"object","properties":{}}"#.into(),
        hints: ToolHints::default(),
        origin: "test".into(),
    }
}

/// Deltas as they were heard; a withdrawal is `⌫`.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Heard {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Deltas for Heard {
    fn text(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn withdrawn(&self) {
        self.0.lock().unwrap().push("⌫".to_owned());
    }
}

/// What a fake provider does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Does {
    /// An event stream that ends properly.
    Streams(String),
    /// An event stream whose connection breaks before the announced end.
    StreamsAndBreaks(String),
    /// An event stream whose connection then stays open in silence.
    StreamsAndHangs(String),
    /// A whole answer of status and body.
    Answers(u16, &'static str, String),
    /// Closes the connection without a word.
    HangsUp,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A provider on a socket: plays one action for each request, in order, and keeps what it was sent.
pub(crate) struct FakeProvider {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl FakeProvider {
    pub(crate) async fn start(actions: Vec<Does>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut open = Vec::new();
            for action in actions {
                let (mut socket, _) = listener.accept().await.unwrap();
                let request = read(&mut socket).await;
                kept.lock().unwrap().push(request);
                if answer(&mut socket, action).await {
                    open.push(socket);
                }
            }
            // Those that hang do so until the test ends.
            std::future::pending::<()>().await;
        });
        Self { url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The bodies that it was sent.
    pub(crate) fn bodies(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.body).collect()
    }
}

async fn read(socket: &mut TcpStream) -> Seen {
    let mut bytes = Vec::new();
    let end = loop {
        let at = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(at) = at {
            break at + 4;
        }
        assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0, "no request");
    };
    let head = String::from_utf8(bytes[..end].to_vec())
        .unwrap()
        .to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse::<usize>().unwrap());
    while bytes.len() < end + length {
        assert_ne!(
            socket.read_buf(&mut bytes).await.unwrap(),
            0,
            "half a request"
        );
    }
    Seen {
        head,
        body: String::from_utf8(bytes[end..].to_vec()).unwrap(),
    }
}

/// Plays an action; says whether the connection stays open.
async fn answer(socket: &mut TcpStream, action: Does) -> bool {
    let stream = |length: &str, body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{length}connection: close\r\n\r\n{body}"
        )
    };
    let (text, open) = match action {
        Does::Streams(body) => (stream("", &body), false),
        Does::StreamsAndBreaks(body) => (stream("content-length: 100000\r\n", &body), false),
        Does::StreamsAndHangs(body) => (stream("", &body), true),
        Does::Answers(status, kind, body) => (
            format!(
                "HTTP/1.1 {status} Because\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            ),
            false,
        ),
        Does::HangsUp => (String::new(), false),
    };
    // A client that has seen enough may be gone.
    let _gone = socket.write_all(text.as_bytes()).await;
    let _gone = socket.flush().await;
    open
}

pub(crate) fn model(provider: Provider, url: &str) -> ModelConfig {
    ModelConfig {
        provider,
        base_url: Some(url.to_owned()),
        model: "some-model-high".into(),
        api_key: Some(Secret::new(KEY)),
        max_tokens: 1000,
        context: 100_000,
        script: None,
        price: None,
    }
}

/// A registry whose tier `balanced` is the chain of these models, in this order.
pub(crate) fn chain(models: Vec<(&str, ModelConfig)>) -> Registry {
    let names = models.iter().map(|(name, _)| (*name).to_owned()).collect();
    Registry::new(ModelsConfig {
        tiers: BTreeMap::from([("balanced".to_owned(), names)]),
        models: models
            .into_iter()
            .map(|(name, model)| (name.to_owned(), model))
            .collect(),
    })
    .unwrap()
}

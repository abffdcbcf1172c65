//! One person's calls over HTTP.

use futures::StreamExt;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, Response};
use sayso_tests::Case;
use serde_json::{Value, json};

/// Somebody who knows the address and holds a token.
pub(crate) struct Caller {
    address: String,
    secret: String,
    client: reqwest::Client,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    async fn of(response: Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.expect("an answer is whole"),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The body of a success.
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Status and code of a problem.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{self:?}"
        );
        let told = self.json();
        assert_eq!(told["status"], self.status, "{told}");
        assert!(!told["detail"].as_str().unwrap().is_empty(), "{told}");
        (self.status, told["code"].as_str().unwrap().to_owned())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

impl Caller {
    pub(crate) fn of(case: &Case, holder: &str) -> Self {
        Self::with(case, &case.token(holder))
    }

    pub(crate) fn with(case: &Case, secret: &str) -> Self {
        Self {
            address: case.address(0),
            secret: secret.to_owned(),
            client: reqwest::Client::new(),
        }
    }

    pub(crate) fn request(&self, verb: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.address);
        self.client.request(verb, url).bearer_auth(&self.secret)
    }

    pub(crate) async fn send(request: RequestBuilder) -> Answer {
        Answer::of(request.send().await.expect("there is an answer")).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Self::send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Self::send(self.request(Method::POST, path).json(body)).await
    }

    /// A body as it is, as JSON.
    pub(crate) async fn post_text(&self, path: &str, body: impl Into<String>) -> Answer {
        let request = self.request(Method::POST, path).body(body.into());
        Self::send(request.header(CONTENT_TYPE, "application/json")).await
    }

    /// Starts a run; its id.
    pub(crate) async fn start(&self, agent: &str) -> String {
        let asked = json!({"agent": agent, "input": "go"});
        let started = self.post("/v1/runs", &asked).await.ok();
        started["run"]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn decide(&self, approval: &str, verdict: &str) -> Answer {
        let path = format!("/v1/approvals/{approval}:decide");
        self.post(&path, &json!({"verdict": verdict})).await
    }

    /// Listens to a stream, behind the last event that was seen.
    pub(crate) async fn watch(&self, path: &str, last: Option<u64>) -> Events {
        let mut request = self.request(Method::GET, path);
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await.expect("there is an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Events {
            bytes: response.bytes_stream().boxed(),
            text: String::new(),
        }
    }
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

/// A stream of them.
pub(crate) struct Events {
    bytes: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
}

impl Events {
    /// The next event; none when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let event = read(block);
                self.text = rest.to_owned();
                if let Some(event) = event {
                    return Some(event);
                }
            }
            let bytes = tokio::time::timeout(sayso_tests::LIMIT, self.bytes.next());
            let bytes = bytes.await.expect("the stream goes on or ends")?;
            let bytes = bytes.expect("the stream does not break");
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

/// An event of its lines; none for a comment.
fn read(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let mut lines = block.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    };
    Some(Event {
        data: serde_json::from_str(field("data")?).expect("data is JSON"),
        kind: field("event").unwrap_or_default().to_owned(),
        id: field("id").map(|id| id.parse().expect("an id is a number")),
    })
}

//! Agents that other agents call over A2A (S6.13), asked by the protocol's own SDK on all three bindings,
//! and by hand for what an SDK does not send.

mod errors;
mod guide;
mod people;
mod pushes;
mod sdk;

use std::process::Command;

use reqwest::Method;
use sayso_tests::{Bundle, Case, Shape, World, program};
use serde_json::{Value, json};

/// One process, and services apart with two gateways.
static WORLD: World = World::new(
    &[
        (
            "one",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - when: {result_contains: denied}
    text: was denied
  - text: done",
        ),
        (
            "asking",
            "turns:
  - text: Let me see.
    calls: [{tool: ask_person, args: {question: Which one?}}]
  - text: 'thank you'",
        ),
        ("plain", "turns: [{text: hello}]"),
        (
            "filing",
            "turns:
  - calls:
      - {tool: create_artifact, args: {name: a.txt, mime_type: text/plain, content: hello}}
      - {tool: create_artifact, args: {name: b.json, mime_type: application/json, content: '{\"a\": 1}'}}
  - text: filed",
        ),
        ("slow", "turns: [{text: late, delay: 1500ms}]"),
    ],
    Shape::Apart {
        executors: 1,
        gateways: 2,
    },
);

/// The bindings, as cards name them.
const BINDINGS: [&str; 3] = ["JSONRPC", "HTTP+JSON", "GRPC"];

/// An agent that A2A clients may call.
fn offered(name: &str, script: &str) -> Bundle {
    Bundle::new(name).tier(script).field("a2a", json!(true))
}

/// One whose one call waits for a person.
fn gated(name: &str) -> Bundle {
    offered(name, "one")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

/// One that asks its caller.
fn asking(name: &str) -> Bundle {
    offered(name, "asking").field("interaction", json!(true))
}

/// What the SDK says, line by line, as whoever holds a token.
async fn sdk(
    case: &Case,
    holder: &'static str,
    binding: &str,
    agent: &str,
    said: &[&str],
) -> Vec<Value> {
    let mut command = Command::new(program("SAYSO_TEST_PYTHON"));
    command
        .args(["-c", include_str!("client.py"), binding])
        .arg(format!("/a2a/default/{agent}/.well-known/agent-card.json"))
        .args(said)
        .env("SAYSO_SERVER", case.address(0))
        .env("SAYSO_TOKEN", case.token(holder));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success(), "{binding}: {output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A request over HTTP with JSON, below an agent's door: status and body.
async fn asked(
    case: &Case,
    holder: &'static str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let client = reqwest::Client::new();
    let mut request = client
        .request(method, format!("{}/a2a/{path}", case.address(0)))
        .bearer_auth(case.token(holder))
        .header("a2a-version", "1.0");
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or(Value::Null))
}

/// A call over JSON-RPC.
async fn rpc(case: &Case, holder: &'static str, agent: &str, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let path = format!("default/{agent}");
    let (status, answer) = asked(case, holder, Method::POST, &path, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["id"], 7, "{answer}");
    answer
}

/// A message as JSON.
fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

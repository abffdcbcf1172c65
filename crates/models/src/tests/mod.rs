//! The whole way: a request through the registry to a provider on a socket, and back.

mod anthropic;
mod config;
mod failover;
mod openai;
mod scripted;

use sayso_driver::{ModelReply, ModelRequest, Models as _};
use sayso_run::{Message, ThinkingMessage};

use crate::Registry;
use crate::testing::{Heard, call, request, result, tool};

/// Asks; gives what came and what was heard meanwhile.
async fn ask(registry: &Registry, request: ModelRequest) -> (ModelReply, Vec<String>) {
    let heard = Heard::default();
    let reply = registry.ask(request, &heard).await;
    (reply, heard.all())
}

/// A whole event stream of these data.
fn sse(events: &[&str]) -> String {
    events
        .iter()
        .map(|data| format!("data: {data}\n\n"))
        .collect()
}

fn simple() -> ModelRequest {
    request(1, vec![Message::User("Pay".into())])
}

/// What argument bytes have to survive: a trailing zero, a long integer, escapes, spaces.
const EXACT: &str = r#"{"amount": 1.10,"id":123456789012345678901234567890,"s":"\u00e9é"}"#;

/// B19: one turn with an approved call, a denied one, one that waits, one that failed silently, and
/// one whose arguments nobody can read; then the person speaks. Thinking of two models.
fn mixed() -> ModelRequest {
    let mut odd = call(1, 5, r#"{"half":"#);
    odd.model_name = "made.up tool".into();
    let thought = |text: &str, signature: Option<&str>| ThinkingMessage {
        text: text.into(),
        signature: signature.map(str::to_owned),
    };
    let messages = vec![
        Message::User("Pay the bills".into()),
        Message::Assistant {
            text: "Looking.".into(),
            model: "one".into(),
            thinking: vec![
                thought("First,", Some("sig1")),
                thought("", Some("redacted:ZGF0YQ==")),
                thought("unsigned", None),
            ],
            calls: vec![
                call(1, 1, EXACT),
                call(1, 2, "{}"),
                call(1, 3, "{}"),
                call(1, 4, "{}"),
                odd,
            ],
        },
        Message::Results(vec![
            result(1, 1, "paid", false),
            result(
                1,
                2,
                "denied by user: a person decided against this call; it did not run.",
                false,
            ),
            result(1, 3, "awaiting review, not executed", false),
            result(1, 4, "", true),
            result(
                1,
                5,
                "not available: there is no such tool for this agent.",
                true,
            ),
        ]),
        Message::User("Hurry".into()),
        Message::User("[note] result of the earlier call".into()),
        Message::Assistant {
            text: " ".into(),
            model: "two".into(),
            thinking: vec![thought("Of another model", Some("sig2"))],
            calls: vec![call(2, 1, "{\n}")],
        },
        Message::Results(vec![result(2, 1, "", false)]),
    ];
    let mut request = request(3, messages);
    let mut shop = tool("shop.get", "shop_get");
    shop.description = "Gets an order.".into();
    shop.input_schema =
        r#"{"type":"object","properties":{"n":{"type":"number","maximum":1.10}}}"#.into();
    request.tools = vec![shop, tool("bare", "bare")];
    request
}

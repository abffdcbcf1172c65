//! Against a provider that others wrote: aimock speaks both wire formats, and the types of the
//! official SDKs say whether what it was sent is what the providers take.
//!
//! `cargo xtask test` installs both and says where they are.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where, in its helpers too"
)]

mod mock;
mod sdk;

use std::collections::BTreeMap;

use mock::{Mock, Recorder};
use sayso_driver::{
    Deltas, ModelCall, ModelReply, ModelRequest, Models as _, ToolDefinition, ToolHints, ToolKind,
};
use sayso_models::{ModelConfig, ModelsConfig, Provider, Registry, Secret};
use sayso_run::{CallId, CallMessage, Message, ResultMessage, RunId, ThinkingMessage};

const FIXTURES: &str = r#"{"fixtures":[
 {"match":{"userMessage":"overloaded"},"response":{"error":{"message":"Overloaded","type":"overloaded_error"},"status":529}},
 {"match":{"userMessage":"limited"},"response":{"error":{"message":"Slow down","type":"rate_limit_error"},"status":429}},
 {"match":{"userMessage":"unpaid"},"response":{"error":{"message":"Quota","type":"insufficient_quota","code":"insufficient_quota"},"status":429}},
 {"match":{"userMessage":"now"},"response":{"content":"Refunded."}},
 {"match":{"userMessage":"refund"},"response":{"content":"Looking it up.","toolCalls":[
   {"name":"shop_get","arguments":"{\"id\": 12345678901234567890123,\"n\":1.10}"},
   {"name":"shop_refund","arguments":"{\"amount\":1.10,\"s\":\"\\u00e9\"}"}]}}
]}"#;

/// Nobody watches.
struct Unheard;

impl Deltas for Unheard {
    fn text(&self, _text: &str) {}
    fn withdrawn(&self) {}
}

fn model(provider: Provider, url: &str) -> ModelConfig {
    ModelConfig {
        provider,
        base_url: Some(url.to_owned()),
        model: "any-model".into(),
        api_key: Some(Secret::new("any-long-key")),
        max_tokens: 1000,
        context: 100_000,
        script: None,
        price: None,
    }
}

/// A registry with a tier for each format, and one that is a chain of both.
fn registry(url: &str) -> Registry {
    let tiers = [
        ("openai", vec!["gpt"]),
        ("anthropic", vec!["claude"]),
        ("balanced", vec!["claude", "gpt"]),
    ];
    Registry::new(ModelsConfig {
        models: BTreeMap::from([
            ("gpt".to_owned(), model(Provider::OpenAi, url)),
            ("claude".to_owned(), model(Provider::Anthropic, url)),
        ]),
        tiers: tiers
            .into_iter()
            .map(|(tier, chain)| {
                (
                    tier.to_owned(),
                    chain.into_iter().map(str::to_owned).collect(),
                )
            })
            .collect(),
    })
    .unwrap()
}

fn tool(registered: &str, schema: &str) -> ToolDefinition {
    ToolDefinition {
        registered: registered.into(),
        model_name: registered.replace('.', "_"),
        kind: ToolKind::Mcp,
        description: "Does what it says.".into(),
        input_schema: schema.into(),
        hints: ToolHints::default(),
        origin: "test".into(),
    }
}

fn request(tier: &str, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        run: RunId::new("run_1").unwrap(),
        cycle: 1,
        tier: tier.into(),
        system: "You help.".into(),
        messages,
        tools: vec![
            tool(
                "shop.get",
                r#"{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}"#,
            ),
            tool("shop.refund", r#"{"anyOf":[{"required":["amount"]}]}"#),
        ],
        capped_in: None,
        redaction: Default::default(),
    }
}

/// B19: a turn with an approved call, a denied one, one that waits, one that failed silently and one
/// that no reader could read, under a made-up name; then a blank message, and an empty answer.
fn mixed(model: &str) -> Vec<Message> {
    let call = |position: usize, name: &str, args: &str| CallMessage {
        id: CallId::of(1, position),
        model_name: name.into(),
        args: args.into(),
    };
    let result = |position: usize, text: &str, is_error: bool| ResultMessage {
        id: CallId::of(1, position),
        model_name: "shop_get".into(),
        text: text.into(),
        is_error,
    };
    vec![
        Message::User("Please refund A-17".into()),
        Message::Assistant {
            text: String::new(),
            model: model.into(),
            thinking: vec![
                ThinkingMessage {
                    text: "Hm".into(),
                    signature: Some("c2ln".into()),
                },
                ThinkingMessage {
                    text: String::new(),
                    signature: Some("redacted:ZGF0YQ==".into()),
                },
            ],
            calls: vec![
                call(1, "shop_get", r#"{"id":12345678901234567890123,"n":1.10}"#),
                call(2, "shop_refund", "{}"),
                call(3, "shop_refund", "{}"),
                call(4, "shop_get", "{}"),
                call(5, "made.up tool", r#"{"half":"#),
            ],
        },
        Message::Results(vec![
            result(1, r#"{"customer":"Ann"}"#, false),
            result(2, "denied by user: it did not run.", false),
            result(3, "awaiting review, not executed", false),
            result(4, "", true),
            result(5, "not available", true),
        ]),
        Message::User(" ".into()),
        Message::Assistant {
            text: String::new(),
            model: model.into(),
            thinking: vec![],
            calls: vec![],
        },
        Message::User("refund it now".into()),
    ]
}

async fn ask(registry: &Registry, tier: &str, messages: Vec<Message>) -> ModelReply {
    registry.ask(request(tier, messages), &Unheard).await
}

fn user(text: &str) -> Vec<Message> {
    vec![Message::User(text.into())]
}

/// B19, S4.8, S3.7: both formats, through a server and past the SDKs' types that are not ours.
#[tokio::test]
async fn b19_others_understand_what_is_sent_and_are_understood() {
    let mock = Mock::start(FIXTURES, &[]).await;
    let recorder = Recorder::start(mock.address).await;
    let registry = registry(&recorder.url());
    for (tier, name) in [("openai", "gpt"), ("anthropic", "claude")] {
        match ask(&registry, tier, user("refund A-17")).await {
            ModelReply::Answer {
                text, calls, model, ..
            } => {
                assert_eq!((text.as_str(), model.as_str()), ("Looking it up.", name));
                assert_eq!(calls, proposed(tier));
            }
            ModelReply::Failed { message, .. } => panic!("{tier}: {message}"),
        }
        match ask(&registry, tier, mixed(name)).await {
            ModelReply::Answer { text, calls, .. } => {
                assert_eq!((text.as_str(), calls.len()), ("Refunded.", 0));
            }
            ModelReply::Failed { message, .. } => panic!("{tier}: {message}"),
        }
    }
    let sent = recorder.bodies();
    assert_eq!(sent.len(), 4);
    sdk::accepts(&sent);
    assert_eq!(mock.journal_statuses().await, [200, 200, 200, 200]);
}

/// aimock sends the bytes of its fixtures over chat completions, and numbers of its own over
/// messages.
fn proposed(tier: &str) -> Vec<ModelCall> {
    let call = |name: &str, args: &str| ModelCall {
        name: name.into(),
        args: args.into(),
    };
    if tier == "openai" {
        vec![
            call("shop_get", r#"{"id": 12345678901234567890123,"n":1.10}"#),
            call("shop_refund", r#"{"amount":1.10,"s":"\u00e9"}"#),
        ]
    } else {
        vec![
            call("shop_get", r#"{"id":1.2345678901234568e+22,"n":1.1}"#),
            call("shop_refund", r#"{"amount":1.1,"s":"é"}"#),
        ]
    }
}

/// S4.6, S4.7: errors of both formats go through the chain, or do not.
#[tokio::test]
async fn s4_7_errors_of_both_formats_are_told_apart() {
    let mock = Mock::start(FIXTURES, &[]).await;
    let registry = registry(&mock.url());
    for (text, words) in [
        ("overloaded", "answered 529 (overloaded_error): Overloaded"),
        ("limited", "answered 429 (rate_limit_error): Slow down"),
    ] {
        match ask(&registry, "balanced", user(text)).await {
            ModelReply::Failed {
                code,
                message,
                failovers,
                billing,
            } => {
                assert_eq!(code.as_str(), "provider.unavailable");
                assert_eq!(message, format!("`claude` {words}; `gpt` {words}"));
                assert_eq!((failovers.len(), billing), (1, None));
                assert_eq!(failovers[0].reason, format!("`claude` {words}"));
            }
            ModelReply::Answer { text, .. } => panic!("{text}"),
        }
    }
    match ask(&registry, "balanced", user("unpaid")).await {
        ModelReply::Failed {
            billing, failovers, ..
        } => {
            assert_eq!(
                (billing.as_deref(), failovers.len()),
                (Some("anthropic (127.0.0.1)"), 0)
            );
        }
        ModelReply::Answer { text, .. } => panic!("{text}"),
    }
}

/// S4.7, B30: what a misbehaving server sends makes a model unavailable, never an answer.
#[tokio::test]
async fn s4_7_a_misbehaving_server_is_unavailable() {
    for (chaos, word) in [
        ("--chaos-disconnect", "could not be reached"),
        ("--chaos-malformed", "in place of an event stream"),
        ("--chaos-drop", "answered 500"),
        ("--chaos-ratelimit", "answered 429"),
    ] {
        let mock = Mock::start(FIXTURES, &[chaos, "1"]).await;
        let registry = registry(&mock.url());
        for tier in ["openai", "anthropic"] {
            match ask(&registry, tier, user("refund A-17")).await {
                ModelReply::Failed { code, message, .. } => {
                    assert_eq!(code.as_str(), "provider.unavailable", "{chaos}: {message}");
                    assert!(message.contains(word), "{chaos}: {message}");
                }
                ModelReply::Answer { .. } => panic!("{chaos}: an answer"),
            }
        }
    }
}

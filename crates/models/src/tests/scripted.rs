//! The scripted model, through the same door as the real ones.

use std::fs;
use std::time::Duration;

use futures::FutureExt as _;
use sayso_driver::{ModelCall, ModelReply, ModelRequest, Models as _};
use sayso_run::{CallMessage, Message, Thinking, Usage};
use tempfile::TempDir;
use tokio::time::Instant;

use super::{ask, simple};
use crate::testing::{Heard, call, chain, model, request, result, tool};
use crate::{ModelConfig, Provider, Registry};

const SCRIPT: &str = r#"
turns:
  - text: "Looking it up."
    thinking: "I need the order first."
    calls:
      - { tool: shop.get_order, args: { z: 1, id: "A-17" } }
      - { tool: shop_refund_order, args_raw: '{"order_id":"A-17", "amount":1.10}' }
      - { tool: not.offered }
    usage: { input: 900, cached: 100, output: 40 }
    delay: 0ms
  - when: { result_contains: "denied by user" }
    text: "I was told not to."
  - error: { status: 529, body: "overloaded" }
  - text: "Done: {{result.shop.get_order.customer}} was refunded."
"#;

/// A folder with scripts, and the models that play them.
struct Stage(TempDir);

impl Stage {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn model(&self, script: &str, text: &str) -> ModelConfig {
        let path = self.0.path().join(script);
        fs::write(&path, text).unwrap();
        let mut model = model(Provider::Scripted, "");
        (model.base_url, model.api_key) = (None, None);
        model.script = Some(path.into());
        model
    }

    fn alone(&self, text: &str) -> Registry {
        chain(vec![("acted", self.model("script.yaml", text))])
    }
}

fn with_tools(mut request: ModelRequest) -> ModelRequest {
    request.tools = vec![
        tool("shop.get_order", "shop_get_order"),
        tool("shop.refund_order", "shop_refund_order"),
    ];
    request
}

/// The request after the first turn, with these results.
fn second(get: &str, refund: &str) -> ModelRequest {
    let named = |position: usize, name: &str| CallMessage {
        model_name: name.into(),
        ..call(1, position, "{}")
    };
    let text = |position: usize, name: &str, text: &str| {
        let mut result = result(1, position, text, false);
        result.model_name = name.into();
        result
    };
    with_tools(request(
        2,
        vec![
            Message::User("Refund A-17".into()),
            Message::Assistant {
                text: "Looking it up.".into(),
                model: "acted".into(),
                thinking: vec![],
                calls: vec![named(1, "shop_get_order"), named(2, "shop_refund_order")],
            },
            Message::Results(vec![
                text(1, "shop_get_order", get),
                text(2, "shop_refund_order", refund),
            ]),
        ],
    ))
}

fn text(reply: &ModelReply) -> &str {
    match reply {
        ModelReply::Answer { text, .. } => text,
        ModelReply::Failed { message, .. } => panic!("{message}"),
    }
}

fn failure(reply: &ModelReply) -> (&str, &str) {
    match reply {
        ModelReply::Failed { code, message, .. } => (code.as_str(), message),
        ModelReply::Answer { text, .. } => panic!("{text}"),
    }
}

/// Without a delay the answer is there at the first poll, with the exact bytes.
#[tokio::test]
async fn a_turn_is_played_at_the_first_poll() {
    let stage = Stage::new();
    let registry = stage.alone(SCRIPT);
    let heard = Heard::default();
    let reply = registry
        .ask(with_tools(simple()), &heard)
        .now_or_never()
        .expect("ready at once");
    let call = |name: &str, args: &str| ModelCall {
        name: name.into(),
        args: args.into(),
    };
    assert_eq!(
        reply,
        ModelReply::Answer {
            text: "Looking it up.".into(),
            thinking: vec![Thinking {
                text: "I need the order first.".into(),
                signature: None
            }],
            calls: vec![
                call("shop_get_order", r#"{"z":1,"id":"A-17"}"#),
                call("shop_refund_order", r#"{"order_id":"A-17", "amount":1.10}"#),
                call("not.offered", "{}"),
            ],
            model: "acted".into(),
            usage: Usage {
                input: 900,
                cached: 100,
                output: 40
            },
            failovers: vec![],
        }
    );
    assert_eq!(heard.all(), ["Looking it up."]);
}

/// The same script and inputs give the same run, whoever plays it.
#[tokio::test]
async fn another_process_goes_on_with_the_same_script() {
    let stage = Stage::new();
    let (reply, _) = ask(&stage.alone(SCRIPT), second("{}", "denied by user: no")).await;
    assert_eq!(text(&reply), "I was told not to.");
    let here = stage.alone(SCRIPT);
    let ok = || second(r#"{"customer":"Ann"}"#, "ok");
    let (reply, _) = ask(&here, ok()).await;
    assert_eq!(
        failure(&reply),
        ("provider.unavailable", "`acted` answered 529: overloaded")
    );
    for _ in 0..2 {
        let (reply, _) = ask(&here, ok()).await;
        assert_eq!(text(&reply), "Done: Ann was refunded.");
    }
}

/// S4.7: models that share a script share its place, so one file tells of a failover.
#[tokio::test]
async fn s4_7_a_scripted_failure_goes_through_the_chain() {
    let stage = Stage::new();
    let registry = chain(vec![
        ("acted", stage.model("script.yaml", SCRIPT)),
        ("understudy", stage.model("script.yaml", SCRIPT)),
    ]);
    let (reply, _) = ask(&registry, second(r#"{"customer":"Ann"}"#, "ok")).await;
    match reply {
        ModelReply::Answer {
            text,
            model,
            failovers,
            ..
        } => {
            assert_eq!(
                (text.as_str(), model.as_str()),
                ("Done: Ann was refunded.", "understudy")
            );
            assert_eq!(failovers.len(), 1);
            assert_eq!(failovers[0].reason, "`acted` answered 529: overloaded");
        }
        ModelReply::Failed { message, .. } => panic!("{message}"),
    }
}

/// B30: a scripted cut is withdrawn like a real one.
#[tokio::test]
async fn b30_a_scripted_cut_is_withdrawn() {
    let stage = Stage::new();
    let registry = chain(vec![
        (
            "a",
            stage.model(
                "a.yaml",
                "turns: [{text: Hélas, error: {stream_cut_after: 2}}]",
            ),
        ),
        ("b", stage.model("b.yaml", "turns: [{text: Whole}]")),
    ]);
    let (reply, heard) = ask(&registry, simple()).await;
    assert_eq!(text(&reply), "Whole");
    assert_eq!(heard, ["Hé", "⌫", "Whole"]);
}

/// S4.2: a scripted silence runs into the ceiling; a shorter one is a broken line.
#[tokio::test(start_paused = true)]
async fn s4_2_a_scripted_silence_runs_into_the_ceiling() {
    let stage = Stage::new();
    let script =
        "turns: [{error: {hang: 10m}}, {text: Hi, error: {hang: 30s}}, {text: there, delay: 4s}]";
    let registry = stage.alone(script);
    let begun = Instant::now();
    let (reply, heard) = ask(&registry, simple()).await;
    assert_eq!(
        failure(&reply),
        (
            "provider.unavailable",
            "`acted` did not finish its answer within 300 s"
        )
    );
    assert_eq!((begun.elapsed().as_secs(), heard), (300, vec![]));
    let begun = Instant::now();
    let (reply, heard) = ask(&registry, simple()).await;
    assert_eq!(
        failure(&reply).1,
        "`acted` broke off in the middle of its answer"
    );
    assert_eq!(
        (begun.elapsed().as_secs(), heard),
        (30, vec!["Hi".to_owned(), "⌫".to_owned()])
    );
    let begun = Instant::now();
    let (reply, _) = ask(&registry, simple()).await;
    assert_eq!(
        (text(&reply), begun.elapsed()),
        ("there", Duration::from_secs(4))
    );
}

/// S4.6: a scripted refusal is read like a real one.
#[tokio::test]
async fn s4_6_a_scripted_billing_refusal_names_the_provider() {
    let stage = Stage::new();
    let registry = stage.alone(r#"turns: [{error: {status: 429, body: '{"error":{"code":"insufficient_quota","message":"Quota"}}'}}]"#);
    match ask(&registry, simple()).await.0 {
        ModelReply::Failed {
            message, billing, ..
        } => {
            assert_eq!(billing.as_deref(), Some("scripted"));
            assert_eq!(message, "`acted` answered 429 (insufficient_quota): Quota");
        }
        ModelReply::Answer { .. } => panic!("an answer"),
    }
}

/// What cannot be played is the script's fault, not an outage.
#[tokio::test]
async fn a_turn_that_cannot_be_played_says_where_and_why() {
    let stage = Stage::new();
    let registry = chain(vec![
        (
            "a",
            stage.model("a.yaml", "turns: [{text: '{{result.shop.get.id}}'}]"),
        ),
        ("b", stage.model("b.yaml", "turns: [{text: Whole}]")),
    ]);
    let (reply, _) = ask(&registry, simple()).await;
    assert_eq!(
        failure(&reply),
        (
            "script.invalid",
            "`a` cannot play turns[0] of its script: `{{result.shop.get.id}}` names no tool that has a result yet"
        )
    );
    let registry = stage.alone("turns: [{text: only}]");
    let (reply, _) = ask(&registry, second("ok", "ok")).await;
    assert_eq!(
        failure(&reply),
        (
            "script.exhausted",
            "`acted` has no turn left for cycle 2: its script has 1"
        )
    );
}

//! What follows when a model gives no answer (S4.2, S4.6, S4.7, B29, B30).

use std::time::Duration;

use sayso_driver::ModelReply;
use sayso_run::ModelFailover;

use super::{ask, simple, sse};
use crate::Provider;
use crate::testing::{Does, FakeProvider, KEY, chain, model};

const HELLO: &str =
    r#"{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}"#;

fn whole() -> Does {
    Does::Streams(sse(&[HELLO, "[DONE]"]))
}

fn json(status: u16, body: &str) -> Does {
    Does::Answers(status, "application/json", body.to_owned())
}

/// What came of asking `a`, a model that does this, and then `b`, which answers.
struct Outcome {
    reply: ModelReply,
    heard: Vec<String>,
    /// Whether `b` was asked.
    asked_next: bool,
}

async fn first_does(provider: Provider, action: Does) -> Outcome {
    let one = FakeProvider::start(vec![action]).await;
    let two = FakeProvider::start(vec![whole()]).await;
    let mut registry = chain(vec![
        ("a", model(provider, &one.url)),
        ("b", model(Provider::OpenAi, &two.url)),
    ]);
    registry.ceiling = Duration::from_secs(2);
    let (reply, heard) = ask(&registry, simple()).await;
    Outcome {
        reply,
        heard,
        asked_next: !two.seen().is_empty(),
    }
}

/// The reason of the one failover of an answer by `b`.
fn reason(reply: ModelReply) -> String {
    match reply {
        ModelReply::Answer {
            model,
            text,
            calls,
            mut failovers,
            ..
        } => {
            assert_eq!(
                (model.as_str(), text.as_str(), calls.len()),
                ("b", "Hello", 0)
            );
            assert_eq!(failovers.len(), 1);
            let ModelFailover { from, to, reason } = failovers.remove(0);
            assert_eq!((from.as_str(), to.as_str()), ("a", "b"));
            reason
        }
        ModelReply::Failed { message, .. } => panic!("{message}"),
    }
}

/// B29, B30: half an answer with half a call leaves nothing but a withdrawal.
#[tokio::test]
async fn b30_a_broken_stream_is_withdrawn_and_the_next_model_answers() {
    let openai = sse(&[
        r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"pay","arguments":"{\"amount\":1"}}]}}]}"#,
    ]);
    let anthropic = sse(&[
        r#"{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"pay","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"amount\":1"}}"#,
    ]);
    // B29: the call is complete, and only the end of the answer is missing.
    let nearly = sse(&[
        r#"{"choices":[{"index":0,"delta":{"content":"Hel","tool_calls":[{"index":0,"id":"c","function":{"name":"pay","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
    ]);
    for (provider, stream) in [
        (Provider::OpenAi, openai),
        (Provider::Anthropic, anthropic),
        (Provider::OpenAi, nearly),
    ] {
        for (action, expected) in [
            (
                Does::Streams(stream.clone()),
                "`a` broke off in the middle of its answer",
            ),
            (
                Does::StreamsAndBreaks(stream.clone()),
                "`a` broke off its answer: ",
            ),
        ] {
            let outcome = first_does(provider, action).await;
            assert_eq!(outcome.heard, ["Hel", "⌫", "Hello"]);
            let reason = reason(outcome.reply);
            assert!(reason.starts_with(expected), "{reason}");
        }
    }
}

/// S4.7: these make a model unavailable, and say why in a sentence.
#[tokio::test]
async fn s4_7_an_unavailable_model_fails_over_with_the_reason() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let cases = [
        (
            Provider::Anthropic,
            json(529, overloaded),
            "`a` answered 529 (overloaded_error): Overloaded",
        ),
        (
            Provider::OpenAi,
            json(
                429,
                r#"{"error":{"message":"Slow down","code":"rate_limit_exceeded"}}"#,
            ),
            "`a` answered 429 (rate_limit_exceeded): Slow down",
        ),
        (Provider::OpenAi, json(500, ""), "`a` answered 500"),
        (Provider::OpenAi, json(408, ""), "`a` answered 408"),
        (Provider::OpenAi, json(409, ""), "`a` answered 409"),
        (
            Provider::Anthropic,
            Does::Streams(sse(&[overloaded])),
            "`a` broke off its answer with an error (overloaded_error): Overloaded",
        ),
        (
            Provider::OpenAi,
            Does::Streams(sse(&[
                r#"{"error":{"message":"The server had an error","type":"server_error"}}"#,
            ])),
            "`a` broke off its answer with an error (server_error): The server had an error",
        ),
        (
            Provider::OpenAi,
            Does::Answers(
                200,
                "text/html; charset=utf-8",
                "<html>Sign in</html>".into(),
            ),
            "`a` answered with text/html; charset=utf-8 in place of an event stream",
        ),
        (
            Provider::Anthropic,
            Does::Answers(200, "text/plain", "<html>\nSign in\n</html>".into()),
            "`a` sent an event stream that cannot be read: invalid line",
        ),
        (
            Provider::OpenAi,
            Does::Answers(200, "text/event-stream", String::new()),
            "`a` broke off in the middle of its answer",
        ),
        (
            Provider::OpenAi,
            json(200, r#"{"error":{"message":"down","code":502}}"#),
            "`a` broke off its answer with an error (502): down",
        ),
        (
            Provider::OpenAi,
            Does::Streams(sse(&["[DONE]"])),
            "`a` broke off in the middle of its answer",
        ),
        (
            Provider::OpenAi,
            Does::Streams(sse(&["{\"choices\":3}"])),
            "`a` sent an event that cannot be read: invalid type: integer `3`, expected a sequence at line 1 column 12",
        ),
        (
            Provider::Anthropic,
            Does::Streams(sse(&[
                r#"{"type":"content_block_delta","index":7,"delta":{"text":"x"}}"#,
            ])),
            "`a` sent a piece of a block that it never began",
        ),
        (
            Provider::OpenAi,
            Does::HangsUp,
            "`a` could not be reached: ",
        ),
        (
            Provider::OpenAi,
            json(
                401,
                r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#,
            ),
            "`a` answered 401 (invalid_api_key): Incorrect API key",
        ),
        (
            Provider::Anthropic,
            json(
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
            ),
            "`a` answered 404 (not_found_error): model: x",
        ),
    ];
    for (provider, action, expected) in cases {
        let outcome = first_does(provider, action.clone()).await;
        assert!(outcome.asked_next, "{action:?}");
        assert_eq!(
            outcome.heard,
            ["Hello"],
            "nothing was said, so nothing is withdrawn"
        );
        let reason = reason(outcome.reply);
        if expected.ends_with(": ") {
            assert!(reason.starts_with(expected), "{reason}");
        } else {
            assert_eq!(reason, expected);
        }
    }
}

/// S4.6, S4.7: these are not tried on the next model.
#[tokio::test]
async fn s4_6_what_would_be_refused_again_goes_no_further() {
    let cases = [
        (
            Provider::OpenAi,
            json(
                429,
                r#"{"error":{"message":"Quota","code":"insufficient_quota"}}"#,
            ),
            "provider.refused",
            Some("openai (127.0.0.1)"),
        ),
        (
            Provider::Anthropic,
            json(
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
            ),
            "provider.refused",
            Some("anthropic (127.0.0.1)"),
        ),
        (
            Provider::OpenAi,
            json(402, ""),
            "provider.refused",
            Some("openai (127.0.0.1)"),
        ),
        (
            Provider::OpenAi,
            Does::Streams(sse(&[
                r#"{"error":{"code":402,"message":"Insufficient credits"}}"#,
            ])),
            "provider.refused",
            Some("openai (127.0.0.1)"),
        ),
        (
            Provider::Anthropic,
            json(
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}"#,
            ),
            "provider.context_length",
            None,
        ),
        (
            Provider::OpenAi,
            json(
                400,
                r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
            ),
            "provider.context_length",
            None,
        ),
        (
            Provider::OpenAi,
            json(400, r#"{"error":{"message":"Invalid schema"}}"#),
            "provider.refused",
            None,
        ),
        (Provider::OpenAi, json(422, "{}"), "provider.refused", None),
    ];
    for (provider, action, expected, payee) in cases {
        let outcome = first_does(provider, action.clone()).await;
        assert!(!outcome.asked_next, "{action:?}");
        match outcome.reply {
            ModelReply::Failed {
                code,
                message,
                billing,
                failovers,
            } => {
                assert_eq!(
                    (code.as_str(), billing.as_deref()),
                    (expected, payee),
                    "{action:?}"
                );
                assert!(message.starts_with("`a` "), "{message}");
                assert_eq!(failovers, []);
            }
            ModelReply::Answer { .. } => panic!("{action:?}"),
        }
    }
}

/// S4.2: past the ceiling the connection is dropped, and the model counts as unavailable.
#[tokio::test]
async fn s4_2_an_answer_that_does_not_end_is_dropped_at_the_ceiling() {
    let begun = sse(&[r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#]);
    let one = FakeProvider::start(vec![Does::StreamsAndHangs(begun)]).await;
    let two = FakeProvider::start(vec![whole()]).await;
    let mut registry = chain(vec![
        ("a", model(Provider::OpenAi, &one.url)),
        ("b", model(Provider::OpenAi, &two.url)),
    ]);
    assert_eq!(registry.ceiling, Duration::from_secs(300));
    registry.ceiling = Duration::from_secs(1);
    let (reply, heard) = ask(&registry, simple()).await;
    assert_eq!(heard, ["Hel", "⌫", "Hello"]);
    assert_eq!(reason(reply), "`a` did not finish its answer within 1 s");
}

/// S2.6: the codes of a chain that is through, and every model's reason.
#[tokio::test]
async fn a_chain_that_is_through_is_unavailable_unless_all_of_it_is_misconfigured() {
    let key = || json(401, r#"{"error":{"message":"bad key"}}"#);
    let down = || json(503, "");
    for (first, second, expected) in [
        (down(), down(), "provider.unavailable"),
        (key(), down(), "provider.unavailable"),
        (down(), key(), "provider.unavailable"),
        (key(), key(), "provider.refused"),
    ] {
        let one = FakeProvider::start(vec![first]).await;
        let two = FakeProvider::start(vec![second]).await;
        let registry = chain(vec![
            ("a", model(Provider::OpenAi, &one.url)),
            ("b", model(Provider::Anthropic, &two.url)),
        ]);
        match ask(&registry, simple()).await.0 {
            ModelReply::Failed {
                code,
                message,
                billing,
                failovers,
            } => {
                assert_eq!(code.as_str(), expected);
                assert!(
                    message.contains("`a` answered ") && message.contains("; `b` answered "),
                    "{message}"
                );
                assert_eq!((billing, failovers.len()), (None, 1));
            }
            ModelReply::Answer { .. } => panic!("an answer"),
        }
    }
}

/// B45: neither the key nor what the URL carries shows, whatever the provider repeats.
#[tokio::test]
async fn b45_keys_show_in_no_error() {
    let echo = format!(r#"{{"error":{{"message":"{KEY} of hunter22 at ?token=topsecret"}}}}"#);
    let one = FakeProvider::start(vec![json(500, &echo), Does::HangsUp]).await;
    let url = one.url.replace("http://", "http://user:hunter22@") + "?token=topsecret";
    let registry = chain(vec![("a", model(Provider::OpenAi, &url))]);
    for _ in 0..2 {
        match ask(&registry, simple()).await.0 {
            ModelReply::Failed { message, .. } => {
                for secret in [KEY, "hunter22", "topsecret"] {
                    assert!(!message.contains(secret), "{message}");
                }
            }
            ModelReply::Answer { .. } => panic!("an answer"),
        }
    }
    assert!(
        one.seen()[0]
            .head
            .starts_with("post /v1/chat/completions?token=topsecret http")
    );
    let shown = format!("{registry:?} {:?}", model(Provider::OpenAi, "http://x"));
    assert!(!shown.contains(KEY), "{shown}");
}

/// A redirect is not followed: the key would go along.
#[tokio::test]
async fn b45_redirects_are_not_followed() {
    let outcome = first_does(
        Provider::Anthropic,
        Does::Answers(
            307,
            "text/plain\r\nlocation: http://127.0.0.1:1/",
            String::new(),
        ),
    )
    .await;
    assert_eq!(reason(outcome.reply), "`a` answered 307");
}

#[tokio::test]
async fn an_unknown_tier_is_named_with_those_that_exist() {
    let registry = chain(vec![(
        "a",
        model(Provider::OpenAi, "http://127.0.0.1:1/v1/"),
    )]);
    let mut request = simple();
    request.tier = "powerful".into();
    match ask(&registry, request).await.0 {
        ModelReply::Failed { code, message, .. } => {
            assert_eq!(code.as_str(), "model.unknown_tier");
            assert_eq!(
                message,
                "there is no tier `powerful`; the configuration has: balanced"
            );
        }
        ModelReply::Answer { .. } => panic!("an answer"),
    }
}

/// S4.7: an agent that names no tier is on `balanced`.
#[tokio::test]
async fn s4_7_without_a_tier_it_is_balanced() {
    let one = FakeProvider::start(vec![whole()]).await;
    let registry = chain(vec![("a", model(Provider::OpenAi, &one.url))]);
    let mut request = simple();
    request.tier = String::new();
    assert!(matches!(
        ask(&registry, request).await.0,
        ModelReply::Answer { .. }
    ));
    assert_eq!(registry.window_of(""), Some(99_000));
    assert_eq!(registry.window_of("powerful"), None);
}

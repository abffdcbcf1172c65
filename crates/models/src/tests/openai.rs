//! Chat completions.

use sayso_driver::{ModelCall, ModelReply};
use sayso_run::{Thinking, Usage};

use super::{EXACT, ask, mixed, simple, sse};
use crate::testing::{Does, FakeProvider, KEY, chain, model};
use crate::{Provider, Registry};

async fn provider(actions: Vec<Does>) -> (FakeProvider, Registry) {
    let fake = FakeProvider::start(actions).await;
    let registry = chain(vec![("one", model(Provider::OpenAi, &fake.url))]);
    (fake, registry)
}

fn piece(index: &str, id: &str, name: &str, arguments: &str) -> String {
    let arguments = serde_json::to_string(arguments).unwrap();
    format!(
        r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{{index}"id":"{id}","type":"function","function":{{"name":"{name}","arguments":{arguments}}}}}]}},"finish_reason":null}}]}}"#
    )
}

fn more(index: u32, arguments: &str) -> String {
    let arguments = serde_json::to_string(arguments).unwrap();
    format!(
        r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":{index},"function":{{"arguments":{arguments}}}}}]}}}}]}}"#
    )
}

fn done(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

fn calls(reply: ModelReply) -> Vec<(String, String)> {
    match reply {
        ModelReply::Answer { calls, .. } => calls
            .into_iter()
            .map(|call| (call.name, call.args))
            .collect(),
        ModelReply::Failed { message, .. } => panic!("{message}"),
    }
}

/// S3.7, S2.4: text as it comes, parallel calls interleaved, argument bytes to the byte.
#[tokio::test]
async fn s3_7_a_streamed_answer_keeps_the_argument_bytes() {
    let (head, tail) = EXACT.split_at(24);
    let stream = sse(&[
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":"Hm"},"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"lo é"}},{"index":1,"delta":{"content":"no"}}]}"#,
        &piece(r#""index":0,"#, "call_a", "shop_refund", ""),
        &piece(r#""index":1,"#, "call_b", "shop_get", ""),
        &more(0, head),
        &more(1, ""),
        &more(0, tail),
        &done("tool_calls"),
        r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}}"#,
        "[DONE]",
    ]);
    let (fake, registry) = provider(vec![Does::Streams(format!(": hello\n\n{stream}"))]).await;
    let (reply, heard) = ask(&registry, simple()).await;
    assert_eq!(heard, ["Hel", "lo é"]);
    assert_eq!(
        reply,
        ModelReply::Answer {
            text: "Hello é".into(),
            thinking: vec![Thinking {
                text: "Hm".into(),
                signature: None
            }],
            calls: vec![
                ModelCall {
                    name: "shop_refund".into(),
                    args: EXACT.into()
                },
                ModelCall {
                    name: "shop_get".into(),
                    args: "{}".into()
                },
            ],
            model: "one".into(),
            usage: Usage {
                input: 100,
                cached: 60,
                output: 7
            },
            failovers: vec![],
        }
    );
    let seen = &fake.seen()[0];
    assert!(
        seen.head
            .starts_with("post /v1/chat/completions http/1.1\r\n"),
        "{}",
        seen.head
    );
    assert!(
        seen.head
            .contains(&format!("authorization: bearer {KEY}\r\n"))
    );
}

/// Servers cut and number calls differently; all of these are two calls.
#[tokio::test]
async fn parallel_calls_are_told_apart_however_they_are_numbered() {
    let both = |pieces: Vec<String>| {
        let mut events: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let done = done("tool_calls");
        events.extend([done.as_str(), "[DONE]"]);
        Does::Streams(sse(&events))
    };
    let index = |n: u32| format!(r#""index":{n},"#);
    let streams = vec![
        both(vec![
            piece(&index(0), "a", "t", r#"{"n":1}"#),
            piece(&index(0), "b", "u", r#"{"n":2}"#),
        ]),
        both(vec![
            piece("", "a", "t", r#"{"n":1}"#),
            piece("", "b", "u", r#"{"n":2}"#),
        ]),
        both(vec![
            piece(&index(1), "b", "u", r#"{"n":2}"#),
            piece(&index(0), "a", "t", r#"{"n":1}"#),
        ]),
        // The name again with each piece, and another id.
        both(vec![
            piece(&index(0), "a", "t", r#"{"n""#),
            piece(&index(0), "a", "t", ":1}"),
            piece(&index(1), "b", "u", r#"{"n""#),
            piece(&index(1), "x", "", ":2}"),
        ]),
    ];
    for stream in streams {
        let (_fake, registry) = provider(vec![stream]).await;
        let (reply, _) = ask(&registry, simple()).await;
        assert_eq!(
            calls(reply),
            [
                ("t".into(), r#"{"n":1}"#.into()),
                ("u".into(), r#"{"n":2}"#.into())
            ]
        );
    }
}

/// An answer that was cut at its limit does not turn a call without arguments into one with `{}`.
#[tokio::test]
async fn a_cut_answer_leaves_its_last_call_for_the_judge_to_refuse() {
    for (reason, expected) in [("tool_calls", "{}"), ("length", "")] {
        let stream = sse(&[
            &piece(r#""index":0,"#, "a", "t", ""),
            &done(reason),
            "[DONE]",
        ]);
        let (_fake, registry) = provider(vec![Does::Streams(stream)]).await;
        let (reply, _) = ask(&registry, simple()).await;
        assert_eq!(calls(reply), [("t".into(), expected.into())]);
    }
}

/// B58: running totals are not added up, and what a server does not count is counted here.
#[tokio::test]
async fn b58_running_totals_count_once() {
    let cases = [
        (
            vec![
                r#"{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":50,"completion_tokens":1}}"#,
                r#"{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":2}}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":20}}}"#,
                "[DONE]",
            ],
            Usage {
                input: 50,
                cached: 20,
                output: 2,
            },
        ),
        (
            vec![
                r#"{"choices":[{"index":0,"delta":{"content":"ab"},"finish_reason":"stop"}]}"#,
                "[DONE]",
            ],
            Usage {
                input: 4,
                cached: 0,
                output: 1,
            },
        ),
    ];
    for (events, expected) in cases {
        let (_fake, registry) = provider(vec![Does::Streams(sse(&events))]).await;
        match ask(&registry, simple()).await.0 {
            ModelReply::Answer { usage, text, .. } => {
                assert_eq!((usage, text.as_str()), (expected, "ab"));
            }
            ModelReply::Failed { message, .. } => panic!("{message}"),
        }
    }
}

/// B19, S4.8: the exact body after a turn of mixed results.
#[tokio::test]
async fn b19_the_request_is_well_formed_after_mixed_results() {
    let stream = sse(&[&done("stop"), "[DONE]"]);
    let (fake, registry) = provider(vec![Does::Streams(stream)]).await;
    ask(&registry, mixed()).await;
    let expected = [
        r#"{"model":"some-model-high","messages":["#,
        r#"{"role":"system","content":"You help."},"#,
        r#"{"role":"user","content":"Pay the bills"},"#,
        r#"{"role":"assistant","content":"Looking.","tool_calls":["#,
        r#"{"id":"call_1_1","type":"function","function":{"name":"shop_get","arguments":"{\"amount\": 1.10,\"id\":123456789012345678901234567890,\"s\":\"\\u00e9é\"}"}},"#,
        r#"{"id":"call_1_2","type":"function","function":{"name":"shop_get","arguments":"{}"}},"#,
        r#"{"id":"call_1_3","type":"function","function":{"name":"shop_get","arguments":"{}"}},"#,
        r#"{"id":"call_1_4","type":"function","function":{"name":"shop_get","arguments":"{}"}},"#,
        r#"{"id":"call_1_5","type":"function","function":{"name":"made_up_tool","arguments":"{}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"call_1_1","content":"paid"},"#,
        r#"{"role":"tool","tool_call_id":"call_1_2","content":"denied by user: a person decided against this call; it did not run."},"#,
        r#"{"role":"tool","tool_call_id":"call_1_3","content":"awaiting review, not executed"},"#,
        r#"{"role":"tool","tool_call_id":"call_1_4","content":"Error: "},"#,
        r#"{"role":"tool","tool_call_id":"call_1_5","content":"Error: not available: there is no such tool for this agent."},"#,
        r#"{"role":"user","content":"Hurry\n\n[note] result of the earlier call"},"#,
        r#"{"role":"assistant","content":null,"tool_calls":["#,
        r#"{"id":"call_2_1","type":"function","function":{"name":"shop_get","arguments":"{\n}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"call_2_1","content":""}],"#,
        r#""tools":[{"type":"function","function":{"name":"shop_get","description":"Gets an order.","parameters":{"type":"object","properties":{"n":{"type":"number","maximum":1.10}}}}},"#,
        r#"{"type":"function","function":{"name":"bare","parameters":{"type":"object","properties":{}}}}],"#,
        r#""max_tokens":1000,"stream":true,"stream_options":{"include_usage":true}}"#,
    ];
    assert_eq!(fake.bodies(), [expected.concat()]);
}

#[tokio::test]
async fn a_refusal_of_the_model_is_its_answer_and_a_filter_is_not() {
    let refusal = sse(&[
        r#"{"choices":[{"index":0,"delta":{"refusal":"I will not."},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ]);
    let filtered = sse(&[
        r#"{"choices":[{"index":0,"delta":{"content":"Fi"}}]}"#,
        &done("content_filter"),
        "[DONE]",
    ]);
    let (_fake, registry) = provider(vec![Does::Streams(refusal), Does::Streams(filtered)]).await;
    let (reply, heard) = ask(&registry, simple()).await;
    assert!(matches!(reply, ModelReply::Answer { text, .. } if text == "I will not."));
    assert_eq!(heard, ["I will not."]);
    let (reply, heard) = ask(&registry, simple()).await;
    assert!(
        matches!(reply, ModelReply::Failed { code, .. } if code.as_str() == "provider.refused")
    );
    assert_eq!(heard, ["Fi", "⌫"]);
}

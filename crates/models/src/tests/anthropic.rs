//! Messages.

use sayso_driver::{ModelCall, ModelReply};
use sayso_run::{Thinking, Usage};

use super::{EXACT, ask, mixed, simple, sse};
use crate::testing::{Does, FakeProvider, KEY, chain, model};
use crate::{Provider, Registry};

async fn provider(actions: Vec<Does>) -> (FakeProvider, Registry) {
    let fake = FakeProvider::start(actions).await;
    let registry = chain(vec![("one", model(Provider::Anthropic, &fake.url))]);
    (fake, registry)
}

fn delta(index: u32, json: &str) -> String {
    let json = serde_json::to_string(json).unwrap();
    format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":{json}}}}}"#
    )
}

const START: &str = r#"{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn stopped(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":9}}}}"#
    )
}

/// S3.7, S2.4: text and thinking as they come, parallel calls, argument bytes to the byte.
#[tokio::test]
async fn s3_7_a_streamed_answer_keeps_the_argument_bytes() {
    let (head, tail) = EXACT.split_at(24);
    let stream = sse(&[
        START,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"H"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"ZGF0YQ=="}}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Hel"}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"lo é"}}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"shop_refund","input":{}}}"#,
        &delta(3, ""),
        &delta(3, head),
        r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t2","name":"shop_get","input":{}}}"#,
        &delta(3, tail),
        r#"{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"t3","name":"whole","input":{ "n": 1.10 }}}"#,
        r#"{"type":"content_block_start","index":6,"content_block":{"type":"server_tool_use","id":"s","name":"web","input":{}}}"#,
        &delta(6, "{}"),
        r#"{"type":"something_new","x":1}"#,
        &stopped("tool_use"),
        STOP,
    ]);
    let (fake, registry) = provider(vec![Does::Streams(stream)]).await;
    let (reply, heard) = ask(&registry, simple()).await;
    assert_eq!(heard, ["Hel", "lo é"]);
    let thought = |text: &str, signature: &str| Thinking {
        text: text.into(),
        signature: Some(signature.into()),
    };
    let call = |name: &str, args: &str| ModelCall {
        name: name.into(),
        args: args.into(),
    };
    assert_eq!(
        reply,
        ModelReply::Answer {
            text: "Hello é".into(),
            thinking: vec![thought("Hm", "c2ln"), thought("", "redacted:ZGF0YQ==")],
            calls: vec![
                call("shop_refund", EXACT),
                call("shop_get", "{}"),
                call("whole", r#"{ "n": 1.10 }"#)
            ],
            model: "one".into(),
            // All that was read counts as input; the cached part is told apart.
            usage: Usage {
                input: 60,
                cached: 30,
                output: 9
            },
            failovers: vec![],
        }
    );
    let seen = &fake.seen()[0];
    assert!(
        seen.head.starts_with("post /v1/messages http/1.1\r\n"),
        "{}",
        seen.head
    );
    assert!(seen.head.contains(&format!("x-api-key: {KEY}\r\n")));
    assert!(seen.head.contains("anthropic-version: 2023-06-01\r\n"));
}

/// B58: the last total of each kind stands, whichever event carries it.
#[tokio::test]
async fn b58_running_totals_count_once() {
    let total = |output: u32| {
        format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{{"input_tokens":11,"cache_read_input_tokens":30,"cache_creation_input_tokens":null,"output_tokens":{output}}}}}"#
        )
    };
    let stream = sse(&[START, &total(4), &total(8), &total(8), STOP]);
    let (_fake, registry) = provider(vec![Does::Streams(stream)]).await;
    match ask(&registry, simple()).await.0 {
        ModelReply::Answer { usage, .. } => {
            assert_eq!(
                usage,
                Usage {
                    input: 61,
                    cached: 30,
                    output: 8
                }
            );
        }
        ModelReply::Failed { message, .. } => panic!("{message}"),
    }
}

/// B19, S4.8: the exact body after a turn of mixed results; thinking goes back to its own model, and
/// unsigned thinking to none.
#[tokio::test]
async fn b19_the_request_is_well_formed_after_mixed_results() {
    let stream = sse(&[START, &stopped("end_turn"), STOP]);
    let (fake, registry) = provider(vec![Does::Streams(stream)]).await;
    ask(&registry, mixed()).await;
    let expected = [
        r#"{"model":"some-model-high","max_tokens":1000,"system":"You help.","messages":["#,
        r#"{"role":"user","content":[{"type":"text","text":"Pay the bills"}]},"#,
        r#"{"role":"assistant","content":["#,
        r#"{"type":"thinking","thinking":"First,","signature":"sig1"},"#,
        r#"{"type":"redacted_thinking","data":"ZGF0YQ=="},"#,
        r#"{"type":"text","text":"Looking."},"#,
        r#"{"type":"tool_use","id":"call_1_1","name":"shop_get","input":{"amount": 1.10,"id":123456789012345678901234567890,"s":"\u00e9é"}},"#,
        r#"{"type":"tool_use","id":"call_1_2","name":"shop_get","input":{}},"#,
        r#"{"type":"tool_use","id":"call_1_3","name":"shop_get","input":{}},"#,
        r#"{"type":"tool_use","id":"call_1_4","name":"shop_get","input":{}},"#,
        r#"{"type":"tool_use","id":"call_1_5","name":"made_up_tool","input":{}}]},"#,
        r#"{"role":"user","content":["#,
        r#"{"type":"tool_result","tool_use_id":"call_1_1","content":"paid"},"#,
        r#"{"type":"tool_result","tool_use_id":"call_1_2","content":"denied by user: a person decided against this call; it did not run."},"#,
        r#"{"type":"tool_result","tool_use_id":"call_1_3","content":"awaiting review, not executed"},"#,
        r#"{"type":"tool_result","tool_use_id":"call_1_4","content":"(the tool failed and said nothing)","is_error":true},"#,
        r#"{"type":"tool_result","tool_use_id":"call_1_5","content":"not available: there is no such tool for this agent.","is_error":true},"#,
        r#"{"type":"text","text":"Hurry"},{"type":"text","text":"[note] result of the earlier call"}]},"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"call_2_1","name":"shop_get","input":{"#,
        "\n",
        r#"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_2_1"}]}],"#,
        r#""tools":[{"name":"shop_get","description":"Gets an order.","input_schema":{"type":"object","properties":{"n":{"type":"number","maximum":1.10}}}},"#,
        r#"{"name":"bare","input_schema":{"type":"object","properties":{}}}],"stream":true}"#,
    ];
    assert_eq!(fake.bodies(), [expected.concat()]);
}

#[tokio::test]
async fn a_cut_answer_leaves_its_last_call_for_the_judge_to_refuse() {
    let begun = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"t","input":{}}}"#;
    for (reason, json, expected) in [
        ("tool_use", "", "{}"),
        ("max_tokens", "", ""),
        ("max_tokens", r#"{"a"#, r#"{"a"#),
    ] {
        let stream = sse(&[START, begun, &delta(0, json), &stopped(reason), STOP]);
        let (_fake, registry) = provider(vec![Does::Streams(stream)]).await;
        match ask(&registry, simple()).await.0 {
            ModelReply::Answer { calls, .. } => assert_eq!(calls[0].args, expected),
            ModelReply::Failed { message, .. } => panic!("{message}"),
        }
    }
}

#[tokio::test]
async fn a_stop_by_safety_rules_is_no_answer() {
    let stream = sse(&[START, &stopped("refusal"), STOP]);
    let (_fake, registry) = provider(vec![Does::Streams(stream)]).await;
    let (reply, _) = ask(&registry, simple()).await;
    assert!(
        matches!(reply, ModelReply::Failed { code, .. } if code.as_str() == "provider.refused")
    );
}

#[tokio::test]
async fn an_address_without_a_path_gets_the_version() {
    let stream = sse(&[START, &stopped("end_turn"), STOP]);
    let fake = FakeProvider::start(vec![Does::Streams(stream)]).await;
    let bare = fake.url.strip_suffix("/v1/").unwrap();
    let registry = chain(vec![("one", model(Provider::Anthropic, bare))]);
    let (reply, _) = ask(&registry, simple()).await;
    assert!(matches!(reply, ModelReply::Answer { .. }));
    assert!(fake.seen()[0].head.starts_with("post /v1/messages "));
}

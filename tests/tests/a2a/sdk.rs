//! The protocol's Python SDK, on all three bindings.

use sayso_tests::{Case, both};
use serde_json::json;

use crate::{BINDINGS, WORLD, asking, gated, offered, sdk};

both! {
    /// S6.13: a task is sent, answered, read, listed in pages, and its context holds several.
    async fn s6_13_a_task_is_sent_read_and_listed(case: Case) {
        case.deploy(&offered("a2a-plain", "plain")).await;
        for binding in BINDINGS {
            let ask = async |said: &[&str]| sdk(&case, "sub", binding, "a2a-plain", said).await;
            let context = format!("ctx-{}", uuid::Uuid::now_v7());
            let mut ids = Vec::new();
            for _ in 0..3 {
                let told = ask(&["send", "hi", "", "", &context]).await.remove(0);
                assert_eq!(told["state"], "COMPLETED", "{binding}: {told}");
                assert_eq!(told["context"], context);
                assert_eq!(told["artifacts"], json!([["output", "hello"]]));
                assert_eq!(told["history"], json!(["hi"]));
                ids.insert(0, told["id"].as_str().unwrap().to_owned());
            }
            let got = ask(&["get", &ids[0]]).await.remove(0);
            assert_eq!(got["state"], "COMPLETED", "{binding}: {got}");
            let pages = ask(&["list", &context]).await;
            assert_eq!(
                pages,
                [json!({"total": 3, "tasks": ids[..2]}), json!({"total": 3, "tasks": ids[2..]})],
                "{binding}"
            );
            let again = ask(&["send", "more", &ids[0]]).await;
            assert_eq!(again, [json!({"error": "UnsupportedOperationError"})], "{binding}");
            let cancelled = ask(&["cancel", &ids[0]]).await;
            assert_eq!(cancelled, [json!({"error": "TaskNotCancelableError"})], "{binding}");
            let none = ask(&["get", "run_none"]).await;
            assert_eq!(none, [json!({"error": "TaskNotFoundError"})], "{binding}");
        }
    }

    /// S6.13: a stream begins with the task and tells each change; a question ends it, and a reply in
    /// another stream goes on.
    async fn s6_13_a_task_streams_asks_and_goes_on(case: Case) {
        case.deploy(&asking("a2a-asking")).await;
        for binding in BINDINGS {
            let ask = async |said: &[&str]| sdk(&case, "sub", binding, "a2a-asking", said).await;
            let told = ask(&["stream", "hi"]).await;
            let first = &told[0];
            let id = first["id"].as_str().unwrap_or_else(|| panic!("{binding}: {told:?}"));
            let last = told.last().unwrap();
            assert_eq!(*last, json!({"status": "INPUT_REQUIRED", "says": "Which one?"}), "{binding}");
            let working = json!({"status": "WORKING", "says": "Let me see."});
            assert!(told.contains(&working), "{binding}: {told:?}");

            let waits = ask(&["get", id]).await.remove(0);
            assert_eq!(waits["says"], "Which one?");
            assert_eq!(waits["history"], json!(["hi", "Which one?"]));

            let told = ask(&["stream", "the red one", id]).await;
            assert_eq!(told[0]["id"], id, "{binding}");
            let ends = [json!({"artifact": "thank you"}), json!({"status": "COMPLETED", "says": ""})];
            let whole = told.len() == 1 && told[0]["state"] == "COMPLETED";
            assert!(whole || told.ends_with(&ends), "{binding}: {told:?}");
        }
    }

    /// S6.13: a held call makes its task wait and says that a message decides nothing; another principal
    /// approves, and whoever subscribed is told the end.
    async fn s6_13_a_held_call_waits_for_somebody_else(case: Case) {
        case.deploy(&gated("a2a-gated")).await;
        for binding in BINDINGS {
            let ask = async |said: &[&str]| sdk(&case, "sub", binding, "a2a-gated", said).await;
            let held = ask(&["send", "append 1"]).await.remove(0);
            assert_eq!(held["state"], "INPUT_REQUIRED", "{binding}: {held}");
            let says = held["says"].as_str().unwrap();
            assert!(says.contains("leaves the call undecided"), "{binding}: {says}");
            let id = held["id"].as_str().unwrap();
            let approval = case.app.held(id, 1).await.remove(0);

            let subscribe = ["subscribe", id];
            let subscribed = ask(&subscribe);
            let decides = async {
                case.app.approve(&approval).await;
            };
            let (told, ()) = tokio::join!(subscribed, decides);
            let whole = told.len() == 1 && told[0]["error"] == "UnsupportedOperationError";
            let ends = [json!({"artifact": "done"}), json!({"status": "COMPLETED", "says": ""})];
            assert!(whole || told.ends_with(&ends), "{binding}: {told:?}");
            case.completed(id).await;
        }
    }

    /// S6.13: a waiting task is cancelled, and its files are artifacts.
    async fn s6_13_a_task_is_cancelled_and_files_are_artifacts(case: Case) {
        case.deploy(&asking("a2a-cancel")).await;
        let filing = offered("a2a-filing", "filing").field("builtins", json!(["create_artifact"]));
        case.deploy(&filing).await;
        for binding in BINDINGS {
            let waits = sdk(&case, "sub", binding, "a2a-cancel", &["send", "hi"]).await.remove(0);
            let id = waits["id"].as_str().unwrap();
            let gone = sdk(&case, "sub", binding, "a2a-cancel", &["cancel", id]).await.remove(0);
            assert_eq!(gone["state"], "CANCELED", "{binding}: {gone}");
            let filed = sdk(&case, "sub", binding, "a2a-filing", &["send", "hi"]).await.remove(0);
            let expected = json!([["a.txt", "raw"], ["b.json", "data"], ["output", "filed"]]);
            assert_eq!(filed["artifacts"], expected, "{binding}");
        }
    }

    /// S6.13, B43: who has no token, another tenant's, or one that starts nothing, starts nothing; and
    /// an agent that is not offered is none.
    async fn s6_13_only_who_may_calls_what_is_offered(case: Case) {
        case.deploy(&offered("a2a-closed", "plain")).await;
        let told = sdk(&case, "sub", "JSONRPC", "a2a-closed", &["send", "hi"]).await.remove(0);
        let id = told["id"].as_str().unwrap();
        for binding in BINDINGS {
            for holder in ["app", "foreigner"] {
                let told = sdk(&case, holder, binding, "a2a-closed", &["send", "hi"]).await;
                assert!(told[0].get("id").is_none(), "{binding} {holder}: {told:?}");
            }
        }
        case.deploy(&offered("a2a-closed", "plain").field("a2a", json!(false))).await;
        let path = format!("default/a2a-closed/tasks/{id}");
        let (status, body) = crate::asked(&case, "sub", reqwest::Method::GET, &path, None).await;
        assert_eq!((status, &body["error"]["status"]), (404, &json!("NOT_FOUND")), "{body}");
    }
}

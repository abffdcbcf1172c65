//! What is refused, and how each binding tells of it.

use reqwest::Method;
use sayso_tests::{Case, both};
use serde_json::{Value, json};

use crate::{WORLD, asked, asking, message, offered, rpc};

const DOMAIN: &str = "a2a-protocol.org";

/// The reason of an error of the protocol.
fn reason(details: &Value) -> &str {
    let info = &details[0];
    assert_eq!(
        info["@type"], "type.googleapis.com/google.rpc.ErrorInfo",
        "{details}"
    );
    assert_eq!(info["domain"], DOMAIN, "{details}");
    info["reason"].as_str().unwrap()
}

both! {
    /// S6.13: each error of the protocol has its code over JSON-RPC and its status over HTTP.
    async fn s6_13_errors_are_those_of_the_protocol(case: Case) {
        case.deploy(&offered("a2a-errors", "plain")).await;
        let done = rpc(&case, "sub", "a2a-errors", "SendMessage", json!({"message": message("m1", "hi")})).await;
        let id = done["result"]["task"]["id"].as_str().unwrap().to_owned();
        let mut more = message("m2", "more");
        more["taskId"] = json!(id);
        let mut file = message("m3", "x");
        file["parts"] = json!([{"raw": "dGNr", "mediaType": "application/x-unknown"}]);
        for (method, params, path, body, code, status, word) in [
            ("GetTask", json!({"id": "run_none"}), "tasks/run_none".to_owned(), None, -32001, 404, "TASK_NOT_FOUND"),
            ("GetTask", json!({"id": "nonsense/.."}), "tasks/nonsense".to_owned(), None, -32001, 404, "TASK_NOT_FOUND"),
            ("CancelTask", json!({"id": id}), format!("tasks/{id}:cancel"), Some(json!({})), -32002, 400, "TASK_NOT_CANCELABLE"),
            ("SendMessage", json!({"message": more}), "message:send".to_owned(), Some(json!({"message": more})), -32004, 400, "UNSUPPORTED_OPERATION"),
            ("SubscribeToTask", json!({"id": id}), format!("tasks/{id}:subscribe"), Some(json!({})), -32004, 400, "UNSUPPORTED_OPERATION"),
            ("GetExtendedAgentCard", json!({}), "extendedAgentCard".to_owned(), None, -32004, 400, "UNSUPPORTED_OPERATION"),
            ("SendMessage", json!({"message": file}), "message:send".to_owned(), Some(json!({"message": file})), -32005, 400, "CONTENT_TYPE_NOT_SUPPORTED"),
        ] {
            let told = rpc(&case, "sub", "a2a-errors", method, params).await;
            assert_eq!(told["error"]["code"], code, "{told}");
            assert_eq!(reason(&told["error"]["data"]), word);
            let verb = if body.is_some() { Method::POST } else { Method::GET };
            let (is, told) = asked(&case, "sub", verb, &format!("default/a2a-errors/{path}"), body).await;
            assert_eq!(is, status, "{told}");
            assert_eq!(told["error"]["code"], status);
            assert_eq!(reason(&told["error"]["details"]), word);
        }
    }

    /// S10.5: a wrong request is told by its fields, and one that is none by the codes of JSON-RPC.
    async fn s10_5_wrong_requests_are_told_by_field(case: Case) {
        case.deploy(&offered("a2a-wrong", "plain")).await;
        for (params, field) in [
            (json!({}), "message"),
            (json!({"message": {"role": "ROLE_USER", "parts": [{"text": "x"}]}}), "message.messageId"),
            (json!({"message": {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}}), "message.role"),
            (json!({"message": {"messageId": "a", "role": "ROLE_USER"}}), "message.parts"),
            (json!({"message": {"messageId": "a", "role": "ROLE_USER", "parts": [{}]}}), "message.parts"),
        ] {
            let told = rpc(&case, "sub", "a2a-wrong", "SendMessage", params).await;
            assert_eq!(told["error"]["code"], -32602, "{told}");
            assert_eq!(told["error"]["data"][1]["fieldViolations"][0]["field"], field);
        }
        let told = rpc(&case, "sub", "a2a-wrong", "ListTasks", json!({"pageSize": 101})).await;
        assert_eq!(told["error"]["data"][1]["fieldViolations"][0]["field"], "pageSize");
        for (body, code) in [
            (json!([]), -32600),
            (json!({"jsonrpc": "1.0", "id": 1, "method": "GetTask"}), -32600),
            (json!({"jsonrpc": "2.0", "method": "GetTask"}), -32600),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "DecideApproval"}), -32601),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": []}), -32602),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": 5}}), -32602),
        ] {
            let (status, told) = asked(&case, "sub", Method::POST, "default/a2a-wrong", Some(body)).await;
            assert_eq!((status, &told["error"]["code"]), (200, &json!(code)), "{told}");
        }
        let unknown = json!({"message": message("m9", "hi"), "later": {"a": 1}});
        let told = rpc(&case, "sub", "a2a-wrong", "SendMessage", unknown).await;
        assert!(told["result"]["task"]["id"].is_string(), "what is not known is passed over: {told}");
    }

    /// S6.13: one version is spoken; a client that says none means 0.3.
    async fn s6_13_other_versions_are_refused(case: Case) {
        case.deploy(&offered("a2a-version", "plain")).await;
        let client = reqwest::Client::new();
        let url = format!("{}/a2a/default/a2a-version/tasks", case.address(0));
        let token = case.token("sub");
        for (header, query, status) in [
            (Some("1.0"), "", 200),
            (None, "?A2A-Version=1.0", 200),
            (Some("0.3"), "", 400),
            (Some(""), "", 400),
            (None, "", 400),
        ] {
            let mut request = client.get(format!("{url}{query}")).bearer_auth(&token);
            if let Some(version) = header {
                request = request.header("a2a-version", version);
            }
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), status, "{header:?} {query}");
            if status != 200 {
                let told: Value = answer.json().await.unwrap();
                assert_eq!(reason(&told["error"]["details"]), "VERSION_NOT_SUPPORTED");
            }
        }
        let door = format!("{}/a2a/default/a2a-version", case.address(0));
        for (url, status) in [(door.clone(), 200), (format!("{door}/message:send"), 415)] {
            let request = client.post(url).bearer_auth(&token).header("a2a-version", "1.0");
            let request = request.header("content-type", "text/plain").body("{}");
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), status);
            let told: Value = answer.json().await.unwrap();
            let error = &told["error"];
            let details = if status == 200 { &error["data"] } else { &error["details"] };
            assert_eq!(reason(details), "CONTENT_TYPE_NOT_SUPPORTED", "{told}");
        }
        let stranger = client.get(&url).header("a2a-version", "1.0").send().await.unwrap();
        assert_eq!(stranger.status(), 401);
        assert_eq!(stranger.headers()["www-authenticate"], "Bearer");
    }

    /// S1.1: a message does nothing twice, and an id is one message's.
    async fn s1_1_a_message_does_nothing_twice(case: Case) {
        case.deploy(&asking("a2a-twice")).await;
        let send = async |message: &Value| {
            rpc(&case, "sub", "a2a-twice", "SendMessage", json!({"message": message})).await
        };
        let first = send(&message("same", "hi")).await;
        let id = first["result"]["task"]["id"].as_str().unwrap().to_owned();
        let again = send(&message("same", "hi")).await;
        assert_eq!(again["result"]["task"]["id"], id, "{again}");
        let other = send(&message("same", "something else")).await;
        assert_eq!(other["error"]["code"], -32602, "{other}");
        let mut reply = message("reply", "the red one");
        reply["taskId"] = json!(id);
        for _ in 0..2 {
            let told = send(&reply).await;
            assert_eq!(told["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{told}");
        }
        let mut elsewhere = message("m", "x");
        elsewhere["taskId"] = json!(id);
        elsewhere["contextId"] = json!("another");
        assert_eq!(send(&elsewhere).await["error"]["code"], -32602);
    }

    /// S6.13: cards are public, name this server, and are asked again only once they changed.
    async fn s6_13_cards_are_public_and_kept(case: Case) {
        case.deploy(&offered("a2a-root", "plain").field("description", json!("Says hello."))).await;
        let client = reqwest::Client::new();
        let server = case.address(0);
        let own = format!("{server}/a2a/default/a2a-root/.well-known/agent-card.json");
        let answer = client.get(&own).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.headers()["cache-control"].to_str().unwrap().contains("max-age"));
        let tag = answer.headers()["etag"].clone();
        let card: Value = answer.json().await.unwrap();
        assert_eq!(card["description"], "Says hello.");
        let door = format!("{server}/a2a/default/a2a-root");
        assert_eq!(card["supportedInterfaces"][0]["url"], door);
        assert_eq!(card["supportedInterfaces"][2]["tenant"], "a2a-root");
        assert_eq!(card["capabilities"]["streaming"], true);
        let same = client.get(&own).header("if-none-match", tag).send().await.unwrap();
        assert_eq!(same.status(), 304);
        let root = client.get(format!("{server}/.well-known/agent-card.json")).send().await.unwrap();
        assert_eq!(root.json::<Value>().await.unwrap(), card);
        for hidden in ["default/nobody", "other/a2a-root"] {
            let url = format!("{server}/a2a/{hidden}/.well-known/agent-card.json");
            assert_eq!(client.get(url).send().await.unwrap().status(), 404, "{hidden}");
        }
    }
}

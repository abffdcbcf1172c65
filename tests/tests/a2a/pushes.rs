//! Receivers of tasks: told what happens, as long as it takes.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use sayso_tests::{Case, both, until};
use serde_json::{Value, json};

use crate::{BINDINGS, WORLD, asking, message, offered, rpc, sdk};

/// What came in.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<(HeaderMap, Value)>>>);

impl Sink {
    /// Listens on a port of its own; refuses the first `busy` that come.
    async fn start(&self, busy: usize) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = (self.clone(), Arc::new(Mutex::new(busy)));
        let router = Router::new().route("/told", post(take)).with_state(state);
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/told")
    }

    fn states(&self) -> Vec<String> {
        let state = |(_, body): &(HeaderMap, Value)| {
            body["task"]["status"]["state"].as_str().unwrap().to_owned()
        };
        self.0.lock().unwrap().iter().map(state).collect()
    }
}

async fn take(
    State((sink, busy)): State<(Sink, Arc<Mutex<usize>>)>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let mut busy = busy.lock().unwrap();
    if *busy > 0 {
        *busy -= 1;
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    sink.0
        .lock()
        .unwrap()
        .push((headers, serde_json::from_slice(&body).unwrap()));
    StatusCode::NO_CONTENT
}

both! {
    /// S6.13, S8.1: a receiver gets what its task waits for and how it ended, with the credentials that it
    /// was registered with; one that is busy is tried again.
    async fn s6_13_receivers_are_told(case: Case) {
        case.deploy(&asking("a2a-push")).await;
        for (number, binding) in BINDINGS.into_iter().enumerate() {
            let sink = Sink::default();
            let url = sink.start(number).await;
            let told = sdk(&case, "sub", binding, "a2a-push", &["push", "hi", &url]).await.remove(0);
            assert_eq!(told["state"], "INPUT_REQUIRED", "{binding}: {told}");
            let id = told["id"].as_str().unwrap();
            until("the receiver hears of the question", async || {
                sink.states().iter().any(|state| state == "TASK_STATE_INPUT_REQUIRED").then_some(())
            }).await;
            sdk(&case, "sub", binding, "a2a-push", &["send", "the red one", id]).await;
            until("the receiver hears of the end", async || {
                (sink.states().last()? == "TASK_STATE_COMPLETED").then_some(())
            }).await;
            let (headers, body) = sink.0.lock().unwrap().last().unwrap().clone();
            assert_eq!(headers["authorization"], "Bearer the-secret");
            assert_eq!(headers["x-a2a-notification-token"], "the-token");
            assert_eq!(headers["content-type"], "application/a2a+json");
            assert_eq!(body["task"]["id"], id);
            assert_eq!(body["task"]["artifacts"][0]["parts"][0]["text"], "thank you");
        }
    }

    /// S6.13: receivers are made, shown without their secrets, listed and deleted, as often as one likes.
    async fn s6_13_receivers_are_kept_and_deleted(case: Case) {
        case.deploy(&offered("a2a-kept", "plain")).await;
        for binding in BINDINGS {
            let told = sdk(&case, "sub", binding, "a2a-kept", &["send", "hi"]).await.remove(0);
            let id = told["id"].as_str().unwrap();
            let url = "https://example.org/told";
            let told = sdk(&case, "sub", binding, "a2a-kept", &["pushes", id, url]).await;
            let expected = [json!({"url": url, "listed": 1}), json!({"error": "TaskNotFoundError"})];
            assert_eq!(told, expected, "{binding}");
        }
        let sent = rpc(&case, "sub", "a2a-kept", "SendMessage", json!({"message": message("m", "hi")})).await;
        let id = sent["result"]["task"]["id"].clone();
        for url in ["ftp://example.org", "example.org", "https://a:b@example.org"] {
            let params = json!({"taskId": id, "url": url});
            let told = rpc(&case, "sub", "a2a-kept", "CreateTaskPushNotificationConfig", params).await;
            assert_eq!(told["error"]["code"], -32602, "{url}: {told}");
        }
        let params = json!({"taskId": id, "id": "a", "url": "https://example.org", "token": "t",
            "authentication": {"scheme": "Bearer", "credentials": "hidden"}});
        rpc(&case, "sub", "a2a-kept", "CreateTaskPushNotificationConfig", params).await;
        let shown = rpc(&case, "sub", "a2a-kept", "GetTaskPushNotificationConfig", json!({"taskId": id, "id": "a"})).await;
        assert_eq!(shown["result"]["authentication"]["scheme"], "Bearer", "{shown}");
        assert!(!shown.to_string().contains("hidden"), "{shown}");
    }
}

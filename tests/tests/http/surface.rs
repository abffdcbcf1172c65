//! Verbs, paths, headers, pages.

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use sayso_tests::{Bundle, Case, both};
use serde_json::{Value, json};

use super::{WORLD, gated};
use crate::caller::Caller;

both! {
    /// S6.13: a whole run over HTTP alone: deployed, started, watched, decided, read.
    async fn s6_13_a_run_needs_nothing_but_http(case: Case) {
        let admin = Caller::of(&case, "admin");
        let bundle = case.bundle(&gated("whole"));
        let deployed = admin.post("/v1/agents", &json!({"bundle": bundle})).await.ok();
        assert_eq!(deployed["created"], true);
        let (sub, app) = (Caller::of(&case, "sub"), Caller::of(&case, "app"));
        let run = sub.start("whole").await;
        let mut events = app.watch(&format!("/v1/runs/{run}:watch"), None).await;
        let held = loop {
            let event = events.next().await.unwrap();
            if event.data["step"]["type"] == "awaiting_approval" {
                break event.data;
            }
        };
        assert_eq!(held["runStatus"], "RUN_STATUS_AWAITING_APPROVAL");
        let pending = format!("/v1/approvals?run_id={run}&statuses=APPROVAL_STATUS_PENDING");
        let pending = app.get(&pending).await.ok();
        let approval = pending["approvals"][0]["id"].as_str().unwrap();
        let read = app.get(&format!("/v1/approvals/{approval}")).await.ok();
        assert_eq!(read["approval"]["argsJson"], r#"{"n":1}"#);
        app.decide(approval, "VERDICT_APPROVE").await.ok();
        loop {
            let event = events.next().await.unwrap();
            if event.kind == "end" {
                break;
            }
        }
        let done = sub.get(&format!("/v1/runs/{run}")).await.ok();
        assert_eq!(done["run"]["status"], "RUN_STATUS_COMPLETED");
        assert_eq!(case.ledger.numbers(&run), [1]);
        let late = app.decide(approval, "VERDICT_DENY").await;
        assert_eq!(late.problem(), (409, "approval.already_decided".to_owned()));
        assert_eq!(late.json()["metadata"]["decided_by"], "app");
    }

    /// S6.13: an idempotency key stands in the header, and starts one run however often it is sent.
    async fn s6_13_the_key_is_a_header(case: Case) {
        case.deploy(&Bundle::new("keyed").tier("none")).await;
        let sub = Caller::of(&case, "sub");
        let start = async |key: &str, body: Value| {
            let request = sub.request(Method::POST, "/v1/runs").header("idempotency-key", key);
            Caller::send(request.json(&body)).await
        };
        let asked = json!({"agent": "keyed", "input": "go"});
        let first = start("k1", asked.clone()).await.ok();
        let again = start("k1", asked.clone()).await.ok();
        assert_eq!(again["alreadyStarted"], true);
        assert_eq!(first["run"]["id"], again["run"]["id"]);
        let other = start("k1", json!({"agent": "keyed", "input": "else"})).await;
        assert_eq!(other.problem(), (409, "request.key_reused".to_owned()));
        let both = start("k2", json!({"agent": "keyed", "input": "go", "idempotencyKey": "k3"})).await;
        assert_eq!(both.problem(), (400, "request.invalid".to_owned()));
        assert_eq!(both.json()["fields"][0]["field"], "idempotency_key");
        case.completed(first["run"]["id"].as_str().unwrap()).await;
    }

    /// S6.13, B53: pages lose nothing at their edges.
    async fn s6_13_lists_come_in_pages(case: Case) {
        case.deploy(&Bundle::new("paged").tier("none")).await;
        let sub = Caller::of(&case, "sub");
        let mut started = Vec::new();
        for _ in 0..5 {
            started.push(sub.start("paged").await);
        }
        started.reverse();
        let (mut listed, mut token) = (Vec::new(), String::new());
        loop {
            let page = format!("/v1/runs?agent=paged&page_size=2&page_token={token}");
            let page = sub.get(&page).await.ok();
            let runs = page["runs"].as_array().unwrap();
            listed.extend(runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()));
            token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(listed, started);
        let bad = sub.get("/v1/runs?page_token=nonsense").await;
        assert_eq!(bad.problem(), (400, "page.malformed".to_owned()));
        assert_eq!(bad.json()["fields"][0]["field"], "page_token");
    }

    /// S6.13: what a path does not have is not found, what it does not answer is not allowed, and HEAD
    /// and OPTIONS change nothing.
    async fn s6_13_verbs_and_paths_are_told_apart(case: Case) {
        let app = Caller::of(&case, "app");
        for path in ["/v1", "/v1/", "/v1/nothing", "/v1/runs/", "/v1/runs/a/b/c", "/v1/runs//steps"] {
            assert_eq!(app.get(path).await.problem(), (404, "http.not_found".to_owned()), "{path}");
        }
        for (verb, path, allow) in [
            ("DELETE", "/v1/runs", "GET, HEAD, OPTIONS, POST"),
            ("GET", "/v1/runs/run_1:cancel", "OPTIONS, POST"),
            ("TRACE", "/v1/budget", "DELETE, GET, HEAD, OPTIONS, PUT"),
            ("QUERY", "/v1/runs", "GET, HEAD, OPTIONS, POST"),
        ] {
            let verb = Method::from_bytes(verb.as_bytes()).unwrap();
            let refused = Caller::send(app.request(verb, path)).await;
            assert_eq!(refused.problem(), (405, "http.method_not_allowed".to_owned()), "{path}");
            assert_eq!(refused.header("allow"), allow);
        }
        let options = Caller::send(app.request(Method::OPTIONS, "/v1/runs")).await;
        assert_eq!((options.status, options.text.as_str()), (204, ""));
        assert_eq!(options.header("allow"), "GET, HEAD, OPTIONS, POST");
        let head = Caller::send(app.request(Method::HEAD, "/v1/runs")).await;
        assert_eq!((head.status, head.text.as_str()), (200, ""));
        assert_eq!(head.header("content-type"), "application/json");
        let started = Caller::send(app.request(Method::HEAD, "/v1/runs:import")).await;
        assert_eq!(started.status, 405);
    }

    /// S2.6: an exported run is taken in over HTTP as it was written, whole or not at all.
    async fn an_export_is_taken_in_over_http(case: Case) {
        let run = case.begin(&Bundle::new("exported").tier("none")).await;
        case.completed(&run).await;
        let export = case.sayso_as("admin", ["runs", "export", &run]).expect_success().stdout;
        let admin = Caller::of(&case, "admin");
        let import = |kind: &'static str, body: String| {
            let request = admin.request(Method::POST, "/v1/runs:import");
            Caller::send(request.header(CONTENT_TYPE, kind).body(body))
        };
        let taken = import("application/x-ndjson", export.clone()).await.ok();
        assert_eq!(taken["sealsHold"], true);
        assert_ne!(taken["run"]["id"], run.as_str());
        let broken = export.replacen("done", "gone", 1);
        let refused = import("application/x-ndjson", broken).await.problem();
        assert_eq!(refused, (400, "import.invalid".to_owned()));
        let refused = import("application/json", export).await.problem();
        assert_eq!(refused, (415, "http.unsupported_media_type".to_owned()));
    }
}

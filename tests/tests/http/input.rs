//! Bad input: a clear problem, nothing changed, and never a fault of ours (S10.5).

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use sayso_tests::{Bundle, Case, both};
use serde_json::json;

use super::WORLD;
use crate::caller::Caller;

both! {
    /// S10.5: whatever is sent as a body, the answer says what is wrong with it.
    async fn s10_5_a_bad_body_is_a_clear_problem(case: Case) {
        case.deploy(&Bundle::new("bad-body").tier("none")).await;
        let sub = Caller::of(&case, "sub");
        let deep = format!(r#"{{"agent": {}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
        for body in [
            "{", "nonsense", "null", "[]", "5", "{} {}", "\u{0}", "{\"agent\": 1e999}",
            r#"{"agent": "bad-body", "input": "\ud800"}"#, r#"{"agent": 7}"#,
            r#"{"agent": {"a": "b"}}"#, r#"{"colour": "red"}"#, deep.as_str(),
            r#"{"agent": "bad-body", "agent": "bad-body"}"#,
        ] {
            let refused = sub.post_text("/v1/runs", body).await;
            assert_eq!(refused.problem(), (400, "request.invalid".to_owned()), "{body:.80}");
            assert!(refused.text.len() < 2000, "{refused:?}");
        }
        let nul = sub.post_text("/v1/runs", r#"{"agent": "bad-body", "input": "a\u0000b"}"#).await;
        assert_eq!(nul.problem(), (400, "request.invalid_text".to_owned()));
        let long = json!({"agent": "bad-body", "input": "x".repeat((1 << 20) + 1)});
        let refused = sub.post("/v1/runs", &long).await.problem();
        assert_eq!(refused, (413, "request.too_large".to_owned()));
        let runs = sub.get("/v1/runs?agent=bad-body").await.ok();
        assert_eq!(runs, json!({}));
    }

    /// S10.5: a body of another type, or larger than any request, is not read.
    async fn s10_5_a_body_of_another_kind_is_not_read(case: Case) {
        let sub = Caller::of(&case, "sub");
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json", ""] {
            let request = sub.request(Method::POST, "/v1/runs").header(CONTENT_TYPE, kind);
            let refused = Caller::send(request.body(r#"{"agent": "x"}"#)).await;
            assert_eq!(refused.problem(), (415, "http.unsupported_media_type".to_owned()), "{kind}");
        }
        let huge = json!({"agent": "x", "input": "x".repeat(9 << 20)}).to_string();
        let request = sub.request(Method::POST, "/v1/runs").header(CONTENT_TYPE, "application/json");
        // The server may stop listening before everything is sent.
        if let Ok(answer) = request.body(huge).send().await {
            assert_eq!(answer.status(), 413);
        }
    }

    /// S10.5: so are paths, queries and headers that do not fit.
    async fn s10_5_a_bad_address_is_a_clear_problem(case: Case) {
        let app = Caller::of(&case, "app");
        for path in [
            "/v1/runs/%ff", "/v1/runs/%00", "/v1/runs/not-a-run", "/v1/runs?page_size=-1",
            "/v1/runs?page_size=99999999999999999999", "/v1/runs?statuses=RUNNING", "/v1/runs?a=%ff",
            "/v1/runs?created_after=never", "/v1/runs?colour=red", "/v1/runs?agent=a&agent=b",
            "/v1/runs/run_1:watch?steps_only=maybe", "/v1/runs/run_1?run_id=run_2",
            "/v1/agents/desk/logs?run_id=%00",
        ] {
            let refused = app.get(path).await.problem();
            assert_eq!(refused.0, 400, "{path}: {refused:?}");
        }
        let request = app.request(Method::GET, "/v1/runs/run_1:watch");
        let refused = Caller::send(request.header("last-event-id", "x")).await;
        assert_eq!(refused.problem(), (400, "request.invalid".to_owned()));
        let body = Caller::of(&case, "sub").post("/v1/runs?agent=x", &json!({})).await;
        assert_eq!(body.problem(), (400, "request.invalid".to_owned()));
        let unknown = app.get("/v1/runs/run_00000000000000000000000000000000").await;
        assert_eq!(unknown.problem(), (404, "run.not_found".to_owned()));
    }
}

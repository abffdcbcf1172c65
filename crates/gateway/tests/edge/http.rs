//! HTTP and JSON, as far as it takes no run: the description, and pages of other origins. The rest is
//! tested with whole deployments.

use std::path::Path;

use axum::body::{Body, to_bytes};
use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_TYPE, ORIGIN,
};
use http::{Method, Request, StatusCode};
use sayso_bus::local::LocalConfig;
use sayso_gateway::GatewayConfig;
use sayso_gateway::auth::Scope;
use serde_json::Value;
use tower::ServiceExt;

use crate::house::House;

async fn send(house: &House, request: http::request::Builder) -> Response {
    let request = request.body(Body::empty()).unwrap();
    house.gateway.router().oneshot(request).await.unwrap()
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// S6.13: what the API says of itself is `docs/openapi.json`. A change shows there;
/// `UPDATE_GOLDEN=1 cargo test -p sayso-gateway --test edge description` writes it anew.
#[tokio::test]
async fn s6_13_the_description_is_as_listed() {
    let house = House::new().await;
    let request = Request::get("/openapi.json").header("accept", "application/json");
    let response = send(&house, request).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    let served: Value = serde_json::from_str(&text(response).await).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let written = serde_json::to_string_pretty(&sorted(&served)).unwrap() + "\n";
        std::fs::write(&path, written).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let golden: Value = serde_json::from_str(&golden).unwrap();
    assert!(served == golden, "docs/openapi.json says something else");
    for (path, verbs) in served["paths"].as_object().unwrap() {
        for (verb, operation) in verbs.as_object().unwrap() {
            let said = operation["description"].as_str().unwrap();
            assert!(!said.is_empty(), "{verb} {path} says nothing");
        }
    }
}

/// The same with the keys of each object in order: how maps keep them is none of ours to choose.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort();
            let sorted = keys
                .into_iter()
                .map(|key| (key.clone(), sorted(&object[key])));
            Value::Object(sorted.collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

async fn open_to(origin: &str) -> House {
    let config = GatewayConfig {
        allowed_origins: vec![origin.to_owned()],
        ..GatewayConfig::default()
    };
    House::with(LocalConfig::default(), config).await
}

const OURS: &str = "https://ops.example.org";

/// Pages of the origins that are named may call over HTTP, refused or not; no other ones.
#[tokio::test]
async fn s6_13_pages_of_named_origins_may_call_over_http() {
    let house = open_to(OURS).await;
    let reader = house.person("shop", "reader", &[Scope::Read]).await;
    let bearer = format!("Bearer {}", reader.secret);
    let get = |origin: &str, bearer: &str| {
        Request::get("/v1/runs")
            .header(ORIGIN, origin)
            .header(AUTHORIZATION, bearer)
    };
    let answered = send(&house, get(OURS, &bearer)).await;
    assert_eq!(answered.status(), StatusCode::OK);
    assert_eq!(answered.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], OURS);
    let refused = send(&house, get(OURS, "Bearer nonsense")).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(refused.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], OURS);
    let other = send(&house, get("https://else.example.org", &bearer)).await;
    assert!(!other.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
    let closed = House::new().await;
    let closed = send(&closed, get(OURS, "Bearer nonsense")).await;
    assert!(!closed.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));

    for (path, allowed) in [
        ("/v1/runs", "GET, HEAD, OPTIONS, POST"),
        ("/sayso.v1.RunService/GetRun", "POST"),
    ] {
        let asked = |origin: &str| {
            Request::builder()
                .method(Method::OPTIONS)
                .uri(path)
                .header(ORIGIN, origin)
                .header(ACCESS_CONTROL_REQUEST_METHOD, "POST")
        };
        let told = send(&house, asked(OURS)).await;
        assert_eq!(told.status(), StatusCode::NO_CONTENT, "{path}");
        assert_eq!(told.headers()[ACCESS_CONTROL_ALLOW_METHODS], allowed);
        let headers = told.headers()[ACCESS_CONTROL_ALLOW_HEADERS]
            .to_str()
            .unwrap();
        assert!(headers.contains("idempotency-key") && headers.contains("x-grpc-web"));
        let told = send(&house, asked("https://else.example.org")).await;
        assert!(!told.headers().contains_key(ACCESS_CONTROL_ALLOW_METHODS));
    }
}

/// The same over gRPC-web.
#[tokio::test]
async fn s6_13_pages_of_named_origins_may_call_over_grpc_web() {
    let house = open_to(OURS).await;
    let call = |origin: &str| {
        Request::post("/sayso.v1.RunService/ListRuns")
            .header(CONTENT_TYPE, "application/grpc-web+proto")
            .header(ORIGIN, origin)
            .body(tonic::body::Body::empty())
            .unwrap()
    };
    let ask = async |origin| house.gateway.routes().oneshot(call(origin)).await.unwrap();
    let told = ask(OURS).await;
    assert_eq!(told.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], OURS);
    let told = ask("https://else.example.org").await;
    assert!(!told.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
}

//! JSON-RPC 2.0: the protocol's methods by their names.

use axum::body::Body;
use axum::response::Response;
use axum::response::sse::Event;
use http::{HeaderMap, StatusCode};
use prost::Message;
use sayso_service::error::{Coded, Kind};
use sayso_wire::code;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::door::{Door, Named, body_of, events, rpc_refused, rpc_response};
use super::fault::{Told, unread};
use super::written::written;
use crate::http::incoming::{Dialect, check_type, read};
use crate::http::problem::Problem;

/// A request. What else stands in it is passed over.
#[derive(Debug, Deserialize)]
struct Asked<'r> {
    #[serde(default)]
    jsonrpc: Value,
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Value,
    #[serde(borrow, default)]
    params: Option<&'r RawValue>,
}

/// Answers one request.
pub(super) async fn answer(
    door: &Door,
    named: &Named,
    mut headers: HeaderMap,
    body: Body,
) -> Response {
    if let Err(told) = named.name_in(&mut headers) {
        return rpc_refused(&Value::Null, &told);
    }
    // A token that opens nothing makes nobody parse megabytes; the method looks again.
    if let Some(place) = door.place("GetTask")
        && let Err(coded) = door.admit(&headers, place).await
        && coded.kind == Kind::Unauthenticated
    {
        return rpc_refused(&Value::Null, &coded.into());
    }
    if let Err(problem) = check_type(&headers, &["application/json"]) {
        let told = unread(problem).with_http(StatusCode::OK);
        return rpc_refused(&Value::Null, &told);
    }
    let bytes = match body_of(body).await {
        Ok(bytes) => bytes,
        Err(told) => return rpc_refused(&Value::Null, &told),
    };
    let asked: Asked<'_> = match serde_json::from_slice(&bytes) {
        Ok(asked) => asked,
        Err(error) => {
            let told = unreadable(&bytes, &error);
            return rpc_refused(&Value::Null, &told);
        }
    };
    let id = match asked.id {
        Some(id @ (Value::String(_) | Value::Number(_))) => id,
        Some(Value::Null) | None => {
            return rpc_refused(&Value::Null, &not_a_request("`id` is required"));
        }
        Some(_) => {
            return rpc_refused(
                &Value::Null,
                &not_a_request("`id` must be a text or a number"),
            );
        }
    };
    let answered = call(
        door,
        named,
        &headers,
        &id,
        &asked.jsonrpc,
        &asked.method,
        asked.params,
    );
    answered
        .await
        .unwrap_or_else(|told| rpc_refused(&id, &told))
}

async fn call(
    door: &Door,
    named: &Named,
    headers: &HeaderMap,
    id: &Value,
    version: &Value,
    method: &Value,
    params: Option<&RawValue>,
) -> Result<Response, Told> {
    if version != "2.0" {
        return Err(not_a_request("`jsonrpc` must be \"2.0\""));
    }
    let method = method
        .as_str()
        .ok_or_else(|| not_a_request("`method` must be a text"))?;
    let place = door.place(method).ok_or_else(|| no_method(method))?;
    door.admit(headers, place).await?;
    let params = params.map_or("{}", RawValue::get);
    if !params.starts_with('{') {
        let coded = Coded::new(
            Kind::Invalid,
            code::REQUEST_INVALID,
            "`params` must be an object.",
        );
        return Err(coded.into());
    }
    let message = read(params.as_bytes(), &place.method.input(), Dialect::A2A);
    let message = named.name_to(message.map_err(Problem::into_coded)?)?;
    let message = message.encode_to_vec().into();
    let (rpc, output) = (place.rpc.clone(), place.method.output());
    if place.is_watch() {
        let stream = door.calls().watch(rpc, headers, message).await;
        let stream = stream.map_err(|status| Told::from(&status))?;
        let id = id.clone();
        return Ok(events(stream, output, move |told| {
            let body = match told {
                Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                Err(told) => json!({"jsonrpc": "2.0", "id": id, "error": told.rpc_error()}),
            };
            Event::default().data(body.to_string())
        }));
    }
    let answer = door.calls().unary(rpc, headers, message).await;
    let answer = answer.map_err(|status| Told::from(&status))?;
    let result = written(answer, output)?;
    Ok(rpc_response(
        &json!({"jsonrpc": "2.0", "id": id, "result": result}),
    ))
}

/// What is wrong with a body: it is not JSON, or no request.
fn unreadable(bytes: &[u8], error: &serde_json::Error) -> Told {
    if serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_err() {
        let sentence = format!("The body is not JSON: {error}.");
        let coded = Coded::new(Kind::Invalid, code::REQUEST_INVALID, sentence);
        return Told::from(coded).with_rpc(-32700);
    }
    not_a_request("the body must be one object")
}

fn not_a_request(why: &str) -> Told {
    let sentence = format!("This is not a JSON-RPC request: {why}.");
    let coded = Coded::new(Kind::Invalid, code::REQUEST_INVALID, sentence);
    Told::from(coded).with_rpc(-32600)
}

fn no_method(name: &str) -> Told {
    let name: String = name.chars().take(64).collect();
    let sentence = format!("There is no method `{name}`; the protocol's version 1.0 names them.");
    let coded = Coded::new(Kind::Unimplemented, code::HTTP_NOT_FOUND, sentence);
    Told::from(coded).with_rpc(-32601)
}

//! One message out: an answer in JSON.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use prost_reflect::{DynamicMessage, MessageDescriptor};
use sayso_service::error::Coded;

/// The answer that shows a message.
pub(super) fn answer(bytes: Bytes, output: MessageDescriptor) -> Result<Response, Coded> {
    let message = DynamicMessage::decode(output, bytes)
        .map_err(|error| Coded::internal("reading an answer", &error))?;
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, written(&message)?).into_response())
}

/// A message as canonical JSON, on one line.
pub(super) fn written(message: &DynamicMessage) -> Result<String, Coded> {
    serde_json::to_string(message).map_err(|error| Coded::internal("writing JSON", &error))
}

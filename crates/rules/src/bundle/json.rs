//! JSON text to a tree of values.

use serde::de::Error;

use super::node::{Entry, Node};
use crate::json::Json;

/// Reads a text that is one JSON value, at most 128 levels deep.
pub(super) fn read(text: &str) -> Result<Node, serde_json::Error> {
    match Json::read(text) {
        Some(value) => Ok(node(value)),
        // Our own reader only says no; the other one says where.
        None => Err(serde_json::from_str::<serde_json::Value>(text)
            .err()
            .unwrap_or_else(|| serde_json::Error::custom("the values are nested too deeply"))),
    }
}

fn node(value: Json<'_>) -> Node {
    match value {
        Json::Null => Node::Null,
        Json::Bool(value) => Node::Bool(value),
        Json::Number(digits) => Node::Number(digits.to_owned()),
        Json::Text(text) => Node::Text(text.into_owned()),
        Json::List(items) => Node::List(items.into_iter().map(node).collect()),
        Json::Map(entries) => Node::Map(
            entries
                .into_iter()
                .map(|(key, value)| Entry {
                    key: Ok(key.into_owned()),
                    value: node(value),
                })
                .collect(),
        ),
    }
}

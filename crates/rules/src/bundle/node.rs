//! A bundle's text as a tree, before anything is known about its fields.
//!
//! Reading into a tree of our own first has three reasons: duplicate keys
//! survive to be reported, the order of keys survives to be kept, and the
//! checks that follow can go on after a mistake and find the next one.

use super::error::BundleError;
use super::{MAX_BUNDLE, json, yaml};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    /// A number's own digits.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// The key; if it is not a text, what it is instead.
    pub(super) key: Result<String, &'static str>,
    pub(super) value: Node,
}

impl Node {
    /// What the value is, for "… is expected, not …".
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

impl Entry {
    pub(super) fn new(key: Node, value: Node) -> Self {
        let key = match key {
            Node::Text(key) => Ok(key),
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::List(_) | Node::Map(_) => {
                Err(key.kind())
            }
        };
        Self { key, value }
    }
}

/// Reads YAML or JSON.
///
/// JSON is almost YAML, but not quite (escapes of characters beyond U+FFFF), so
/// what looks like JSON is read as JSON first.
pub(super) fn read(text: &str) -> Result<Node, BundleError> {
    let failed = |code, message| BundleError {
        code,
        path: String::new(),
        message,
    };
    if text.len() > MAX_BUNDLE {
        let message = format!(
            "a bundle has at most 1 MiB, this one has {} bytes",
            text.len()
        );
        return Err(failed("bundle.too_large", message));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let no_json = if text.trim_start().starts_with('{') {
        match json::read(text) {
            Ok(node) => return Ok(node),
            Err(why) => Some(why),
        }
    } else {
        None
    };
    yaml::read(text).map_err(|no_yaml| match (no_yaml, no_json) {
        (too_large @ yaml::NotRead::TooLarge, _) => {
            failed("bundle.too_large", too_large.to_string())
        }
        (yaml::NotRead::Syntax { .. }, Some(why)) => {
            failed("bundle.syntax", format!("this is not JSON: {why}"))
        }
        (why @ yaml::NotRead::Syntax { .. }, None) => {
            failed("bundle.syntax", format!("this is not YAML: {why}"))
        }
    })
}

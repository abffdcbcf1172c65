//! A bundle's text as a tree, before anything is known about its fields.
//!
//! Reading into a tree of our own first has three reasons: duplicate keys
//! survive to be reported, the order of keys survives to be kept, and the
//! checks that follow can go on after a mistake and find the next one.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::MAX_BUNDLE;
use super::error::BundleError;

/// What a text may expand to through YAML aliases, in bytes of text plus one
/// for each value.
const MAX_EXPANDED: usize = 4 * MAX_BUNDLE;

const EXPANDS_TOO_FAR: &str = "the bundle is too large once its aliases are expanded";

#[derive(Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    /// The key, and whether the file has it as a text.
    pub(super) key: Result<String, &'static str>,
    pub(super) value: Node,
}

impl Node {
    /// What the value is, for "… is expected, not …".
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
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
    let budget = Cell::new(MAX_EXPANDED);
    let json_error = if text.trim_start().starts_with('{') {
        let mut json = serde_json::Deserializer::from_str(text);
        match Seed(&budget)
            .deserialize(&mut json)
            .and_then(|node| json.end().map(|()| node))
        {
            Ok(node) => return Ok(node),
            Err(error) => Some(error),
        }
    } else {
        None
    };
    budget.set(MAX_EXPANDED);
    Seed(&budget)
        .deserialize(yaml_serde::Deserializer::from_str(text))
        .map_err(|error| {
            let message = match (&json_error, error.to_string()) {
                (_, message) if message.contains(EXPANDS_TOO_FAR) => {
                    return failed("bundle.too_large", EXPANDS_TOO_FAR.to_owned());
                }
                (Some(json), _) => format!("this is not JSON: {json}"),
                (None, yaml) => format!("this is not YAML: {yaml}"),
            };
            failed("bundle.syntax", message)
        })
}

#[derive(Clone, Copy)]
struct Seed<'b>(&'b Cell<usize>);

impl Seed<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self
            .0
            .get()
            .checked_sub(bytes + 1)
            .ok_or_else(|| E::custom(EXPANDS_TOO_FAR))?;
        self.0.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value without a tag")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        self.spend(0)?;
        Ok(Node::Null)
    }

    /// An empty document.
    fn visit_none<E: Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        self.spend(0)?;
        Ok(Node::Bool(value))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Node, E> {
        self.spend(0)?;
        Ok(Node::Number)
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<Node, E> {
        self.spend(0)?;
        Ok(Node::Number)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Node, E> {
        self.spend(0)?;
        Ok(Node::Number)
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<Node, E> {
        self.spend(0)?;
        Ok(Node::Number)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Node, E> {
        self.spend(0)?;
        Ok(Node::Number)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        self.spend(value.len())?;
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        self.spend(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        self.spend(0)?;
        let mut map = Vec::new();
        while let Some(key) = entries.next_key_seed(self)? {
            let value = entries.next_value_seed(self)?;
            let key = match key {
                Node::Text(key) => Ok(key),
                other => Err(other.kind()),
            };
            map.push(Entry { key, value });
        }
        Ok(Node::Map(map))
    }
}

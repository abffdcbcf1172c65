//! The single values of arguments, each with where it stands: for showing where it came from, and how
//! one call differs from another (S6.3).

use std::fmt::Write;

use crate::json::Json;

/// How many values are told of; more than that nobody reads one by one.
pub const MAX_LEAVES: usize = 200;

/// A text, a number, a flag or null, and what holds nothing: an empty list or mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its JSON pointer; empty if it is all there is.
    pub pointer: String,
    /// Its text, or its digits as they were written; empty for what holds nothing.
    pub value: String,
    /// Whether it says anything that could come from somewhere: a text or a number.
    pub says: bool,
}

/// The values of a JSON text in their order, at most [`MAX_LEAVES`]; none if it is not JSON.
#[must_use]
pub fn leaves(text: &str) -> Vec<Leaf> {
    let mut found = Vec::new();
    if let Some(json) = Json::read(text) {
        walk(&json, &mut String::new(), &mut found);
    }
    found
}

fn walk(json: &Json<'_>, path: &mut String, found: &mut Vec<Leaf>) {
    if found.len() >= MAX_LEAVES {
        return;
    }
    let mut leaf = |value: &str, says: bool| {
        found.push(Leaf {
            pointer: path.clone(),
            value: value.to_owned(),
            says,
        });
    };
    match json {
        Json::Null => leaf("null", false),
        Json::Bool(true) => leaf("true", false),
        Json::Bool(false) => leaf("false", false),
        Json::Number(digits) => leaf(digits, true),
        Json::Text(text) => leaf(text, !text.is_empty()),
        Json::List(items) if items.is_empty() => leaf("", false),
        Json::Map(members) if members.is_empty() => leaf("", false),
        Json::List(items) => {
            for (index, item) in items.iter().enumerate() {
                below(path, &index.to_string(), item, found);
            }
        }
        Json::Map(members) => {
            for (key, member) in members {
                let key = key.replace('~', "~0").replace('/', "~1");
                below(path, &key, member, found);
            }
        }
    }
}

fn below(path: &mut String, key: &str, json: &Json<'_>, found: &mut Vec<Leaf>) {
    let length = path.len();
    write!(path, "/{key}").expect("writing to memory does not fail");
    walk(json, path, found);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_3_values_have_pointers_and_their_own_digits() {
        let found = leaves(r#"{"a/b":{"~":[1.10,"x"]},"e":[],"n":null,"n":2}"#);
        let found: Vec<_> = found
            .iter()
            .map(|leaf| (leaf.pointer.as_str(), leaf.value.as_str(), leaf.says))
            .collect();
        assert_eq!(
            found,
            [
                ("/a~1b/~0/0", "1.10", true),
                ("/a~1b/~0/1", "x", true),
                ("/e", "", false),
                ("/n", "null", false),
                ("/n", "2", true),
            ]
        );
        assert_eq!(leaves("half {"), []);
        assert_eq!(
            leaves(&format!("[{}]", ["1"; 900].join(","))).len(),
            MAX_LEAVES
        );
    }
}

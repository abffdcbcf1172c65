//! Files that stand beside a bundle, read as strictly.

use super::error::BundleError;
use super::node::{self, Node};
use crate::json::Json;

/// Reads YAML or JSON as JSON: keys that stand twice are refused, and numbers keep their digits. For
/// files that stand beside a bundle.
///
/// # Errors
///
/// The first mistake: no YAML, a key that stands twice or is no text, or a number that JSON does not
/// have.
pub fn to_json(text: &str) -> Result<String, BundleError> {
    let root = node::read(text)?;
    let mut json = String::with_capacity(text.len());
    write(&root, "", &mut json)?;
    Ok(json)
}

fn write(node: &Node, path: &str, json: &mut String) -> Result<(), BundleError> {
    match node {
        Node::Null => json.push_str("null"),
        Node::Bool(value) => json.push_str(if *value { "true" } else { "false" }),
        Node::Number(digits) => match Json::read(digits) {
            Some(Json::Number(_)) => json.push_str(digits),
            _ => {
                let message = format!("write the number {digits} as JSON does, or as a text");
                return Err(wrong("bundle.bad_number", path, message));
            }
        },
        Node::Text(text) => quote(text, json),
        Node::List(items) => {
            json.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    json.push(',');
                }
                write(item, &format!("{path}[{at}]"), json)?;
            }
            json.push(']');
        }
        Node::Map(entries) => {
            json.push('{');
            for (at, entry) in entries.iter().enumerate() {
                let key = entry.key.as_ref().map_err(|kind| {
                    wrong(
                        "bundle.wrong_type",
                        path,
                        format!("a key is a text, not {kind}"),
                    )
                })?;
                let place = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                if entries[..at].iter().any(|other| other.key == entry.key) {
                    let message = "the key stands twice".to_owned();
                    return Err(wrong("bundle.duplicate_key", &place, message));
                }
                if at > 0 {
                    json.push(',');
                }
                quote(key, json);
                json.push(':');
                write(&entry.value, &place, json)?;
            }
            json.push('}');
        }
    }
    Ok(())
}

fn quote(text: &str, json: &mut String) {
    json.push_str(&serde_json::to_string(text).expect("a text has a JSON form"));
}

fn wrong(code: &'static str, path: &str, message: String) -> BundleError {
    BundleError {
        code,
        path: path.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_becomes_json_digit_for_digit() {
        let yaml = "a: [1.10, -2, 'x\"y', ~, true]\nb: {c: 90071992547409931}";
        assert_eq!(
            to_json(yaml).unwrap(),
            r#"{"a":[1.10,-2,"x\"y",null,true],"b":{"c":90071992547409931}}"#
        );
    }

    #[test]
    fn what_json_does_not_have_is_refused_by_its_place() {
        for (yaml, found) in [
            ("a: {b: .inf}", "bundle.bad_number a.b"),
            ("a: [0x10]", "bundle.bad_number a[0]"),
            ("a: {1: x}", "bundle.wrong_type a"),
            ("a: 1\na: 2", "bundle.duplicate_key a"),
            ("a: [", "bundle.syntax "),
        ] {
            let error = to_json(yaml).unwrap_err();
            assert_eq!(format!("{} {}", error.code, error.path), found);
        }
    }
}

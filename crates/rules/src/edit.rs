//! Changing arguments as a person asks for it (S6.7): the text is changed where a pointer says, and
//! every other byte stays as it is. Numbers are never read, so none is rounded.
//!
//! What is redacted stays: who edits sees the view, so a value of which the view shows a mask is not
//! theirs to replace, and a mask that comes back is no value.

use serde_json::Value;
use thiserror::Error;

use crate::json::Json;
use crate::redact::{MASK, Redaction};

/// A value to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// JSON pointer of a value that is there.
    pub pointer: String,
    /// The new value: a JSON text, taken as it is written.
    pub value: String,
}

/// Why nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// There is no value at the pointer.
    #[error("the arguments have no value at `{0}`")]
    PointerUnknown(String),
    /// The new value is not JSON.
    #[error("the new value of `{0}` is not JSON")]
    NotJson(String),
    /// What stands there, or part of it, is redacted.
    #[error("what stands at `{0}` is redacted, and stays as it is")]
    Redacted(String),
    /// The new value holds the mask.
    #[error("the new value of `{0}` holds the mask of what is redacted, which is no value")]
    HoldsMask(String),
}

/// The arguments with these changes, one after the other.
///
/// # Errors
///
/// The first change that cannot be made; then none is.
pub fn edit(args: &str, changes: &[Change], redaction: &Redaction) -> Result<String, EditError> {
    let mut edited = args.to_owned();
    for Change { pointer, value } in changes {
        let value = value.trim();
        if Json::read(value).is_none() {
            return Err(EditError::NotJson(pointer.clone()));
        }
        if holds_mask(value) {
            return Err(EditError::HoldsMask(pointer.clone()));
        }
        let place = Json::place(&edited, pointer);
        let place = place.ok_or_else(|| EditError::PointerUnknown(pointer.clone()))?;
        let view = redaction.view(&edited);
        let shown = Json::place(&view, pointer).and_then(|place| view.get(place));
        if shown != edited.get(place.clone()) {
            return Err(EditError::Redacted(pointer.clone()));
        }
        edited.replace_range(place, value);
    }
    Ok(edited)
}

/// Whether a JSON text holds the mask, however its characters are written.
fn holds_mask(value: &str) -> bool {
    let plain = serde_json::from_str::<Value>(value).map(|value| value.to_string());
    plain.map_or_else(|_| value.contains(MASK), |plain| plain.contains(MASK))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(args: &str, changes: &[(&str, &str)]) -> Result<String, EditError> {
        let changes: Vec<Change> = changes
            .iter()
            .map(|(pointer, value)| Change {
                pointer: (*pointer).to_owned(),
                value: (*value).to_owned(),
            })
            .collect();
        let redaction = Redaction::default().with_values(["hunter2-and-more"]);
        edit(args, &changes, &redaction)
    }

    /// S6.7: every byte that is not changed stays, and no number is rounded.
    #[test]
    fn s6_7_only_what_is_named_changes() {
        let args = r#"{ "n" : 12345678901234567890123, "a/b":{"~":[1.10, "x"]},"s":"\u00e9" }"#;
        assert_eq!(
            edited(args, &[("/a~1b/~0/1", " 0.10000000000000000001 ")]).unwrap(),
            r#"{ "n" : 12345678901234567890123, "a/b":{"~":[1.10, 0.10000000000000000001]},"s":"\u00e9" }"#
        );
        assert_eq!(
            edited(args, &[("/s", "{\"t\":[]}"), ("/s/t", "\"y\"")]).unwrap(),
            r#"{ "n" : 12345678901234567890123, "a/b":{"~":[1.10, "x"]},"s":{"t":"y"} }"#
        );
        assert_eq!(edited(args, &[("", "{}")]).unwrap(), "{}");
    }

    #[test]
    fn s6_7_what_is_not_there_is_not_changed() {
        let args = r#"{"list":[1,2],"empty":[],"text":"x"}"#;
        for pointer in [
            "/list/2", "/list/01", "/list/+1", "/list/-", "/empty/0", "/text/0", "/nothing",
            "list", "/", "/list/",
        ] {
            let unknown = EditError::PointerUnknown(pointer.to_owned());
            assert_eq!(edited(args, &[(pointer, "1")]), Err(unknown), "{pointer}");
        }
        for value in ["", "half {", "1 2", "1}, \"more\": {", "NaN", "01"] {
            let refused = edited(args, &[("/text", value)]);
            assert_eq!(refused, Err(EditError::NotJson("/text".into())), "{value}");
        }
    }

    /// S3.10, S6.7: what is redacted stays as it is, and a mask is no value.
    #[test]
    fn s6_7_what_is_redacted_stays() {
        let args =
            r#"{"to":"ann","auth":{"password":"abcdef","user":"u"},"note":"hunter2-and-more"}"#;
        for pointer in ["/auth/password", "/auth", "/note", ""] {
            let refused = EditError::Redacted(pointer.to_owned());
            assert_eq!(edited(args, &[(pointer, "{}")]), Err(refused), "{pointer}");
        }
        let changed = edited(args, &[("/auth/user", "\"v\"")]).unwrap();
        assert_eq!(changed, args.replace("\"u\"", "\"v\""));
        for mask in [
            r#""[redacted]""#,
            r#""\u005bredacted]""#,
            r#"{"a":["x [redacted]"]}"#,
            r#"{"[redacted]":1}"#,
        ] {
            let refused = EditError::HoldsMask("/to".into());
            assert_eq!(edited(args, &[("/to", mask)]), Err(refused), "{mask}");
        }
    }
}

//! The place of a value within arguments or a result.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::json::Json;

/// A place within arguments or a result (S5.9): the name of one at the top (`to`), or a JSON
/// pointer (`/payment/iban`, RFC 6901).
///
/// Lists are passed through: `/attachments/file_id` names that field of every attachment, as
/// `/attachments/*/file_id` does, and `/attachments/0/file_id` that of the first alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pointer {
    text: Box<str>,
    parts: Vec<Box<str>>,
}

/// One step down from a value to one within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

impl Pointer {
    /// Reads a name or a JSON pointer.
    ///
    /// # Errors
    ///
    /// Says what is wrong: an empty text, or a `~` that is not `~0` or `~1`.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("an argument is named by its name, or by a JSON pointer such as /a/b");
        }
        let parts = match text.strip_prefix('/') {
            None => vec![text.into()],
            Some(rest) => rest
                .split('/')
                .map(unescape)
                .collect::<Option<_>>()
                .ok_or("in a JSON pointer `~` is written `~0`, and a `/` within a name `~1`")?,
        };
        Ok(Self {
            text: text.into(),
            parts,
        })
    }

    /// The place as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether two texts name the same place.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.parts == other.parts
    }

    /// The name, where the place is a field at the top.
    pub(crate) fn name(&self) -> Option<&str> {
        match &*self.parts {
            [name] => Some(name),
            _ => None,
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.parts.len()
    }

    /// The last name in the place.
    pub(crate) fn last(&self) -> &str {
        self.parts.last().map_or("", |part| part)
    }

    /// Whether a value at `path` is the one named, or stands within it.
    pub(crate) fn covers(&self, path: &[Step<'_>]) -> bool {
        covers(&self.parts, path)
    }

    /// Whether the place is this key or stands below it.
    pub(crate) fn leads_through(&self, path: &[Step<'_>]) -> bool {
        leads_through(&self.parts, path)
    }

    /// Every value that is named, in order.
    pub(crate) fn select<'j, 't>(&self, json: &'j Json<'t>) -> Vec<&'j Json<'t>> {
        let mut found = Vec::new();
        select(&self.parts, json, &mut found);
        found
    }
}

fn unescape(part: &str) -> Option<Box<str>> {
    let mut plain = String::with_capacity(part.len());
    let mut rest = part.chars();
    while let Some(c) = rest.next() {
        plain.push(match c {
            '~' => match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            c => c,
        });
    }
    Some(plain.into())
}

/// Whether a part of a pointer means this item of a list; `None` if it means none in particular.
fn item(part: &str, index: usize) -> Option<bool> {
    if part == "*" {
        return Some(true);
    }
    (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        .then(|| part.parse() == Ok(index))
}

fn covers(parts: &[Box<str>], path: &[Step<'_>]) -> bool {
    let Some((part, deeper)) = parts.split_first() else {
        return true;
    };
    match path.split_first() {
        None => false,
        Some((Step::Key(key), rest)) => **key == **part && covers(deeper, rest),
        Some((Step::Index(index), rest)) => match item(part, *index) {
            Some(meant) => meant && covers(deeper, rest),
            None => covers(parts, rest),
        },
    }
}

fn leads_through(parts: &[Box<str>], path: &[Step<'_>]) -> bool {
    let Some((step, rest)) = path.split_first() else {
        return true;
    };
    let Some((part, deeper)) = parts.split_first() else {
        return false;
    };
    match step {
        Step::Key(key) => **key == **part && leads_through(deeper, rest),
        Step::Index(index) => match item(part, *index) {
            Some(meant) => meant && leads_through(deeper, rest),
            None => leads_through(parts, rest),
        },
    }
}

fn select<'j, 't>(parts: &[Box<str>], json: &'j Json<'t>, found: &mut Vec<&'j Json<'t>>) {
    let Some((part, deeper)) = parts.split_first() else {
        found.push(json);
        return;
    };
    match json {
        Json::Map(entries) => {
            for (_, value) in entries.iter().filter(|(key, _)| **key == **part) {
                select(deeper, value, found);
            }
        }
        Json::List(items) => {
            for (index, value) in items.iter().enumerate() {
                match item(part, index) {
                    Some(true) => select(deeper, value, found),
                    Some(false) => {}
                    None => select(parts, value, found),
                }
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => {}
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Pointer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_9_names_and_pointers_name_values() {
        let json = Json::read(
            r#"{"to":"a","p":{"iban":"b","x/y":"c"},"l":[{"id":"d"},{"id":"e"}],"to":"f"}"#,
        )
        .unwrap();
        let found = |text: &str| -> String {
            let values = Pointer::new(text).unwrap().select(&json);
            let texts = values.iter().map(|value| match value {
                Json::Text(text) => text.to_string(),
                _ => "?".to_owned(),
            });
            texts.collect()
        };
        for (pointer, expected) in [
            ("to", "af"),
            ("/to", "af"),
            ("/p/iban", "b"),
            ("/p/x~1y", "c"),
            ("/l/0/id", "d"),
            ("/l/*/id", "de"),
            ("/l/id", "de"),
            ("/l/7/id", ""),
            ("/p", "?"),
            ("/nothing", ""),
            ("p/iban", ""),
        ] {
            assert_eq!(found(pointer), expected, "{pointer}");
        }
        assert!(Pointer::new("").is_err() && Pointer::new("/a~2").is_err());
    }

    #[test]
    fn s5_9_a_place_covers_what_stands_within_it() {
        let path = [Step::Key("l"), Step::Index(1), Step::Key("id")];
        for (pointer, covers) in [
            ("l", true),
            ("/l/id", true),
            ("/l/1/id", true),
            ("/l/*", true),
            ("/l/0/id", false),
            ("/l/id/x", false),
            ("id", false),
        ] {
            assert_eq!(
                Pointer::new(pointer).unwrap().covers(&path),
                covers,
                "{pointer}"
            );
        }
    }
}

//! YAML 1.2 text to a tree of values.
//!
//! The parser hands out one event after another, so a text that nests without
//! end, or that says little and expands to much through its aliases, is refused
//! while it is being read and not after it has filled the memory.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::MAX_BUNDLE;
use super::node::{Entry, Node};

/// The deepest that values stand within values; a bundle needs six levels.
const MAX_DEPTH: usize = 64;

/// What a text may expand to through its aliases: the bytes of its texts and
/// one for each value.
const MAX_EXPANDED: usize = 4 * MAX_BUNDLE;

/// Why a text is not read as YAML.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotRead {
    #[error("{what}, at line {line} column {column}")]
    Syntax {
        what: String,
        line: usize,
        column: usize,
    },
    #[error("the bundle is too large once its aliases are expanded")]
    TooLarge,
}

/// Reads a text that is one YAML document.
pub(super) fn read(text: &str) -> Result<Node, NotRead> {
    let mut reader = Reader::default();
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| syntax(error.info(), error.marker()))?;
        if let Event::DocumentStart(_) = event {
            documents += 1;
            if documents > 1 {
                return Err(syntax("a bundle is one document", &span.start));
            }
        }
        reader.take(event, &span.start)?;
    }
    Ok(reader.root.unwrap_or(Node::Null))
}

#[derive(Default)]
struct Reader {
    /// Lists and mappings that have begun and not ended.
    open: Vec<Open>,
    /// Values by the id of their anchor, for aliases; 0 is no anchor.
    anchored: BTreeMap<usize, Node>,
    spent: usize,
    root: Option<Node>,
}

struct Open {
    anchor: usize,
    node: Node,
    /// In a mapping, the key whose value comes next.
    key: Option<Node>,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, at: &Marker) -> Result<(), NotRead> {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Scalar(text, style, anchor, tag) => {
                let text_only = is_text_tag(tag.as_deref(), at)? || style != ScalarStyle::Plain;
                self.spend(text.len() + 1)?;
                let node = if text_only {
                    Node::Text(text.into())
                } else {
                    plain(&text)
                };
                self.place(node, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(Node::List(Vec::new()), anchor, tag.as_deref(), at)
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(Node::Map(Vec::new()), anchor, tag.as_deref(), at)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let ended = self.open.pop().expect("the parser ends only what it began");
                self.place(ended.node, ended.anchor)
            }
            Event::Alias(anchor) => {
                let node = self.anchored.get(&anchor).cloned();
                let node =
                    node.ok_or_else(|| syntax("an alias stands within what it means", at))?;
                self.spend(weight(&node))?;
                self.place(node, 0)
            }
        }
    }

    fn begin(
        &mut self,
        node: Node,
        anchor: usize,
        tag: Option<&Tag>,
        at: &Marker,
    ) -> Result<(), NotRead> {
        if tag.is_some() {
            return Err(no_tags(at));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(syntax("the values are nested too deeply", at));
        }
        self.spend(1)?;
        self.open.push(Open {
            anchor,
            node,
            key: None,
        });
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, node: Node, anchor: usize) -> Result<(), NotRead> {
        if anchor != 0 {
            self.spend(weight(&node))?;
            self.anchored.insert(anchor, node.clone());
        }
        let Some(Open {
            node: within, key, ..
        }) = self.open.last_mut()
        else {
            self.root = Some(node);
            return Ok(());
        };
        match (within, key.take()) {
            (Node::Map(entries), Some(key)) => entries.push(Entry::new(key, node)),
            (Node::Map(_), None) => *key = Some(node),
            (Node::List(items), _) => items.push(node),
            (Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_), _) => {
                unreachable!("only lists and mappings are begun")
            }
        }
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), NotRead> {
        self.spent += bytes;
        if self.spent > MAX_EXPANDED {
            Err(NotRead::TooLarge)
        } else {
            Ok(())
        }
    }
}

/// The bytes of a value's texts and one for each value.
fn weight(node: &Node) -> usize {
    1 + match node {
        Node::Null | Node::Bool(_) => 0,
        Node::Number(text) => text.len(),
        Node::Text(text) => text.len(),
        Node::List(items) => items.iter().map(weight).sum(),
        Node::Map(entries) => entries
            .iter()
            .map(|entry| entry.key.as_ref().map_or(0, String::len) + weight(&entry.value))
            .sum(),
    }
}

/// A scalar without quotes, by YAML's core schema.
fn plain(text: &str) -> Node {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Node::Null,
        "true" | "True" | "TRUE" => Node::Bool(true),
        "false" | "False" | "FALSE" => Node::Bool(false),
        _ if is_number(text) => Node::Number(text.to_owned()),
        _ => Node::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.parse::<f64>().is_ok()
}

/// Whether a tag says that the value is a text; no other tag is known.
fn is_text_tag(tag: Option<&Tag>, at: &Marker) -> Result<bool, NotRead> {
    match tag {
        None => Ok(false),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Ok(true),
        Some(_) => Err(no_tags(at)),
    }
}

fn no_tags(at: &Marker) -> NotRead {
    syntax("a tag has no meaning in a bundle", at)
}

fn syntax(what: &str, at: &Marker) -> NotRead {
    NotRead::Syntax {
        what: what.to_owned(),
        line: at.line(),
        column: at.col() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Node {
        read(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
    }

    fn text(text: &str) -> Node {
        Node::Text(text.to_owned())
    }

    #[test]
    fn scalars_follow_the_core_schema_of_yaml_1_2() {
        for number in [
            "0", "-12", "+1", "1.5", ".5", "1e3", "0x1F", "0o17", ".inf", "-.Inf", ".nan",
        ] {
            assert_eq!(value(number), Node::Number(number.to_owned()), "{number}");
        }
        for word in [
            "yes",
            "no",
            "on",
            "off",
            "y",
            "n",
            "1_000",
            "0b1",
            "12:30",
            "1.2.3",
            "2024-01-01",
            "nan",
            "inf",
            "0x",
            "0xg",
            "+.nan",
            "1h",
            ".",
        ] {
            assert_eq!(value(word), text(word), "{word}");
        }
        assert_eq!(value("TRUE"), Node::Bool(true));
        assert_eq!(value("~"), Node::Null);
        assert_eq!(value("'true'"), text("true"));
        assert_eq!(value("\"12\""), text("12"));
        assert_eq!(value("!!str 12"), text("12"));
        assert_eq!(value("|-\n  12"), text("12"));
    }

    #[test]
    fn aliases_stand_for_what_they_name() {
        let tree = value("[&a {k: v}, *a, &b x, *b]");
        assert_eq!(tree, value("[{k: v}, {k: v}, x, x]"));
        assert!(matches!(read("&a [*a]"), Err(NotRead::Syntax { .. })));
    }

    #[test]
    fn keys_that_are_no_texts_are_kept_to_be_reported() {
        let Node::Map(entries) = value("{1: a, [x]: b, k: c}") else {
            panic!("a mapping")
        };
        let keys: Vec<_> = entries.into_iter().map(|entry| entry.key).collect();
        assert_eq!(keys, [Err("a number"), Err("a list"), Ok("k".to_owned())]);
    }
}

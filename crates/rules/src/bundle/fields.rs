//! Reading typed fields out of a mapping, noting every mistake on the way.
//!
//! A field that is wrong is reported and read as absent, so that the fields
//! after it are still checked. [`Fields::finish`] reports what nobody asked for.

use std::collections::BTreeMap;

use super::error::Report;
use super::node::{Entry, Node};

/// How much of a key or value is repeated in a message.
const QUOTED: usize = 80;

/// A value and the key it stands under.
#[derive(Debug)]
pub(super) struct At<'n> {
    pub(super) node: &'n Node,
    pub(super) path: String,
}

/// The entries of one mapping that have not been asked for yet.
#[derive(Debug)]
pub(super) struct Fields<'n> {
    path: String,
    left: BTreeMap<&'n str, &'n Node>,
    known: Vec<&'static str>,
    taken: bool,
}

impl<'n> At<'n> {
    pub(super) fn root(node: &'n Node) -> Self {
        Self {
            node,
            path: String::new(),
        }
    }

    pub(super) fn wrong_type<T>(&self, report: &mut Report, expected: &str) -> Option<T> {
        let message = match self.node {
            Node::Null if self.path.is_empty() => "the bundle is empty".to_owned(),
            Node::Null => format!("{expected} is expected; leave the key out if there is none"),
            Node::Number(_) if expected == "a text" => {
                "a text is expected, not a number: put it in quotes".to_owned()
            }
            other => format!("{expected} is expected, not {}", other.kind()),
        };
        report.add("bundle.wrong_type", &self.path, message);
        None
    }

    pub(super) fn text(&self, report: &mut Report) -> Option<&'n str> {
        let Node::Text(text) = self.node else {
            return self.wrong_type(report, "a text");
        };
        if text.contains('\0') {
            report.add(
                "bundle.bad_text",
                &self.path,
                "a text holds no NUL character",
            );
            return None;
        }
        Some(text)
    }

    /// A text of a certain form; `form` describes it.
    pub(super) fn text_like(
        &self,
        report: &mut Report,
        code: &'static str,
        is: impl Fn(&str) -> bool,
        form: &str,
    ) -> Option<String> {
        let text = self.text(report)?;
        if !is(text) {
            report.add(code, &self.path, format!("{} is not {form}", quote(text)));
            return None;
        }
        Some(text.to_owned())
    }

    /// A text that `read` understands or explains why not.
    pub(super) fn parsed<T, E: ToString>(
        &self,
        report: &mut Report,
        code: &'static str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(report)?;
        match read(text) {
            Ok(value) => Some(value),
            Err(why) => {
                let message = format!("{}: {}", quote(text), why.to_string());
                report.add(code, &self.path, message);
                None
            }
        }
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&self, report: &mut Report, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(report)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("{} is not one of {}", quote(text), known.join(", "));
            report.add("bundle.unknown_value", &self.path, message);
        }
        found.map(|(_, value)| *value)
    }

    pub(super) fn flag(&self, report: &mut Report) -> Option<bool> {
        match self.node {
            Node::Bool(value) => Some(*value),
            Node::Null | Node::Number(_) | Node::Text(_) | Node::List(_) | Node::Map(_) => {
                self.wrong_type(report, "true or false")
            }
        }
    }

    pub(super) fn list(&self, report: &mut Report) -> Option<Vec<At<'n>>> {
        let Node::List(items) = self.node else {
            return self.wrong_type(report, "a list");
        };
        let item = |(index, node)| At {
            node,
            path: format!("{}[{index}]", self.path),
        };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// The entries of a mapping in file order, each key once.
    pub(super) fn entries(&self, report: &mut Report) -> Option<Vec<(&'n str, At<'n>)>> {
        let Node::Map(map) = self.node else {
            return self.wrong_type(report, "a mapping");
        };
        let mut seen = BTreeMap::new();
        let mut entries = Vec::with_capacity(map.len());
        for Entry { key, value } in map {
            match key {
                Ok(key) => {
                    let path = join(&self.path, key);
                    if seen.insert(key.as_str(), ()).is_some() {
                        report.add("bundle.duplicate_key", &path, "the key stands here twice");
                    } else {
                        entries.push((key.as_str(), At { node: value, path }));
                    }
                }
                Err(kind) => {
                    let message = format!("a key is a text, not {kind}: put it in quotes");
                    report.add("bundle.wrong_type", &self.path, message);
                }
            }
        }
        Some(entries)
    }

    pub(super) fn fields(&self, report: &mut Report) -> Option<Fields<'n>> {
        let entries = self.entries(report)?;
        let left = entries
            .into_iter()
            .map(|(key, at)| (key, at.node))
            .collect();
        Some(Fields {
            path: self.path.clone(),
            left,
            known: Vec::new(),
            taken: false,
        })
    }
}

impl<'n> Fields<'n> {
    /// The field's value, if the mapping has it.
    pub(super) fn take(&mut self, key: &'static str) -> Option<At<'n>> {
        self.known.push(key);
        let node = self.left.remove(key)?;
        self.taken = true;
        Some(At {
            node,
            path: join(&self.path, key),
        })
    }

    /// Like [`Fields::take`], and reports a field that is not there.
    pub(super) fn require(&mut self, report: &mut Report, key: &'static str) -> Option<At<'n>> {
        let found = self.take(key);
        if found.is_none() {
            let message = format!("`{key}` is missing");
            report.add("bundle.missing_field", &self.path, message);
        }
        found
    }

    /// Whether the mapping has a field that nobody has taken yet.
    pub(super) fn has(&self, key: &str) -> bool {
        self.left.contains_key(key)
    }

    /// Whether the mapping had any of the fields that were asked for.
    pub(super) fn any_taken(&self) -> bool {
        self.taken
    }

    /// Refuses fields that are decided but not done by this version.
    pub(super) fn refuse(&mut self, report: &mut Report, keys: &[&'static str]) {
        for &key in keys {
            if self.left.remove(key).is_some() {
                let message = format!(
                    "`{key}` is not supported by this version and would have no effect: take it out"
                );
                report.add("bundle.unsupported", &join(&self.path, key), message);
            }
        }
    }

    /// Reports every field that nobody took.
    pub(super) fn finish(self, report: &mut Report) {
        for key in self.left.keys() {
            let message = format!(
                "there is no such key here; known are {}",
                self.known.join(", ")
            );
            report.add("bundle.unknown_field", &join(&self.path, key), message);
        }
    }
}

/// A text as a message repeats it: quoted, control characters escaped, cut.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The path of a key below another: `a.b`, or `a["b.c"]` where a dot would
/// mislead.
pub(super) fn join(path: &str, key: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if key.is_empty() || key.len() > QUOTED || !key.bytes().all(plain) {
        return format!("{path}[{}]", quote(key));
    }
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

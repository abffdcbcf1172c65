//! What the fields of a result are (S5.9).

use std::collections::BTreeSet;

use super::index::Source;
use super::kinds::{self, Named};
use super::records::{Field, plain};
use super::text::Text;
use crate::bundle::{Effect, Step};
use crate::json::Json;
use crate::judge::Tool;

/// Names of fields that hold what people write: an address there is part of what was said, not of
/// what was looked up.
const WRITTEN: [&str; 16] = [
    "body",
    "comment",
    "comments",
    "content",
    "contents",
    "description",
    "detail",
    "details",
    "message",
    "note",
    "notes",
    "snippet",
    "subject",
    "summary",
    "text",
    "title",
];

/// Names under which an API puts the whole of its answer.
const ENVELOPES: [&str; 5] = ["data", "payload", "record", "response", "result"];

/// The kinds of a result's fields.
pub(super) struct Kinds<'k> {
    tool: &'k Tool,
    pub(super) value: &'k Json<'k>,
    /// Whether the record stands in an envelope.
    enveloped: bool,
    /// The fields of the result's own record, where it is one.
    top: BTreeSet<&'k str>,
    record: bool,
}

impl<'k> Kinds<'k> {
    pub(super) fn new(tool: &'k Tool, value: &'k Json<'k>) -> Self {
        let (outer, record) = entries(value);
        let envelope = outer.iter().find_map(|(key, inner)| {
            let (inner, is_record) = entries(inner);
            (is_record && ENVELOPES.contains(&&**key)).then_some(inner)
        });
        let enveloped = envelope.is_some() && !outer.iter().any(|(key, _)| is_id(key));
        let own = envelope.filter(|_| enveloped).unwrap_or(outer);
        Self {
            tool,
            value,
            enveloped,
            top: own.iter().map(|(key, _)| &**key).collect(),
            record,
        }
    }

    /// The kind of id that a field holds, empty if it cannot be told; `None` if it is no id.
    pub(super) fn of(&self, path: &[Step<'_>]) -> Option<String> {
        let path = self.within(path);
        let last = last_key(path)?;
        let wrapped = self.record && !self.top.contains(last);
        kinds::of_field(self.tool.returns(), self.tool.subject(), path, wrapped)
    }

    /// Whether a field holds the id of what the call made, and not of something that it refers to:
    /// the bundle says what it is, or it is of the kind that the tool is about, or it is the
    /// record's own. A record that has a bare `id` has no other.
    ///
    /// Of a tool of which nobody said that it writes, and whose output is an outsider's, only the
    /// bundle's word counts: it might as well have read a page.
    pub(super) fn made(&self, path: &[Step<'_>], kind: &str) -> bool {
        let writes = matches!(self.tool.effect(), Effect::Write | Effect::Destructive);
        if !writes || kind.is_empty() || !in_the_record(self.value, path) {
            return false;
        }
        let path = self.within(path);
        if kinds::is_said(self.tool.returns(), path) {
            return true;
        }
        if !self.tool.effect_is_known() && self.tool.untrusted_output() {
            return false;
        }
        let at_top = matches!(path, [Step::Key(_)]);
        let bare = self
            .top
            .iter()
            .any(|key| kinds::named(key) == Named::BareId);
        let is_bare = last_key(path).is_some_and(|key| kinds::named(key) == Named::BareId);
        kind == self.tool.subject() || (at_top && is_bare == bare)
    }

    /// A path without the envelope.
    fn within<'p, 's>(&self, path: &'p [Step<'s>]) -> &'p [Step<'s>] {
        match path {
            [Step::Key(key), rest @ ..] if self.enveloped && ENVELOPES.contains(key) => rest,
            _ => path,
        }
    }
}

fn entries<'j, 't>(value: &'j Json<'t>) -> (&'j [(std::borrow::Cow<'t, str>, Json<'t>)], bool) {
    match value {
        Json::Map(entries) => (entries, true),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_) => {
            (&[], false)
        }
    }
}

fn is_id(key: &str) -> bool {
    matches!(kinds::named(key), Named::Id(_) | Named::BareId)
}

fn last_key<'s>(path: &[Step<'s>]) -> Option<&'s str> {
    path.iter().rev().find_map(|step| match step {
        Step::Key(key) => Some(*key),
        Step::Index(_) => None,
    })
}

/// Whether a field belongs to the one record that a creating call returned: it stands in no list
/// of several.
fn in_the_record(value: &Json<'_>, path: &[Step<'_>]) -> bool {
    let mut here = value;
    for step in path {
        here = match (here, step) {
            (Json::List(items), Step::Index(index)) => {
                if items.len() > 1 && items.iter().any(|item| matches!(item, Json::Map(_))) {
                    return false;
                }
                match items.get(*index) {
                    Some(item) => item,
                    None => return false,
                }
            }
            (Json::Map(entries), Step::Key(key)) => {
                match entries.iter().find(|(name, _)| name == key) {
                    Some((_, item)) => item,
                    None => return false,
                }
            }
            _ => return false,
        };
    }
    true
}

pub(super) fn is_written(path: &[Step<'_>]) -> bool {
    path.iter().any(|step| match step {
        Step::Key(key) => WRITTEN.contains(&key.to_ascii_lowercase().as_str()),
        Step::Index(_) => false,
    })
}

/// What a result vouches for by whole tokens: its scalars but the ids, which count as ids, and its
/// keys where they are values.
pub(super) fn source(kinds: &Kinds<'_>, fields: &[Field<'_, '_>], trusted: bool) -> Source {
    let mut texts: Vec<&str> = Vec::new();
    let mut found = Source::default();
    for (path, field) in fields {
        let Some(text) = plain(field) else { continue };
        if trusted && kinds.of(path).is_some() {
            continue;
        }
        texts.push(text);
        found.takes_field(text, trusted);
    }
    odd_keys(kinds.value, &mut texts);
    found.text = Text::of(&texts, trusted);
    found
}

/// Keys that do not look like names of fields.
fn odd_keys<'j>(value: &'j Json<'_>, found: &mut Vec<&'j str>) {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => {}
        Json::List(items) => items.iter().for_each(|item| odd_keys(item, found)),
        Json::Map(entries) => {
            for (key, item) in entries {
                if !is_field_name(key) {
                    found.push(key);
                }
                odd_keys(item, found);
            }
        }
    }
}

fn is_field_name(key: &str) -> bool {
    (1..=64).contains(&key.len())
        && !key.starts_with(|c: char| c.is_ascii_digit())
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$'))
}

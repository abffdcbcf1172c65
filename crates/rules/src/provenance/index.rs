//! The index of a run's values: see the module's essay.

use std::collections::{BTreeMap, BTreeSet};

use super::records::{Field, leaves, one_record, plain};
use super::text::{Needle, Text, normal, number, numbers};
use super::{kinds, links};
use crate::bundle::{Effect, Step, ValueSource};
use crate::decimal::Decimal;
use crate::json::Json;
use crate::judge::{CallView, Tool};
use crate::trust::Trust;

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

/// What can vouch for the values of a run's calls (S5.9).
///
/// Built from a run's history, step by step as it grows, or again from the start by the same calls
/// in the same order: both give the same index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    own_addresses: BTreeSet<String>,
    pub(super) words: Vec<Source>,
    pub(super) by_people: Vec<Source>,
    pub(super) outputs: Vec<Output>,
    /// Every id of every result.
    pub(super) ids: BTreeMap<Box<str>, Vec<Id>>,
    /// What the records that were looked up hold of addresses, normalised.
    addresses: BTreeSet<String>,
}

/// A text, and what in it is not found by whole tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) text: Text,
    pub(super) numbers: BTreeSet<Decimal>,
    accounts: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) tool: Box<str>,
    pub(super) call: Box<str>,
    pub(super) trusted: bool,
    pub(super) source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id {
    kind: Box<str>,
    pub(super) own: bool,
    lookup: bool,
    /// Which of the outputs it came with.
    pub(super) output: usize,
}

/// A value whose source is asked for.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    exact: &'a str,
    pub(super) needle: Needle,
    account: Option<String>,
    /// Only for amounts.
    number: Option<Decimal>,
    kind: AskedKind<'a>,
    /// Whether the call that it belongs to is destructive.
    destructive: bool,
}

/// The kind of thing that an argument names.
#[derive(Debug, Clone)]
pub(crate) enum AskedKind<'a> {
    /// The bundle or the argument's name says so.
    Known(std::borrow::Cow<'a, str>),
    /// The argument's name suggests it: `channel`.
    Likely(String),
}

impl<'a> Asked<'a> {
    pub(crate) fn new(
        exact: &'a str,
        kind: AskedKind<'a>,
        amount: bool,
        destructive: bool,
    ) -> Self {
        Self {
            exact,
            needle: Needle::new(exact),
            account: links::account(exact),
            number: amount.then(|| number(exact)).flatten(),
            kind,
            destructive,
        }
    }
}

impl Source {
    fn of_text(text: &str) -> Self {
        Self {
            text: Text::new(text),
            numbers: numbers(text).into_iter().collect(),
            accounts: accounts(text),
        }
    }

    pub(super) fn holds(&self, asked: &Asked<'_>) -> bool {
        if let Some(number) = asked.number {
            return self.numbers.contains(&number);
        }
        self.text.holds(&asked.needle)
            || asked
                .account
                .as_ref()
                .is_some_and(|account| self.accounts.contains(account))
    }
}

/// Whether two kinds are known to be the same.
fn is_same(one: &str, other: &str) -> bool {
    !one.is_empty() && one == other
}

fn accounts(text: &str) -> BTreeSet<String> {
    if text.bytes().filter(u8::is_ascii_digit).count() < links::ACCOUNT_DIGITS {
        return BTreeSet::new();
    }
    links::links(text)
        .iter()
        .filter_map(|link| links::account(link))
        .collect()
}

impl Index {
    /// An index of a run whose principal has these addresses (`self`).
    pub fn new<A: AsRef<str>>(own_addresses: impl IntoIterator<Item = A>) -> Self {
        Self {
            own_addresses: own_addresses
                .into_iter()
                .map(|address| normal(address.as_ref()))
                .filter(|address| !address.is_empty())
                .collect(),
            ..Self::default()
        }
    }

    /// Takes in the principal's own words: the task, or a later message. For a run that another
    /// agent started these are the words of the root principal.
    pub fn words(&mut self, text: &str) {
        self.words.push(Source::of_text(text));
    }

    /// Takes in a value that a person put into a call (S6.7). It vouches for nothing: the person
    /// decided about one call.
    pub fn put_by_person(&mut self, text: &str) {
        self.by_people.push(Source::of_text(text));
    }

    /// Takes in the result of a call. `trust` is the run's trust when the call was judged.
    ///
    /// A result that is JSON, or a JSON text that holds JSON, is taken in field by field; any
    /// other as one text.
    pub fn result(&mut self, call: &CallView<'_>, trust: Trust, result: &str) {
        let read = Json::read(result);
        let inner = match &read {
            Some(Json::Text(text)) => {
                Json::read(text).filter(|inner| matches!(inner, Json::Map(_) | Json::List(_)))
            }
            _ => None,
        };
        let whole = Json::Text(result.into());
        let value = inner.as_ref().or(read.as_ref()).unwrap_or(&whole);
        let trusted = !call.tool.untrusted_output() && trust >= Trust::Trusted;
        let output = self.outputs.len();
        let fields = leaves(value);
        let args = Json::read(call.args).unwrap_or(Json::Null);
        self.take_ids(call, value, &fields, &args, output);
        self.take_lookup(call, value, &args, output);
        let kinds = Kinds::new(call.tool, value);
        self.outputs.push(Output {
            tool: call.tool.registered().into(),
            call: call.id.into(),
            trusted,
            source: source(&kinds, value, &fields, trusted),
        });
    }

    fn take_ids(
        &mut self,
        call: &CallView<'_>,
        value: &Json<'_>,
        fields: &[Field<'_, '_>],
        args: &Json<'_>,
        output: usize,
    ) {
        let creates = matches!(call.tool.effect(), Effect::Write | Effect::Destructive);
        let given: BTreeSet<String> = leaves(args)
            .iter()
            .filter_map(|(_, value)| plain(value))
            .map(str::to_owned)
            .collect();
        let kinds = Kinds::new(call.tool, value);
        for (path, field) in fields {
            let (Some(kind), Some(id)) = (kinds.of(path), plain(field)) else {
                continue;
            };
            let known = self.ids.entry(id.into()).or_default();
            let before = |known: &Id| {
                known.output < output && (known.kind.is_empty() || *known.kind == *kind)
            };
            let own = creates
                && !kind.is_empty()
                && in_the_record(value, path)
                && !given.contains(id)
                && !known.iter().any(before);
            if !known
                .iter()
                .any(|id| *id.kind == *kind && id.output == output)
            {
                known.push(Id {
                    kind: kind.into(),
                    own,
                    lookup: false,
                    output,
                });
            }
        }
    }

    fn take_lookup(
        &mut self,
        call: &CallView<'_>,
        value: &Json<'_>,
        args: &Json<'_>,
        output: usize,
    ) {
        if call.tool.effect() != Effect::Read || !self.all_from_task(call.tool, args) {
            return;
        }
        let kinds = Kinds::new(call.tool, value);
        for (path, field) in one_record(value, args) {
            let Some(text) = plain(field) else { continue };
            if let Some(kind) = kinds.of(&path) {
                for id in self.ids.get_mut(text).into_iter().flatten() {
                    id.lookup |= is_same(&kind, &id.kind) && id.output == output;
                }
            } else if !is_written(&path)
                && matches!(field, Json::Text(_))
                && links::is_address(text)
            {
                self.addresses.insert(normal(text));
                self.addresses.extend(links::account(text));
            }
        }
    }

    /// Whether a read's arguments all come from the task, and there is one.
    fn all_from_task(&self, tool: &Tool, args: &Json<'_>) -> bool {
        let values = leaves(args);
        let mut own_words = false;
        let all = values.iter().all(|(path, value)| {
            let Some(text) = plain(value) else {
                return false;
            };
            let asked = Asked::new(text, tool.kind_of(path), false, false);
            let from_task = self.vouches(ValueSource::Task, &asked);
            own_words |= from_task;
            from_task || self.is_own_address(text)
        });
        all && own_words
    }

    /// Whether a value is one of the principal's own addresses.
    pub(crate) fn is_own_address(&self, value: &str) -> bool {
        !self.own_addresses.is_empty() && self.own_addresses.contains(&normal(value))
    }

    /// Whether a source vouches for a value.
    pub(crate) fn vouches(&self, source: ValueSource, asked: &Asked<'_>) -> bool {
        match source {
            ValueSource::Task => self.words.iter().any(|words| words.holds(asked)),
            ValueSource::Own => self.id(asked, |id| id.own, true),
            ValueSource::Trusted => {
                self.outputs
                    .iter()
                    .any(|output| output.trusted && output.source.holds(asked))
                    || self.id(asked, |id| self.outputs[id.output].trusted, true)
            }
            ValueSource::Lookup => {
                !asked.destructive
                    && (self.id(asked, |id| id.lookup, false) || self.looked_up(asked))
            }
        }
    }

    fn looked_up(&self, asked: &Asked<'_>) -> bool {
        self.addresses.contains(&*asked.needle.normal)
            || asked
                .account
                .as_ref()
                .is_some_and(|account| self.addresses.contains(account))
    }

    /// Whether an id that is wanted equals the value and is of its kind. Where the argument's kind
    /// is only likely, one that is long enough may be of any kind, if `any_kind`.
    fn id(&self, asked: &Asked<'_>, wanted: impl Fn(&Id) -> bool, any_kind: bool) -> bool {
        let Some(same) = self.ids.get(asked.exact) else {
            return false;
        };
        same.iter()
            .filter(|id| wanted(id))
            .any(|id| match &asked.kind {
                AskedKind::Known(kind) => is_same(kind, &id.kind),
                AskedKind::Likely(kind) => {
                    is_same(kind, &id.kind) || (any_kind && asked.needle.counts())
                }
            })
    }
}

/// The kinds of a result's fields.
struct Kinds<'k> {
    tool: &'k Tool,
    /// The fields of the result itself, where it is a record.
    top: BTreeSet<&'k str>,
    record: bool,
}

impl<'k> Kinds<'k> {
    fn new(tool: &'k Tool, value: &'k Json<'_>) -> Self {
        let entries = match value {
            Json::Map(entries) => &entries[..],
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_) => &[],
        };
        Self {
            tool,
            top: entries.iter().map(|(key, _)| &**key).collect(),
            record: matches!(value, Json::Map(_)),
        }
    }

    fn of(&self, path: &[Step<'_>]) -> Option<String> {
        let last = path.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(*key),
            Step::Index(_) => None,
        })?;
        let wrapped = self.record && !self.top.contains(last);
        kinds::of_field(self.tool.returns(), self.tool.subject(), path, wrapped)
    }
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

fn is_written(path: &[Step<'_>]) -> bool {
    path.iter().any(|step| match step {
        Step::Key(key) => WRITTEN.contains(&key.to_ascii_lowercase().as_str()),
        Step::Index(_) => false,
    })
}

/// What a result vouches for by whole tokens: its scalars but the ids, which count as ids, and its
/// keys where they are values.
fn source(kinds: &Kinds<'_>, value: &Json<'_>, fields: &[Field<'_, '_>], trusted: bool) -> Source {
    let mut texts: Vec<&str> = Vec::new();
    let mut found = Source::default();
    for (path, field) in fields {
        let Some(text) = plain(field) else { continue };
        if trusted && kinds.of(path).is_some() {
            continue;
        }
        texts.push(text);
        found.numbers.extend(number(text));
        if trusted {
            found.accounts.extend(accounts(text));
        }
    }
    odd_keys(value, &mut texts);
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

pub(crate) fn is_field_name(key: &str) -> bool {
    (1..=64).contains(&key.len())
        && !key.starts_with(|c: char| c.is_ascii_digit())
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$'))
}

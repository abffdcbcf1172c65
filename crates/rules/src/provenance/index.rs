//! The index of a run's values: see the module's essay.

use std::collections::{BTreeMap, BTreeSet};

use super::accounts::{self, ACCOUNT_DIGITS};
use super::asked::{Argument, Asked, AskedKind};
use super::links;
use super::numbers::{Sum, sum, sums};
use super::records::{Field, leaves, one_record, plain};
use super::results::{Kinds, is_written, source};
use super::text::{Needle, Text, normal};
use crate::bundle::{Effect, ValueSource};
use crate::decimal::Decimal;
use crate::json::Json;
use crate::judge::{CallView, Tool};
use crate::trust::Trust;

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
    /// What calls were given, normalised: scalars of some length, and all whose kind is known with
    /// that kind.
    given: BTreeSet<(String, String)>,
}

/// A text, and what in it is not found by whole tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) text: Text,
    pub(super) numbers: BTreeSet<Decimal>,
    /// Those numbers that stand beside a currency.
    money: BTreeSet<Sum>,
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

/// An id of so many bytes is no other that happens to read the same.
const TELLING: usize = 4;

impl Source {
    fn of_text(text: &str) -> Self {
        let mut source = Self {
            text: Text::new(text),
            accounts: accounts_in(text),
            ..Self::default()
        };
        sums(text).into_iter().for_each(|sum| source.counts(sum));
        source
    }

    /// Takes in a field of a result.
    pub(super) fn takes_field(&mut self, text: &str, trusted: bool) {
        if let Some(sum) = sum(text) {
            self.counts(sum);
        }
        if trusted {
            self.accounts.extend(accounts_in(text));
        }
    }

    fn counts(&mut self, sum: Sum) {
        self.numbers.insert(sum.value);
        if sum.currency.is_some() {
            self.money.insert(sum);
        }
    }

    /// Whether an amount is a number here, and in its own currency if it has one.
    fn holds_amount(&self, amount: Option<&Sum>) -> bool {
        amount.is_some_and(|sum| match sum.currency {
            None => self.numbers.contains(&sum.value),
            Some(_) => self.money.contains(sum),
        })
    }

    pub(super) fn holds(&self, asked: &Asked<'_>) -> bool {
        if let Some(amount) = &asked.amount {
            return self.holds_amount(amount.as_ref());
        }
        self.text.holds(&asked.needle) || self.holds_account(asked)
    }

    /// The same for a result: a field that is nothing but a number vouches for no id, which has
    /// fields of its own.
    fn holds_in_result(&self, asked: &Asked<'_>) -> bool {
        if asked.amount.is_none() && asked.is_bare_id() {
            return self.text.holds_within(&asked.needle);
        }
        self.holds(asked)
    }

    fn holds_account(&self, asked: &Asked<'_>) -> bool {
        asked
            .account
            .as_ref()
            .is_some_and(|account| self.accounts.contains(account))
    }
}

/// Whether two kinds are known to be the same.
fn is_same(one: &str, other: &str) -> bool {
    !one.is_empty() && one == other
}

fn accounts_in(text: &str) -> BTreeSet<String> {
    if text.bytes().filter(u8::is_ascii_digit).count() < ACCOUNT_DIGITS {
        return BTreeSet::new();
    }
    links::links(text)
        .iter()
        .filter_map(|link| accounts::account(link))
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
        let given: Vec<String> = leaves(&args)
            .iter()
            .filter_map(|(_, value)| plain(value))
            .map(normal)
            .collect();
        let kinds = Kinds::new(call.tool, value);
        self.take_ids(&kinds, &fields, &given, output);
        self.take_lookup(call.tool, &kinds, &args, output);
        for (path, value) in leaves(&args) {
            let Some(text) = plain(value).map(normal) else {
                continue;
            };
            if let AskedKind::Known(kind) = call.tool.kind_of(&path) {
                self.given.insert((kind.into_owned(), text.clone()));
            }
            if text.len() >= TELLING {
                self.given.insert((String::new(), text));
            }
        }
        self.outputs.push(Output {
            tool: call.tool.registered().into(),
            call: call.id.into(),
            trusted,
            source: source(&kinds, &fields, trusted),
        });
    }

    fn take_ids(
        &mut self,
        kinds: &Kinds<'_>,
        fields: &[Field<'_, '_>],
        given: &[String],
        output: usize,
    ) {
        for (path, field) in fields {
            let (Some(kind), Some(id)) = (kinds.of(path), plain(field)) else {
                continue;
            };
            let own = kinds.made(path, &kind) && self.is_new(id, &kind, given, output);
            let known = self.ids.entry(id.into()).or_default();
            let same = |id: &Id| *id.kind == *kind && id.output == output;
            if !known.iter().any(same) {
                known.push(Id {
                    kind: kind.into(),
                    own,
                    lookup: false,
                    output,
                });
            }
        }
    }

    /// Whether an id was not there before the call that returned it: no call was given it, and no
    /// result held it, as an id of its kind or within a text.
    fn is_new(&self, id: &str, kind: &str, given: &[String], output: usize) -> bool {
        let needle = Needle::new(id);
        let before =
            |known: &Id| known.output < output && (known.kind.is_empty() || *known.kind == *kind);
        // A short id stands in many a text that has nothing to do with it.
        let put_in = |text: &String| {
            **text == *needle.normal || (id.len() >= TELLING && text.contains(&*needle.normal))
        };
        !given.iter().any(put_in)
            && !["", kind].iter().any(|kind| {
                self.given
                    .contains(&((*kind).to_owned(), needle.normal.to_string()))
            })
            && !self
                .ids
                .get(id)
                .is_some_and(|known| known.iter().any(before))
            && !self
                .outputs
                .iter()
                .any(|output| output.source.text.shows(&needle))
    }

    fn take_lookup(&mut self, tool: &Tool, kinds: &Kinds<'_>, args: &Json<'_>, output: usize) {
        if tool.effect() != Effect::Read || !self.all_from_task(tool, args) {
            return;
        }
        for (path, field) in one_record(kinds.value, args) {
            let Some(text) = plain(field) else { continue };
            let kind = kinds.of(&path);
            if let Some(kind) = &kind {
                for id in self.ids.get_mut(text).into_iter().flatten() {
                    id.lookup |= is_same(kind, &id.kind) && id.output == output;
                }
            }
            let address = matches!(field, Json::Text(_)) && links::is_address(text);
            let account = accounts::account(text);
            // A number that is an id is no account.
            if address && !is_written(&path) && (kind.is_none() || account.is_none()) {
                self.addresses.insert(normal(text));
                self.addresses.extend(account);
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
            let argument = Argument {
                kind: tool.kind_of(path),
                ..Argument::unknown()
            };
            let asked = Asked::new(text, argument);
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
            ValueSource::Own => self.id(asked, |id| id.own, asked.takes_any_kind()),
            ValueSource::Trusted => {
                let any_kind = asked.takes_any_kind();
                self.outputs
                    .iter()
                    .any(|output| output.trusted && output.source.holds_in_result(asked))
                    || self.id(asked, |id| self.outputs[id.output].trusted, any_kind)
            }
            ValueSource::Lookup => {
                !asked.argument.destructive
                    && (self.id(asked, |id| id.lookup, false) || self.looked_up(asked))
            }
        }
    }

    fn looked_up(&self, asked: &Asked<'_>) -> bool {
        if asked.amount.is_some() || asked.is_bare_id() {
            return false;
        }
        self.addresses.contains(&*asked.needle.normal)
            || asked
                .account
                .as_ref()
                .is_some_and(|account| self.addresses.contains(account))
    }

    /// Whether an id that is wanted equals the value and is of its kind. Where the argument's kind
    /// is only likely it may be of any, if `any_kind`. An id is no amount.
    fn id(&self, asked: &Asked<'_>, wanted: impl Fn(&Id) -> bool, any_kind: bool) -> bool {
        if asked.amount.is_some() {
            return false;
        }
        let Some(same) = self.ids.get(asked.exact) else {
            return false;
        };
        same.iter()
            .filter(|id| wanted(id))
            .any(|id| match &asked.argument.kind {
                AskedKind::Known(kind) => is_same(kind, &id.kind),
                AskedKind::Likely(kind) => is_same(kind, &id.kind) || any_kind,
            })
    }
}

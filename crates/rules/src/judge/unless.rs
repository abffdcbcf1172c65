//! Whether an alternative lifts a rule: where every value that matters comes from (S5.9).
//!
//! `args` are judged one by one, by place. `roles` are judged over all arguments of the call:
//!
//! - an argument whose role the alternative names must meet that condition;
//! - one that is marked `free` need not meet any;
//! - one that has no role must meet all of them, and those of `args` too: it could be any of those
//!   things;
//! - one that has another role, which the alternative does not name, is not looked at.
//!
//! Beside that, the tool must have an argument with a role that the alternative names: else the
//! alternative says nothing about this tool, and lifts nothing. An alternative of `args` alone speaks
//! of the arguments that it names and of no other, as its author knows the tool.

use std::fmt;

use super::{Facts, Tool};
use crate::bundle::{Alternative, ArgRole, Effect, Pointer, Provenance, Step, ValueSource};
use crate::decimal::Decimal;
use crate::json::Json;
use crate::provenance::asked::{Argument, Asked, AskedKind};
use crate::provenance::kinds::is_common_field;
use crate::provenance::links::links;
use crate::provenance::numbers::sum;
use crate::provenance::records::plain;

/// Why an alternative does not lift its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotLifted {
    /// The arguments are no JSON mapping.
    Unreadable,
    /// The tool has no argument with a role that is named.
    NoSuchRole,
    /// An argument does not meet its condition.
    Unvouched {
        /// The argument's name.
        argument: String,
        /// What it is for; none if the bundle does not say.
        role: Option<ArgRole>,
        /// The condition, in words.
        condition: String,
    },
}

impl fmt::Display for NotLifted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("the arguments cannot be read"),
            Self::NoSuchRole => f.write_str("the tool has no argument with a role that it names"),
            Self::Unvouched {
                argument,
                role,
                condition,
            } => {
                write!(f, "the argument `{argument}`")?;
                match role {
                    Some(role) => write!(f, " ({role})")?,
                    None => f.write_str(" (which has no role)")?,
                }
                write!(f, " is not vouched for by {condition}")
            }
        }
    }
}

/// A scalar of an argument, and where it stands.
struct Leaf<'j> {
    path: Vec<Step<'j>>,
    value: Scalar<'j>,
}

#[derive(Clone, Copy)]
enum Scalar<'j> {
    Value(&'j Json<'j>),
    /// A key that neither the bundle names nor everybody knows as the name of a field.
    Key(&'j str),
}

/// Whether an alternative lifts its rule for this call.
pub(super) fn lifts(alternative: &Alternative, facts: &Facts<'_, '_>) -> Result<(), NotLifted> {
    let Some(args @ Json::Map(_)) = facts.args() else {
        return Err(NotLifted::Unreadable);
    };
    for (place, condition) in &alternative.args {
        named_place(place, condition, args, facts)?;
    }
    if alternative.roles.is_empty() {
        return match alternative.args.is_empty() {
            true => Err(NotLifted::NoSuchRole),
            false => Ok(()),
        };
    }
    let named = |role: ArgRole| alternative.roles.contains_key(&role);
    if !facts.tool.roles().any(|(_, mark)| named(mark.role)) {
        return Err(NotLifted::NoSuchRole);
    }
    by_role(alternative, args, facts)
}

fn named_place(
    place: &Pointer,
    condition: &Provenance,
    args: &Json<'_>,
    facts: &Facts<'_, '_>,
) -> Result<(), NotLifted> {
    let mut found = Vec::new();
    scalars(args, facts.tool, &mut Vec::new(), &mut found);
    found.retain(|leaf| place.covers(&leaf.path));
    if meets(&found, condition, facts) {
        return Ok(());
    }
    let role = found
        .first()
        .and_then(|leaf| facts.tool.mark(&leaf.path))
        .map(|(_, mark)| mark.role);
    Err(unvouched(place.as_str(), role, condition))
}

fn by_role(
    alternative: &Alternative,
    args: &Json<'_>,
    facts: &Facts<'_, '_>,
) -> Result<(), NotLifted> {
    let mut found = Vec::new();
    scalars(args, facts.tool, &mut Vec::new(), &mut found);
    let mut rest = &mut found[..];
    while let Some(first) = rest.first() {
        let mark = facts.tool.mark(&first.path);
        let name = top(&first.path);
        let together = partition(rest, |leaf| {
            top(&leaf.path) == name && same_mark(facts.tool.mark(&leaf.path), mark)
        });
        let (argument, others) = rest.split_at_mut(together);
        let shown = mark.map_or(name, |(place, _)| place.as_str());
        match mark.map(|(_, mark)| mark.role) {
            Some(ArgRole::Free) => {}
            Some(role) => {
                if let Some(condition) = alternative.roles.get(&role)
                    && !meets(argument, condition, facts)
                {
                    return Err(unvouched(shown, Some(role), condition));
                }
            }
            None => {
                for condition in alternative.roles.values().chain(alternative.args.values()) {
                    if !meets(argument, condition, facts) {
                        return Err(unvouched(shown, None, condition));
                    }
                }
            }
        }
        rest = others;
    }
    Ok(())
}

fn same_mark<T>(one: Option<&T>, other: Option<&T>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Moves what `wanted` takes to the front, and says how many there are.
fn partition<T>(items: &mut [T], wanted: impl Fn(&T) -> bool) -> usize {
    let mut taken = 0;
    for at in 0..items.len() {
        if wanted(&items[at]) {
            items.swap(taken, at);
            taken += 1;
        }
    }
    taken
}

fn top<'p>(path: &[Step<'p>]) -> &'p str {
    match path.first() {
        Some(Step::Key(key)) => key,
        Some(Step::Index(_)) | None => "",
    }
}

fn unvouched(argument: &str, role: Option<ArgRole>, condition: &Provenance) -> NotLifted {
    NotLifted::Unvouched {
        argument: argument.to_owned(),
        role,
        condition: described(condition),
    }
}

/// A condition in words: `task, own or trusted`.
fn described(condition: &Provenance) -> String {
    let list = |sources: &std::collections::BTreeSet<ValueSource>| {
        let words: Vec<&str> = sources.iter().map(|source| source.as_str()).collect();
        match &*words {
            [] => "anything".to_owned(),
            [one] => (*one).to_owned(),
            [all @ .., last] => format!("{} or {last}", all.join(", ")),
        }
    };
    let from = condition.from.as_ref().map(&list);
    let links = condition
        .links_from
        .as_ref()
        .map(|sources| format!("{} for each link in it", list(sources)));
    let max = condition
        .max
        .map(|max| format!("being at most {max} in all"));
    let both: Vec<String> = from.into_iter().chain(links).collect();
    let both = (!both.is_empty()).then(|| both.join(", and "));
    let parts: Vec<String> = both.into_iter().chain(max).collect();
    parts.join(", or ")
}

fn scalars<'j>(
    value: &'j Json<'j>,
    tool: &Tool,
    path: &mut Vec<Step<'j>>,
    found: &mut Vec<Leaf<'j>>,
) {
    match value {
        Json::Null => {}
        Json::Bool(_) | Json::Number(_) | Json::Text(_) => found.push(Leaf {
            path: path.clone(),
            value: Scalar::Value(value),
        }),
        Json::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                scalars(item, tool, path, found);
                path.pop();
            }
        }
        Json::Map(entries) => {
            for (key, item) in entries {
                path.push(Step::Key(key));
                // The names of arguments are the tool's own.
                if path.len() > 1 && !is_common_field(key) && !tool.names_key(path) {
                    found.push(Leaf {
                        path: path.clone(),
                        value: Scalar::Key(key),
                    });
                }
                scalars(item, tool, path, found);
                path.pop();
            }
        }
    }
}

fn meets(argument: &[Leaf<'_>], condition: &Provenance, facts: &Facts<'_, '_>) -> bool {
    if argument.is_empty() {
        return true;
    }
    if condition
        .max
        .is_some_and(|max| stays_below(argument, max, facts))
    {
        return true;
    }
    if condition.from.is_none() && condition.links_from.is_none() {
        return false;
    }
    let from = condition.from.as_ref().is_none_or(|sources| {
        let values = argument.iter().map(|leaf| (leaf, leaf.value.text()));
        comes_from(values, sources, facts)
    });
    from && condition.links_from.as_ref().is_none_or(|sources| {
        let found: Vec<_> = argument
            .iter()
            .flat_map(|leaf| {
                links(leaf.value.text())
                    .into_iter()
                    .map(move |link| (leaf, link))
            })
            .collect();
        found.is_empty()
            || comes_from(
                found.iter().map(|(leaf, link)| (*leaf, &**link)),
                sources,
                facts,
            )
    })
}

/// Whether each value comes from one of the sources. The principal's own addresses need not, but
/// one other value must.
fn comes_from<'a, 'j: 'a>(
    values: impl Iterator<Item = (&'a Leaf<'j>, &'a str)>,
    sources: &std::collections::BTreeSet<ValueSource>,
    facts: &Facts<'_, '_>,
) -> bool {
    let mut vouched = false;
    for (leaf, text) in values {
        let kind = match leaf.value {
            Scalar::Value(_) => facts.tool.kind_of(&leaf.path),
            Scalar::Key(_) => AskedKind::Likely(String::new()),
        };
        let argument = Argument {
            kind,
            role: facts.tool.mark(&leaf.path).map(|(_, mark)| mark.role),
            destructive: facts.tool.effect() == Effect::Destructive,
        };
        let asked = Asked::new(text, argument);
        if sources
            .iter()
            .any(|source| facts.run.index.vouches(*source, &asked))
        {
            vouched = true;
        } else if !facts.run.index.is_own_address(text) {
            return false;
        }
    }
    vouched
}

/// Whether every value is a number from zero to `max`, and the run's total with them is not above.
fn stays_below(argument: &[Leaf<'_>], max: Decimal, facts: &Facts<'_, '_>) -> bool {
    let tool: &Tool = facts.tool;
    let Some(first) = argument.first() else {
        return false;
    };
    let mut total = facts.run.standing.total(tool, &first.path);
    for leaf in argument {
        let number = match leaf.value {
            // A sum in a currency is in one that the bundle did not speak of.
            Scalar::Value(Json::Number(_) | Json::Text(_)) => {
                sum(leaf.value.text()).filter(|sum| sum.currency.is_none())
            }
            Scalar::Value(_) | Scalar::Key(_) => None,
        };
        let number = number.map(|sum| sum.value);
        let Some(number) = number.filter(|n| *n >= Decimal::default() && *n <= max) else {
            return false;
        };
        total = total.and_then(|total| total.plus(number));
    }
    total.is_some_and(|total| total <= max)
}

impl<'j> Scalar<'j> {
    fn text(&self) -> &'j str {
        match self {
            Self::Value(value) => plain(value).unwrap_or_default(),
            Self::Key(key) => key,
        }
    }
}

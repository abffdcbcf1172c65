//! Whether a rule's conditions hold for a call.
//!
//! Three answers are possible: yes, no, and *it cannot be told*, as when a number is compared with
//! a text. A rule that asks or denies holds where it cannot be told, one that allows does not: what
//! cannot be evaluated never lets a call through.

use std::fmt;

use super::Facts;
use crate::bundle::{Action, Effect, Pointer, Rule, Scalar, ValueCondition};
use crate::decimal::Decimal;
use crate::glob::walk;
use crate::json::Json;
use crate::provenance::numbers::number;
use crate::provenance::records::{leaves, plain};
use crate::trust::Trust;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Yes,
    No,
    CannotTell,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

impl Holds {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::CannotTell, _) | (_, Self::CannotTell) => Self::CannotTell,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::CannotTell, _) | (_, Self::CannotTell) => Self::CannotTell,
            (Self::No, Self::No) => Self::No,
        }
    }
}

/// A condition of a rule that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed<'r> {
    Trust(Trust),
    Effect(Effect),
    SecretRead(bool),
    Argument(&'r Pointer),
}

impl fmt::Display for Missed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trust(trust) => write!(f, "the run is {trust}"),
            Self::Effect(effect) => write!(f, "the tool's effect is {effect}"),
            Self::SecretRead(true) => f.write_str("the run has read a secret"),
            Self::SecretRead(false) => f.write_str("the run has read no secret"),
            Self::Argument(place) => write!(f, "the argument `{place}` does not match"),
        }
    }
}

/// The first of a rule's conditions that does not hold; `None` if the rule holds.
pub(super) fn missed<'r>(rule: &'r Rule, facts: &Facts<'_, '_>) -> Option<Missed<'r>> {
    let when = &rule.when;
    let trust = facts.run.standing.trust();
    let secret_read = facts.run.standing.secret_read();
    if when.trust.is_some_and(|wanted| wanted != trust)
        || when.trust_below.is_some_and(|wanted| trust >= wanted)
    {
        return Some(Missed::Trust(trust));
    }
    let effect = facts.tool.effect();
    if when
        .effect
        .as_ref()
        .is_some_and(|all| !all.contains(&effect))
    {
        return Some(Missed::Effect(effect));
    }
    if when.secret_read.is_some_and(|wanted| wanted != secret_read) {
        return Some(Missed::SecretRead(secret_read));
    }
    let strict = rule.action != Action::Allow;
    for (place, condition) in &when.args {
        let met = match facts.args() {
            // What is no mapping has no arguments that could be told.
            None
            | Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_)) => {
                strict
            }
            Some(args) => argument_meets(place.select(args), condition, strict),
        };
        if !met {
            return Some(Missed::Argument(place));
        }
    }
    None
}

/// An argument of several values meets the condition of a strict rule if any value does, that of a
/// rule that allows if all do. One that is absent does not match.
fn argument_meets(values: Vec<&Json<'_>>, condition: &ValueCondition, strict: bool) -> bool {
    let scalars: Vec<&Json<'_>> = values
        .into_iter()
        .flat_map(|value| leaves(value).into_iter().map(|(_, scalar)| scalar))
        .collect();
    let mut answers = scalars.iter().map(|scalar| holds(condition, scalar));
    if strict {
        answers.any(|holds| holds != Holds::No)
    } else {
        !scalars.is_empty() && answers.all(|holds| holds == Holds::Yes)
    }
}

fn holds(condition: &ValueCondition, value: &Json<'_>) -> Holds {
    let text = plain(value).unwrap_or_default();
    let equals = condition
        .equals
        .as_ref()
        .map(|wanted| self::equals(wanted, value));
    let one_of = condition.one_of.as_ref().map(|all| {
        all.iter()
            .map(|wanted| self::equals(wanted, value))
            .fold(Holds::No, Holds::or)
    });
    let glob = condition.glob.as_ref().map(|pattern| {
        let text = text.as_bytes();
        Holds::from(walk(pattern.as_bytes(), text.len(), |c, i| c == text[i]))
    });
    let min = condition
        .min
        .map(|min| compares(value, |number| number >= min));
    let max = condition
        .max
        .map(|max| compares(value, |number| number <= max));
    let length = condition.max_length.map(|most| {
        Holds::from(u64::try_from(text.chars().count()).is_ok_and(|length| length <= most))
    });
    [equals, one_of, glob, min, max, length]
        .into_iter()
        .flatten()
        .fold(Holds::Yes, Holds::and)
}

/// Whether a value is the one wanted. A text that reads like the number or word wanted may be taken
/// for it by the tool: that cannot be told.
fn equals(wanted: &Scalar, value: &Json<'_>) -> Holds {
    match (wanted, value) {
        (Scalar::Text(wanted), Json::Text(text)) => Holds::from(wanted == text),
        (Scalar::Flag(wanted), Json::Bool(flag)) => Holds::from(wanted == flag),
        (Scalar::Number(wanted), Json::Number(digits)) => match digits.parse::<Decimal>() {
            Ok(number) => Holds::from(number == *wanted),
            Err(_) => Holds::CannotTell,
        },
        (Scalar::Number(wanted), Json::Text(text)) if number(text) == Some(*wanted) => {
            Holds::CannotTell
        }
        (Scalar::Text(wanted), other) if plain(other) == Some(wanted) => Holds::CannotTell,
        (Scalar::Flag(wanted), Json::Text(text)) if **text == *wanted.to_string() => {
            Holds::CannotTell
        }
        (Scalar::Text(_) | Scalar::Flag(_) | Scalar::Number(_), _) => Holds::No,
    }
}

fn compares(value: &Json<'_>, wanted: impl Fn(Decimal) -> bool) -> Holds {
    match value {
        Json::Number(digits) => match digits.parse() {
            Ok(number) => Holds::from(wanted(number)),
            Err(_) => Holds::CannotTell,
        },
        // `40` in another currency, or `1.000` with a comma, is whatever the tool takes it for.
        Json::Text(text) => match text.parse() {
            Ok(number) if !wanted(number) => Holds::No,
            Ok(_) | Err(_) => Holds::CannotTell,
        },
        Json::Null | Json::Bool(_) | Json::List(_) | Json::Map(_) => Holds::No,
    }
}

//! When a rule holds, and what lifts it (S5.9).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Serialize, Serializer};

use super::marks::ArgRole;
use super::{Effect, Pointer, canonical};
use crate::decimal::Decimal;
use crate::trust::Trust;

/// When a rule holds: every condition that is named must (S5.9).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct When {
    /// The run's trust is exactly this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// The run's trust is strictly below this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_below: Option<Trust>,
    /// The tool's effect is one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<BTreeSet<Effect>>,
    /// Arguments have these values; one that is absent does not match.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<Pointer, ValueCondition>,
    /// Whether the run has called a tool marked `sensitiveOutput`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_read: Option<bool>,
}

impl When {
    /// Whether the rule holds whatever the call and the run, for a tool with that effect.
    pub(crate) fn is_outright(&self, effect: Effect) -> bool {
        let Self {
            trust,
            trust_below,
            effect: effects,
            args,
            secret_read,
        } = self;
        trust.is_none()
            && trust_below.is_none()
            && args.is_empty()
            && secret_read.is_none()
            && effects
                .as_ref()
                .is_none_or(|effects| effects.contains(&effect))
    }

    /// The conditions in words, to go on a sentence; empty if there are none.
    pub(crate) fn in_words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(trust) = self.trust {
            parts.push(format!("the run is {trust}"));
        }
        if let Some(trust) = self.trust_below {
            parts.push(format!("the run is below {trust}"));
        }
        if let Some(effects) = &self.effect {
            let words: Vec<&str> = effects.iter().map(|effect| effect.as_str()).collect();
            parts.push(format!("the tool's effect is {}", words.join(" or ")));
        }
        if self.secret_read == Some(true) {
            parts.push("the run has read a secret".to_owned());
        }
        if self.secret_read == Some(false) {
            parts.push("the run has read no secret".to_owned());
        }
        let places = self.args.keys().map(|place| format!("`{place}` matches"));
        parts.extend(places);
        match parts.is_empty() {
            true => String::new(),
            false => format!(" where {}", parts.join(" and ")),
        }
    }
}

/// What an argument's value is: every condition that is named must hold (S5.9).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ValueCondition {
    /// Exactly this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Scalar>,
    /// One of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Scalar>>,
    /// A text of this form: `*` stands for anything, all else for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// A number not below this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Decimal>,
    /// A number not above this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Decimal>,
    /// A text of at most so many characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
}

/// A text, a number, or true or false.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A text; case counts.
    Text(String),
    /// A number, compared by its value: `1.0` is 1.
    Number(Decimal),
    /// True or false.
    Flag(bool),
}

/// One of the ways in which a rule is lifted: every condition in it must be met (S5.9).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Alternative {
    /// Conditions on arguments by place.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<Pointer, Provenance>,
    /// Conditions on arguments by what they are for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<ArgRole, Provenance>,
}

/// Where a value has to come from (S5.9).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Provenance {
    /// Every scalar comes from one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<BTreeSet<ValueSource>>,
    /// Every URL, mail address and account number in it comes from one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links_from: Option<BTreeSet<ValueSource>>,
    /// A number not above this, nor the run's total of it; this is enough by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Decimal>,
}

/// Where a value can come from and be vouched for (S5.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueSource {
    /// The principal's own words.
    Task,
    /// Ids that the run's own creating calls returned.
    Own,
    /// Outputs of tools not marked untrusted, from before the run's trust dropped.
    Trusted,
    /// Addresses and ids of the one record that a read by the principal's own words returned.
    Lookup,
}

impl ValueSource {
    /// All sources.
    pub const ALL: [Self; 4] = [Self::Task, Self::Own, Self::Trusted, Self::Lookup];

    /// The word that bundles use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Own => "own",
            Self::Trusted => "trusted",
            Self::Lookup => "lookup",
        }
    }
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The rule files' own rules of a name (S5.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// Asks where the target of an act is not vouched for.
    Light,
    /// Asks where anything that matters in an act is not vouched for.
    Balanced,
    /// Asks for every act below trusted.
    Careful,
    /// Asks for everything below trusted.
    Strict,
}

impl Preset {
    /// All presets, from the one that asks least.
    pub const ALL: [Self; 4] = [Self::Light, Self::Balanced, Self::Careful, Self::Strict];

    /// The word that bundles use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Balanced => "balanced",
            Self::Careful => "careful",
            Self::Strict => "strict",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Preset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One permission rule (S5.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// The tools that it speaks of.
    pub tool: crate::glob::Glob,
    /// What it says of them.
    pub action: super::Action,
    /// When it holds; without conditions, always.
    #[serde(skip_serializing_if = "canonical::is_default")]
    pub when: When,
    /// What lifts it: any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<Alternative>,
    /// Who may decide what it asks for; one who may decide, if it does not say (S6.12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<super::Approvers>,
    /// Who may decide as well once nobody has for a while, in the order of the times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<super::Escalation>,
}

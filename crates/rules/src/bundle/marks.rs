//! What a bundle says of its tools (S5.5, S5.8, S5.9).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Pointer, Review, canonical};

/// What a tool does to the world (S5.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing and sends nothing that the caller chose.
    Read,
    /// A read that sends something to a destination of the caller's choosing.
    Outward,
    /// Changes something.
    Write,
    /// Changes something that cannot be undone.
    Destructive,
}

impl Effect {
    /// All effects.
    pub const ALL: [Self; 4] = [Self::Read, Self::Outward, Self::Write, Self::Destructive];

    /// The word that bundles use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Outward => "outward",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an argument is for (S5.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgRole {
    /// Whom or what something is sent to.
    Destination,
    /// What is acted on.
    Object,
    /// How much.
    Amount,
    /// What is said.
    Content,
    /// What opens something: a password, a code.
    Credential,
    /// What something is called.
    Label,
    /// What harms nobody, whoever chose it: times, modes, page sizes.
    Free,
}

impl ArgRole {
    /// All roles.
    pub const ALL: [Self; 7] = [
        Self::Destination,
        Self::Object,
        Self::Amount,
        Self::Content,
        Self::Credential,
        Self::Label,
        Self::Free,
    ];

    /// The word that bundles use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Destination => "destination",
            Self::Object => "object",
            Self::Amount => "amount",
            Self::Content => "content",
            Self::Credential => "credential",
            Self::Label => "label",
            Self::Free => "free",
        }
    }
}

impl fmt::Display for ArgRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an argument is for, and the kind of thing that it names (S5.9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleMark {
    /// What it is for.
    pub role: ArgRole,
    /// The kind of thing that it names, such as `order`.
    pub kind: Option<String>,
}

impl Serialize for RoleMark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(kind) = &self.kind else {
            return self.role.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("role", &self.role)?;
        map.serialize_entry("kind", kind)?;
        map.end()
    }
}

/// What a bundle says about the tools that one pattern matches.
///
/// Each mark is looked up by itself: see [`crate::Rules::tool`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolMarks {
    /// Whether a person looks at each call first (S5.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// What the tool does to the world (S5.9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Whether running a call twice is as good as running it once (S4.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// How long a call may take (S3.8).
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "canonical::duration"
    )]
    pub timeout: Option<Duration>,
    /// The most bytes of a result that are kept (S3.8).
    #[serde(
        rename = "maxResult",
        skip_serializing_if = "Option::is_none",
        serialize_with = "canonical::size"
    )]
    pub max_result_bytes: Option<u64>,
    /// Whether outsiders have a say in what it returns (S5.8).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untrusted_output: Option<bool>,
    /// Whether what it returns is a secret, such as a password (S5.9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitive_output: Option<bool>,
    /// What its arguments are for (S5.9).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<Pointer, RoleMark>,
    /// The kinds of the ids in its results (S5.9): by the name of a record's field, or by its
    /// place in the result.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub returns: BTreeMap<Pointer, String>,
}

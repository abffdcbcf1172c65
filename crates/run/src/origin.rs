//! Where the values of a held call came from, for whoever decides it (S6.3).

use serde::{Deserialize, Serialize};

use crate::id::CallId;

/// Where a value stands in the run, the strongest place first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OriginKind {
    /// A person put it there.
    Person,
    /// The principal's own words.
    Task,
    /// One of the principal's own addresses.
    OwnAddress,
    /// An id that one of the run's own calls created.
    Own,
    /// A result that nobody outside had a say in.
    Trusted,
    /// Any other result.
    Untrusted,
    /// Nowhere: the model wrote it.
    Model,
}

impl OriginKind {
    /// Every kind.
    pub const ALL: [OriginKind; 7] = [
        OriginKind::Person,
        OriginKind::Task,
        OriginKind::OwnAddress,
        OriginKind::Own,
        OriginKind::Trusted,
        OriginKind::Untrusted,
        OriginKind::Model,
    ];

    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            OriginKind::Person => "person",
            OriginKind::Task => "task",
            OriginKind::OwnAddress => "own_address",
            OriginKind::Own => "own",
            OriginKind::Trusted => "trusted",
            OriginKind::Untrusted => "untrusted",
            OriginKind::Model => "model",
        }
    }
}

/// Where one value of the arguments came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentOrigin {
    /// JSON pointer of the value.
    pub pointer: String,
    /// Where it came from.
    pub from: OriginKind,
    /// The tool whose result holds it, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The call that returned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

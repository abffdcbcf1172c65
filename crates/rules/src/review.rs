//! The review table and its floors (S5.5).
//!
//! A built-in that only reads or stages is not reviewed unless a bundle asks
//! for it; one that acts on the world outside always is, and nothing clears
//! that: this is the floor. A built-in that the table does not know is treated
//! as one that acts.

use serde::{Deserialize, Serialize};

use crate::bundle::{ArgRole, Effect};

/// Whether a person looks at each call of a tool before it runs (S5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// Each call waits for a person.
    Required,
    /// Calls run without one, unless a rule says otherwise.
    NotRequired,
}

impl Review {
    /// The word that bundles use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::NotRequired => "not_required",
        }
    }
}

/// A built-in tool, as bundles name it (S3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    /// Keeps a file with the run.
    CreateArtifact,
    /// Reads a page of a configured documentation site.
    ReadDoc,
    /// Reads a public https URL.
    FetchUrl,
    /// Stages a reply for a person to edit and deliver.
    DraftReply,
    /// Sends a reply at once.
    SendEmail,
}

impl Builtin {
    /// All built-in tools, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::CreateArtifact,
        Self::ReadDoc,
        Self::FetchUrl,
        Self::DraftReply,
        Self::SendEmail,
    ];

    /// The tool's name, registered and to the model alike.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CreateArtifact => "create_artifact",
            Self::ReadDoc => "read_doc",
            Self::FetchUrl => "fetch_url",
            Self::DraftReply => "draft_reply",
            Self::SendEmail => "send_email",
        }
    }

    /// The built-in of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.name() == name)
    }

    /// Whether the tool is reviewed where a bundle says nothing.
    #[must_use]
    pub fn default_review(self) -> Review {
        match self {
            Self::CreateArtifact | Self::ReadDoc | Self::FetchUrl | Self::DraftReply => {
                Review::NotRequired
            }
            Self::SendEmail => Review::Required,
        }
    }

    /// What the tool does to the world (S5.9).
    #[must_use]
    pub fn effect(self) -> Effect {
        match self {
            Self::ReadDoc => Effect::Read,
            Self::FetchUrl => Effect::Outward,
            Self::CreateArtifact | Self::DraftReply | Self::SendEmail => Effect::Write,
        }
    }

    /// Whether outsiders have a say in what it returns (S5.8). A page of documentation counts as
    /// theirs unless the bundle says otherwise.
    #[must_use]
    pub fn untrusted_output(self) -> bool {
        match self {
            Self::ReadDoc | Self::FetchUrl => true,
            Self::CreateArtifact | Self::DraftReply | Self::SendEmail => false,
        }
    }

    /// What its arguments are for (S5.9).
    #[must_use]
    pub fn roles(self) -> &'static [(&'static str, ArgRole)] {
        match self {
            Self::CreateArtifact => &[
                ("name", ArgRole::Label),
                ("mime_type", ArgRole::Free),
                ("content", ArgRole::Content),
            ],
            Self::ReadDoc | Self::FetchUrl => &[("url", ArgRole::Destination)],
            Self::DraftReply | Self::SendEmail => {
                &[("subject", ArgRole::Content), ("body", ArgRole::Content)]
            }
        }
    }

    /// Whether the review is a floor: no bundle, rule or role clears it.
    #[must_use]
    pub fn has_floor(self) -> bool {
        match self {
            Self::CreateArtifact | Self::ReadDoc | Self::FetchUrl | Self::DraftReply => false,
            Self::SendEmail => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_5_only_send_email_is_reviewed_by_default_and_has_a_floor() {
        for builtin in Builtin::ALL {
            let sends = builtin == Builtin::SendEmail;
            assert_eq!(builtin.has_floor(), sends, "{builtin:?}");
            assert_eq!(
                builtin.default_review() == Review::Required,
                sends,
                "{builtin:?}"
            );
        }
    }

    #[test]
    fn builtins_are_found_by_their_names() {
        for builtin in Builtin::ALL {
            assert_eq!(Builtin::from_name(builtin.name()), Some(builtin));
            let json = serde_json::to_string(&builtin).unwrap();
            assert_eq!(json, format!("{:?}", builtin.name()));
        }
        assert_eq!(Builtin::from_name("Send_Email"), None);
    }
}

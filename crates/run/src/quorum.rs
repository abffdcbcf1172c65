//! Who may decide an approval, and how many it takes (S6.12).
//!
//! A vote is cast for exactly the call that the voter saw. One denial denies, so a vote that does not
//! decide is an approval; what was said with it stays sealed until the approval is decided: the
//! timeline keeps a salted hash of it ([`VoteCast::sealed`](crate::VoteCast)), the words wait outside,
//! and the deciding step carries the votes that it counted. Words that do not fit their hash count
//! for nothing: the decision is refused.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{ApprovalId, PrincipalId};
use crate::time::Timestamp;

/// What it takes to approve a call. The default is anybody who may decide, once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quorum {
    /// The group whose members decide; anybody who may decide if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How many have to approve; zero stands for one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub count: u32,
    /// Who deployed the revision, where they are barred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<PrincipalId>,
    /// Whether everybody who has written into the run is barred.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_writers: bool,
    /// What happens once nobody has decided for a while, by the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<Escalation>,
}

/// What happens if nobody has decided by a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// After the request, in microseconds.
    pub after_micros: i64,
    /// Whom it goes to.
    #[serde(flatten)]
    pub to: EscalatedTo,
}

/// Whom an escalation goes to; stored as `"group":"…"` or `"target":"…"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EscalatedTo {
    /// A group, whose members may decide as well from then on.
    Group(String),
    /// A target of the namespace, which is reminded (S8.2). Who may decide stays.
    Target(String),
}

/// A vote that has been cast: sealed, if the approval is not decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CastVote {
    /// Who.
    pub by: PrincipalId,
    /// Of what they said ([`OpenVote::seal`]).
    pub sealed: Digest,
    /// When.
    pub at: Timestamp,
}

/// A vote with what was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenVote {
    /// Who.
    pub by: PrincipalId,
    /// Why, if they said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Keeps what was said from being guessed from its hash.
    pub salt: String,
    /// When.
    pub at: Timestamp,
}

impl Quorum {
    /// Whether it is what every approval takes at least.
    pub fn is_plain(&self) -> bool {
        *self == Quorum::default()
    }

    /// How many have to approve.
    pub fn needed(&self) -> u32 {
        self.count.max(1)
    }
}

impl OpenVote {
    /// What the timeline keeps of an approval until it is decided: when it was given is on the
    /// timeline already.
    pub fn seal(
        approval: &ApprovalId,
        by: &PrincipalId,
        reason: Option<&str>,
        salt: &str,
    ) -> Digest {
        Digest::of_parts(&[
            b"sayso.vote.approve",
            approval.as_str().as_bytes(),
            by.as_str().as_bytes(),
            reason.unwrap_or_default().as_bytes(),
            salt.as_bytes(),
        ])
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2.2, S6.12: what was stored before targets could be reminded reads as it was meant, and is
    /// written alike.
    #[test]
    fn s6_12_an_escalation_is_stored_by_whom_it_goes_to() {
        for (stored, to) in [
            (
                r#"{"after_micros":6,"group":"leads"}"#,
                EscalatedTo::Group("leads".into()),
            ),
            (
                r#"{"after_micros":6,"target":"oncall"}"#,
                EscalatedTo::Target("oncall".into()),
            ),
        ] {
            let read: Escalation = serde_json::from_str(stored).unwrap();
            let meant = Escalation {
                after_micros: 6,
                to,
            };
            assert_eq!(read, meant);
            assert_eq!(serde_json::to_string(&read).unwrap(), stored);
        }
    }
}
